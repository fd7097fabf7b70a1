"""Time short and long work with as many threads as it is worth, beside all threads.

Both run in turns, first on the machine as it is, then beside as many busy processes as there are
cores.

    python benchmarks/threads.py --out threads.md threads.csv
    python benchmarks/threads.py --quick
"""

import multiprocessing
import os
from contextlib import contextmanager
from unittest import mock

import numpy as np
from _report import command_line, page, publish, run_limited, table
from _speed_clock import alternate, comparison, seconds_of
from first_prediction import gaussian_rows
from sklearn.datasets import load_digits

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core import device

# Classes, samples of each, features.
CASES = [(100, 30, 50)]


def problems(quick):
    """Rows and labels by name."""
    named = {"digits": load_digits(return_X_y=True)}
    if quick:
        X, y = named["digits"]
        return {"digits": (X[:200], y[:200])}
    return named | {" x ".join(map(str, case)): gaussian_rows(*case) for case in CASES}


@contextmanager
def busy_processes(count):
    """Keep some processes busy within a block."""
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_never_rest, daemon=True) for _ in range(count)]
    for one in others:
        one.start()
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.join()


def _never_rest():
    while True:
        pass


def stream_and_predict(X, y):
    """Seconds of learning two classes per task, of the first prediction, and of a later one."""
    clf, rows = FFNBClassifier(random_state=0), X[:1000]
    labels = np.unique(y)
    tasks = [np.isin(y, labels[start : start + 2]) for start in range(0, len(labels), 2)]

    def learn():
        for task in tasks:
            clf.partial_fit(X[task], y[task])

    steps = {"learning": learn, "first prediction": lambda: clf.predict(rows)}
    steps["later prediction"] = lambda: clf.predict(rows)
    return {name: seconds_of(step) for name, step in steps.items()}


def named_rounds(prefix, X, y, operations_per_thread):
    """Return what `alternate` calls."""

    def one_round():
        with mock.patch.object(device, "OPERATIONS_PER_THREAD", operations_per_thread):
            return {(prefix, name): one for name, one in stream_and_predict(X, y).items()}

    return one_round


def run(options):
    """Records of all cases, steps and loads."""
    records, cores = [], os.cpu_count() or 1
    for n_busy in (0, cores):
        with busy_processes(n_busy):
            for case, (X, y) in problems(options.quick).items():
                worth = device.OPERATIONS_PER_THREAD
                candidates = {
                    "by work": named_rounds("by work", X, y, worth),
                    "all": named_rounds("all", X, y, 1.0),
                }
                seconds = alternate(candidates, 1 if options.quick else options.repeats)
                for step in ("learning", "first prediction", "later prediction"):
                    compared = comparison(seconds["by work", step], seconds["all", step])
                    records.append({"case": case, "step": step, "busy": n_busy, **compared})
    return records


def report(records, environment):
    """The table as Markdown."""
    columns = ["classes x samples x features", "step", "busy processes", "all threads"]
    columns += ["by work", "by work / all", "least, largest"]
    rows = [
        [
            one["case"],
            one["step"],
            one["busy"],
            f"{one['reference_s']:.3f} s",
            f"{one['seconds']:.3f} s",
            f"{one['ratio']:.2f}",
            f"{one['ratio_min']:.2f}, {one['ratio_max']:.2f}",
        ]
        for one in records
    ]
    notes = [
        "defaults, random_state=0, two classes per task, data of seed 0; predictions of up to 1000 "
        "rows; both ways in turns, medians of the rounds",
        "by work: a thread for each "
        f"{device.OPERATIONS_PER_THREAD:.0e} operations; all: as many threads as torch has",
    ]
    return page("Threads by the size of the work", environment, notes, table(columns, rows))


def main(arguments=None):
    """Run the cases, and print their ratios."""
    parser = command_line(__doc__, quick="few digits, one repeat")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args(arguments)
    records, environment = run_limited(run, options)
    publish(report(records, environment), records, options.out)


if __name__ == "__main__":
    main()
