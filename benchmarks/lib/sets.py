"""The data sets of the benchmarks, in groups, each with the protocol it is streamed by."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_circles,
    make_classification,
    make_gaussian_quantiles,
)
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split

from benchmarks.lib.data import Split, read_arrays, read_features, read_sequences, read_table

N_TEST = 2000


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
        Takes a seed and returns a list of `Split`: the fixed ones, or one that the seed draws.
    classes_per_task : int
        New classes per task.
    first_task_classes : int or None
        Classes of the first task, if it differs.
    pretrained_classes : int
        Number of labels that stay first in a random class order, because the features come from a
        network that was trained on them.
    width : int
        Random neurons or cosines of the other heads that lift the rows.
    """

    name: str
    source: str
    splits: Callable[[int], list[Split]]
    classes_per_task: int = 1
    first_task_classes: int | None = None
    pretrained_classes: int = 0
    width: int = 2000

    def class_order(self, y, class_order, seed):
        """Return the labels in the order of their arrival.

        `class_order` is "sorted", "random", which draws by `seed`, or a seed of its own, as in
        ``class_incremental_tasks(y, class_order="random", random_state=seed)``.
        """
        labels = np.unique(y)
        if class_order == "sorted":
            return labels
        if class_order != "random":
            seed = class_order
        first, later = np.split(labels, [self.pretrained_classes])
        return np.concatenate([first, np.random.RandomState(seed).permutation(later)])

    @property
    def protocol(self):
        """One line on how the classes arrive."""
        rest = f"{self.classes_per_task} new classes per task"
        first = self.first_task_classes
        return rest if first is None else f"a first task of {first} classes, then {rest}"


def load_group(name, folder, tables):
    """Return the problems of a group by name.

    Parameters
    ----------
    name : str
        A key of `GROUPS`, or the stem of a ``.npz`` file of tables.
    folder, tables : Path
        Folder of the feature files, and of the files that `collect_tables` writes.
    """
    if name in GROUPS:
        return {one.name: one for one in GROUPS[name](folder)}
    return table_problems(tables / f"{name}.npz")


def table_problems(path, *, standardise=True):
    """Return the tables of a file with columns NAME_X and labels NAME_y, as problems by name."""
    arrays = read_arrays(path)
    names = [key.removesuffix("_X") for key in arrays if key.endswith("_X")]
    return {
        name: _table(name, partial(_given, arrays[f"{name}_X"], arrays[f"{name}_y"]), standardise)
        for name in names
    }


def own_rows(paths):
    """Return a function that returns the splits of files of own rows by seed.

    The files are a ``.npz`` file as `read_features` reads it, or one with X and y alone, or two
    ``.npy`` files, the rows and their labels. Without a split in the file, the seed draws a
    stratified 60 / 40 split.

    Raises
    ------
    ValueError
        If the files have another form.
    """
    suffixes = [path.suffix for path in paths]
    if suffixes == [".npy", ".npy"]:
        X, y = map(np.load, paths)
    elif suffixes == [".npz"]:
        arrays = read_arrays(paths[0])
        if arrays.keys() != {"X", "y"}:
            splits = read_features(paths[0])
            return lambda seed: splits
        X, y = arrays["X"], arrays["y"]
    else:
        raise ValueError(
            "--features takes a .npz file, or two .npy files of rows and labels; got "
            f"{' '.join(map(str, paths))}"
        )
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise ValueError(f"rows of shape {X.shape} need a label each; got labels of {y.shape}")
    return partial(table_splits, partial(_given, X.astype(np.float64), y), False)


def hold_out(split, seed):
    """Return a split of the training rows alone, a quarter of which is scored."""
    cutter = StratifiedShuffleSplit(1, test_size=0.25, random_state=seed)
    learned, scored = next(cutter.split(split.X, split.y))
    parts = split.X[learned], split.y[learned], split.X[scored], split.y[scored]
    return Split(f"{split.name}, hold-out {seed}", *parts)


def _features(folder):
    """Features and joint sequences with fixed splits."""
    features, sequences = "sbu_features.npz", "sbu.npz"
    yield _fixed("digits", "8 x 8 digits of scikit-learn, one 70 / 30 split", _digits, 2)
    yield _fixed(
        "sbu",
        "SBU interactions, 720 skeleton features, the file's five folds over actor pairs",
        partial(read_features, folder / features),
        1,
    )
    yield _fixed(
        "fpha",
        "FPHA hand actions, 528 skeleton features, official 600 / 575 split",
        partial(read_features, folder / "fpha_features.npz"),
        5,
    )
    yield replace(_cifar(folder), width=5000)
    yield _fixed(
        "sbu-sequences",
        "SBU joint sequences through SkeletonDescriptor(root=2), the file's five folds",
        partial(read_sequences, folder / sequences, root=2),
        1,
    )
    yield _fixed(
        "fpha-sequences",
        "FPHA joint sequences through SkeletonDescriptor(), official 600 / 575 split",
        partial(read_sequences, folder / "fpha.npz", root=0),
        5,
    )
    for name, split, standardise, n_classes in (
        ("pendigits", "official split", False, 2),
        ("satimage", "official split", False, 2),
        ("segment", "stratified 60 / 40 split, standardised by its training rows", True, 1),
    ):
        read = partial(read_table, folder / "tables.npz", name, standardise=standardise)
        yield _fixed(name, f"UCI table {name}, {split}", read, n_classes)


def _fixed(name, source, read, classes_per_task):
    return Problem(name, source, lambda _: read(), classes_per_task, width=5000)


def _cifar(folder):
    return Problem(
        "cifar",
        "CIFAR-100, 256 features of a ResNet trained on the first 50 classes, official split; "
        "labels number the classes in the order of the seed 1993",
        lambda _: read_features(folder / "cifar100_b50.npz"),
        classes_per_task=5,
        first_task_classes=50,
        pretrained_classes=50,
    )


def _digits():
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
    return [Split("single split", X, y, X_test, y_test)]


def _study(folder):
    """The study's seven sets: features of all kinds, and small tables."""
    known = {one.name: one for one in _features(folder)}
    yield from (known[name] for name in ("sbu", "fpha"))
    source = "CIFAR-100 features: classes 40 to 79, the first 60 training rows of each"
    yield Problem("cifar-40", source, partial(_thinned, _cifar(folder)), 10, 10, 10)
    yield Problem(
        "digits",
        "8 x 8 digits of scikit-learn, a stratified 60 / 40 split per seed, as they are",
        partial(table_splits, load_digits, False),
        classes_per_task=2,
    )
    for name, load in (
        ("breast-cancer", load_breast_cancer),
        ("wine", load_wine),
        ("iris", load_iris),
    ):
        yield _table(name, load)


def _table(name, load, standardise=True):
    X, y = load(return_X_y=True)
    source = (
        f"{len(X)} rows, {len(np.unique(y))} classes, d = {X.shape[1]}; a stratified 60 / 40 split "
        f"per seed, columns {'standardised by the training rows' if standardise else 'as they are'}"
    )
    return Problem(name, source, partial(table_splits, load, standardise))


def _given(X, y, return_X_y):
    return X, y


def table_splits(load, standardise, seed):
    """Return a stratified 60 / 40 split of a table, whose columns training rows standardise."""
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    if standardise:
        centre, scale = X.mean(axis=0), X.std(axis=0)
        scale[scale == 0.0] = 1.0
        X, X_test = (X - centre) / scale, (X_test - centre) / scale
    return [Split(f"split {seed}", X, y, X_test, y_test)]


def _thinned(problem, seed):
    """The classes 40 to 79 of a set: ten of the backbone's training, and thirty new ones."""
    (split,), chosen = problem.splits(seed), np.arange(40, 80)
    kept = np.concatenate([np.flatnonzero(split.y == label)[:60] for label in chosen])
    scored = np.isin(split.y_test, chosen)
    parts = split.X[kept], split.y[kept], split.X_test[scored], split.y_test[scored]
    return [Split("official", *parts)]


def decaying_root(d, smallest, random):
    """Return a square root of a covariance in a random basis.

    Its variances fall from 1 to `smallest`, evenly in the logarithm.
    """
    basis = np.linalg.qr(random.standard_normal((d, d)))[0]
    return basis * np.logspace(0.0, np.log10(smallest) / 2.0, d)


def _gaussians(kind, n_classes, d, distance, smallest, random):
    """Means of shape (C, clusters, d) and roots of the covariances of shape (C, d, d)."""
    if kind == "equal":
        root = decaying_root(d, smallest, random)
        means = distance * random.standard_normal((n_classes, d)) @ root.T
        return means[:, None], np.broadcast_to(root, (n_classes, d, d))
    if kind == "clusters":
        means = distance * random.standard_normal((n_classes, 4, d))
        return means, np.broadcast_to(np.eye(d), (n_classes, d, d))
    if kind == "unequal":
        roots = np.stack([decaying_root(d, smallest, random) for _ in range(n_classes)])
    else:
        # Variance 1 along five axes of each class, and `smallest` along all axes.
        bases = [np.linalg.qr(random.standard_normal((d, 5)))[0] for _ in range(n_classes)]
        gain = np.sqrt(1.0 + smallest) - np.sqrt(smallest)
        roots = np.stack([np.sqrt(smallest) * np.eye(d) + gain * one @ one.T for one in bases])
    return distance * random.standard_normal((n_classes, 1, d)), roots


def _draw_gaussians(means, roots, sizes, random):
    y = np.repeat(np.arange(len(means)), sizes)
    X = means[y, random.integers(means.shape[1], size=len(y))]
    for label, root in enumerate(roots):
        rows = y == label
        X[rows] += random.standard_normal((rows.sum(), len(root))) @ root.T
    return X, y


# Name: kind, classes, inputs, distance of the means, smallest variance, rows per class, classes per
# task. With these distances the best possible classifier gets about nine rows of ten right.
GAUSSIANS = {
    "equal": ("equal", 20, 30, 0.63, 0.01, 60, 5),
    "unequal": ("unequal", 12, 16, 0.2, 0.03, 120, 3),
    "low-rank": ("low-rank", 20, 40, 0.2, 0.2, 60, 5),
    "few-shot": ("equal", 100, 500, 0.5, 0.01, 5, 25),
    "many-shot": ("unequal", 5, 12, 0.35, 0.1, 1000, 1),
    "clusters": ("clusters", 8, 12, 1.4, 1.0, 150, 2),
}


def _generated(_):
    """Gaussian classes and classes of clusters."""
    for name, (*population, n_rows, per_task) in GAUSSIANS.items():
        kind, n_classes, d, *_ = population
        source = f"{kind} covariances, {n_classes} classes of {n_rows} rows, d = {d}"
        draw = partial(_gaussian_splits, name, population, n_rows)
        yield Problem(name, source, draw, per_task)


def _gaussian_splits(name, population, n_rows, seed):
    """The name and the seed draw classes, then `n_rows` of each, then test rows of all classes."""
    random = np.random.default_rng([zlib.crc32(name.encode()), seed])
    means, roots = _gaussians(*population, random)
    train = _draw_gaussians(means, roots, n_rows, random)
    test = _draw_gaussians(means, roots, N_TEST // len(means), random)
    return [Split(f"draw {seed}", *train, *test)]


# Classes, clusters of each, features and informative features of make_classification.
CLASSIFICATION = [(3, 1, 10, 5), (5, 1, 20, 10), (10, 1, 30, 15), (2, 2, 20, 5), (5, 2, 20, 10)]
CLASSIFICATION += [(4, 1, 60, 10), (8, 1, 100, 30), (2, 3, 30, 15), (3, 3, 10, 5), (7, 3, 30, 12)]
CLASSIFICATION += [(30, 1, 20, 10), (30, 2, 60, 30), (30, 3, 30, 12)]

# Classes that surround others: two circles, or classes and features of make_gaussian_quantiles.
SURROUNDING = [(3, 2), (2, 5), (3, 10), (2, 40), (2, 100)]


def _classification(_):
    """Draws of `make_classification`, 60 training rows per class."""
    for case in CLASSIFICATION:
        name = "{}-classes-{}-clusters-{}".format(*case)
        source = "make_classification: {} classes of {} clusters, d = {}, {} informative"
        yield Problem(name, source.format(*case), partial(_classification_splits, case))


def _surrounding(_):
    """Classes that surround others, 60 training rows per class."""
    yield Problem("circles", "make_circles, noise 0.15", partial(_circle_splits, 0.0))
    far = "make_circles, noise 0.15, each column moved by 1000"
    yield Problem("circles-far", far, partial(_circle_splits, 1000.0))
    for case in SURROUNDING:
        name, source = "{}-quantiles-{}".format(*case), "make_gaussian_quantiles: {} classes, d={}"
        yield Problem(name, source.format(*case), partial(_quantile_splits, case))


def _classification_splits(case, seed):
    n_classes, n_clusters, d, n_informative = case
    X, y = make_classification(
        n_classes * 60 + N_TEST,
        d,
        n_informative=n_informative,
        n_redundant=(d - n_informative) // 2,
        n_classes=n_classes,
        n_clusters_per_class=n_clusters,
        flip_y=0.0,
        random_state=seed,
    )
    return _cut(X, y, seed)


def _circle_splits(offset, seed):
    X, y = make_circles(2 * 60 + N_TEST, noise=0.15, factor=0.6, random_state=seed)
    return _cut(X + offset, y, seed)


def _quantile_splits(case, seed):
    n_classes, d = case
    n = n_classes * 60 + N_TEST
    X, y = make_gaussian_quantiles(
        n_samples=n, n_features=d, n_classes=n_classes, random_state=seed
    )
    return _cut(X, y, seed)


def _cut(X, y, seed):
    n = len(y) - N_TEST
    return [Split(f"draw {seed}", X[:n], y[:n], X[n:], y[n:])]


# Samples of each class, and spread of the logarithms of the standard deviations.
UNEQUAL = {
    "five-rare-alike": ([15] * 5 + [300] * 5, 0.1),
    "five-rare-unlike": ([15] * 5 + [300] * 5, 0.5),
    "6-to-800-alike": ([6, 12, 25, 50, 100, 200, 400, 800], 0.1),
    "6-to-800-unlike": ([6, 12, 25, 50, 100, 200, 400, 800], 0.5),
}


def _unequal(_):
    """Gaussian classes of unequal size; test rows have the same shares."""
    for name, (sizes, spread) in UNEQUAL.items():
        source = f"Gaussian classes of {sizes[0]} to {sizes[-1]} rows, d = 20"
        yield Problem(name, source, partial(_unequal_splits, np.array(sizes), spread))
    shares = [0.02, 0.05, 0.93]
    rare = "make_classification, 4000 rows, d = 10, classes of 2, 5 and 93 %"
    yield Problem("2-5-93", rare, partial(_rare_splits, shares))


def _unequal_splits(sizes, spread, seed):
    random, d = np.random.default_rng(seed), 20
    means = 0.8 * random.standard_normal((len(sizes), 1, d))
    bases = [np.linalg.qr(random.standard_normal((d, d))).Q for _ in sizes]
    roots = np.stack([one * np.exp(spread * random.standard_normal(d)) for one in bases])
    parts = [_draw_gaussians(means, roots, times * sizes, random) for times in (1, 4)]
    return [Split(f"draw {seed}", *parts[0], *parts[1])]


def _rare_splits(shares, seed):
    common = {"n_features": 10, "n_informative": 6, "n_redundant": 0, "n_clusters_per_class": 1}
    X, y = make_classification(
        4000, n_classes=3, weights=shares, flip_y=0.0, class_sep=1.2, random_state=seed, **common
    )
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    return [Split(f"draw {seed}", X, y, X_test, y_test)]


# The groups of the command line; `public` and `more` are files of `collect_tables`.
GROUPS = {
    "study": _study,
    "features": _features,
    "generated": _generated,
    "classification": _classification,
    "surrounding": _surrounding,
    "unequal-sizes": _unequal,
}
