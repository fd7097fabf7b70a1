"""Measure trained bands alone and beside random neurons, on six sets of features.

python -m benchmarks.settings.bands --out bands.md bands.csv
python -m benchmarks.settings.bands --hold-out --shared 0 50 --bands 0 3
"""

from functools import partial

import numpy as np

from benchmarks.heads.compare import measure
from benchmarks.heads.methods import Context, Method
from benchmarks.lib.data import Split, first_of_each
from benchmarks.lib.report import command_line, page, run_and_publish, table
from benchmarks.lib.sets import Problem, hold_out, load_group
from ffnb_sklearn import FFNBClassifier

# Sets of the group `features`, and new classes per task.
SETS = {"sbu": 1, "fpha": 5, "digits": 1, "cifar": 1, "satimage": 1, "segment": 1}
N_CIFAR, N_ROWS = 40, 100


def problems(folder):
    """Return the sets by name, CIFAR-100 with its first classes and some rows of each."""
    known = load_group("features", folder, folder)
    found = {name: Problem(name, "", known[name].splits, n) for name, n in SETS.items()}
    found["cifar"] = Problem("cifar", "", partial(_thinned, known["cifar"]), SETS["cifar"])
    return found


def _thinned(problem, seed):
    (split,) = problem.splits(seed)
    learned, scored = split.y < N_CIFAR, split.y_test < N_CIFAR
    rows = np.flatnonzero(learned)[first_of_each(split.y[learned], N_ROWS)]
    parts = split.X[rows], split.y[rows], split.X_test[scored], split.y_test[scored]
    return [Split("official", *parts)]


def build(shared, band_size, context):
    """Return the classifier of a cell."""
    return FFNBClassifier(shared_band_size=shared, band_size=band_size, random_state=context.seed)


def run(options):
    """Return the accuracies of all cells, sets and splits."""
    records = []
    for name, problem in problems(options.data).items():
        for split in problem.splits(0):
            rows = hold_out(split, 0) if options.hold_out else split
            for shared in options.shared:
                for band_size in options.bands:
                    method = Method("", partial(build, shared, band_size), "")
                    found = measure(method, problem, rows, Context(0))
                    keys = {"set": name, "split": rows.name, "shared": shared, "bands": band_size}
                    figures = {one: found[one] for one in ("accuracy", "learning_s")}
                    records.append(keys | figures)
    return records


def report(records, options, environment):
    """Return the means over the splits of each set, and over the sets, as Markdown."""
    rows = []
    for shared in options.shared:
        for band_size in options.bands:
            here = [one for one in records if (one["shared"], one["bands"]) == (shared, band_size)]
            means = [
                np.mean([one["accuracy"] for one in here if one["set"] == name]) for name in SETS
            ]
            seconds = np.exp(np.mean([np.log(one["learning_s"]) for one in here]))
            accuracies = [f"{one:.2f}" for one in (np.mean(means), *means)]
            rows.append([shared, band_size, *accuracies, f"{seconds:.3f}"])
    notes = [
        "accuracy in percent after the last task, mean over the splits of a set"
        + (", on a quarter of the training rows" if options.hold_out else ""),
        "random: shared_band_size; trained: band_size; learning: geometric mean of all runs",
        f"cifar: the first {N_CIFAR} classes, {N_ROWS} training rows of each; fpha: tasks of five "
        "classes; all other sets: tasks of a class; class order: sorted",
    ]
    columns = ["random", "trained", "mean", *SETS, "learning s"]
    return page("Trained bands and random neurons", environment, notes, table(columns, rows))


def main(arguments=None):
    """Measure, print the table, and write the files that are asked for."""
    parser = command_line(
        __doc__, quick="no random neurons, no or three trained neurons", data=True
    )
    add = parser.add_argument
    add("--shared", nargs="+", type=int, default=[0, 50, 500], help="random neurons")
    add("--bands", nargs="+", type=int, default=[0, 1, 3, 10], help="trained neurons per class")
    add("--hold-out", action="store_true", help="score a quarter of the training rows, no test row")
    options = parser.parse_args(arguments)
    if options.quick:
        options.shared, options.bands = [0], [0, 3]
    run_and_publish(run, report, options)


if __name__ == "__main__":
    main()
