"""Loader of CIFAR-100."""

import numpy as np
from sklearn.utils import Bunch

from ffnb_sklearn.datasets._base import data_folder, require_file, shown
from ffnb_sklearn.datasets._plain_pickle import image_rows, read_pickle

N_CLASSES, N_SUPERCLASSES, N_VALUES = 100, 20, 3072

DESCR = """\
CIFAR-100
=========
Colour images of 32 x 32 pixels in 100 classes, grouped into 20 superclasses: 500 training and 100
test images per class. A row of `data` holds the red, then the green, then the blue plane, each
row by row; `data.reshape(-1, 3, 32, 32)` gives the images.
Reference: A. Krizhevsky, "Learning multiple layers of features from tiny images", technical
report, University of Toronto, 2009.
Licence: the data set is distributed by its author, who asks for this citation, and is not part of
this package.
"""


def load_cifar100(data_home):
    """Read CIFAR-100 from the official files of its python version.

    The files are the pickles `train`, `test` and `meta`. The reader creates only plain data and
    arrays of bytes whose description it has checked, so a tampered file can neither run code nor
    access other memory. Nothing is downloaded.

    Parameters
    ----------
    data_home : str or path-like
        Folder that holds the three files, or its parent if they lie in `cifar-100-python`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        Bunch with these attributes.

        data : ndarray of shape (n_images, 3072), uint8
            Training images first, then test images, as stored in the files: the red, the green and
            the blue plane of 32 x 32 pixels each.
        target : ndarray of shape (n_images,), int64
            Class, 0 to 99, as a position in `target_names`.
        target_names : list of str
            Names of the classes.
        superclass : ndarray of shape (n_images,), int64
            Superclass, 0 to 19, as a position in `superclass_names`.
        superclass_names : list of str
            Names of the superclasses.
        train : ndarray of shape (n_images,), bool
            True for the training images.
        DESCR : str
            Description, citation and licence note.

    Raises
    ------
    FileNotFoundError
        If a folder or one of the three files is missing.
    ValueError
        If a file is not such a pickle, is truncated, holds other objects, or if an entry is missing
        or has the wrong type, shape or range; the message names the file and the entry.

    References
    ----------
    A. Krizhevsky, "Learning multiple layers of features from tiny images", technical report,
    University of Toronto, 2009.
    """
    folder = data_folder(data_home)
    nested = folder / "cifar-100-python"
    folder = nested if nested.is_dir() else folder
    target_names, superclass_names = _read_names(folder / "meta")
    parts = [_read_images(folder / name) for name in ("train", "test")]
    data, target, superclass = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Bunch(
        data=data,
        target=target,
        target_names=target_names,
        superclass=superclass,
        superclass_names=superclass_names,
        train=np.arange(len(data)) < len(parts[0][0]),
        DESCR=DESCR,
    )


def _read_names(path):
    """Return the names of the classes and of the superclasses."""
    fine, coarse = _entries(path, "fine_label_names", "coarse_label_names")
    return (
        _names(path, "fine_label_names", fine, N_CLASSES),
        _names(path, "coarse_label_names", coarse, N_SUPERCLASSES),
    )


def _read_images(path):
    """Return the images, classes and superclasses of one file."""
    record, fine, coarse = _entries(path, "data", "fine_labels", "coarse_labels")
    try:
        data = image_rows(record, N_VALUES)
    except ValueError as error:
        raise ValueError(f"{path}: entry 'data' {error}.") from None
    fine = _labels(path, "fine_labels", fine, len(data), N_CLASSES)
    return data, fine, _labels(path, "coarse_labels", coarse, len(data), N_SUPERCLASSES)


def _entries(path, *keys):
    """Return some entries of the dictionary that a file holds.

    The keys in the official files are bytes. A later Python may have saved the files with text.
    """
    require_file(path, "expected the files train, test and meta of the python version")
    try:
        content = read_pickle(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: not a CIFAR-100 pickle, or cut short: {error}.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a dictionary, got {type(content).__name__}.")
    for key in keys:
        if key not in content and key.encode() not in content:
            raise ValueError(f"{path}: the entry {key!r} is missing.")
    return [content[key] if key in content else content[key.encode()] for key in keys]


def _labels(path, key, labels, n_images, n_classes):
    """Return one list of labels as an array, after checking its length and its range."""
    if not isinstance(labels, list) or len(labels) != n_images:
        raise ValueError(f"{path}: entry {key!r} must be a list of {n_images} labels.")
    for i, label in enumerate(labels):
        if type(label) is not int or not 0 <= label < n_classes:
            raise ValueError(
                f"{path}: entry {key!r}, item {i}: expected an integer from 0 to "
                f"{n_classes - 1}, got {shown(label)}."
            )
    return np.array(labels, dtype=np.int64)


def _names(path, key, names, n_names):
    """Return one list of class names as text."""
    valid = isinstance(names, list) and all(
        isinstance(name, bytes | str) and name.isascii() for name in names
    )
    if not valid or len(names) != n_names:
        raise ValueError(f"{path}: entry {key!r} must be a list of {n_names} names.")
    return [name.decode() if isinstance(name, bytes) else name for name in names]
