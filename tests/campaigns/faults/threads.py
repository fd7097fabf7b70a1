"""Threads that predict while another one learns, and threads that learn in one estimator."""

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy

import numpy as np

from ffnb_sklearn.exceptions import ConcurrentLearningError
from tests.campaigns.faults.calls import (
    X,
    Y,
    bands,
    exact,
    fit,
    forget_some,
    learn,
    learn_shards,
    merge_other,
    open_set,
    pipeline,
    plain,
)

READINGS = (
    *("predict", "predict_proba", "predict_log_proba", "decision_function", "transform"),
    *("score_samples", "estimate_priors"),
)

CYCLE = (
    lambda model: fit(model, Y < 2),
    lambda model: learn(model, Y == 2),
    lambda model: model.forget([1]),
    merge_other,
    lambda model: model.rename({0: 9}),
)

EXACT_CYCLE = (
    lambda model: fit(model, Y < 3),
    forget_some,
    lambda model: model.rename({0: 2, 2: 2}),
)

# The scaler of one fit and the classifier of another one give other results than either.
PIPELINE_CYCLE = (
    lambda pipe: pipe.fit(X[Y < 2], Y[Y < 2]),
    lambda pipe: pipe.partial_fit(X[Y == 2], Y[Y == 2]),
    lambda pipe: pipe.fit(100.0 * X[Y >= 1] + 50.0, Y[Y >= 1]),
    lambda pipe: pipe.forget([3]),
)

OPEN_SET_CYCLE = (
    lambda model: fit(model, Y < 2),
    lambda model: learn(model, Y == 2),
    lambda model: fit(model, Y >= 1),
    lambda model: model.estimator_.forget([3]),
)

# An estimator that knows nothing, and the calls of its writer.
READ = {
    "classifier": (plain, CYCLE),
    "classifier with bands": (bands, CYCLE),
    "exact classifier": (exact, EXACT_CYCLE),
    "pipeline": (lambda: pipeline(bands()), PIPELINE_CYCLE),
    "open set": (open_set, OPEN_SET_CYCLE),
}

# Calls of which any two may meet.
WRITES = {
    "fit": lambda model: fit(model, Y >= 1),
    "partial_fit": lambda model: learn(model, Y == 3),
    "forget": lambda model: model.forget([1]),
    "merge": merge_other,
    "rename": lambda model: model.rename({2: 9}),
    "shards": learn_shards,
}


def output_bytes(model, name):
    """Return the bytes of what a method returns for all rows."""
    result = getattr(model, name)(X)
    if isinstance(result, dict):
        result = np.array([*result.items()])
    return result.tobytes()


@contextmanager
def hasty_threads():
    """Let threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def count_wrong_readings(n_calls, model, cycle, n_readers=3):
    """Read from an estimator while another thread lets it learn.

    Parameters
    ----------
    n_calls : int
        Calls of readers; each returns all rows.
    model : estimator
        Unfitted estimator.
    cycle : sequence of callables
        Calls that the writer makes over and over; the first one begins anew, so the state after
        each call is one of as many states.
    n_readers : int, default=3
        Threads that read.

    Returns
    -------
    n_raised, n_wrong : int
        Calls that raised, and calls whose result is not, bit for bit, that of one of the states.
    n_writes : int
        Calls that learned meanwhile.
    """
    cycle[0](model)
    methods = [name for name in READINGS if hasattr(model, name)]
    expected = {name: set() for name in methods}
    for write in (*cycle, *cycle):
        write(model)
        for name in methods:
            expected[name].add(output_bytes(model, name))
    assert len(expected["predict_proba"]) == len(cycle)
    reading, n_writes = True, 0

    def read(reader):
        names = [methods[number % len(methods)] for number in range(reader, n_calls, n_readers)]
        n_raised = n_wrong = 0
        for name in names:
            try:
                n_wrong += output_bytes(model, name) not in expected[name]
            except Exception:
                n_raised += 1
        return n_raised, n_wrong

    with hasty_threads(), ThreadPoolExecutor(n_readers + 1) as pool:

        def write():
            nonlocal n_writes
            while reading:
                cycle[n_writes % len(cycle)](model)
                n_writes += 1

        writer = pool.submit(write)
        readers = [pool.submit(read, reader) for reader in range(n_readers)]
        try:
            n_raised, n_wrong = map(sum, zip(*(one.result() for one in readers), strict=True))
        finally:
            reading = False
        writer.result()
    return n_raised, n_wrong, n_writes


def let_meet(model, first, second):
    """Make two calls that learn; the second begins and ends before the first ends.

    Returns
    -------
    list of type or None
        The error of each.
    """
    entered, leave, keep = threading.Event(), threading.Event(), model._keep

    def late(*state, **first_task):
        entered.set()
        assert leave.wait(60)
        keep(*state, **first_task)

    def error_of(write):
        try:
            write(model)
        except ConcurrentLearningError as error:
            return type(error)
        return None

    model._keep = late
    try:
        with ThreadPoolExecutor(1) as pool:
            held = pool.submit(error_of, first)
            try:
                assert entered.wait(60)
                refused = error_of(second)
            finally:
                leave.set()
            return [held.result(), refused]
    finally:
        del model._keep


def count_lost_tasks(n_trials, n_writers=3):
    """Let threads learn a class each in one estimator, again and again until no error is raised.

    Returns
    -------
    n_lost : int
        Classes that are missing at the end of a trial.
    n_refused : int
        Calls that were refused.
    """
    n_lost, n_refused, empty = 0, 0, bands()
    with hasty_threads(), ThreadPoolExecutor(n_writers) as pool:
        for _ in range(n_trials):
            model, barrier = deepcopy(empty), threading.Barrier(n_writers, timeout=60)

            def write(label, model=model, barrier=barrier):
                barrier.wait()
                for n_before in range(1000):
                    try:
                        learn(model, np.isin(Y, label))
                    except ConcurrentLearningError:
                        # The call is refused at once, and the other call needs some time.
                        time.sleep(1e-3)
                        continue
                    return n_before
                raise AssertionError("a thread was refused a thousand times")

            n_refused += sum(pool.map(write, range(n_writers)))
            n_lost += len(np.setdiff1d(np.arange(n_writers), model.classes_))
    return n_lost, n_refused
