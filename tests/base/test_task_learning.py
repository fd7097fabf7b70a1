"""A task is learned as a whole or not at all."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn import (
    class_incremental_tasks,
)
from ffnb_sklearn.core.bands import complete_moments
from tests.separated_classes import (
    CODES,
    X,
    check_that_a_failing_call_changes_nothing,
    discriminant,
    failing,
    ffnb,
    learned,
    naive,
    of,
    unchanged,
)

of_both = pytest.mark.parametrize("make", [ffnb, discriminant])
of_streams = pytest.mark.parametrize("make", [ffnb, naive])


def test_a_class_comes_back_alone():
    model = learned(ffnb(), [0, 1], [2, 3])
    known = of(0, 1, 2, 3)
    columns, predicted = model.transform(X), model.predict(known)
    learned(model, [1])
    assert model.n_tasks_ == len(model.task_classes_) == len(model.null_space_dims_) == 2
    assert_array_equal(model.classes_, [0, 1, 2, 3])
    # It brings no neuron.
    assert_array_equal(model.transform(X), columns)
    assert np.mean(model.predict(known) == predicted) > 0.95


@of_both
def test_a_class_comes_back_with_a_new_one(make):
    model = learned(make(), [0, 1], [1, 2])
    assert model.n_tasks_ == 2
    assert [task.tolist() for task in model.task_classes_] == [[0, 1], [2]]
    assert model.score(of(0, 1, 2), np.repeat([0, 1, 2], 20)) == 1.0


@of_both
def test_more_data_of_a_class_counts(make):
    part = np.arange(160) % 2 == 0
    half = make(rank=None).partial_fit(X[part], CODES[part])
    halves = copy.deepcopy(half).partial_fit(X[~part], CODES[~part])
    whole = make(rank=None).partial_fit(X, CODES)
    if make is discriminant:
        assert_allclose(halves.decision_function(X), whole.decision_function(X), atol=1e-8)
    gap = np.abs(halves.decision_function(X) - whole.decision_function(X)).mean()
    assert gap < np.abs(half.decision_function(X) - whole.decision_function(X)).mean()


@pytest.mark.parametrize("classes_per_task", [None, 1, 3, 100])
@pytest.mark.parametrize(
    ("make", "weights"),
    [(naive, {}), (ffnb, {}), (ffnb, {"sample_weight": 1.0 + CODES % 3})],
)
def test_fit_is_partial_fit_in_the_same_tasks(make, weights, classes_per_task):
    streamed = make(classes_per_task=classes_per_task).fit(X, CODES, **weights)
    by_hand = make()
    for task in class_incremental_tasks(CODES, classes_per_task=classes_per_task or 8):
        of_task = {name: values[task] for name, values in weights.items()}
        by_hand.partial_fit(X[task], CODES[task], **of_task)
    assert_array_equal(streamed.predict_proba(X), by_hand.predict_proba(X))
    assert streamed.n_tasks_ == by_hand.n_tasks_ == -(-8 // (classes_per_task or 8))


@of_streams
def test_classes_per_task_is_for_fit_alone(make):
    assert learned(make(classes_per_task=1), [0, 1, 2], [3, 4]).n_tasks_ == 2


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (discriminant, "core.learning.add_task"),
        (ffnb, "core.bands.complete_moments.add_task"),
        (ffnb, "core.bands.learning.append_drafts"),
        (naive, "baselines._naive.grow"),
        (naive, "baselines._naive.train_newest"),
    ],
)
@pytest.mark.parametrize("method", ["partial_fit", "fit"])
def test_a_call_that_fails_inside_changes_nothing(monkeypatch, method, make, where):
    where = f"ffnb_sklearn.{where}"
    check_that_a_failing_call_changes_nothing(monkeypatch, make, method, where)


def test_the_second_task_of_fit_fails(monkeypatch):
    model, calls, add_task = learned(ffnb(), [0, 1]), [], complete_moments.add_task
    model.set_params(classes_per_task=1)

    def added_once(*arguments):
        calls.append(arguments)
        return add_task(*arguments) if len(calls) == 1 else failing()

    monkeypatch.setattr(complete_moments, "add_task", added_once)
    with unchanged(model), pytest.raises(RuntimeError, match="told to fail"):
        model.fit(of(4, 5), np.repeat([4, 5], 20))
    assert len(calls) == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
@pytest.mark.parametrize(
    ("make", "where"),
    [
        (discriminant, "learning.add_task"),
        (ffnb, "bands.complete_moments.add_task"),
        (naive, "bands.tuning.descent.rate_factor"),
    ],
)
def test_an_interruption_changes_nothing(monkeypatch, make, where, error):
    model = learned(make(), [0, 1])

    def interrupted(*_):
        raise error

    monkeypatch.setattr(f"ffnb_sklearn.core.{where}", interrupted)
    with unchanged(model), pytest.raises(error):
        learned(model, [2])
