"""Measure what a service waits for after one more sample: learning, solving, answering.

A copy learns one row, is solved, and answers the next row, as the page "In a web service" shows.
Every 20th time, its labels of 500 other rows are compared with those of a model solved anew.
Settings with a rate measure an `OpenSetClassifier` of this rate.

    python -m benchmarks.speed.service --threads 1 --out service.md service.csv
    python -m benchmarks.speed.service --settings refresh=.1,rank=32 --cases digits
"""

import copy
import pickle
import time
from functools import partial

import numpy as np
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

from benchmarks.lib.report import command_line, page, read_settings, run_and_publish, table
from benchmarks.speed.first_prediction import gaussian_rows
from ffnb_sklearn import IncrementalDiscriminantAnalysis, OpenSetClassifier

# Number of rows that are only compared.
N_COMPARED = 500

STEPS = ["learn", "solve", "answer"]

# Keys of a run; all other values of a record are measured.
KEYS = {"case", "settings", "seed"}


def shuffled(load, seed):
    """Return the rows of a set in random order."""
    X, y = load()
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order]


CASES = {
    "digits": partial(load_digits, return_X_y=True),
    "50 x 60 x 256": partial(gaussian_rows, 50, 60, 256),
    "100 x 60 x 384": partial(gaussian_rows, 100, 60, 384),
}


def seconds_of_naive_bayes(X, y, first, n_rows):
    """Return the median time in which scikit-learn's GaussianNB learns a row and answers one."""
    model = GaussianNB().partial_fit(X[:first], y[:first], classes=np.unique(y))
    seconds = []
    for row in range(first, first + n_rows):
        start = time.perf_counter()
        model.partial_fit(X[row : row + 1], y[row : row + 1])
        model.predict(X[row + 1 : row + 2])
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def estimator(seed, *, rate=None, **parameters):
    """Return a classifier; with a rate it predicts unknown samples too."""
    classifier = IncrementalDiscriminantAnalysis(random_state=seed, **parameters)
    if rate is None:
        return classifier
    return OpenSetClassifier(classifier, rate=rate)


def stream(X, y, first, n_rows, parameters, seed):
    """Return the median times of the steps, and the shares of equal and of right labels."""
    model = estimator(seed, **parameters)
    model.partial_fit(X[:first], y[:first]).solve()
    seconds = {name: [] for name in STEPS}
    equal, right, right_anew = [], [], []
    compared, labels = X[-N_COMPARED:], y[-N_COMPARED:]
    for row in range(first, first + n_rows):
        times = [time.perf_counter()]
        new = copy.deepcopy(model).partial_fit(X[row : row + 1], y[row : row + 1])
        times.append(time.perf_counter())
        new.solve()
        times.append(time.perf_counter())
        new.predict(X[row + 1 : row + 2])
        times.append(time.perf_counter())
        for name, value in zip(STEPS, np.diff(times), strict=True):
            seconds[name].append(value)
        model = new
        if (row - first) % 20 == 0:
            # Pickles hold no solution.
            anew = pickle.loads(pickle.dumps(model)).predict(compared)
            answers = model.predict(compared)
            equal.append(np.mean(answers == anew))
            right.append(np.mean(answers == labels))
            right_anew.append(np.mean(anew == labels))
    shares = {"equal": equal, "right": right, "right anew": right_anew}
    found = {name: float(np.median(values)) for name, values in seconds.items()}
    found["mean"] = float(np.mean(np.sum([seconds[name] for name in STEPS], axis=0)))
    return found | {name: float(np.mean(values)) for name, values in shares.items()}


def run(options):
    """Return the records of all cases, settings and seeds."""
    records = []
    for case in options.cases:
        for seed in options.seeds:
            X, y = shuffled(CASES[case], seed)
            first = len(y) - N_COMPARED - options.rows - 1
            naive = seconds_of_naive_bayes(X, y, first, options.rows)
            for parameters in options.settings:
                found = stream(X, y, first, options.rows, parameters, seed)
                name = ", ".join(f"{key}={value}" for key, value in parameters.items())
                keys = {"case": case, "settings": name or "default", "seed": seed}
                records.append(keys | found | {"naive bayes": naive})
    return records


def report(records, options, environment):
    """Return the page as Markdown, medians over the seeds."""
    groups = {}
    for record in records:
        groups.setdefault((record["case"], record["settings"]), []).append(record)
    rows = []
    for (case, name), runs in groups.items():
        median = {key: np.median([one[key] for one in runs]) for key in runs[0] if key not in KEYS}
        total = sum(median[step] for step in STEPS)
        times = [f"{1e3 * median[step]:.1f}" for step in STEPS]
        rows.append(
            [case, name, *times, f"{1e3 * median['mean']:.1f}"]
            + [f"{total / median['naive bayes']:.1f}"]
            + [f"{100 * median[key]:.1f}" for key in ("equal", "right", "right anew")]
        )
    notes = [
        f"seeds: {', '.join(map(str, options.seeds))}, which order the rows; {options.rows} rows "
        f"are learned one by one after all others but {N_COMPARED}, which are compared",
        "times: medians over the rows and seeds; mean: of the three steps together, with the full "
        "solutions in between; GaussianNB: scikit-learn's, learning a row and answering one",
        "50 x 60 x 256: overlapping Gaussian classes x rows of each x columns",
        "rate: an OpenSetClassifier, whose labels of unknown rows count as wrong",
    ]
    heads = ["set", "settings", *(f"{step}, ms" for step in STEPS), "mean, ms"]
    heads += ["times GaussianNB", "equal labels %", "right %", "right, solved anew %"]
    return page("After one more sample", environment, notes, table(heads, rows))


DEFAULTS = [
    "",
    "refresh=.1",
    "refresh=.1,novelty=True",
    "refresh=.1,rate=.05",
    "refresh=.1,rank=32",
    "refresh=.1,shared_band_size=100",
]


def main(arguments=None):
    """Run the cases, and print their times."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    defaults = [read_settings(text) for text in DEFAULTS]
    add("--settings", nargs="+", type=read_settings, default=defaults)
    add("--rows", type=int, default=200, help="rows that are learned one by one")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    run_and_publish(run, report, parser.parse_args(arguments))


if __name__ == "__main__":
    main()
