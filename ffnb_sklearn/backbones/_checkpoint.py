"""The file that a training is resumed from.

It is a dictionary written by `torch.save`, which has the settings of the training with its seed,
and the state after the last epoch; behind it stand a mark and the SHA-256 of all bytes before the
digest. The mark names the version of the format: whoever changes what a file holds changes the
mark. Files of another format are refused, not converted.
"""

import hashlib
import pickle
from pathlib import Path

import joblib
import numpy as np
import torch

from ffnb_sklearn._atomic import HashedFile, replaced_file
from ffnb_sklearn.backbones._archive import read_archive
from ffnb_sklearn.datasets._base import LONGEST_SHOWN, shown

_MARK = b"ffnb_sklearn checkpoint 2, sha256 "
_DIGEST_BYTES = hashlib.sha256().digest_size

# Begins a setting that stands for something longer; comparing is all it is good for.
_DIGEST = "digest "

# Images that are read at a time.
_DIGEST_ROWS = 256


def read_checkpoint(path):
    """Read a checkpoint.

    Parameters
    ----------
    path : str or path
        Where it is.

    Returns
    -------
    dict or None
        The settings, plain values by name, and the state, which is not checked; None where
        there is no file.

    Raises
    ------
    FileNotFoundError
        If not even the folder exists.
    ValueError
        If the file is no checkpoint of this package, or if a bit of it has changed.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"checkpoint={str(path)!r} is to lie in a folder that is missing.")
    if not path.exists():
        return None
    refusal = (
        f"checkpoint={str(path)!r} is damaged, or was not written by this version of the package. "
        "Remove it to start anew, or take another name."
    )
    content = read_archive(_without_digest(path.read_bytes(), refusal), refusal)
    match content:
        case {"settings": {"random_state": int(seed), **settings}, "state": dict()} if (
            len(content) == 2
            and 0 <= seed < np.iinfo(np.int32).max
            and all(type(name) is str and _is_plain(one) for name, one in settings.items())
        ):
            return content
    raise ValueError(refusal)


def _without_digest(content, refusal):
    """Return the bytes that the digest at the end was computed from, without the mark."""
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if not body.endswith(_MARK) or hashlib.sha256(body).digest() != digest:
        raise ValueError(refusal)
    return body[: -len(_MARK)]


def _is_plain(value):
    """Whether a setting has a type that settings have."""
    if isinstance(value, list):
        return all(type(one) in (int, float) for one in value)
    return value is None or type(value) in (bool, int, float, str)


def write_checkpoint(path, settings, state):
    """Write a checkpoint; whatever happens, the file is the old one or the new one.

    Parameters
    ----------
    path : str or path
        Where to write it.
    settings : dict
        Plain values by name, which tell one training from another.
    state : dict
        Tensors and plain types.
    """
    with replaced_file(path) as file:
        hashed = HashedFile(file)
        torch.save({"settings": settings, "state": state}, hashed)
        hashed.write(_MARK)
        file.write(hashed.digest.digest())


def check_same_training(path, saved, settings):
    """Refuse the checkpoint of another training.

    Parameters
    ----------
    path : str or path
        Where it lies, for the message.
    saved, settings : dict
        Settings of the checkpoint, and of the training that is to be resumed.

    Raises
    ------
    ValueError
        If one of them differs; all that do are named.
    """
    different = [
        f"{name} differs"
        if str(value).startswith(_DIGEST)
        else f"{name} is {_short(saved.get(name))} there and {_short(value)} here"
        for name, value in settings.items()
        if name not in saved or saved[name] != value
    ]
    n_unknown = len(saved.keys() - settings.keys())
    different += [f"{n_unknown} settings are there only"] if n_unknown else []
    if different:
        raise ValueError(
            f"checkpoint={str(path)!r} belongs to another training: {'; '.join(different)}. "
            "Train with the same data and parameters, or take another file."
        )


def _short(setting):
    """Return a bounded text of a setting."""
    if not isinstance(setting, list):
        return shown(setting)
    text = ", ".join(shown(one) for one in setting[:LONGEST_SHOWN])
    return f"[{text}]" if len(text) <= LONGEST_SHOWN else f"[{text[:LONGEST_SHOWN]}...]"


def digest_arrays(arrays):
    """Digest of named arrays, or of images not yet read: names, types, shapes and bytes."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in arrays.items():
        for start in range(0, max(_size(array), 1), _DIGEST_ROWS):
            part = array if isinstance(array, np.ndarray) else array[start : start + _DIGEST_ROWS]
            if not start:
                digest.update(f"{name} {part.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return _DIGEST + digest.hexdigest()


def _size(array):
    """Number of rows to be read in parts; an array is taken as a whole."""
    return 0 if isinstance(array, np.ndarray) else len(array)


def digest_callable(name, value):
    """Digest of a parameter that is a function, an object, a string or None."""
    try:
        return _DIGEST + joblib.hash(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{name} must be picklable where there is a checkpoint: {error}"
        ) from error
