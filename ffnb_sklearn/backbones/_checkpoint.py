"""The file that a training is resumed from.

It is a dictionary written by `torch.save`: `format`, the settings of the training, its seed,
the number of epochs done, and the state at that point. Whoever changes what it holds raises
`_FORMAT`; files of another format are refused, not converted.
"""

import hashlib
import pickle
from pathlib import Path

import joblib
import numpy as np
import torch

from ffnb_sklearn._atomic import replaced_file
from ffnb_sklearn.backbones._files import read_tensors

_FORMAT = 1

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
        What `write_checkpoint` was given; None where there is no file.

    Raises
    ------
    FileNotFoundError
        If not even the folder exists.
    ValueError
        If the file is no checkpoint of this package.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"checkpoint={str(path)!r} is to lie in a folder that is missing.")
    if not path.exists():
        return None
    content = read_tensors(
        path,
        f"checkpoint={str(path)!r} is damaged, or was not written by this package. Remove it to "
        "start anew, or take another name.",
    )
    found = content.get("format") if isinstance(content, dict) else None
    if found != _FORMAT:
        raise ValueError(
            f"checkpoint={str(path)!r} must be a checkpoint of format {_FORMAT}; "
            f"it has format {found}."
        )
    return content


def write_checkpoint(path, content):
    """Write a checkpoint; whatever happens, the file is the old one or the new one.

    Parameters
    ----------
    path : str or path
        Where to write it.
    content : dict
        Tensors and plain types.
    """
    with replaced_file(path) as file:
        torch.save({"format": _FORMAT, **content}, file)


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
        else f"{name} is {saved.get(name)!r} there and {value!r} here"
        for name, value in settings.items()
        if saved.get(name) != value
    ]
    if different:
        raise ValueError(
            f"checkpoint={str(path)!r} belongs to another training: {'; '.join(different)}. "
            "Train with the same data and parameters, or take another file."
        )


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
