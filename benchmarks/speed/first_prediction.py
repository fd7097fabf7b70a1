"""Measure what a user waits for and stores: learning, the first prediction, and the sizes.

Classes arrive in ten tasks, or two per task if there are fewer than twenty. Each case runs on the
machine as it is, and beside busy processes; each of several settings is measured. A setting that
names a parameter of trained bands is one of `FFNBClassifier`, whose default is band_size=3; all
other settings are of `IncrementalDiscriminantAnalysis`.
Sizes are those of the file that `save` writes, and of the pickle before and after a prediction.

    python -m benchmarks.speed.first_prediction --threads 1 --out first.md first.csv
    python -m benchmarks.speed.first_prediction --busy 0 1 2 --repeats 10 --cases digits
    python -m benchmarks.speed.first_prediction --settings "" band_size=3 --cases "100 x 100 x 1280"
    python -m benchmarks.speed.first_prediction --quick
"""

import multiprocessing
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from benchmarks.heads.methods import our_classifier
from benchmarks.lib.clock import alternate, seconds_of, state_megabytes
from benchmarks.lib.report import command_line, page, read_settings, run_and_publish, table
from benchmarks.lib.sets import load_group
from ffnb_sklearn import class_incremental_tasks, save

STEPS = ["learning", "first prediction", "later prediction", "after one more sample"]
SIZES = ["file MB", "pickle MB", "pickle after MB"]


def gaussian_rows(n_classes, n, d):
    """Return rows of overlapping Gaussian classes, and their labels."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), n)
    return rng.normal(size=(n_classes, d))[y] + rng.normal(size=(len(y), d)), y


def cifar(options):
    """Return the features of CIFAR-100."""
    split = load_group("features", options.data, options.data)["cifar"].splits(0)[0]
    return split.X, split.y


# Classes, samples of each, inputs.
SHAPES = [
    (10, 100, 20),
    (100, 50, 384),
    (200, 50, 384),
    (50, 140, 384),
    (4, 10, 10_000),
    (100, 100, 1280),
    (20, 50, 2048),
    (1000, 10, 256),
]
CASES = {
    "digits": lambda options: load_digits(return_X_y=True),
    **{
        "{} x {} x {}".format(*case): lambda options, case=case: gaussian_rows(*case)
        for case in SHAPES
    },
    "CIFAR-100": cifar,
}


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


def one_round(X, y, parameters):
    """Return the seconds of each step, and the sizes in megabytes."""
    _, clf = our_classifier(parameters)
    clf.set_params(random_state=0)
    n_classes = len(np.unique(y))
    tasks = class_incremental_tasks(y, classes_per_task=max(2, n_classes // 10))

    def learn():
        for task in tasks:
            clf.partial_fit(X[task], y[task])

    found = {"learning": seconds_of(learn), "pickle MB": state_megabytes(clf)}
    found["first prediction"] = seconds_of(clf.predict, X[:1])
    found["later prediction"] = seconds_of(clf.predict, X[:1000])
    found["pickle after MB"] = state_megabytes(clf)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.ffnb"
        save(clf, path)
        found["file MB"] = path.stat().st_size / 1e6
    clf.partial_fit(X[:1], y[:1])
    found["after one more sample"] = seconds_of(clf.predict, X[:1])
    return found


def run(options):
    """Return the medians of all cases and loads."""
    records = []
    for name in options.cases:
        X, y = CASES[name](options)
        if options.quick:
            X, y = X[:200], y[:200]
        for n_busy in options.busy:
            for settings in options.settings:
                measure = partial(one_round, X, y, settings)
                with busy_processes(n_busy):
                    rounds = alternate({"": measure}, options.repeats)
                medians = {key: float(np.median(rounds[key])) for key in (*STEPS, *SIZES)}
                worst = float(rounds["first prediction"].max())
                label, _ = our_classifier(settings)
                record = {"case": name, "settings": label, "busy": n_busy}
                records.append({**record, **medians, "slowest first": worst})
    return records


def report(records, options, environment):
    """Return the table as Markdown."""
    notes = [
        "random_state=0; ten tasks, or two classes per task if there are fewer than twenty; data "
        f"of seed 0; class order: sorted; medians of {options.repeats} rounds",
        "first prediction: of one row; later prediction: of up to 1000 rows",
    ]
    columns = ["case", "settings", "busy", *STEPS, "slowest first", *SIZES]
    rows = [
        [
            record["case"],
            record["settings"],
            record["busy"],
            *(f"{record[name]:.3g}" for name in columns[3:]),
        ]
        for record in records
    ]
    heads = ["classes x samples x inputs", "classifier", "busy processes"]
    heads += [f"{name}, s" for name in columns[3:8]] + columns[8:]
    return page("The first prediction after learning", environment, notes, table(heads, rows))


def main(arguments=None):
    """Run the cases, and print their seconds and sizes."""
    parser = command_line(__doc__, quick="few digits, one repeat", data=True)
    add = parser.add_argument
    add("--cases", nargs="+", choices=list(CASES), default=list(CASES)[:-1])
    add("--busy", nargs="+", type=int, default=[0], help="numbers of busy processes beside")
    settings = [{}, {"band_size": 3}]
    add("--settings", nargs="+", type=read_settings, default=settings, help="such as band_size=1")
    add("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    if options.quick:
        options.cases, options.repeats = ["digits"], 1
    run_and_publish(run, report, options)


if __name__ == "__main__":
    main()
