"""Memory that learning and predicting from a file on disk take, by the size of the chunks.

Each run is a process of its own that maps the file. Counted are the pages that the process has
written itself: those of the mapped file belong to the system, which drops them where memory is
short.

    python -m benchmarks.speed.out_of_core
    python -m benchmarks.speed.out_of_core --samples 2000000 --features 512 --folder /data
"""

import tempfile
import threading
from pathlib import Path

import numpy as np
import torch

from benchmarks.lib.clock import apart, status_bytes, timed
from benchmarks.lib.report import command_line, environment_lines, page, publish, table
from ffnb_sklearn import FFNBClassifier

_BLOCK = 10_000


def own_bytes():
    """Bytes of memory that this process has written, without files that it maps."""
    return status_bytes("RssAnon")


class Peak:
    """Largest value of `own_bytes` while a block runs, looked up every few milliseconds."""

    def __enter__(self):
        self.start = self.bytes = own_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()
        self.bytes = max(self.bytes, own_bytes())

    def _watch(self):
        while not self._done.wait(0.005):
            self.bytes = max(self.bytes, own_bytes())


def write_samples(path, n_samples, n_features, n_classes):
    """Write generated samples block by block, and return their labels; classes are mixed."""
    random = np.random.default_rng(0)
    means = random.standard_normal((n_classes, n_features), dtype=np.float32)
    labels = random.integers(n_classes, size=n_samples)
    with open(path, "wb") as file:
        for start in range(0, n_samples, _BLOCK):
            now = labels[start : start + _BLOCK]
            noise = random.standard_normal((len(now), n_features), dtype=np.float32)
            (0.3 * means[now] + noise).tofile(file)
    return labels


def run(path, labels, n_features, chunk_size, shared):
    """Learn and predict from the file; return seconds, and MB above what the process had before."""
    X = np.memmap(path, dtype=np.float32, mode="r", shape=(len(labels), n_features))
    model = FFNBClassifier(
        band_size=0, shared_band_size=shared, chunk_size=chunk_size, random_state=0
    )
    # What the first call brings along, like the libraries' own buffers, is not the data's.
    model.fit(X[:1000], labels[:1000]).predict(X[:1000])
    with Peak() as learning:
        seconds, _ = timed(model.fit, X, labels)
    with Peak() as predicting:
        accuracy = model.score(X, labels)
    return {
        "chunk_size": chunk_size,
        "learning_s": seconds,
        "learning_mb": (learning.bytes - learning.start) / 1e6,
        "predicting_mb": (predicting.bytes - predicting.start) / 1e6,
        "accuracy": accuracy,
    }


def report(records, options):
    """Markdown text."""
    size = 4 * options.samples * options.features / 1e6
    notes = [
        f"{options.samples} float32 samples of {options.features} features, {options.classes} "
        f"mixed classes: {size:.0f} MB on disk; band_size=0, shared_band_size={options.shared}",
        "data: Gaussian classes, seed 0; random_state=0",
        "MB: written by the process beyond what it had before, at the peak",
    ]
    columns = ["chunk_size", "learning, s", "learning, MB", "predicting, MB", "accuracy"]
    rows = [
        [
            one["chunk_size"],
            f"{one['learning_s']:.1f}",
            f"{one['learning_mb']:.0f}",
            f"{one['predicting_mb']:.0f}",
            f"{100 * one['accuracy']:.2f}",
        ]
        for one in records
    ]
    environment = environment_lines()
    return page("Learning from a file on disk", environment, notes, table(columns, rows))


def read_options(arguments):
    """Parse the command line."""
    parser = command_line(__doc__, rows="its rows", threads=False)
    add = parser.add_argument
    add("--samples", type=int, default=400_000)
    add("--features", type=int, default=256)
    add("--classes", type=int, default=20)
    add("--shared", type=int, default=500, help="neurons of the shared band")
    add("--chunks", type=int, nargs="+", default=[256, 4096, 65536])
    add("--folder", type=Path, help="where to put the file; default: the temporary folder")
    return parser.parse_args(arguments)


def main(arguments=None):
    """Write the file, run every size of chunks in a process of its own, print the report."""
    options = read_options(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "samples.dat"
        labels = write_samples(path, options.samples, options.features, options.classes)
        records = [
            apart(run, path, labels, options.features, chunk_size, options.shared)
            for chunk_size in options.chunks
        ]
    publish(report(records, options), records, options.out)


if __name__ == "__main__":
    main()
