"""Each step on another device beside the processor: speed-ups, distance to products, agreement.

The floors of `speed.py` are computed on the device itself, so that a ratio says how far a step is
from the rate at which that device multiplies matrices of the same shapes. All arithmetic is in
double precision, whatever the type of the samples; the rates of both types are printed.

    python benchmarks/devices.py --device cuda --out devices.md devices.csv
    python benchmarks/devices.py --device cpu --quick
"""

import pickle
from dataclasses import replace

import numpy as np
import torch
from _report import command_line, environment_lines, limited, page, publish
from _speed_cases import gaussian_classes, learned, shapes_of
from _speed_clock import alternate, seconds_of
from _speed_floor import PredictionFloor, SolutionFloor, TaskFloor, finished
from speed import BAR, QUICK, record_table

from ffnb_sklearn.core.device import resolve_device

CASES = [
    BAR,
    replace(BAR, settings=()),
    replace(BAR, shared=2000, settings=()),
    replace(BAR, seen=300, n_test=4_000),
    # Few samples, and as many shared neurons as the default has.
    replace(BAR, n_samples=250, seen=20, shared=2000),
]
QUICK_CASES = [replace(QUICK, shared=30, settings=())]
STEPS = ["partial_fit", "first prediction", "later prediction"]
DTYPES = [np.float64, np.float32]


class Task:
    """The task of a case, which estimators on several devices learn from one state."""

    def __init__(self, case, dtype):
        self.state = learned(case)
        per_class = case.n_samples // case.new
        X, y = gaussian_classes(case.new, case.n_inputs, per_class, first=case.seen)
        X_test = np.random.default_rng(1).standard_normal((case.n_test, case.n_inputs))
        self.X, self.y, self.X_test = X.astype(dtype), y, X_test.astype(dtype)

    def estimator(self, device):
        """What knows the first classes, and computes on a device."""
        return pickle.loads(self.state).set_params(device=device)

    def seconds(self, device):
        """Seconds of the steps on a device, by step and device."""
        estimator = self.estimator(device)
        arguments = [
            (estimator.partial_fit, self.X, self.y),
            (estimator.predict, self.X_test),
            (estimator.predict, self.X_test),
        ]
        # Each returns what lies in the processor's memory, and so has come to its end.
        steps = zip(STEPS, arguments, strict=True)
        return {(step, device): seconds_of(*call) for step, call in steps}

    def scores(self, device):
        """Scores after the task, of shape (n_test, n_classes)."""
        return self.estimator(device).partial_fit(self.X, self.y).decision_function(self.X_test)


def step_records(case, dtype, device, repeats):
    """Return seconds of each step on the processor and on the device, and what they agree in.

    All take turns in each of the rounds; ``over_floor`` is the ratio to the floor on the device.
    """
    task = Task(case, dtype)
    expected, scores = task.scores("cpu"), task.scores(device)
    shapes = shapes_of(task.estimator("cpu").partial_fit(task.X, task.y), task.X)
    floors = {
        "partial_fit": TaskFloor(case.n_samples, case.n_inputs, shapes["n_features"], device),
        "first prediction": SolutionFloor(**shapes, device=device),
        "later prediction": PredictionFloor(case.n_test, **shapes, device=device),
    }
    # The first calls of a device load its libraries.
    for floor in floors.values():
        floor()
    candidates = {
        **floors,
        "cpu": lambda: task.seconds("cpu"),
        # The same steps by another name, where both are the processor.
        "device": lambda: {(s, "device"): t for (s, _), t in task.seconds(device).items()},
    }
    seconds = {name: np.median(each) for name, each in alternate(candidates, repeats).items()}
    common = {
        "case": case.label,
        "samples": np.dtype(dtype).name,
        "same_predictions": float(np.mean(expected.argmax(1) == scores.argmax(1))),
        "score_gap": float(np.abs(expected - scores).max()),
    }
    # The first prediction solves the classifier, and then predicts.
    seconds["first prediction"] += seconds["later prediction"]
    return [
        {
            "step": step,
            "cpu_s": seconds[step, "cpu"],
            "device_s": seconds[step, "device"],
            "speed_up": seconds[step, "cpu"] / seconds[step, "device"],
            "floor_s": seconds[step],
            "over_floor": seconds[step, "device"] / seconds[step],
            **common,
        }
        for step in STEPS
    ]


def product_rate(device, dtype, size, repeats=5):
    """Most floating-point operations a second of a square product, in units of 1e12."""
    rows = torch.ones((size, size), dtype=dtype, device=device)
    seconds = [seconds_of(finished, lambda: rows @ rows) for _ in range(repeats + 1)]
    return 2e-12 * size**3 / min(seconds[1:])


def report(records, rates, options):
    """Markdown text."""
    notes = [
        f"rounds: {options.repeats}, medians; over_floor: device_s over floor_s, the same "
        "shapes' products on the device; score_gap: largest difference of a score",
        "data: Gaussian classes, seed 0; random_state=0",
        f"product of two {options.size} x {options.size} matrices, 1e12 operations a second: "
        + "; ".join(f"{name} {rate:.3g}" for name, rate in rates.items()),
    ]
    environment = environment_lines(device=options.device)
    return page("Devices", environment, notes, record_table(records))


def read_options(arguments):
    """Parse the command line."""
    parser = command_line(__doc__, rows="its rows", quick="a small case, in seconds")
    add = parser.add_argument
    add("--device", default="cuda", help="as the parameter of FFNBClassifier")
    add("--repeats", type=int, help="rounds; default: 5, with --quick 2")
    add("--size", type=int, default=4096, help="of the products that tell the device's rate")
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or (2 if options.quick else 5)
    try:
        options.device = str(resolve_device(options.device))
    except ValueError as error:
        parser.error(str(error))
    return options


def main(arguments=None):
    """Measure, print the report and write it."""
    options = read_options(arguments)
    with limited(options.threads):
        rates = {
            f"{device} {str(dtype).removeprefix('torch.')}": product_rate(
                device, dtype, options.size
            )
            for device in dict.fromkeys(["cpu", options.device])
            for dtype in (torch.float64, torch.float32)
        }
        records = [
            record
            for case in (QUICK_CASES if options.quick else CASES)
            for dtype in DTYPES
            for record in step_records(case, dtype, options.device, options.repeats)
        ]
        text = report(records, rates, options)
    publish(text, records, options.out)


if __name__ == "__main__":
    main()
