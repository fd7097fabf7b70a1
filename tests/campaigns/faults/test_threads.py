"""Threads share an estimator: readers see whole states, and no writer loses another's task."""

import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from itertools import combinations_with_replacement, product

import pytest
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import FunctionTransformer

from ffnb_sklearn import ContinualPipeline, NaiveIncrementalClassifier
from ffnb_sklearn.exceptions import ConcurrentLearningError
from tests.campaigns.faults.calls import NEW, OLD, Y, bands, fit, learn, naive, plain
from tests.campaigns.faults.campaign import state_of
from tests.campaigns.faults.threads import (
    READ,
    WRITES,
    count_lost_tasks,
    count_wrong_readings,
    let_meet,
)


@pytest.mark.parametrize("name", READ)
def test_predictions_during_learning_are_those_of_one_state(name):
    make, cycle = READ[name]
    with warnings.catch_warnings():
        # The scaler is frozen: here that is wanted.
        warnings.simplefilter("ignore")
        n_raised, n_wrong, n_writes = count_wrong_readings(21, make(), cycle)
    assert (n_raised, n_wrong) == (0, 0)
    assert n_writes > 0


MEETINGS = sorted(combinations_with_replacement(WRITES, 2))
# Shards train no bands.
WITH_BANDS = [names for names in MEETINGS if "shards" not in names]


@pytest.mark.filterwarnings("ignore:Trained neurons keep a trace:UserWarning")
@pytest.mark.filterwarnings("ignore:Merging is not exact:UserWarning")
@pytest.mark.parametrize(
    ("make", "names"),
    [*product([plain], MEETINGS), *product([bands], WITH_BANDS)],
    ids=lambda value: value.__name__ if callable(value) else "-".join(value),
)
def test_of_two_calls_that_meet_one_is_refused_and_may_be_repeated(make, names):
    writes = [WRITES[name] for name in names]
    model = learn(make(), Y < 3)
    alone = [deepcopy(model) for _ in writes]
    for write, one in zip(writes, alone, strict=True):
        write(one)
    assert let_meet(model, *writes) == [None, ConcurrentLearningError]
    assert state_of(model) == state_of(alone[0])
    # Calls that forget or rename a class, or merge an estimator, cannot be repeated.
    if names not in {("forget", "forget"), ("merge", "merge"), ("rename", "rename")}:
        writes[1](model)
        writes[1](alone[0])
        assert state_of(model) == state_of(alone[0])


def test_the_naive_baseline_refuses_too():
    model = learn(naive(), OLD)
    errors = let_meet(model, lambda one: learn(one, Y == 2), lambda one: learn(one, Y == 3))
    assert errors == [None, ConcurrentLearningError]
    assert isinstance(model, NaiveIncrementalClassifier)
    assert len(model.classes_) == 3


def test_tasks_of_threads_that_repeat_what_was_refused_are_all_learned():
    assert count_lost_tasks(3)[0] == 0


def test_the_error_says_what_to_do():
    model = bands()

    class Labels(list):
        """Labels that let another call learn while they are read."""

        def __array__(self, dtype=None, copy=None):
            model.partial_fit([[0.0, 1.0], [1.0, 0.0]], [5, 6])
            return Y[NEW]

    with pytest.raises(ConcurrentLearningError, match="is being changed by another call"):
        model.partial_fit([[0.0, 1.0]] * 8, Labels([2]))
    assert not hasattr(model, "classes_")


class Gate:
    """Holds up the call that comes through."""

    def __init__(self):
        self.is_held, self.reached, self.opened = False, threading.Event(), threading.Event()

    def pass_on(self, X):
        if self.is_held:
            self.is_held = False
            self.reached.set()
            assert self.opened.wait(60)
        return X


@pytest.mark.parametrize("last", [bands, plain, GaussianNB])
def test_a_pipeline_that_learns_refuses_other_calls(last):
    gate = Gate()
    steps = [("gate", FunctionTransformer(lambda rows: gate.pass_on(rows))), ("last", last())]
    pipeline = ContinualPipeline(steps)
    learn(pipeline, OLD, classes=[0, 1, 2, 3])
    serial = learn(deepcopy(pipeline), Y == 2)
    gate.is_held = True
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(learn, pipeline, Y == 2)
        try:
            assert gate.reached.wait(60)
            with pytest.raises(ConcurrentLearningError, match="Pipeline is being changed"):
                learn(pipeline, Y == 3)
            with pytest.raises(ConcurrentLearningError):
                fit(pipeline, NEW)
            if last is not GaussianNB:
                with pytest.raises(ConcurrentLearningError):
                    pipeline.forget([0])
                with pytest.raises(ConcurrentLearningError):
                    pipeline.merge(pipeline)
        finally:
            gate.opened.set()
        held.result()
    assert state_of(pipeline[-1]) == state_of(serial[-1])
    learn(pipeline, Y == 3)
    assert state_of(pipeline[-1]) == state_of(learn(serial, Y == 3)[-1])


def test_locks_are_in_no_copy():
    model = learn(bands(), OLD)
    for one in (model, ContinualPipeline([("last", model)])):
        for copied in (deepcopy(one), pickle.loads(pickle.dumps(one)), clone(one)):
            learn(copied, NEW)
    assert isinstance(pickle.loads(pickle.dumps(ConcurrentLearningError("x"))), RuntimeError)
