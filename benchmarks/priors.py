"""Classes of unequal size: accuracy with uniform and with empirical priors, beside LDA and QDA.

Balanced accuracy is the mean over the classes of the share of their test rows that are right.

    python benchmarks/priors.py --out priors.md priors.csv
    python benchmarks/priors.py --tables tables.npz --sets shuttle glass
    python benchmarks/priors.py --quick
"""

from functools import partial
from pathlib import Path

import numpy as np
from _data import Split
from _report import command_line, page, run_and_publish, table
from _sets import table_sets
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import train_test_split

from ffnb_sklearn import FFNBClassifier

# Shares of the classes, and parameters of make_classification.
_RARE = [0.02, 0.05, 0.93]
GENERATED = {
    "2, 5, 93 %": (_RARE, {"n_samples": 4000, "n_features": 10, "n_informative": 6}),
    "2, 5, 93 %, two clusters": (
        _RARE,
        {"n_samples": 4000, "n_features": 21, "n_informative": 8, "n_clusters_per_class": 2},
    ),
    "seven classes": (
        [0.5, 0.3, 0.1, 0.05, 0.03, 0.015, 0.005],
        {"n_samples": 10000, "n_features": 20, "n_informative": 10, "n_clusters_per_class": 2},
    ),
}
# Samples of each class, number of inputs, and spread of the logarithms of the standard deviations
# along the axes of each class, which are turned at random.
GAUSSIAN = {
    "five rare of ten, alike": ([15] * 5 + [300] * 5, 20, 0.1),
    "five rare of ten, unlike": ([15] * 5 + [300] * 5, 20, 0.5),
    "6 to 800 samples, alike": ([6, 12, 25, 50, 100, 200, 400, 800], 15, 0.1),
    "6 to 800 samples, unlike": ([6, 12, 25, 50, 100, 200, 400, 800], 15, 0.5),
}
FIGURES = {"accuracy": "accuracy", "balanced": "balanced accuracy", "log_loss": "log-loss"}


HEADS = {
    "gaussian, uniform priors": partial(FFNBClassifier, random_state=0),
    "gaussian": partial(FFNBClassifier, random_state=0, priors="empirical"),
    "ovo": partial(FFNBClassifier, random_state=0, priors="empirical", classifier="ovo"),
    "ova": partial(FFNBClassifier, random_state=0, priors="empirical", classifier="ova"),
    "LDA": LinearDiscriminantAnalysis,
    # Without a ridge, a class with fewer samples than columns has no density.
    "QDA": partial(QuadraticDiscriminantAnalysis, solver="eigen", shrinkage=0.01),
}


def generated_splits(shares, options, n_draws):
    """Draw sets of classes with the given shares, and split each."""
    common = {"n_redundant": 0, "n_clusters_per_class": 1, "flip_y": 0.0, "class_sep": 1.2}
    for seed in range(n_draws):
        X, y = make_classification(
            n_classes=len(shares), weights=shares, random_state=seed, **common | options
        )
        X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
        yield Split(f"draw {seed}", X, y, X_test, y_test)


def gaussian_splits(sizes, d, spread, n_draws):
    """Draw Gaussian classes of these sizes, and test rows in proportion."""
    for seed in range(n_draws):
        rng = np.random.default_rng(seed)
        means = 0.8 * rng.standard_normal((len(sizes), d))
        roots = [
            np.linalg.qr(rng.standard_normal((d, d))).Q * np.exp(spread * rng.standard_normal(d))
            for _ in sizes
        ]
        parts = []
        for times in (1, 4):
            y = np.repeat(np.arange(len(sizes)), times * np.array(sizes))
            X = np.einsum("nj,nij->ni", rng.standard_normal((len(y), d)), np.array(roots)[y])
            parts += [X + means[y], y]
        yield Split(f"draw {seed}", *parts)


def all_sets(options):
    """Return a function that makes the splits of each set, by name."""
    n_draws = options.splits
    if options.tables is None:
        sets = {name: partial(generated_splits, *one, n_draws) for name, one in GENERATED.items()}
        return sets | {
            name: partial(gaussian_splits, *one, n_draws) for name, one in GAUSSIAN.items()
        }
    tables = table_sets(options.tables)
    return {name: lambda one=one: one.splits()[:n_draws] for name, one in tables.items()}


def measure(make, split):
    """Measure one head on one split."""
    head = make().fit(split.X, split.y)
    probabilities = head.predict_proba(split.X_test)
    predicted = head.classes_[probabilities.argmax(axis=1)]
    return {
        "accuracy": 100.0 * float(np.mean(predicted == split.y_test)),
        "balanced": 100.0 * float(balanced_accuracy_score(split.y_test, predicted)),
        "log_loss": float(log_loss(split.y_test, probabilities, labels=head.classes_)),
    }


def run(options):
    """Measure all heads on all sets."""
    sets = all_sets(options)
    return [
        {"set": name, "split": split.name, "head": head, **measure(make, split)}
        for name in options.sets or sets
        for split in sets[name]()
        for head, make in HEADS.items()
    ]


def report(records, options, environment):
    """Write the means over the splits as Markdown."""
    rows = []
    for name in dict.fromkeys(one["set"] for one in records):
        for head in HEADS:
            here = [one for one in records if (one["set"], one["head"]) == (name, head)]
            accuracy, balanced, loss = (np.mean([one[key] for one in here]) for key in FIGURES)
            rows.append([name, head, f"{accuracy:.2f}", f"{balanced:.2f}", f"{loss:.3f}"])
    note = (
        f"means over {options.splits} splits; all rows at once; priors empirical where not said "
        "otherwise; QDA with a shrinkage of 0.01"
    )
    title = "Classes of unequal size" + (", public tables" if options.tables else "")
    return page(title, environment, [note], table(["set", "head", *FIGURES.values()], rows))


def main(arguments=None):
    """Measure, and print the table."""
    parser = command_line(__doc__, quick="one generated set, one draw")
    parser.add_argument("--tables", type=Path, help="a file of tables instead of generated sets")
    parser.add_argument("--sets", nargs="+", help="default: all")
    parser.add_argument("--splits", type=int, default=5, help="draws, or splits of a table")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sets, options.splits = ["2, 5, 93 %"], 1
    known = list(all_sets(options))
    if unknown := [name for name in options.sets or () if name not in known]:
        parser.error(f"--sets must name some of {known}; got {unknown}")
    run_and_publish(run, report, options)


if __name__ == "__main__":
    main()
