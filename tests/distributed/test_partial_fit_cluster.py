"""Shards on a cluster of real processes: what moves, what a lost worker costs, and grid search."""

import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import cloudpickle
import dask
import joblib
import numpy as np
import pytest
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis
from ffnb_sklearn.distributed import _map_reduce, partial_fit_shards
from ffnb_sklearn.exceptions import ConcurrentLearningError

RNG = np.random.default_rng(0)
CODES = np.repeat(np.arange(6), 40)
X = 2.0 * RNG.standard_normal((6, 8))[CODES] + RNG.standard_normal((240, 8))
N_SHARDS = 12


def estimator(**parameters):
    defaults = {"shared_band_size": 12, "rank": 5, "random_state": 0}
    return IncrementalDiscriminantAnalysis(**{**defaults, **parameters})


@pytest.fixture(scope="module")
def forked_workers():
    """Let workers be forks of one process that has imported the package, where a system forks."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        yield
        return
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "ffnb_sklearn.distributed"])
        yield


@pytest.fixture(scope="module")
def cluster(forked_workers, tmp_path_factory):
    """Three worker processes that can unpickle what this module defines."""
    settings = {"temporary-directory": str(tmp_path_factory.mktemp("dask"))}
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=3,
            threads_per_worker=1,
            processes=True,
            # Any free port: another cluster on the machine may have the usual one.
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster),
    ):
        yield cluster
    cloudpickle.unregister_pickle_by_value(module)


class Samples:
    """Samples that note who reads them, and that the caller must not receive."""

    def __init__(self, values, note, caller):
        self.values, self.note, self.caller = values, note, caller
        self.shape = values.shape

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        self.note("read")
        return self.values.astype(dtype or self.values.dtype)

    def __reduce__(self):
        return received, (self.values, self.note, self.caller)


def received(values, note, caller):
    """Take samples in that come from another process."""
    if os.getpid() == caller:
        note("leaked")
    return Samples(values, note, caller)


class Note:
    """Appends to a file of the shard what happens to it, and in which process."""

    def __init__(self, folder, number):
        self.file = Path(folder, f"shard-{number}")

    def __call__(self, event):
        with open(self.file, "a") as file:
            file.write(f"{event} {os.getpid()}\n")

    def events(self):
        """Return all pairs of event and process, the first one first."""
        return [tuple(line.split()) for line in self.file.read_text().splitlines()]


def load(folder, number, caller, deadly):
    """Make a shard; whoever first makes the deadly one dies of it."""
    note = Note(folder, number)
    note("made")
    if number == deadly:
        try:
            open(Path(folder, "died"), "x").close()
        except FileExistsError:
            pass
        else:
            note("died")
            os.kill(os.getpid(), signal.SIGKILL)
    return Samples(X[number::N_SHARDS], note, caller), CODES[number::N_SHARDS]


def shards(folder, deadly=None):
    make = dask.delayed(load, pure=False)
    return [make(str(folder), number, os.getpid(), deadly) for number in range(N_SHARDS)]


def events(folder):
    return [Note(folder, number).events() for number in range(N_SHARDS)]


@pytest.mark.usefixtures("cluster")
def test_samples_never_come_to_the_caller(tmp_path):
    model = partial_fit_shards(estimator(scale=False), shards(tmp_path))
    alone = estimator(scale=False).partial_fit(X, CODES)
    assert_allclose(model.decision_function(X), alone.decision_function(X), rtol=0, atol=1e-9)
    happened = [event for one in events(tmp_path) for event in one]
    assert str(os.getpid()) not in {process for _, process in happened}
    assert Counter(name for name, _ in happened)["made"] == N_SHARDS
    assert "leaked" not in {name for name, _ in happened}


@pytest.mark.usefixtures("cluster")
def test_the_caller_would_notice_samples(tmp_path):
    dask.compute(shards(tmp_path)[0])
    assert ("leaked", str(os.getpid())) in Note(tmp_path, 0).events()


@pytest.mark.skipif(os.name != "posix", reason="processes are killed by a signal")
@pytest.mark.usefixtures("cluster")
def test_a_killed_worker_costs_only_its_own_shards(tmp_path):
    model = partial_fit_shards(estimator(scale=False), shards(tmp_path, deadly=8))
    alone = estimator(scale=False).partial_fit(X, CODES)
    assert_allclose(model.decision_function(X), alone.decision_function(X), rtol=0, atol=1e-9)
    ((_, dead),) = [event for event in events(tmp_path)[8] if event[0] == "died"]
    for happened in events(tmp_path):
        times = Counter(name for name, _ in happened)["made"]
        touched_by_the_dead = any(process == dead for _, process in happened)
        assert times == 1 or (times == 2 and touched_by_the_dead)
    assert Counter(name for name, _ in events(tmp_path)[8])["made"] == 2


def test_futures_are_shards_and_serve_two_passes(cluster, tmp_path):
    with Client(cluster) as client:
        futures = client.compute(shards(tmp_path))
        model = partial_fit_shards(estimator(), futures)
    alone = estimator().partial_fit(X, CODES)
    assert_allclose(model.decision_function(X), alone.decision_function(X), rtol=0, atol=1e-9)
    counts = Counter(name for one in events(tmp_path) for name, _ in one)
    assert counts["made"] == N_SHARDS
    assert "leaked" not in counts


def learn_by_clients(cluster, calls):
    """Make one call per client at once; return the error of each, or None."""
    ready, errors = threading.Barrier(len(calls)), [None] * len(calls)

    def learn(number):
        with Client(cluster, set_as_default=False) as client, client.as_current():
            ready.wait()
            try:
                calls[number]()
            except ConcurrentLearningError as error:
                errors[number] = error

    threads = [threading.Thread(target=learn, args=[number]) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def test_two_clients_learn_at_once(cluster, tmp_path):
    models = [estimator(random_state=seed) for seed in range(2)]
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    pairs = zip(models, folders, strict=True)
    calls = [partial(partial_fit_shards, model, shards(folder)) for model, folder in pairs]
    assert learn_by_clients(cluster, calls) == [None, None]
    for seed, model in enumerate(models):
        alone = estimator(random_state=seed).partial_fit(X, CODES)
        assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-9)


def test_two_clients_lose_no_task_of_one_estimator(cluster):
    model = estimator().partial_fit(X[CODES < 2], CODES[CODES < 2])
    rows = [np.flatnonzero(np.equal(CODES, label)) for label in (2, 3)]
    tasks = [[(X[some], CODES[some])] for some in rows]
    calls = [partial(partial_fit_shards, model, task) for task in tasks]
    errors = learn_by_clients(cluster, calls)
    # A refused call changed nothing and may be repeated.
    for call, error in zip(calls, errors, strict=True):
        if error is not None:
            call()
    alone = estimator().partial_fit(X[CODES < 4], CODES[CODES < 4])
    assert set(model.classes_) == {0, 1, 2, 3}
    order = [list(model.classes_).index(label) for label in alone.classes_]
    found = model.decision_function(X)[:, order]
    assert_allclose(found, alone.decision_function(X), rtol=0, atol=1e-7)


def test_a_cluster_without_workers_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(_map_reduce, "_PATIENCE", 0.05)
    model = estimator().partial_fit(X[CODES < 2], CODES[CODES < 2])
    expected = model.predict_proba(X)
    settings = {"temporary-directory": str(tmp_path)}
    options = {"n_workers": 0, "processes": False, "dashboard_address": ":0"}
    # The client is not the default client of other tests.
    with (
        dask.config.set(settings),
        LocalCluster(**options, silence_logs=logging.CRITICAL) as empty,
        Client(empty, set_as_default=False) as client,
        client.as_current(),
    ):
        for one in (model, estimator()):
            with pytest.raises(RuntimeError, match="has no workers: the scheduler inproc://"):
                partial_fit_shards(one, [(X, CODES)])
    assert_array_equal(model.predict_proba(X), expected)


@pytest.mark.usefixtures("cluster")
def test_grid_search_on_the_cluster_is_that_of_one_machine():
    grid = {"p": [0.5, 0.95], "band_size": [1, 2]}
    clf = FFNBClassifier(shared_band_size=12, rank=5, classes_per_task=2, random_state=0)
    search = GridSearchCV(clf, grid, cv=2)
    here = search.fit(X, CODES).cv_results_
    with joblib.parallel_config(backend="dask"):
        there = search.fit(X, CODES).cv_results_
    assert_array_equal(there["mean_test_score"], here["mean_test_score"])
    assert_array_equal(there["rank_test_score"], here["rank_test_score"])
    assert there["params"] == here["params"]
