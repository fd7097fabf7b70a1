"""Measure accuracy with few rows per class, beside two classifiers of class means.

A seed draws the training rows of each class, and all test rows are scored. A class with fewer rows
than asked for gives all its rows. Columns are not scaled, and all classes are learned in one call.

    python -m benchmarks.heads.rows_per_class --out rows_per_class.md rows_per_class.csv
    python -m benchmarks.heads.rows_per_class --quick
"""

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.lib.report import command_line, page, publish, read_settings, run_limited, table
from benchmarks.lib.sets import load_group
from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.baselines import NearestClassMean

SETS = {"cifar": "CIFAR-100", "fpha": "FPHA", "digits": "digits"}


def ida(X, y, X_test, settings, seed):
    """Labels by `IncrementalDiscriminantAnalysis`."""
    clf = IncrementalDiscriminantAnalysis(random_state=seed, **settings)
    return clf.fit(X, y).predict(X_test)


def pooled(X, y, X_test, settings, seed):
    """Labels by one covariance for all classes."""
    return ida(X, y, X_test, settings | {"shrinkage": 1.0}, seed)


def nearest_mean(X, y, X_test, settings, seed):
    """Labels by the least distance to a class mean."""
    return NearestClassMean().fit(X, y).predict(X_test)


def cosine(X, y, X_test, settings, seed):
    """Labels by the largest cosine to the mean of the normalised rows of a class."""
    rows = normalize(X)
    labels = np.unique(y)
    means = np.stack([rows[y == label].mean(axis=0) for label in labels])
    cosines = normalize(X_test) @ normalize(means).T
    return labels[cosines.argmax(axis=1)]


CLASSIFIERS = {
    "IDA": ida,
    "IDA, shrinkage=1": pooled,
    "nearest mean": nearest_mean,
    "cosine to the mean": cosine,
}


def drawn_rows(y, n_rows, seed):
    """Return the positions of up to `n_rows` rows of each class, drawn by a seed."""
    random = np.random.default_rng(seed)
    positions = []
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        positions.append(random.permutation(members)[:n_rows])
    return np.sort(np.concatenate(positions))


def run(options):
    """Measure all classifiers on all sets; return the single runs."""
    settings = read_settings(options.settings)
    problems = load_group("features", options.data, options.data)
    records = []
    for name in options.sets:
        split = problems[name].splits(0)[0]
        largest = np.unique(split.y, return_counts=True)[1].max()
        smaller = [0, *options.rows[:-1]]
        for n_rows, n_before in zip(options.rows, smaller, strict=True):
            # All rows were learned at the number before.
            if n_before >= largest:
                continue
            for seed in options.seeds:
                rows = drawn_rows(split.y, n_rows, seed)
                X, y = split.X[rows], split.y[rows]
                for title, classify in CLASSIFIERS.items():
                    predicted = classify(X, y, split.X_test, settings, seed)
                    accuracy = float(np.mean(predicted == split.y_test))
                    record = {"set": name, "rows": n_rows, "seed": seed, "classifier": title}
                    records.append({**record, "accuracy": accuracy})
    return records


def report(records, options, environment):
    """Return the mean accuracies and their deviations in Markdown, a row per set and classifier."""
    clf = IncrementalDiscriminantAnalysis(**read_settings(options.settings))
    notes = [
        "accuracy in percent: mean and standard deviation over the draws of the training rows, "
        f"seeds {', '.join(map(str, options.seeds))}",
        f"IDA: {clf}, random_state is the seed",
        "CIFAR-100: 256 features of a ResNet; FPHA: 528 skeleton features, all its 11 to 17 rows "
        "a class in the column of 20 rows; digits: 64 pixels",
    ]
    rows = []
    for name in options.sets:
        for classifier in CLASSIFIERS:
            cells = [_cell(records, set=name, classifier=classifier, rows=n) for n in options.rows]
            rows.append([SETS[name], classifier, *cells])
    columns = ["set", "classifier", *(f"{n} a class" for n in options.rows)]
    return page("Rows per class", environment, notes, table(columns, rows))


def _cell(records, **keys):
    """Return mean and deviation of the accuracies of the records with these values."""
    accuracies = []
    for record in records:
        if all(record[name] == value for name, value in keys.items()):
            accuracies.append(100.0 * record["accuracy"])
    if not accuracies:
        return "-"
    return f"{np.mean(accuracies):.1f} ± {np.std(accuracies):.1f}"


def read_options(arguments):
    """Parse the command line."""
    parser = command_line(__doc__, quick="the digits, few rows", data=True)
    add = parser.add_argument
    add("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    add("--rows", nargs="+", type=int, default=[1, 2, 5, 20, 100], help="ascending")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    add("--settings", default="", help="of IDA, such as shared_band_size=0")
    options = parser.parse_args(arguments)
    if options.quick:
        parser.set_defaults(sets=["digits"], rows=[1, 2], seeds=[0, 1])
        options = parser.parse_args(arguments)
    return options


def main(arguments=None):
    """Measure, and print the table."""
    options = read_options(arguments)
    records, environment = run_limited(run, options)
    publish(report(records, options, environment), records, options.out)


if __name__ == "__main__":
    main()
