"""Measure the seconds of a task and of predictions, beside other heads and on several devices.

A case is a task of new Gaussian classes after others. Every round starts from the same learned
state, and all methods and devices take turns; the seconds are medians, and a ratio is that to the
first method and device. On a GPU, the agreement with the processor is checked as well.

    python -m benchmarks.speed.speed --threads 1 --out speed.md speed.csv
    python -m benchmarks.speed.speed --methods ffnb ffnb-bare ffnb-ovo --devices cpu cuda
    python -m benchmarks.speed.speed --quick
"""

import pickle
from dataclasses import dataclass

import numpy as np

from benchmarks.heads.methods import METHODS, Context
from benchmarks.lib.clock import alternate, seconds_of
from benchmarks.lib.report import command_line, environment_lines, limited, page, publish, table

STEPS = ["task", "first prediction", "later prediction", "one row"]


@dataclass(frozen=True)
class Case:
    """A task of `n_samples` rows with `new` classes after `seen` others, as large per class.

    A prediction has `n_test` rows of `n_inputs` columns.
    """

    n_samples: int = 2500
    n_inputs: int = 512
    seen: int = 100
    new: int = 5
    n_test: int = 2000

    def __str__(self):
        return f"n={self.n_samples} d={self.n_inputs} C={self.seen}+{self.new}"


CASES = [Case(), Case(n_samples=250, seen=20), Case(n_inputs=128), Case(n_inputs=1024, seen=50)]
QUICK_CASES = [Case(n_samples=60, n_inputs=24, seen=6, new=2, n_test=80)]


def gaussian_classes(n_classes, n_features, per_class, *, first=0, n_axes=16):
    """Return rows of Gaussian classes with axes of their own, and their labels.

    A class is the same whichever classes are drawn with it. It spreads along `n_axes` axes beyond
    its spherical noise. The number of the first class is `first`.
    """
    blocks = []
    for label in range(first, first + n_classes):
        random = np.random.default_rng([0, label])
        scales = np.geomspace(1.0, 0.1, n_axes)[:, None]
        axes = random.standard_normal((n_axes, n_features)) * scales
        rows = random.standard_normal((per_class, n_features))
        rows += random.standard_normal((per_class, n_axes)) @ axes
        blocks.append(rows + 0.3 * random.standard_normal(n_features))
    return np.concatenate(blocks), np.repeat(np.arange(first, first + n_classes), per_class)


class Task:
    """The task of a case, which all methods learn from their state after the tasks before it."""

    def __init__(self, case):
        per_class = case.n_samples // case.new
        self.before = gaussian_classes(case.seen, case.n_inputs, per_class)
        self.new = gaussian_classes(case.new, case.n_inputs, per_class, first=case.seen)
        self.X_test = np.random.default_rng(1).standard_normal((case.n_test, case.n_inputs))

    def learned(self, method, device):
        """Return the pickled state of a method before the task."""
        estimator = METHODS[method].build(Context(device=device)).partial_fit(*self.before)
        return pickle.dumps(estimator, protocol=5)

    def seconds(self, state):
        """Return the seconds of each step."""
        estimator = pickle.loads(state)
        calls = [
            (estimator.partial_fit, *self.new),
            (estimator.predict, self.X_test[:1]),
            (estimator.predict, self.X_test),
            (estimator.predict, self.X_test[:1]),
        ]
        return [seconds_of(*call) for call in calls]

    def predictions(self, state):
        """Return the labels after the task."""
        return pickle.loads(state).partial_fit(*self.new).predict(self.X_test)


def records_of(case, options):
    """Return a record per method, device and step."""
    task = Task(case)
    pairs = [
        (method, device)
        for method in options.methods
        for device in (options.devices if method.startswith("ffnb") else ["cpu"])
    ]
    states = {pair: task.learned(*pair) for pair in pairs}
    labels = {pair: task.predictions(states[pair]) for pair in pairs}

    def candidate(pair):
        return lambda: {
            (pair, step): one for step, one in zip(STEPS, task.seconds(states[pair]), strict=True)
        }

    seconds = alternate({pair: candidate(pair) for pair in pairs}, options.repeats)
    medians = {key: float(np.median(values)) for key, values in seconds.items()}
    return [
        {
            "case": str(case),
            "method": pair[0],
            "device": pair[1],
            "step": step,
            "seconds": medians[pair, step],
            "ratio": medians[pair, step] / medians[pairs[0], step],
            "state_mb": len(states[pair]) / 1e6,
            "agreement": float(np.mean(labels[pair] == labels[pair[0], options.devices[0]]))
            if pair[0].startswith("ffnb")
            else 1.0,
        }
        for pair in pairs
        for step in STEPS
    ]


def report(records, options, environment):
    """Return the table as Markdown."""
    notes = [
        f"rounds: {options.repeats}, medians; a cell: seconds (ratio to the first row of the case)",
        "data: Gaussian classes, seed 0; random_state=0; RanPAC and KLDA with 2000 neurons",
        "agreement: share of the predictions that equal those of the first device",
    ]
    rows = {}
    for one in records:
        row = rows.setdefault((one["case"], one["method"], one["device"]), [])
        row.append(f"{one['seconds']:.3g} ({one['ratio']:.2f})")
    last = {(one["case"], one["method"], one["device"]): one for one in records}
    lines = [
        [
            case,
            METHODS[method].label,
            device,
            *cells,
            f"{last[case, method, device]['state_mb']:.3g}",
            f"{last[case, method, device]['agreement']:.4f}",
        ]
        for (case, method, device), cells in rows.items()
    ]
    columns = ["case", "method", "device", *STEPS, "state MB", "agreement"]
    return page("Speed", environment, notes, table(columns, lines))


def main(arguments=None):
    """Measure the cases, print the table, and write the files."""
    parser = command_line(__doc__, quick="a small case, in seconds")
    add = parser.add_argument
    incremental = [name for name, one in METHODS.items() if not one.joint]
    methods = ["ffnb", "ffnb-2000", "ffnb-bare", "ffnb-ovo", "slda", "fecam", "ranpac", "klda"]
    add("--methods", nargs="+", choices=incremental, default=methods)
    add("--devices", nargs="+", default=["cpu"], help="of FFNB; the others use the processor")
    add("--repeats", type=int, default=5, help="rounds")
    options = parser.parse_args(arguments)
    with limited(options.threads):
        cases = QUICK_CASES if options.quick else CASES
        records = [one for case in cases for one in records_of(case, options)]
        environment = environment_lines(device=options.devices[-1])
    publish(report(records, options, environment), records, options.out)


if __name__ == "__main__":
    main()
