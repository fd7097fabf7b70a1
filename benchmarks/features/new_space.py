"""Compare ways to go on when the network that computes the features is replaced, on CIFAR-100.

A classifier has learned the features of a small network (256 columns). A ResNet-18 of 512 columns
replaces it; both networks were trained on the first fifty classes. The old samples are gone: there
are paired rows, without labels, or some labelled rows of each class in the new space. The features
of the new network are computed once and kept.

    python -m benchmarks.features.new_space --threads 1 --out new_space.md new_space.csv
    python -m benchmarks.features.new_space --pairs 300 1000 2500
"""

import time
from functools import partial
from pathlib import Path
from statistics import mean

import numpy as np
from scipy.linalg import orthogonal_procrustes
from sklearn.base import clone

from benchmarks.features.layers import MEAN, STD
from benchmarks.lib.data import read_arrays
from benchmarks.lib.report import command_line, page, run_and_publish, table
from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor

# Classes that both networks were trained on, and classes that neither was.
GROUPS = {"0 to 49": range(50), "50 to 99": range(50, 100)}
FIGURES = ["accuracy", "seconds", "explained", "expected old", "expected new"]
COLUMNS = ["classes", "method", "accuracy %", "seconds", "explained %", "expected old %"]
COLUMNS += ["expected new %"]


class Rows:
    """Rows of both spaces: all old training rows, the paired rows, and the test rows."""

    def __init__(self, folder, cache):
        old = read_arrays(folder / "cifar100_b50.npz")
        images = read_arrays(folder / "cifar100_images.npz")
        new = new_features(folder, images, cache)
        self.X_train, self.y_train = old["x_train"].astype(float), old["y_train"].astype(int)
        self.X_test, self.y_test = old["x_test"].astype(float), old["y_test"].astype(int)
        self.X_pairs = self.X_train[images["train_index"]]
        self.y_pairs = self.y_train[images["train_index"]]
        self.X_new_pairs, self.X_new_test = new["train"], new["test"]


def new_features(folder, images, cache):
    """Return the features of the new network for the training and test images."""
    path = cache / "resnet18.npz"
    if not path.is_file():
        extractor = TorchFeatureExtractor(
            ConvNet(stem_width=64, widths=(64, 128, 256, 512)),
            weights=folder / "cifar100_resnet18_first50.pt",
            mean=MEAN,
            std=STD,
        ).fit(images["x_test"][:2])
        names = {"train": "x_train", "test": "x_test"}
        features = {name: extractor.transform(images[key]) for name, key in names.items()}
        cache.mkdir(parents=True, exist_ok=True)
        np.savez(path, **features)
    return read_arrays(path)


def procrustes(clf, X_old, X_new):
    """Return the classifier for new rows that a rotation and a factor turn into old ones."""
    old_mean, new_mean = X_old.mean(axis=0), X_new.mean(axis=0)
    missing = X_new.shape[1] - X_old.shape[1]
    padded = np.pad(X_old - old_mean, ((0, 0), (0, missing)))
    rotation, trace = orthogonal_procrustes(X_new - new_mean, padded)
    factor = trace / np.square(X_new - new_mean).sum()

    def turn(rows):
        turned = factor * (rows - new_mean) @ rotation
        return turned[:, : X_old.shape[1]] + old_mean

    return lambda rows: clf.predict(turn(rows))


def means_alone(clf, X_old, X_new, labels):
    """Return the nearest of the class means, mapped by least squares."""
    moved = clf.transfer(X_old, X_new)
    means = np.stack([moved.sample(2000, classes=label)[0].mean(axis=0) for label in labels])

    def predict(rows):
        distances = np.square(rows).sum(1)[:, None] - 2.0 * rows @ means.T
        return np.asarray(labels)[(distances + np.square(means).sum(1)).argmin(axis=1)]

    return predict


def ways(old, rows, labels, order, options):
    """Return by name how to make a prediction of new rows; `transfer` gives its quality too."""

    def transferred(n_pairs):
        pairs = order[:n_pairs]
        moved, quality = old.transfer(
            rows.X_pairs[pairs], rows.X_new_pairs[pairs], return_quality=True
        )
        return moved.predict, quality

    def from_means():
        return means_alone(old, rows.X_pairs[last], rows.X_new_pairs[last], labels), None

    def rotated():
        return procrustes(old, rows.X_pairs[last], rows.X_new_pairs[last]), None

    def anew(n_rows):
        members = [np.flatnonzero(rows.y_pairs == label)[:n_rows] for label in labels]
        chosen = np.concatenate(members)
        fitted = clone(old).fit(rows.X_new_pairs[chosen], rows.y_pairs[chosen])
        return fitted.predict, None

    last = order[: options.pairs[-1]]
    found = {f"transfer, {n} pairs": partial(transferred, n) for n in options.pairs}
    found[f"means alone, {len(last)} pairs"] = from_means
    found[f"Procrustes, {len(last)} pairs"] = rotated
    for n in options.labelled:
        found[f"learned anew, {n} labelled rows a class"] = partial(anew, n)
    return found


def run(options):
    """Return the records of all groups, methods and seeds."""
    rows = Rows(options.data, options.cache)
    records = []
    for group, labels in GROUPS.items():
        train = np.isin(rows.y_train, labels)
        test = np.isin(rows.y_test, labels)
        y_test = rows.y_test[test]
        for seed in options.seeds:
            keys = {"classes": group, "seed": seed}
            old = IncrementalDiscriminantAnalysis(random_state=seed)
            old.fit(rows.X_train[train], rows.y_train[train])
            accuracy = 100.0 * old.score(rows.X_test[test], y_test)
            records.append({**keys, "method": "the old network", "accuracy": accuracy})
            order = np.random.default_rng(seed).permutation(len(rows.y_pairs))
            for method, make in ways(old, rows, labels, order, options).items():
                start = time.process_time()
                predict, quality = make()
                record = {**keys, "method": method, "seconds": time.process_time() - start}
                record["accuracy"] = 100.0 * np.mean(predict(rows.X_new_test[test]) == y_test)
                if quality is not None:
                    record["explained"] = 100.0 * quality.explained_variance
                    record["expected old"] = 100.0 * quality.expected_accuracy_old
                    record["expected new"] = 100.0 * quality.expected_accuracy_new
                records.append(record)
    # Each row of a table has all columns.
    return [dict.fromkeys(["classes", "method", "seed", *FIGURES], "") | one for one in records]


def report(records, options, environment):
    """Return the page as Markdown, means over the seeds."""
    groups = {}
    for record in records:
        groups.setdefault((record["classes"], record["method"]), []).append(record)
    lines = []
    for keys, runs in groups.items():
        cells = []
        for name in FIGURES:
            values = [one[name] for one in runs if one[name] != ""]
            cells.append(f"{mean(values):.1f}" if values else "")
        lines.append([*keys, *cells])
    notes = [
        f"seeds: {', '.join(map(str, options.seeds))}, of the random neurons and of the choice of "
        "pairs; means over the seeds",
        "old: features of a small network, 256 columns, 500 training rows a class; new: features "
        "of a ResNet-18, 512 columns; both were trained on the classes 0 to 49 of the order of the "
        "data file; one classifier for each fifty classes, all test images of them",
        "pairs: training images of all classes in both spaces, without labels",
        "seconds: of the processor, to make the new classifier, without the features; explained, "
        "expected: the quality that `transfer` returns",
    ]
    return page("A new feature space", environment, notes, table(COLUMNS, lines))


def main(arguments=None):
    """Run the comparison, and print its table."""
    parser = command_line(__doc__, data=True)
    add = parser.add_argument
    add("--pairs", nargs="+", type=int, default=[300, 1000], help="numbers of paired rows")
    add("--labelled", nargs="+", type=int, default=[5, 50], help="labelled rows of a class")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add("--cache", type=Path, default=Path("out") / "new_space")
    run_and_publish(run, report, parser.parse_args(arguments))


if __name__ == "__main__":
    main()
