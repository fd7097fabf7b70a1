"""Data sets of many kinds for the study of the defaults, each with its stream."""

import zlib
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from _data import Problem, Split, known_problems, read_arrays
from _mixtures import (
    clustered_classes,
    equal_covariances,
    low_rank_covariances,
    unequal_covariances,
)
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.model_selection import train_test_split

# Splits of a small table, and draws of a generated set: enough for chance to move the difference of
# two good heads by a quarter of a point or so. Seeds per split are chosen likewise.
_N_TABLE_SPLITS, _N_DRAWS = 100, 20

# Splits of a table from a file.
_N_FILE_SPLITS = 10

# The thinned CIFAR-100: the last ten classes of the backbone's training, and thirty new ones.
_CIFAR_CLASSES = (40, 80)


@dataclass(frozen=True, kw_only=True)
class StudySet(Problem):
    """A problem with what the study needs to know of it.

    Attributes
    ----------
    kind : str
        What it stands for, in a few words.
    repeats : int
        Hold-outs of its training rows, the more the fewer rows a hold-out has.
    seeds : int
        Class orders and draws of random features per split in the final test.
    """

    kind: str
    repeats: int = 4
    seeds: int = 1


def study_sets(folder):
    """Return the sets of the study by name: files, scikit-learn's tables, generated ones."""
    sets = [*_file_sets(known_problems(folder)), *_tabular_sets(), *_generated_sets()]
    return {one.name: one for one in sets}


def table_sets(path):
    """Return the tables of a file, which hold columns NAME_X and labels NAME_y, as sets by name."""
    arrays = read_arrays(path)
    names = [key.removesuffix("_X") for key in arrays if key.endswith("_X")]
    return {name: _table_set(name, arrays[f"{name}_X"], arrays[f"{name}_y"]) for name in names}


def _table_set(name, X, y):
    n_classes = len(np.unique(y))
    return StudySet(
        name,
        f"{len(X)} rows, {_N_FILE_SPLITS} stratified 60 / 40 splits, columns standardised by the "
        "training rows",
        partial(tabular_splits, lambda return_X_y: (X, y), _N_FILE_SPLITS),
        classes_per_task=1,
        width=2000,
        kind=f"table, {n_classes} classes, d = {X.shape[1]}",
    )


def _file_sets(known):
    thinned = partial(thin, known["cifar"].splits, _CIFAR_CLASSES, n_rows=60)
    source = "CIFAR-100 features: classes 40 to 79, the first 60 training rows of each"
    yield _studied(known["sbu"], "few samples, d > n, not linear", repeats=6, seeds=6)
    yield _studied(known["fpha"], "45 classes of 13 samples, d near n", seeds=6)
    cifar = replace(known["cifar"], name="cifar-40", source=source, splits=thinned)
    cifar = replace(cifar, classes_per_task=10, first_task_classes=10)
    yield _studied(cifar, "features of a convolution network", repeats=3, seeds=4)
    yield _studied(known["digits"], "images, n > d", seeds=5)


def _studied(problem, kind, **options):
    return StudySet(**vars(problem), kind=kind, **options)


def _tabular_sets():
    loaders = {"breast-cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris}
    for name, load in loaders.items():
        yield StudySet(
            name,
            f"{name} of scikit-learn, {_N_TABLE_SPLITS} stratified 60 / 40 splits, columns "
            "standardised by the training rows",
            partial(tabular_splits, load),
            classes_per_task=1,
            width=1000,
            kind="small table",
            repeats=12,
        )


# Distances are such that the best possible classifier gets about nine in ten rows right.
_GENERATED = {
    "equal": (
        partial(equal_covariances, n_classes=20, d=30, distance=0.63),
        "Gaussians of one covariance, 20 classes, d = 30",
        60,
        5,
    ),
    "unequal": (
        partial(unequal_covariances, n_classes=12, d=16, distance=0.2),
        "Gaussians of unequal covariances and near means, 12 classes, d = 16",
        120,
        3,
    ),
    "low-rank": (
        partial(low_rank_covariances, n_classes=20, d=40, distance=0.2, noise=0.2),
        "Gaussians of low-rank covariances, 20 classes, d = 40",
        60,
        5,
    ),
    "few-shot": (
        partial(equal_covariances, n_classes=100, d=500, distance=0.5),
        "Gaussians of one covariance, 100 classes of 5 samples, d = 500",
        5,
        25,
    ),
    "many-shot": (
        partial(unequal_covariances, n_classes=5, d=12, distance=0.35, smallest=0.1),
        "Gaussians of unequal covariances, 5 classes of 1000 samples, d = 12",
        1000,
        1,
    ),
    "clusters": (
        partial(clustered_classes, n_classes=8, d=12, distance=1.4),
        "classes of four clusters each, 8 classes, d = 12",
        150,
        2,
    ),
}


def _generated_sets():
    for name, (make, kind, n_rows, per_task) in _GENERATED.items():
        yield StudySet(
            name,
            f"generated, {n_rows} training rows per class, {_N_DRAWS} draws of classes and rows",
            partial(generated_splits, name, make, n_rows),
            classes_per_task=per_task,
            width=2000,
            kind=kind,
        )


def thin(splits, classes, *, n_rows):
    """Return splits with some of the classes only, and the first training rows of each.

    `classes` are the first class and the one behind the last, and `splits` loads the splits, whose
    test rows of these classes all stay.
    """
    chosen = np.arange(*classes)
    thinned = []
    for split in splits():
        rows = [np.flatnonzero(split.y == label)[:n_rows] for label in chosen]
        kept, scored = np.concatenate(rows), np.isin(split.y_test, chosen)
        thinned.append(
            Split(
                split.name, split.X[kept], split.y[kept], split.X_test[scored], split.y_test[scored]
            )
        )
    return thinned


def tabular_splits(load, n_splits=_N_TABLE_SPLITS):
    """Return stratified splits of a small table, its columns standardised by training rows."""
    X, y = load(return_X_y=True)
    splits = []
    for k in range(n_splits):
        rows = train_test_split(X, y, test_size=0.4, stratify=y, random_state=k)
        X_train, X_test, y_train, y_test = rows
        centre, scale = X_train.mean(axis=0), X_train.std(axis=0)
        scale[scale == 0.0] = 1.0
        scaled = [(part - centre) / scale for part in (X_train, X_test)]
        splits.append(Split(f"split {k}", scaled[0], y_train, scaled[1], y_test))
    return splits


def generated_splits(name, make, n_rows, n_draws=_N_DRAWS, n_test=2000):
    """Return independent draws of a population, and of rows from it.

    The name of the set seeds it. `n_rows` are training rows per class, and `n_test` test rows of
    all classes together.
    """
    splits = []
    for draw in range(n_draws):
        random = np.random.default_rng([zlib.crc32(name.encode()), draw])
        population = make(random)
        X, y = population.draw(n_rows, random)
        X_test, y_test = population.draw(n_test // len(population.means), random)
        splits.append(Split(f"draw {draw}", X, y, X_test, y_test))
    return splits
