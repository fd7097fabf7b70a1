"""Train other heads on rows drawn by `sample`, and on real rows.

The drawn rows come from a classifier that has learned all training rows. The real rows are as many
of them, drawn by the seed; a class with fewer rows gives all its rows. Each head standardises the
columns by the rows that it is trained on, and is otherwise at scikit-learn's defaults.

    python -m benchmarks.heads.drawn_rows --threads 1 --out drawn_rows.md drawn_rows.csv
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.heads.rows_per_class import drawn_rows
from benchmarks.lib.report import command_line, page, run_and_publish, table
from benchmarks.lib.sets import load_group
from ffnb_sklearn import IncrementalDiscriminantAnalysis

SETS = {"cifar": "CIFAR-100", "digits": "digits", "sbu": "SBU"}
HEADS = {
    "logistic regression": lambda: LogisticRegression(max_iter=1000),
    "SVC": SVC,
}
COLUMNS = ["set", "head", "real rows %", "drawn rows %", "rows a class, real", "drawn"]


def accuracy_of(head, X, y, split):
    """Return the accuracy in percent of a head, trained on some rows, on the test rows."""
    pipeline = make_pipeline(StandardScaler(), HEADS[head]())
    pipeline.fit(X, y)
    return 100.0 * pipeline.score(split.X_test, split.y_test)


def compare(split, n_rows, seed):
    """Return the records of one split: the classifier, and each head on both kinds of rows."""
    clf = IncrementalDiscriminantAnalysis(random_state=seed).fit(split.X, split.y)
    accuracy = 100.0 * clf.score(split.X_test, split.y_test)
    n_classes = len(clf.classes_)
    per_class = len(split.y) / n_classes
    records = [{"head": "IDA", "rows": "real", "per class": per_class, "accuracy": accuracy}]
    chosen = drawn_rows(split.y, n_rows, seed)
    rows = {
        "real": (split.X[chosen], split.y[chosen]),
        "drawn": clf.sample(n_rows * n_classes),
    }
    for head in HEADS:
        for kind, (X, y) in rows.items():
            record = {"head": head, "rows": kind, "per class": len(y) / n_classes}
            records.append({**record, "accuracy": accuracy_of(head, X, y, split)})
    return records


def run(options):
    """Return the records of all sets, splits and seeds."""
    problems = load_group("features", options.data, options.data)
    records = []
    for name in options.sets:
        for split in problems[name].splits(0):
            for seed in options.seeds:
                keys = {"set": name, "split": split.name, "seed": seed}
                found = compare(split, options.rows, seed)
                records += [keys | record for record in found]
    return records


def report(records, options, environment):
    """Return the page as Markdown: means over the splits and seeds."""
    lines = []
    for name in options.sets:
        for head in ["IDA", *HEADS]:
            lines.append([SETS[name], head, *_cells(records, name, head)])
    notes = [
        f"seeds: {', '.join(map(str, options.seeds))}, of the random neurons and of the rows",
        "accuracy on the test rows, mean and standard deviation over the splits and seeds",
        "IDA: IncrementalDiscriminantAnalysis(), random_state is the seed; it learns all training "
        "rows, and the drawn rows come from it",
        "logistic regression, SVC: scikit-learn's defaults (max_iter=1000), columns standardised "
        "by the rows that train them",
        "CIFAR-100: 256 features of a ResNet; digits: 64 pixels; SBU: 720 skeleton features, five "
        "folds",
    ]
    return page("Heads trained on drawn rows", environment, notes, table(COLUMNS, lines))


def _cells(records, name, head):
    """Return the cells of a line: accuracies and numbers of rows, of real and drawn rows."""
    accuracies = []
    numbers = []
    for kind in ("real", "drawn"):
        keys = (name, head, kind)
        runs = [one for one in records if (one["set"], one["head"], one["rows"]) == keys]
        if not runs:
            accuracies.append("-")
            numbers.append("-")
            continue
        values = [one["accuracy"] for one in runs]
        accuracies.append(f"{np.mean(values):.1f} ± {np.std(values):.1f}")
        numbers.append(f"{np.mean([one['per class'] for one in runs]):.0f}")
    return accuracies + numbers


def main(arguments=None):
    """Run the comparison, and print its table."""
    parser = command_line(__doc__, data=True)
    add = parser.add_argument
    add("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    add("--rows", type=int, default=200, help="rows of a class")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    run_and_publish(run, report, parser.parse_args(arguments))


if __name__ == "__main__":
    main()
