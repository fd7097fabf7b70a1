"""Feature files for the benchmarks, and the streams they are cut into."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import SkeletonDescriptor


def default_folder():
    """Where the feature files are if a script is not told: FFNB_DATA, or beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("FFNB_DATA", beside))


@dataclass(frozen=True)
class Split:
    """Training and test rows of one run; ``name`` tells the folds of a set apart."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Problem:
    """A data set with the protocol it is streamed by.

    Attributes
    ----------
    name : str
        Name on the command line and in the tables.
    source : str
        Where the rows come from and how they are split.
    splits : callable
        Loads the rows: a list of one `Split`, or of one per fold.
    classes_per_task : int
        New classes per task.
    first_task_classes : int or None
        Classes of the first task, where it differs. They stay first in every class order.
    width : int
        Random neurons or cosines of the lifted peers.
    """

    name: str
    source: str
    splits: Callable[[], list[Split]]
    classes_per_task: int
    first_task_classes: int | None = None
    width: int = 5000

    def class_order(self, y, seed):
        """Sorted labels for seed 0, else a permutation drawn from the seed."""
        labels = np.unique(y)
        if seed == 0:
            return labels
        base = self.first_task_classes or 0
        shuffled = np.random.default_rng(seed).permutation(labels[base:])
        return np.concatenate([labels[:base], shuffled])

    @property
    def protocol(self):
        """One line that says how the classes arrive."""
        rest = f"{self.classes_per_task} new classes per task"
        first = self.first_task_classes
        return rest if first is None else f"a first task of {first} classes, then {rest}"


def known_problems(folder):
    """Return the problems whose files have a fixed name in the data folder, by name."""
    problems = [
        Problem(
            "digits",
            "8 x 8 digits of scikit-learn, one stratified 70 / 30 split (random_state=0)",
            _digits_split,
            classes_per_task=2,
        ),
        Problem(
            "digits-folds",
            "8 x 8 digits of scikit-learn, five stratified folds (random_state=0)",
            _digits_folds,
            classes_per_task=2,
        ),
        Problem(
            "sbu",
            "SBU interactions, 720 skeleton features, the file's five folds over actor pairs",
            partial(read_features, folder / "sbu_features.npz"),
            classes_per_task=1,
        ),
        Problem(
            "fpha",
            "FPHA hand actions, 528 skeleton features, official 600 / 575 split",
            partial(read_features, folder / "fpha_features.npz"),
            classes_per_task=5,
        ),
        Problem(
            "cifar",
            "CIFAR-100, 256 features of a ResNet trained on the first 50 classes, official split",
            partial(read_features, folder / "cifar100_b50.npz"),
            classes_per_task=5,
            first_task_classes=50,
        ),
        Problem(
            "sbu-sequences",
            "SBU joint sequences through SkeletonDescriptor(root=2), the file's five folds",
            partial(read_sequences, folder / "sbu.npz", root=2),
            classes_per_task=1,
        ),
        Problem(
            "fpha-sequences",
            "FPHA joint sequences through SkeletonDescriptor(), official 600 / 575 split",
            partial(read_sequences, folder / "fpha.npz", root=0),
            classes_per_task=5,
        ),
        *(
            Problem(
                name,
                f"UCI table {name}, {split}",
                partial(read_table, folder / "tables.npz", name, standardise=standardise),
                classes_per_task=n_classes,
            )
            for name, split, standardise, n_classes in (
                ("pendigits", "official split", False, 2),
                ("satimage", "official split", False, 2),
                ("segment", "stratified 60 / 40 split, standardised by its training rows", True, 1),
            )
        ),
    ]
    return {problem.name: problem for problem in problems}


def read_features(path):
    """Read a ``.npz`` file of features into its train/test splits, one or one per fold.

    It has ``x_train``, ``y_train``, ``x_test`` and ``y_test``, or ``X``, ``y`` and one of ``train``
    (bool), ``split`` (0 train, 1 test) or ``fold`` (each in turn is the test set).
    """
    arrays = read_arrays(path)
    if {"x_train", "y_train", "x_test", "y_test"} <= set(arrays):
        names = ("x_train", "y_train", "x_test", "y_test")
        return [_split("official", *(arrays[name] for name in names))]
    if not {"X", "y"} <= set(arrays):
        raise ValueError(f"{path} needs X and y, or x_train and so on; it has {sorted(arrays)}")
    return _masked_splits(arrays["X"], arrays["y"], test_masks(arrays, path))


def read_sequences(path, *, root):
    """Read joint sequences and describe each by a row; return one split, or one per fold.

    The file has ``joints``, ``offsets``, ``label`` and one of ``split`` and ``fold``. `root` is the
    joint that the descriptor centres on.
    """
    arrays = read_arrays(path)
    sequences = np.split(arrays["joints"], arrays["offsets"][1:-1])
    # The descriptor learns nothing from them but their shape.
    X = SkeletonDescriptor(root=root).fit_transform(sequences)
    return _masked_splits(X, arrays["label"], test_masks(arrays, path))


def read_table(path, name, *, standardise):
    """Read one of several tables in a file, standardised by its training rows if asked to.

    The file has ``NAME_X``, ``NAME_y`` and ``NAME_train`` (bool) for each table.
    """
    arrays = read_arrays(path)
    X, y, train = (arrays[f"{name}_{key}"] for key in ("X", "y", "train"))
    if standardise:
        X = StandardScaler().fit(X[train.astype(bool)]).transform(X)
    return _masked_splits(X, y, test_masks({"train": train}, path))


def read_arrays(path):
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no feature file at {path}; give its folder with --data")
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def _masked_splits(X, y, test_masks):
    return [_split(name, X[~test], y[~test], X[test], y[test]) for name, test in test_masks.items()]


def test_masks(arrays, path):
    if "train" in arrays:
        return {"official": ~arrays["train"].astype(bool)}
    if "split" in arrays:
        return {"official": arrays["split"] == 1}
    if "fold" in arrays:
        return {f"fold {k}": arrays["fold"] == k for k in np.unique(arrays["fold"])}
    raise ValueError(f"{path} needs one of train, split and fold; it has {sorted(arrays)}")


def _split(name, X, y, X_test, y_test):
    # float64 before the clock starts: the files hold float16 and float32.
    return Split(name, X.astype(np.float64), y, X_test.astype(np.float64), y_test)


def _digits_split():
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    return [_split("single split", X, y, X_test, y_test)]


def _digits_folds():
    X, y = load_digits(return_X_y=True)
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)
    masks = {f"fold {k}": np.isin(np.arange(len(y)), test) for k, (_, test) in enumerate(folds)}
    return _masked_splits(X, y, masks)
