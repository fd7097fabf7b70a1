"""Measure what trained bands change: `FFNBClassifier` beside `IncrementalDiscriminantAnalysis`.

Accuracy after the last task, labels that change if the classes arrive in another order, and the
time of learning, on six sets of features and on public tables. A gamma or a setting adds a row.

    python -m benchmarks.settings.bands --tables FOLDER --threads 1 --out bands.md bands.csv
    python -m benchmarks.settings.bands --tables FOLDER --hold-out --gammas .1 1 10 100
    python -m benchmarks.settings.bands --groups features --settings "band_size=1, p=0.9"
"""

import sys
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import balanced_accuracy_score

from benchmarks.heads.compare import tasks_of
from benchmarks.heads.methods import METHODS, Context, setting
from benchmarks.lib.clock import processor_timed
from benchmarks.lib.data import Split, first_of_each
from benchmarks.lib.report import command_line, page, run_and_publish, table
from benchmarks.lib.sets import Problem, hold_out, load_group

# Sets of the group `features`, and new classes per task.
SETS = {"sbu": 1, "fpha": 5, "digits": 1, "cifar": 1, "satimage": 1, "segment": 1}
N_CIFAR, N_ROWS = 40, 100

# The last two are files of --tables; more: tables of unequal classes.
GROUPS = ("features", "public", "more")

# The classifier without bands, with which all others are compared.
EXACT = "ida"


def problems_of(group, options):
    """Return the sets of a group by name."""
    known = load_group(group, options.data, options.tables)
    if group != "features":
        return known
    found = {name: Problem(name, "", known[name].splits, n) for name, n in SETS.items()}
    found["cifar"] = Problem("cifar", "", partial(_thinned, known["cifar"]), SETS["cifar"])
    if options.quick:
        return {"digits": found["digits"]}
    return found


def _thinned(problem, seed):
    """Return CIFAR-100 with its first classes and some rows of each."""
    (split,) = problem.splits(seed)
    learned, scored = split.y < N_CIFAR, split.y_test < N_CIFAR
    rows = np.flatnonzero(learned)[first_of_each(split.y[learned], N_ROWS)]
    parts = split.X[rows], split.y[rows], split.X_test[scored], split.y_test[scored]
    return [Split("official", *parts)]


def learn_and_predict(method, problem, split, context):
    """Learn the tasks of a split; return the seconds of the processor and the predicted labels."""
    estimator = method.build(context)
    seconds = 0.0
    for task in tasks_of(problem, split.y, context):
        seconds += processor_timed(estimator.partial_fit, split.X[task], split.y[task])[0]
    return seconds, estimator.predict(split.X_test)


def measure(method, problem, split, orders):
    """Return the figures of a classifier for each order of the classes."""
    figures = []
    labels_of_sorted = None
    for order in ("sorted", *orders):
        context = Context(0, class_order=order)
        seconds, labels = learn_and_predict(method, problem, split, context)
        changed = np.nan
        if labels_of_sorted is None:
            labels_of_sorted = labels
        else:
            changed = 100.0 * np.mean(labels != labels_of_sorted)
        figures.append(
            {
                "order": order,
                "accuracy": 100.0 * np.mean(labels == split.y_test),
                "balanced": 100.0 * balanced_accuracy_score(split.y_test, labels),
                "changed": changed,
                "learning_s": seconds,
            }
        )
    return figures


def run(options):
    """Return the figures of all classifiers, sets, splits and orders."""
    records = []
    for group in options.groups:
        for problem in problems_of(group, options).values():
            for split in problem.splits(0):
                rows = hold_out(split, 0) if options.hold_out else split
                for name, method in options.methods.items():
                    keys = {"group": group, "set": problem.name, "split": rows.name, "method": name}
                    for figures in measure(method, problem, rows, options.orders):
                        records.append(keys | figures)
                        print(*records[-1].values(), sep=", ", file=sys.stderr)
    return records


def means_by_set(records, method):
    """Return the mean figures of each set over its splits and orders."""
    found = {}
    for one in records:
        if one["method"] == method:
            figures = [one[key] for key in ("accuracy", "balanced", "changed", "learning_s")]
            found.setdefault((one["group"], one["set"]), []).append(figures)
    return {name: np.nanmean(rows, axis=0) for name, rows in found.items()}


def summary(records, options):
    """Return the rows of the means over the sets of each group, and over all sets."""
    rows = []
    exact = means_by_set(records, EXACT)
    groups = list(options.groups)
    if len(groups) > 1:
        groups.append("all")
    for group in groups:
        names = [name for name in exact if group in (name[0], "all")]
        for method in options.methods:
            means = means_by_set(records, method)
            accuracy, balanced, changed, _ = np.mean([means[name] for name in names], axis=0)
            ratios = [means[name][-1] / exact[name][-1] for name in names]
            ratio = np.exp(np.mean(np.log(ratios)))
            cells = [f"{accuracy:.2f}", f"{balanced:.2f}", f"{changed:.2f}", f"{ratio:.2f}"]
            rows.append([group, len(names), options.methods[method].label, *cells])
    return rows


def report(records, options, environment):
    """Return the means over the sets, and the accuracies of every set, as Markdown."""
    notes = [
        "accuracy and balanced accuracy in percent after the last task"
        + (", on a quarter of the training rows" if options.hold_out else ""),
        f"class orders: sorted, and random by the seeds {', '.join(map(str, options.orders))}; "
        "figures are means over the orders; changed: percent of the test rows whose label differs "
        "from that of the sorted order",
        "times IDA: seconds of the processor to learn all tasks, divided by those of IDA, the "
        "geometric mean over the sets; random_state=0",
        f"cifar: the first {N_CIFAR} classes, {N_ROWS} training rows of each; fpha: tasks of five "
        "classes; all other sets: tasks of a class",
    ]
    columns = ["group", "sets", "classifier", "accuracy %", "balanced %", "changed %", "times IDA"]
    by_method = {name: means_by_set(records, name) for name in options.methods}
    rows = []
    for name in by_method[EXACT]:
        rows.append([*name, *(f"{means[name][1]:.2f}" for means in by_method.values())])
    labels = [method.label for method in options.methods.values()]
    parts = [
        table(columns, summary(records, options)),
        ["## Balanced accuracy of every set"],
        table(["group", "set", *labels], rows),
    ]
    return page("Trained bands beside the exact classifier", environment, notes, *parts)


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, quick="digits alone", data=True)
    add = parser.add_argument
    add("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    add("--tables", type=Path, help="folder of GROUP.npz files; default: that of --data")
    add("--gammas", nargs="+", type=float, default=[], help="FFNB with values of bands__gamma")
    add("--settings", nargs="+", default=[], help='IDA or FFNB with other values: "band_size=1"')
    add("--orders", nargs="+", type=int, default=[0], help="seeds of random orders of the classes")
    add("--hold-out", action="store_true", help="score a quarter of the training rows, no test row")
    options = parser.parse_args(arguments)
    options.tables = options.tables or options.data
    if options.quick:
        options.groups = ["features"]
    settings = [*(f"bands__gamma={gamma}" for gamma in options.gammas), *options.settings]
    options.methods = {name: METHODS[name] for name in (EXACT, "ffnb")}
    options.methods |= {text: setting(text) for text in settings}
    return options


def main(arguments=None):
    """Measure, print the tables, and write the files that are asked for."""
    run_and_publish(run, report, parse(arguments))


if __name__ == "__main__":
    main()
