"""Measure learning from shards on a dask cluster of local processes against one machine.

Three questions: how far the results are apart, how long each takes, and how many bytes reach the
caller. A killed worker is a test (tests/distributed/test_distributed_cluster.py).

    python -m benchmarks.speed.cluster
    python -m benchmarks.speed.cluster --samples 200000 --features 256 --workers 1 2 4
"""

import logging
import pickle
import sys
import tempfile
from contextlib import contextmanager
from unittest import mock

import cloudpickle
import dask
import numpy as np
import torch
from distributed import Client, LocalCluster

from benchmarks.lib.clock import seconds_of
from benchmarks.lib.report import command_line, environment_lines, page, publish, table
from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.distributed import _partial_fit, partial_fit_shards


def main(arguments=None):
    """Run all measurements and print or write the report."""
    options = parsed(arguments)
    torch.set_num_threads(1)
    # Workers unpickle the functions of this script, which they cannot import.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with cluster(max(options.workers)):
        parts = list(differences(options))
    environment = environment_lines()
    parts += times(options)
    text = page("Shards on a cluster of local processes", environment, notes(options), *parts)
    publish(text, [], [path for path in options.out if path.suffix == ".md"])


def parsed(arguments):
    """Options of the command line."""
    parser = command_line(__doc__, rows="nothing", threads=False)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--shared-band", type=int, default=200)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 12])
    parser.add_argument("--ranks", type=int, nargs="+", default=[0, 8, 64], help="0 is None")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    return parser.parse_args(arguments)


def notes(options):
    """What was measured."""
    return [
        f"dask {dask.__version__}; one thread per worker",
        f"{options.samples} samples of {options.features} features in {options.classes} Gaussian "
        f"classes, {options.shared_band} shared neurons, one task; seed and random_state 0",
    ]


@contextmanager
def cluster(n_workers):
    """A cluster of local processes that leaves nothing behind."""
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set({"temporary-directory": folder}),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as processes,
        Client(processes) as client,
    ):
        # Importing the package is no part of any figure.
        client.run(imported)
        yield


def imported():
    """Import the package on a worker."""
    import ffnb_sklearn.distributed  # noqa: F401


def samples(options, number=0, n_shards=1):
    """Every n-th sample of a Gaussian mixture, the same whoever makes it."""
    rng = np.random.default_rng(0)
    means = 0.7 * rng.standard_normal((options.classes, options.features))
    y = rng.integers(options.classes, size=options.samples)
    scales = np.linspace(0.2, 2.0, options.features)
    X = means[y] + scales * rng.standard_normal((len(y), options.features))
    return X[number::n_shards].copy(), y[number::n_shards]


def delayed_shards(options, n_shards):
    """Shards that workers make."""
    task = dask.delayed(samples, pure=False)
    return [task(options, number, n_shards) for number in range(n_shards)]


def estimator(options, rank=64):
    """The classifier under test; a rank of 0 is None."""
    return FFNBClassifier(
        band_size=0,
        shared_band_size=options.shared_band,
        rank=rank or None,
        random_state=0,
        device="cpu",
    )


def differences(options):
    """Largest differences between shards and one machine: a line, and a table."""
    rows = [
        [rank or None, *map("{:.1e}".format, differences_of(options, rank))]
        for rank in options.ranks
    ]
    columns = ["rank", *(f"shards: {n}" for n in options.shards)]
    line = "Largest difference of scores to one `partial_fit`, relative to the largest score:"
    return [line], table(columns, rows)


def differences_of(options, rank):
    """Largest relative difference of the scores of one setting, per number of shards."""
    X, y = samples(options)
    alone = estimator(options, rank).partial_fit(X, y).decision_function(X[:1000])
    for n_shards in options.shards:
        model = estimator(options, rank)
        partial_fit_shards(model, delayed_shards(options, n_shards))
        yield np.abs(model.decision_function(X[:1000]) - alone).max() / np.abs(alone).max()


def times(options):
    """Seconds and bytes, the fastest of three runs each: a line, and a table."""
    n_shards = max(options.shards)
    X, y = samples(options)
    alone = fastest(lambda: estimator(options).partial_fit(X, y))
    raw = X.nbytes + y.nbytes
    line = (
        f"Seconds for the task in {n_shards} shards that are in the workers' memory (fastest of "
        "three runs), and what reaches the caller:"
    )
    rows = [["one machine", f"{alone:.2f}", raw, "100 %"]]
    for n_workers in options.workers:
        with cluster(n_workers):
            seconds, received = timed(options, n_shards)
        name = "1 worker" if n_workers == 1 else f"{n_workers} workers"
        rows.append([name, f"{seconds:.2f}", received, f"{100 * received / raw:.1f} %"])
    return [line], table(["", "s", "bytes to the caller", "share of the data"], rows)


def timed(options, n_shards):
    """Seconds for a task on the cluster, and bytes that the caller receives."""
    shards = list(dask.persist(*delayed_shards(options, n_shards)))
    with counted() as received:
        seconds = fastest(lambda: partial_fit_shards(estimator(options), list(shards)))
    return seconds, max(received)


def fastest(action):
    """Seconds of the fastest of three calls."""
    return min(seconds_of(action) for _ in range(3))


@contextmanager
def counted():
    """List of the pickled sizes of all statistics that the caller receives."""
    received, map_reduce = [], _partial_fit._map_reduce

    def counting(*arguments):
        statistics = map_reduce(*arguments)
        received.append(len(pickle.dumps(statistics)))
        return statistics

    with mock.patch.object(_partial_fit, "_map_reduce", counting):
        yield received


if __name__ == "__main__":
    main()
