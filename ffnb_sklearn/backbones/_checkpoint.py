"""The checkpoint file from which a training is resumed.

The file is a dictionary written by `torch.save`. It holds the settings of the training, including
its seed, and the state after the last epoch. A mark and the SHA-256 of all bytes before the digest
follow. The mark names the version of the format: any change of the content of the file requires a
new mark. Files of another format are refused, not converted.

A forged file may hold anything, with a valid digest, so names, types and shapes of the whole state
are compared with the training to resume. Forged weights of the right shape cannot be detected.
"""

import hashlib
import pickle
from pathlib import Path

import numpy as np
import torch

from ffnb_sklearn._atomic import HashedFile, replaced_file
from ffnb_sklearn.backbones._tensor_files import read_tensors
from ffnb_sklearn.datasets._base import LONGEST_SHOWN, shown
from ffnb_sklearn.pipeline._fingerprint import fingerprint

_MARK = b"ffnb_sklearn checkpoint 3, sha256 "
_DIGEST_BYTES = hashlib.sha256().digest_size

# Prefix of a setting that is a digest of a longer value, which can only be compared.
_DIGEST = "digest "

# Number of images read at a time for a digest.
_DIGEST_ROWS = 256


def read_checkpoint(path):
    """Read a checkpoint: settings as plain values by name, and a state, which is not checked.

    Return None if there is no file. Raise `FileNotFoundError` if the folder does not exist, and
    `ValueError` if the file is not a checkpoint of this package, or if any bit has changed.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"checkpoint={str(path)!r}: its folder does not exist.")
    if not path.exists():
        return None
    refusal = (
        f"checkpoint={str(path)!r} is damaged, or was not written by this version of the package. "
        "Remove it to start over, or use another name."
    )
    whole = path.read_bytes()
    body, digest = whole[:-_DIGEST_BYTES], whole[-_DIGEST_BYTES:]
    if not body.endswith(_MARK) or hashlib.sha256(body).digest() != digest:
        raise ValueError(refusal)
    content = read_tensors(body[: -len(_MARK)], refusal)
    match content:
        case {"settings": {"random_state": int(seed), **settings}, "state": dict()} if (
            len(content) == 2
            and 0 <= seed < np.iinfo(np.int32).max
            and all(type(name) is str and _is_plain(one) for name, one in settings.items())
        ):
            return content
    raise ValueError(refusal)


def _is_plain(value):
    """Return whether a setting has an allowed type."""
    if isinstance(value, list):
        return all(type(one) in (int, float) for one in value)
    return value is None or type(value) in (bool, int, float, str)


def write_checkpoint(path, settings, state):
    """Write a checkpoint; at any time, the file is either the old one or the new one.

    `settings` are plain values by name, which identify the training; `state` holds tensors and
    plain types.
    """
    with replaced_file(path) as file:
        hashed = HashedFile(file)
        torch.save({"settings": settings, "state": state}, hashed)
        hashed.write(_MARK)
        file.write(hashed.digest.digest())


def check_same_training(path, saved, settings):
    """Raise `ValueError` if a checkpoint belongs to another training; name every difference."""
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
    """Return a setting as text of bounded length."""
    return f"{setting!s:.{LONGEST_SHOWN}}" if isinstance(setting, list) else shown(setting)


def check_state(path, state, like):
    """Raise `ValueError` unless a saved state has the parts, types and shapes of another state.

    Lists may have any length but 0. Parameters without a gradient have no state of the optimizer.
    """
    kept = state.get("optimizer")
    if isinstance(kept, dict):
        present = {key: one for key, one in like["optimizer"].items() if key in kept}
        like = {**like, "optimizer": present}
    if not _fits(state, like) or not all(one.get("step", 1) >= 1 for one in kept.values()):
        raise ValueError(
            f"checkpoint={str(path)!r} does not fit the training: its state has other parts, types "
            "or shapes. Remove it to start over, or use another name."
        )


def _fits(value, like):
    """Return whether two nested values have the same keys, types and shapes."""
    if isinstance(like, torch.Tensor):
        return (
            isinstance(value, torch.Tensor)
            and (value.layout, value.device.type) == (torch.strided, "cpu")
            and (value.shape, value.dtype) == (like.shape, like.dtype)
        )
    if isinstance(like, dict):
        is_like = isinstance(value, dict) and value.keys() == like.keys()
        return is_like and all(_fits(value[key], one) for key, one in like.items())
    if isinstance(like, list):
        is_like = type(value) is list and len(value) > 0
        return is_like and all(_fits(one, like[0]) for one in value)
    return type(value) is type(like)


def digest_arrays(arrays):
    """Compute a digest of the names, types, shapes and bytes of arrays, or of unread images."""
    digest = hashlib.blake2b(digest_size=16)
    for name, array in arrays.items():
        whole = isinstance(array, np.ndarray)
        for start in [0] if whole else range(0, len(array), _DIGEST_ROWS):
            part = array if whole else array[start : start + _DIGEST_ROWS]
            if not start:
                digest.update(f"{name} {part.dtype.str} {array.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
    return _DIGEST + digest.hexdigest()


def digest_callable(name, value):
    """Compute a digest of a parameter that is a function, an object, a string or None."""
    try:
        return _DIGEST + fingerprint(value)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{name} must be picklable where there is a checkpoint: {error}"
        ) from error
