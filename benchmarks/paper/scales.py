"""Measure what Algorithm 2 changes on digits, raw, divided by 16 and standardised.

    python -m benchmarks.paper.scales --threads 1 --out scales.md scales.csv
    python -m benchmarks.paper.scales --settings "" "p=.99" --hold-out
    python -m benchmarks.paper.scales --quick

The model is `FFNBClassifier.as_published`, one class per task, in closed form and after Algorithm
2. A split is a seed of `train_test_split`; with --hold-out, a part of its training rows is the test
set, for choices. A setting adds rows.
"""

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks.lib.clock import processor_timed
from benchmarks.lib.data import first_of_each
from benchmarks.lib.report import command_line, page, read_settings, run_and_publish, table
from benchmarks.paper.runs import IDLE
from ffnb_sklearn import FFNBClassifier, class_incremental_tasks

SEEDS = (0, 1)
HELD_OUT = 0.3
QUICK_ROWS = 10


def rows_of(seed, options):
    """Return training and test rows of a split, and their labels."""
    X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=seed)
    if options.hold_out:
        X, X_test, y, y_test = train_test_split(
            X, y, stratify=y, test_size=HELD_OUT, random_state=100 + seed
        )
    if options.quick:
        some = first_of_each(y, QUICK_ROWS)
        X, y = X[some], y[some]
    return X, X_test, y, y_test


def scaled(X, X_test):
    """Return the training and test rows on each scale, by name."""
    scaler = StandardScaler().fit(X)
    return {
        "raw": (X, X_test),
        "/ 16": (X / 16, X_test / 16),
        "standardised": (scaler.transform(X), scaler.transform(X_test)),
    }


def learned(X, y, parameters):
    """Return the published model after the classes one by one."""
    model = FFNBClassifier.as_published(random_state=0, **parameters)
    with warnings.catch_warnings():
        # The closed form of some tasks leaves no loss, and closed forms have a rate in vain.
        warnings.filterwarnings("ignore", ".* has had no effect in a task")
        warnings.filterwarnings("ignore", IDLE)
        for task in class_incremental_tasks(y, classes_per_task=1):
            model.partial_fit(X[task], y[task])
    return model


def run(options):
    """Return a record per setting, split and scale."""
    records = []
    for setting in options.settings:
        parameters = read_settings(setting)
        if options.quick:
            parameters["bands__max_epochs"] = 2
        for seed in options.seeds:
            X, X_test, y, y_test = rows_of(seed, options)
            for scale, (rows, test_rows) in scaled(X, X_test).items():
                record = {"setting": setting, "seed": seed, "scale": scale}
                closed = {**parameters, "bands__max_epochs": 0}
                for mode, given in {"closed": closed, "trained": parameters}.items():
                    seconds, model = processor_timed(learned, rows, y, given)
                    record[mode] = 100.0 * np.mean(model.predict(test_rows) == y_test)
                    record[f"{mode}_s"] = seconds
                records.append(record)
    return records


def report(records, options, environment):
    """Return the page: the accuracies of each setting, and their differences."""
    columns = ["setting", "split", "scale", "closed form", "Algorithm 2", "difference", "seconds"]
    lines = []
    for record in records:
        change = record["trained"] - record["closed"]
        lines.append(
            [
                record["setting"] or "as_published()",
                record["seed"],
                record["scale"],
                f"{record['closed']:.1f}",
                f"{record['trained']:.1f}",
                f"{change:+.1f}",
                f"{record['closed_s']:.1f} / {record['trained_s']:.1f}",
            ]
        )
    notes = ["Accuracy in percent after the last class; seconds of the processor."]
    if options.hold_out:
        notes.append("The test rows are held-out training rows.")
    return page("Scale of the rows and Algorithm 2", environment, notes, table(columns, lines))


def main(arguments=None):
    """Run the benchmark, and write its files."""
    parser = command_line(__doc__, quick="few rows and epochs, to check the script")
    add = parser.add_argument
    add("--settings", nargs="+", default=[""], help='such as "p=.99,epsilon=.1"; "" is the default')
    add("--seeds", nargs="+", type=int, default=SEEDS, help="seeds of the splits")
    add("--hold-out", action="store_true", help="score held-out training rows")
    options = parser.parse_args(arguments)
    return run_and_publish(run, report, options)


if __name__ == "__main__":
    main()
