"""A thousand classes in tasks of ten: time per task, memory, prediction rate.

Classes are Gaussians whose means lie in a subspace that they share, and which spread along a few
axes of that subspace each beyond noise that is common to all, so that they overlap. They are drawn
task by task: what lies in memory is the classifier, one task and the test rows.

    python -m benchmarks.speed.many_classes --out many_classes.md many_classes.csv
    python -m benchmarks.speed.many_classes --rank 32 --band-size 0 --shared 0
    python -m benchmarks.speed.many_classes --quick
"""

import sys

import numpy as np

from benchmarks.lib.clock import peak_bytes, reset_peak, state_megabytes, timed
from benchmarks.lib.report import command_line, environment_lines, limited, page, publish, table
from ffnb_sklearn import FFNBClassifier

N_SHARED_AXES = 96
N_CLASS_AXES = 8

QUICK = {"classes": 40, "features": 64, "per_class": 30, "test_per_class": 5}


class GaussianStream:
    """Draws the rows of a class, the same ones at every call.

    `spread` is the standard deviation of the class means along the axes that they share, in units
    of the noise along each of these.
    """

    def __init__(self, n_features, spread, seed=0):
        self.n_features, self.spread, self.seed = n_features, spread, seed
        random = np.random.default_rng([seed, 0])
        n_axes = min(N_SHARED_AXES, n_features // 2)
        self.axes = np.linalg.qr(random.standard_normal((n_features, n_axes)))[0].T

    def rows(self, label, n_rows, *, test=False):
        """Rows of one class, of shape (n_rows, n_features)."""
        shape = np.random.default_rng([self.seed, 1, label])
        n_axes = len(self.axes)
        centre = self.spread * shape.standard_normal(n_axes)
        own = shape.standard_normal((N_CLASS_AXES, n_axes)) / np.sqrt(n_axes) * 3.0
        random = np.random.default_rng([self.seed, 3 if test else 2, label])
        inside = centre + random.standard_normal((n_rows, n_axes))
        inside += random.standard_normal((n_rows, N_CLASS_AXES)) @ own
        return inside @ self.axes + 0.5 * random.standard_normal((n_rows, self.n_features))

    def task(self, labels, n_rows, *, test=False):
        """Rows of some classes, and their labels."""
        X = np.concatenate([self.rows(label, n_rows, test=test) for label in labels])
        return X, np.repeat(labels, n_rows)


def build(options):
    """Return the classifier that the command line asks for; what it leaves out has its default."""
    chosen = {
        "band_size": options.band_size,
        "shared_band_size": options.shared,
        "rank": options.rank,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    return FFNBClassifier(random_state=0, device=options.device, **given)


def learn_stream(estimator, stream, options):
    """Learn all classes task by task; return the classes seen and the seconds of each task."""
    records = []
    for first in range(0, options.classes, options.per_task):
        labels = np.arange(first, min(first + options.per_task, options.classes))
        X, y = stream.task(labels, options.per_class)
        seconds, _ = timed(estimator.partial_fit, X, y)
        records.append({"classes": int(labels[-1]) + 1, "seconds": seconds})
        print(f"{labels[-1] + 1} classes: {seconds:.2f} s", file=sys.stderr, flush=True)
    return records


def measure(options):
    """Run the stream; return the records of its tasks, and what was measured by name."""
    stream = GaussianStream(options.features, options.spread)
    X_test, y_test = stream.task(np.arange(options.classes), options.test_per_class, test=True)
    task_bytes = 8 * options.per_task * options.per_class * options.features
    data_bytes = X_test.nbytes + task_bytes
    reset_peak()
    at_start = peak_bytes()
    estimator = build(options)
    tasks = learn_stream(estimator, stream, options)
    after_training, state_mb = peak_bytes(), state_megabytes(estimator)
    first_seconds, _ = timed(estimator.predict, X_test[:1])
    seconds, predicted = timed(estimator.predict, X_test)
    peak = peak_bytes()
    taken = np.array([task["seconds"] for task in tasks])
    lines = [
        ("total of partial_fit", f"{taken.sum():.1f} s"),
        ("last task", f"{taken[-1]:.2f} s"),
        ("slowest task", f"{taken.max():.2f} s"),
        ("first prediction after the stream, one row", f"{first_seconds:.2f} s"),
        (f"predictions per second ({len(X_test)} rows)", f"{len(X_test) / seconds:.0f}"),
        ("state", f"{state_mb:.0f} MB"),
        ("everything learned and the first prediction", f"{taken.sum() + first_seconds:.1f} s"),
        ("accuracy", f"{100 * np.mean(predicted == y_test):.2f} %"),
        ("process before the stream", f"{at_start / 1e6:.0f} MB"),
        ("peak of the process, training", f"{after_training / 1e6:.0f} MB"),
        ("peak of the process, prediction included", f"{peak / 1e6:.0f} MB"),
        ("the same without the data's own bytes", f"{(peak - data_bytes) / 1e6:.0f} MB"),
        ("data: test rows and one task", f"{data_bytes / 1e6:.0f} MB"),
    ]
    return tasks, lines


def report(tasks, lines, options):
    """Markdown text with the settings, what was measured, and seconds per task."""
    shown = tasks[:: max(1, len(tasks) // 20)]
    notes = [
        f"{options.classes} classes, {options.features} features, {options.per_class} rows a "
        f"class, tasks of {options.per_task}; {build(options)}".replace("\n", " ")
        + f"; spread {options.spread}",
        "data: Gaussian classes, seed 0; class order: sorted; random_state=0",
    ]
    seconds = [(task["classes"], f"{task['seconds']:.3f}") for task in shown]
    return page(
        "Many classes",
        environment_lines(device=options.device),
        notes,
        table(["measured", "value"], lines),
        table(["classes seen", "seconds of the task"], seconds),
    )


def read_options(arguments):
    """Parse the command line."""
    parser = command_line(__doc__, rows="the tasks", quick="a small stream, in seconds")
    add = parser.add_argument
    add("--classes", type=int, default=1000)
    add("--features", type=int, default=768)
    add("--per-class", type=int, default=100)
    add("--per-task", type=int, default=10)
    add("--test-per-class", type=int, default=10)
    add("--rank", type=int, help="axes kept of a class; default: that of the classifier")
    add("--band-size", type=int, help="default: that of the classifier")
    add("--shared", type=int, help="neurons of the shared band; default: that of the classifier")
    add("--spread", type=float, default=0.7, help="of the class means; less is harder")
    add("--device", default="cpu")
    options = parser.parse_args(arguments)
    if options.quick:
        parser.set_defaults(**QUICK)
        options = parser.parse_args(arguments)
    return options


def main(arguments=None):
    """Run the stream, print the report and write the files that are asked for."""
    options = read_options(arguments)
    with limited(options.threads):
        tasks, lines = measure(options)
        text = report(tasks, lines, options)
    publish(text, tasks, options.out)


if __name__ == "__main__":
    main()
