"""Measure what the test of Gaussian classes is worth: where it holds, and what it changes.

The default is compared with the same estimator without the test, on generated classes of one or
several Gaussian clusters and classes that surround others, and on hold-outs of the training rows of
real sets.

    python benchmarks/gaussian_classes.py --data FOLDER --out gaussian.md gaussian.csv
    python benchmarks/gaussian_classes.py --tables tables.npz
    python benchmarks/gaussian_classes.py --sets --sizes 10 20 30 --per-input 1.5
    python benchmarks/gaussian_classes.py --quick
"""

from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from _data import Split
from _report import command_line, page, run_and_publish, table
from _sets import _GENERATED, generated_splits, study_sets, table_sets
from defaults import hold_outs
from sklearn.datasets import make_circles, make_classification, make_gaussian_quantiles
from sklearn.metrics import log_loss

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier import selection
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.normality import deviation_score
from ffnb_sklearn.core.features.feature_map import classifier_columns

# Samples per class of the generated sets.
SIZES = [10, 20, 30, 60, 200, 500]

# Classes, clusters of each, features and informative features of make_classification.
CASES = [(3, 1, 10, 5), (5, 1, 20, 10), (10, 1, 30, 15), (2, 2, 20, 5), (5, 2, 20, 10)]
CASES += [(4, 1, 60, 10), (8, 1, 100, 30), (2, 3, 30, 15), (3, 3, 10, 5), (7, 3, 30, 12)]
CASES += [(30, 1, 20, 10), (30, 2, 60, 30), (30, 3, 30, 12)]

# Classes that surround others: two circles, or classes and features of make_gaussian_quantiles.
SURROUNDING = ["circles", (3, 2), (2, 5), (3, 10), (2, 40), (2, 100)]

REAL = ["digits", "sbu", "fpha", "cifar-40", "pendigits", "satimage", "segment", "breast-cancer"]
REAL += ["many-shot"]
N_TEST = 2000


def classification_splits(case, n_rows, n_draws):
    """Draw sets of `make_classification` with a number of training rows per class."""
    n_classes, n_clusters, d, n_informative = case
    for seed in range(n_draws):
        X, y = make_classification(
            n_classes * n_rows + N_TEST,
            d,
            n_informative=n_informative,
            n_redundant=(d - n_informative) // 2,
            n_classes=n_classes,
            n_clusters_per_class=n_clusters,
            flip_y=0.0,
            random_state=seed,
        )
        n = len(y) - N_TEST
        yield Split(f"draw {seed}", X[:n], y[:n], X[n:], y[n:])


def surrounding_splits(case, n_rows, n_draws):
    """Draw circles, or quantiles of one Gaussian, with a number of training rows per class."""
    for seed in range(n_draws):
        if case == "circles":
            X, y = make_circles(2 * n_rows + N_TEST, noise=0.15, factor=0.6, random_state=seed)
        else:
            n_classes, d = case
            X, y = make_gaussian_quantiles(
                n_samples=n_classes * n_rows + N_TEST,
                n_features=d,
                n_classes=n_classes,
                random_state=seed,
            )
        n = len(y) - N_TEST
        yield Split(f"draw {seed}", X[:n], y[:n], X[n:], y[n:])


def all_splits(options):
    """Yield the name of a set, samples per class or None, and its splits."""
    n_draws = options.draws
    for n in options.sizes:
        for kind in options.kinds:
            yield f"{kind}, {n}", generated_splits(kind, _GENERATED[kind][0], n, n_draws=n_draws)
        for case in options.cases:
            name = "{} classes of {} in {}".format(*case[:3])
            yield f"{name}, {n}", classification_splits(case, n, n_draws)
        for case in options.surrounding:
            name = case if case == "circles" else "{} quantiles in {}".format(*case)
            yield f"{name}, {n}", surrounding_splits(case, n, n_draws)
    known = study_sets(options.data) | ({} if options.quick else _tables(options))
    for name in options.sets:
        yield name, hold_outs(known[name], n_draws)


def _tables(options):
    """Return the tables of the data folder, and of a file of one's own."""
    paths = [options.data / "tables.npz", *options.tables]
    return {name: one for path in paths for name, one in table_sets(path).items()}


def deviation(estimator):
    """The statistic of the test for a fitted estimator, over all classes."""
    model = estimator._state.model
    columns = classifier_columns(model.features, True)
    gaussians = ClassGaussians.from_moments(model.moments, columns, device=torch.device("cpu"))
    return deviation_score(gaussians, range(len(gaussians.weights)), model.features.shared)


def measure(split, seed, per_input=None):
    """Accuracy and log-loss with the test and without it, and its statistic.

    `per_input` is the least number of samples per input, instead of those of the package.
    """
    found = {}
    for name in ("with", "without"):
        with ExitStack() as stack:
            if name == "without":
                stack.enter_context(mock.patch.object(selection, "_MOST_DEVIATION", -np.inf))
            for limit in ["_PER_INPUT", "_PER_INPUT_OF_FEW"] if per_input else []:
                stack.enter_context(mock.patch.object(selection, limit, per_input))
            clf = FFNBClassifier(band_size=0, random_state=seed).fit(split.X, split.y)
            probabilities = clf.predict_proba(split.X_test)
        right = clf.classes_[probabilities.argmax(axis=1)] == split.y_test
        found[f"accuracy {name}"] = 100.0 * float(right.mean())
        found[f"log_loss {name}"] = log_loss(split.y_test, probabilities, labels=clf.classes_)
        if name == "with":
            found["deviation"] = deviation(clf)
            found["normal"] = clf._solved_choice().normal
    return found


def run(options):
    """Records of all sets and draws."""
    return [
        {"set": name, "split": split.name, **measure(split, seed, options.per_input)}
        for name, splits in all_splits(options)
        for seed, split in enumerate(splits)
    ]


def report(records, options, environment):
    """The means over the draws as Markdown."""
    rows = []
    for name in dict.fromkeys(one["set"] for one in records):
        here = [one for one in records if one["set"] == name]
        means = {
            key: np.mean([one[key] for one in here])
            for key in here[0]
            if key != "split" and key != "set"
        }
        gain = means["accuracy with"] - means["accuracy without"]
        rows.append(
            [
                name,
                f"{means['deviation']:.1f}",
                f"{sum(one['normal'] for one in here)} of {len(here)}",
                f"{means['accuracy without']:.2f}",
                f"{means['accuracy with']:.2f}",
                f"{gain:+.2f}",
                f"{means['log_loss without']:.3f}",
                f"{means['log_loss with']:.3f}",
            ]
        )
    notes = [
        f"means over {options.draws} draws or hold-outs; seeds: the number of the draw; "
        "band_size=0, other parameters are defaults",
        "deviation: of random neurons from those of Gaussian classes, in standard errors",
        'a name ends in the samples per class; "5 classes of 2 in 20": make_classification with 2 '
        "clusters per class in 20 features",
    ]
    columns = ["set", "deviation", "Gaussian", "accuracy without the test", "with it", "gain"]
    columns += ["log-loss without", "log-loss with"]
    return page("Gaussian classes", environment, notes, table(columns, rows))


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, quick="two generated sets, two draws", data=True)
    add = parser.add_argument
    add("--sizes", nargs="+", type=int, default=SIZES)
    add("--draws", type=int, default=5)
    add("--tables", type=Path, nargs="*", default=[], help="own .npz of tables, NAME_X and NAME_y")
    add("--sets", nargs="*", default=REAL, help="real sets")
    add("--per-input", type=float, help="least samples per input; default: those of the package")
    options = parser.parse_args(arguments)
    options.kinds = ["equal", "unequal", "low-rank", "clusters"]
    options.cases, options.surrounding = CASES, SURROUNDING
    if options.quick:
        options.sizes, options.draws, options.sets = [60], 2, []
        options.kinds, options.cases, options.surrounding = ["unequal", "clusters"], [], []
    return options


def main(arguments=None):
    """Run the comparison and print its table."""
    run_and_publish(run, report, parse(arguments))


if __name__ == "__main__":
    main()
