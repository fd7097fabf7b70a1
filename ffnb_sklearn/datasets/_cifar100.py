"""Loader of CIFAR-100."""

import hashlib
import inspect
import os
import pickle
import warnings

import numpy as np
from sklearn.utils import Bunch

from ffnb_sklearn.datasets._base import data_folder, require_file, subfolder_if_present

# MD5 digests of the official files. Pickles can run code, so no other file is unpickled.
DIGESTS = {
    "meta": "7973b15100ade9c7d40fb424638fde48",
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
}


def load_cifar100(data_home: str | os.PathLike[str]) -> Bunch:
    """Read CIFAR-100 from the official files of its python version.

    CIFAR-100 holds colour images of 32 x 32 pixels in 100 classes, grouped into 20 superclasses:
    500 training and 100 test images per class. The files are the pickles `train`, `test` and
    `meta`; other files are refused before they are unpickled, so that none can run code. Nothing is
    downloaded. Licence: the data set is distributed by its author, who asks for the citation below,
    and is not part of this package.

    Parameters
    ----------
    data_home : str or path-like
        Folder that holds the three files, or its parent if they lie in `cifar-100-python`.

    Returns
    -------
    dataset : :class:`~sklearn.utils.Bunch`
        Bunch with these attributes.

        data : ndarray of shape (60000, 3072), uint8
            50000 training images, then 10000 test images. A row holds the red, then the green, then
            the blue plane, each row by row; ``data.reshape(-1, 3, 32, 32)`` gives the images.
        target : ndarray of shape (60000,), int64
            Class, 0 to 99, as a position in `target_names`.
        target_names : list of str
            Names of the classes.
        superclass : ndarray of shape (60000,), int64
            Superclass, 0 to 19, as a position in `superclass_names`.
        superclass_names : list of str
            Names of the superclasses.
        train : ndarray of shape (60000,), bool
            True for the training images.
        DESCR : str
            This text.

    Raises
    ------
    FileNotFoundError
        If a folder or one of the three files is missing.
    ValueError
        If a file is not the official file.

    References
    ----------
    A. Krizhevsky, "Learning multiple layers of features from tiny images", technical report,
    University of Toronto, 2009.
    """
    folder = subfolder_if_present(data_folder(data_home), "cifar-100-python")
    meta = _read_official(folder / "meta")
    train = _read_official(folder / "train")
    test = _read_official(folder / "test")
    n_train = len(train["data"])
    n_test = len(test["data"])
    return Bunch(
        data=np.concatenate([train["data"], test["data"]]),
        target=np.array(train["fine_labels"] + test["fine_labels"], dtype=np.int64),
        target_names=meta["fine_label_names"],
        superclass=np.array(train["coarse_labels"] + test["coarse_labels"], dtype=np.int64),
        superclass_names=meta["coarse_label_names"],
        train=np.repeat([True, False], [n_train, n_test]),
        DESCR=inspect.getdoc(load_cifar100),
    )


def _read_official(path):
    """Return the dictionary that an official file holds."""
    require_file(path, "expected the files train, test and meta of the python version")
    content = path.read_bytes()
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if digest != DIGESTS[path.name]:
        raise ValueError(
            f"{path}: not the official file of the python version, or damaged; expected the MD5 "
            f"digest {DIGESTS[path.name]}, got {digest}."
        )
    with warnings.catch_warnings():
        # Some releases of NumPy warn about the flags of types, which were integers in 2009.
        warnings.simplefilter("ignore")
        return pickle.loads(content, encoding="latin1")
