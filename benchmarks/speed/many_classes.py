"""Thousands of classes: time per task, memory and prediction rate of streams, and characters.

Classes of a stream are Gaussians whose means lie in a subspace that they share, and which spread
along a few axes of that subspace each beyond noise that is common to all, so that they overlap.
They are drawn task by task: what lies in memory is the classifier, one task and the test rows.
With a folder of fonts, drawn characters are learned too (`benchmarks.speed.glyphs`).

    python -m benchmarks.speed.many_classes --threads 1 --fonts FOLDER --out page.md runs.csv
    python -m benchmarks.speed.many_classes --streams 1000x100x768 --rank 32 --shared 0
    python -m benchmarks.speed.many_classes --quick
"""

import io
import sys

import numpy as np

from benchmarks.lib.clock import (
    apart,
    peak_bytes,
    processor_timed,
    state_megabytes,
    status_bytes,
)
from benchmarks.lib.report import command_line, environment_lines, limited, page, publish, table
from benchmarks.speed import glyphs
from ffnb_sklearn import IncrementalDiscriminantAnalysis, save

N_SHARED_AXES = 96
N_CLASS_AXES = 8

# Single rows that are predicted one by one.
N_SINGLE = 20

# Shares of the classes after which the seconds of a task are shown.
SHARES = (0.01, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)

QUICK = {"streams": ["60x5x32"], "test_rows": 200, "tasks": 10}


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
        "shared_band_size": options.shared,
        "rank": options.rank,
    }
    given = {name: value for name, value in chosen.items() if value is not None}
    return IncrementalDiscriminantAnalysis(random_state=0, device=options.device, **given)


def read_stream(text):
    """Return the numbers of classes, rows per class and features of a text such as 1000x100x768."""
    n_classes, n_rows, n_features = map(int, text.split("x"))
    return n_classes, n_rows, n_features


def learn_stream(estimator, stream, n_classes, n_rows, n_tasks):
    """Learn all classes task by task; return the classes seen and the seconds of each task."""
    records = []
    for labels in np.array_split(np.arange(n_classes), n_tasks):
        X, y = stream.task(labels, n_rows)
        seconds, _ = processor_timed(estimator.partial_fit, X, y)
        n_seen = int(labels[-1]) + 1
        records.append({"classes": n_seen, "seconds": seconds})
        print(f"{n_seen} classes: {seconds:.2f} s", file=sys.stderr, flush=True)
    return records


def file_megabytes(estimator):
    """Size of the file that `save` writes."""
    file = io.BytesIO()
    save(estimator, file)
    return file.tell() / 1e6


def measure(text, options):
    """Run a stream; return the records of its tasks, and what was measured by name."""
    n_classes, n_rows, n_features = read_stream(text)
    stream = GaussianStream(n_features, options.spread)
    per_class = max(1, options.test_rows // n_classes)
    X_test, y_test = stream.task(np.arange(n_classes), per_class, test=True)
    before = status_bytes("VmRSS")
    estimator = build(options)
    tasks = learn_stream(estimator, stream, n_classes, n_rows, options.tasks)
    learned = status_bytes("VmRSS")
    pickled, file = state_megabytes(estimator), file_megabytes(estimator)
    first_seconds, _ = processor_timed(estimator.predict, X_test[:1])
    solved = status_bytes("VmRSS")
    single = [processor_timed(estimator.predict, row[None])[0] for row in X_test[:N_SINGLE]]
    seconds, predicted = processor_timed(estimator.predict, X_test)
    taken = np.array([task["seconds"] for task in tasks])
    measured = {
        "total of partial_fit": f"{taken.sum():.1f} s",
        "slowest task": f"{taken.max():.2f} s",
        "first prediction, one row": f"{first_seconds:.2f} s",
        "everything learned and the first prediction": f"{taken.sum() + first_seconds:.1f} s",
        "a row among many": f"{1e3 * seconds / len(X_test):.2f} ms",
        "a single row": f"{1e3 * np.median(single):.1f} ms",
        "rows learned, in single precision": f"{4e-6 * n_classes * n_rows * n_features:.0f} MB",
        "state, pickled": f"{pickled:.0f} MB",
        "state, saved": f"{file:.0f} MB",
        "resident memory that learning added": f"{(learned - before) / 1e6:.0f} MB",
        "the same with the first prediction": f"{(solved - before) / 1e6:.0f} MB",
        "peak of the process, prediction included": f"{peak_bytes() / 1e6:.0f} MB",
        "accuracy": f"{100 * np.mean(predicted == y_test):.2f} %",
    }
    return [{"stream": text, **task} for task in tasks], measured


def report(tasks, measured, glyph_records, options):
    """Return the settings, what was measured, and the seconds of some tasks in Markdown."""
    notes = [
        f"streams: classes x rows per class x features, in {options.tasks} tasks; "
        f"{build(options)}; spread {options.spread}".replace("\n", " "),
        "seconds of the processor, over all threads; they hardly depend on other processes",
        "data: Gaussian classes, seed 0; class order: sorted; random_state=0",
    ]
    names = list(measured)
    lines = [[name, *(measured[text][name] for text in names)] for name in measured[names[0]]]
    seconds = []
    for share in SHARES:
        cells = [f"{100 * share:.0f} %"]
        for text in names:
            of_stream = [task for task in tasks if task["stream"] == text]
            position = max(1, round(share * len(of_stream))) - 1
            cells.append(f"{of_stream[position]['seconds']:.3f}")
        seconds.append(cells)
    parts = [
        table(["measured", *names], lines),
        table(["seconds of a task, classes seen", *names], seconds),
    ]
    if glyph_records:
        parts += glyphs.section(glyph_records, options)
    return page("Many classes", environment_lines(device=options.device), notes, *parts)


def read_options(arguments):
    """Parse the command line."""
    parser = command_line(__doc__, rows="the tasks", quick="small streams, in seconds")
    add = parser.add_argument
    streams = ["1000x100x768", "10000x5x256"]
    add("--streams", nargs="+", default=streams, help="classes x rows x features")
    add("--tasks", type=int, default=100, help="tasks of a stream")
    add("--test-rows", type=int, default=10000)
    add("--rank", type=int, help="axes kept of a class; default: that of the classifier")
    add("--shared", type=int, help="neurons of the shared band; default: that of the classifier")
    add("--spread", type=float, default=0.7, help="of the class means; less is harder")
    add("--device", default="cpu")
    add("--fonts", help="a folder of fonts; without one no characters are learned")
    add("--learn", default="NotoSansCJK-[!T]*.ttc", help="files of the fonts to learn")
    tested = ["NotoSerifCJK-Regular.ttc", "wqy-zenhei.ttc", "uming.ttc"]
    add("--test", nargs="+", default=tested, help="files of the fonts to test")
    add("--characters", nargs="+", type=int, default=[1000, 3000, 10000])
    options = parser.parse_args(arguments)
    if options.quick:
        parser.set_defaults(**QUICK)
        options = parser.parse_args(arguments)
    return options


def main(arguments=None):
    """Run the stream, print the report and write the files that are asked for."""
    options = read_options(arguments)
    tasks = []
    measured = {}
    glyph_records = []
    with limited(options.threads):
        for text in options.streams:
            records, measured[text] = apart(measure, text, options)
            tasks += records
        if options.fonts:
            glyph_records = glyphs.run(options)
        text = report(tasks, measured, glyph_records, options)
    publish(text, tasks, options.out)


if __name__ == "__main__":
    main()
