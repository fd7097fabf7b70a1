"""Sparse text rows: time, memory and accuracy with and without a dense copy.

Generated documents arrive in tasks of new classes. FFNB is compared with one epoch of
SGDClassifier on the same stream, and, on as many documents as can be held densely, with its own
dense fit and with projections onto fewer columns. Every run is a process of its own; memory is its
largest resident size, with the interpreter, the libraries and the data.

    python benchmarks/sparse_rows.py --threads 2 --out sparse.md sparse.csv
    python benchmarks/sparse_rows.py --documents 3000 --words 5000 --subset 500
"""

import multiprocessing
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from _documents import Documents
from _report import command_line, environment_lines, limited, page, publish, table
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn._sparse import RandomProjection

TEXT = {"band_size": 0, "random_state": 0}
_STATUS = Path("/proc/self/status")


def peak_megabytes():
    """Largest resident size of this process so far."""
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1]) / 1e6
    raise RuntimeError(f"{_STATUS} has no VmHWM: this benchmark needs Linux")


def converted(X, n_columns, is_dense):
    """Return the rows of a projection, or of all columns with None, as asked for."""
    if n_columns is not None:
        X = RandomProjection(X.shape[1], 0, min(n_columns, X.shape[1]))(X)
    return X.toarray() if is_dense else X


def sgd(n_classes):
    """Return a linear classifier, and how it takes a task: in one epoch."""
    model = SGDClassifier(loss="log_loss", random_state=0)
    return model, partial(model.partial_fit, classes=np.arange(n_classes))


def ffnb(_, **parameters):
    """Return a classifier, and how it takes a task."""
    model = FFNBClassifier(**{**TEXT, **parameters})
    return model, model.partial_fit


# On all documents: sparse rows, in tasks.
STREAMS = {
    "FFNB": ffnb,
    "FFNB, rank=4": partial(ffnb, rank=4),
    "FFNB, rank=16": partial(ffnb, rank=16),
    "SGD, one epoch per task": sgd,
}

# On the subset: columns of a projection (None is no projection), whether rows are dense, and axes;
# more than 16 axes over all columns of dense rows do not fit into memory.
SUBSETS = {
    "all columns, dense, rank=16": (None, True, 16),
    "all columns, dense, rank=8": (None, True, 8),
    "all columns": (None, False, "auto"),
    "16384 columns": (16384, False, "auto"),
    "4000 columns": (4000, False, "auto"),
    "2000 columns, dense": (2000, True, "auto"),
}


def read(folder, name):
    """Return documents and labels of a file."""
    return sparse.load_npz(folder / f"{name}.npz"), np.load(folder / f"{name}.npy")


def run_stream(folder, options, method):
    """Learn all tasks, solve the classifier and predict, in this process."""
    with threadpool_limits(limits=options.threads):
        torch.set_num_threads(options.threads)
        X, y = read(folder, "train")
        task_of = y * options.tasks // options.classes
        tasks = [(X[task_of == task], y[task_of == task]) for task in range(options.tasks)]
        model, learn = STREAMS[method](options.classes)
        start = time.perf_counter()
        for X, y in tasks:
            learn(X, y)
        # The first prediction solves the classifier.
        model.predict(X[:1])
        learning = time.perf_counter() - start
        X_test, y_test = read(folder, "test")
        start = time.perf_counter()
        accuracy = model.score(X_test, y_test)
        seconds = time.perf_counter() - start
    return {
        "method": method,
        "accuracy": accuracy,
        "learning_s": learning,
        "predicting_s": seconds,
        "peak_mb": peak_megabytes(),
    }


def run_subset(folder, options, method):
    """Learn a subset at once and predict, in this process."""
    n_columns, is_dense, rank = SUBSETS[method]
    with threadpool_limits(limits=options.threads):
        torch.set_num_threads(options.threads)
        X, y = read(folder, "train")
        X_test, y_test = read(folder, "test")
        X, y = converted(X[: options.subset], n_columns, is_dense), y[: options.subset]
        start = time.perf_counter()
        model = FFNBClassifier(**TEXT, shared_band_size=0, rank=rank, chunk_size=512).fit(X, y)
        model.predict(X[:1])
        learning = time.perf_counter() - start
        start = time.perf_counter()
        parts = [
            model.score(converted(X_test[rows], n_columns, is_dense), y_test[rows]) * len(rows)
            for rows in np.array_split(np.arange(len(y_test)), 1 + len(y_test) // 500)
        ]
        seconds = time.perf_counter() - start
    return {
        "method": method,
        "accuracy": sum(parts) / len(y_test),
        "learning_s": learning,
        "predicting_s": seconds,
        "peak_mb": peak_megabytes(),
    }


def alone(run, *arguments):
    """Run a function in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(run, arguments)


def records_of(share, options):
    """Return the records of all runs on documents of one share of own words."""
    documents = Documents(options.classes, options.words, share)
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, n in {"train": options.documents, "test": options.test}.items():
            X, y = documents.draw(n, options.distinct, random)
            sparse.save_npz(folder / f"{part}.npz", X, compressed=False)
            np.save(folder / f"{part}.npy", y)
        runs = {run_stream: STREAMS, run_subset: SUBSETS}
        return [
            {"share": share, "documents": n, **alone(run, folder, options, method)}
            for (run, methods), n in zip(
                runs.items(), (options.documents, options.subset), strict=True
            )
            for method in methods
        ]


def report(records, options, environment):
    """Return Markdown text."""
    notes = [
        f"data: {options.documents} generated documents of {options.distinct} distinct words out "
        f"of {options.words}, {options.classes} classes in {options.tasks} tasks; {options.test} "
        "test documents; seeds 0 and 1",
        "FFNB: band_size=0, random_state=0; learning includes the solution of the classifier",
        "own words: mean share of a document's words that are drawn from the 300 of its class",
        "MB: largest resident size of the process, with the libraries and the data",
    ]
    columns = ["own words", "documents", "method", "accuracy, %", "learning, s"]
    columns += ["predicting, s", "MB"]
    rows = [
        [
            f"{one['share']:.2f}",
            one["documents"],
            one["method"],
            f"{100 * one['accuracy']:.2f}",
            f"{one['learning_s']:.1f}",
            f"{one['predicting_s']:.1f}",
            f"{one['peak_mb']:.0f}",
        ]
        for one in records
    ]
    return page("Sparse text rows", environment, notes, table(columns, rows))


def read_options(arguments):
    """Parse the command line."""
    parser = command_line(__doc__, threads=False)
    add = parser.add_argument
    add("--documents", type=int, default=100_000)
    add("--test", type=int, default=5000)
    add("--subset", type=int, default=4000, help="documents of the dense fit")
    add("--words", type=int, default=50_000)
    add("--distinct", type=int, default=100, help="distinct words of a document")
    add("--classes", type=int, default=20)
    add("--tasks", type=int, default=5)
    add("--shares", type=float, nargs="+", default=[0.4, 0.2], help="shares of own words")
    add("--threads", type=int, default=1)
    return parser.parse_args(arguments)


def main(arguments=None):
    """Draw the documents, run every method in a process of its own, print the report."""
    options = read_options(arguments)
    records = [one for share in options.shares for one in records_of(share, options)]
    with limited(options.threads):
        environment = environment_lines()
    publish(report(records, options, environment), records, options.out)


if __name__ == "__main__":
    main()
