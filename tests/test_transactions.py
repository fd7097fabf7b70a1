"""A call that learns is interrupted anywhere, or watched by other threads: all of it or nothing."""

import copy
import inspect
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ffnb_sklearn
from ffnb_sklearn import FFNBClassifier, NaiveIncrementalClassifier
from ffnb_sklearn.distributed import partial_fit_shards
from tests.separated_classes import CODES, X, learned, of

PACKAGE = str(Path(ffnb_sklearn.__file__).parent)


def estimator(**parameters):
    return FFNBClassifier(**{"shared_band_size": 10, "random_state": 0, **parameters})


# ---- interrupts


def is_inside(frame):
    # Not generators, since an error in one that is being closed would be lost.
    is_generator = frame.f_code.co_flags & inspect.CO_GENERATOR
    files = frame.f_code.co_filename, frame.f_back.f_code.co_filename
    return not is_generator and any(file.startswith(PACKAGE) for file in files)


def call_with_fault(call, at=None, error=None):
    """Make a call whose `at`-th inner call raises; return the number of inner calls.

    Inner calls are those of functions of the package, and those of other functions by these.
    """
    n_calls = 0

    def watch(frame, event, _):
        nonlocal n_calls
        if event in ("call", "c_call") and is_inside(frame):
            n_calls += 1
            if n_calls == at:
                raise error

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return n_calls


def outcome(model):
    """All that a model shows, or None if it is not fitted."""
    if not hasattr(model, "classes_"):
        return None
    tasks = [task.tolist() for task in model.task_classes_]
    return tasks, model.classes_.tolist(), model.predict_proba(X).tobytes()


def learn_shards(model):
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        partial_fit_shards(model, [dask.delayed((of(2, 3), np.repeat([2, 3], 20)))], classes=[8])


OTHER = learned(estimator(), [1, 2], [3], classes=[9])
# An estimator that has learned two classes, what is called, and about how often it is interrupted.
CALLS = {
    "fit": (estimator(classes_per_task=1), lambda model: model.fit(X, CODES), 10),
    "partial_fit": (estimator(), lambda model: learned(model, [1, 2], classes=[7]), 20),
    "shards": (estimator(), learn_shards, 10),
    "forget": (estimator(), lambda model: model.forget([0]), 100),
    "forget all": (estimator(), lambda model: model.forget([0, 1]), 100),
    "merge": (estimator(), lambda model: model.merge(OTHER), 30),
    "naive": (
        NaiveIncrementalClassifier(max_epochs=2, random_state=0),
        lambda model: learned(model, [1, 2]),
        20,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_anywhere_changes_nothing_and_the_call_may_be_repeated(name):
    fresh, call, n_interrupts = CALLS[name]
    fitted = learned(fresh, [0, 1])
    before, attributes = outcome(fitted), vars(fitted).copy()
    done = copy.copy(fitted)
    call(done)
    after = outcome(done)
    assert after != before
    # Not the first such call, which imports modules.
    n_calls = call_with_fault(lambda: call(copy.copy(fitted)))
    errors = cycle([RuntimeError, MemoryError, KeyboardInterrupt])
    # From the last inner call backwards, since the estimator changes at the end.
    for at in range(n_calls, 0, -max(1, n_calls // n_interrupts)):
        model, error = copy.copy(fitted), next(errors)
        # NumPy takes an error in array_equal for a difference, which merge refuses.
        with pytest.raises((error, ValueError)):
            call_with_fault(lambda model=model: call(model), at, error("told to fail"))
        assert vars(model) == attributes
        assert outcome(model) == before
        call(model)
        assert outcome(model) == after


# ---- other threads


@pytest.fixture
def hasty_threads():
    """Let threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty_threads")
def test_predictions_during_learning_are_those_before_or_after():
    model, other = learned(estimator(), [1, 2]), learned(estimator(), [0])
    writing = True

    def read():
        n_calls = 0
        while writing or n_calls < 50:
            probabilities = model.predict_proba(X[:40])
            assert probabilities.shape[1] in (2, 3)
            assert_allclose(probabilities.sum(axis=1), 1.0)
            assert np.isin(model.predict(X[:40]), [0, 1, 2]).all()
            assert len(model.decision_function(X[:40])) == len(model.transform(X[:40])) == 40
            n_calls += 1
        return n_calls

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for _ in range(10):
                learned(model, [0]).forget([0])
                model.merge(other).fit(of(1, 2), np.repeat([1, 2], 20))
                with pytest.raises(ValueError, match="X has 5 features"):
                    model.partial_fit(X[:, :5], CODES)
        finally:
            writing = False
        assert sum(reader.result() for reader in readers) >= 100
