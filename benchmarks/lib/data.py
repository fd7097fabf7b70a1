"""Read feature files into training and test rows."""

import os
import zipfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import SkeletonDescriptor


def default_folder():
    """Return the folder of the feature files: FFNB_DATA, or a folder beside the checkout."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return Path(os.environ.get("FFNB_DATA", beside))


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows of one run; `name` tells the folds and draws of a set apart."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@lru_cache(maxsize=4)
def read_features(path):
    """Read a ``.npz`` file of features into its splits, one or one per fold.

    The file has ``x_train``, ``y_train``, ``x_test`` and ``y_test``, or ``X``, ``y`` and one of
    ``train`` (bool), ``split`` (0 train, 1 test) or ``fold`` (each in turn is the test set).
    """
    arrays = read_arrays(path)
    if {"x_train", "y_train", "x_test", "y_test"} <= set(arrays):
        names = ("x_train", "y_train", "x_test", "y_test")
        return [_split("official", *(arrays[name] for name in names))]
    if not {"X", "y"} <= set(arrays):
        raise ValueError(f"{path} needs X and y, or x_train and so on; it has {sorted(arrays)}")
    return masked_splits(arrays["X"], arrays["y"], test_masks(arrays, path))


@lru_cache(maxsize=2)
def read_sequences(path, *, root):
    """Read joint sequences and describe each by a row; return one split, or one per fold.

    The file has ``joints``, ``offsets``, ``label`` and one of ``split`` and ``fold``. `root` is the
    joint that the descriptor centres on.
    """
    arrays = read_arrays(path)
    sequences = np.split(arrays["joints"], arrays["offsets"][1:-1])
    # The descriptor learns only the shape of the sequences.
    X = SkeletonDescriptor(root=root).fit_transform(sequences)
    return masked_splits(X, arrays["label"], test_masks(arrays, path))


def read_table(path, name, *, standardise):
    """Read one of several tables in a file, standardised by its training rows if asked to.

    The file has ``NAME_X``, ``NAME_y`` and ``NAME_train`` (bool) for each table.
    """
    arrays = read_arrays(path)
    X, y, train = (arrays[f"{name}_{key}"] for key in ("X", "y", "train"))
    if standardise:
        X = StandardScaler().fit(X[train.astype(bool)]).transform(X)
    return masked_splits(X, y, test_masks({"train": train}, path))


def read_arrays(path):
    """Read all arrays of a ``.npz`` file."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file at {path}; give its folder with --data or --tables")
    # The content of other files is a single array, a table or a pickle.
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} must be a .npz file of arrays with names")
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def test_masks(arrays, path):
    """Return the masks of the test rows by name of the split."""
    if "train" in arrays:
        return {"official": ~arrays["train"].astype(bool)}
    if "split" in arrays:
        return {"official": arrays["split"] == 1}
    if "fold" in arrays:
        return {f"fold {k}": arrays["fold"] == k for k in np.unique(arrays["fold"])}
    raise ValueError(f"{path} needs one of train, split and fold; it has {sorted(arrays)}")


def first_of_each(y, count):
    """Return the positions of the first samples of each class; None counts all."""
    return np.sort(np.concatenate([np.flatnonzero(y == label)[:count] for label in np.unique(y)]))


def masked_splits(X, y, masks):
    """Return the splits of rows whose test rows are given by masks."""
    return [_split(name, X[~test], y[~test], X[test], y[test]) for name, test in masks.items()]


def _split(name, X, y, X_test, y_test):
    # float64 before the clock starts: the files hold float16 and float32.
    return Split(name, X.astype(np.float64), y, X_test.astype(np.float64), y_test)
