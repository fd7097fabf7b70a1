"""A call that fails leaves the RandomState of a parameter as it was; another draws one seed."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis, NaiveIncrementalClassifier
from ffnb_sklearn._base.state import State
from ffnb_sklearn._inputs.locks import exclusive
from ffnb_sklearn._inputs.seeds import advance_of, integer_state, next_seed
from ffnb_sklearn.backbones import TorchFeatureExtractor, _pretraining
from ffnb_sklearn.distributed import partial_fit_shards
from ffnb_sklearn.exceptions import ConcurrentLearningError
from tests.campaigns.attack.weights import network
from tests.separated_classes import CODES, X, failing

ROWS, LABELS = X[:60], CODES[:60]


def extractor(**parameters):
    def sized():
        return network(ROWS.shape[1])

    return TorchFeatureExtractor(sized, epochs=2, device="cpu", **parameters)


def fit(estimator):
    return estimator.fit(ROWS, LABELS)


def partial_fit(estimator):
    return estimator.partial_fit(ROWS, LABELS)


def shards(estimator):
    dask = pytest.importorskip("dask")
    return partial_fit_shards(estimator, [dask.delayed((ROWS, LABELS))])


CALLS = [
    (IncrementalDiscriminantAnalysis, fit, (State, "after_task")),
    (IncrementalDiscriminantAnalysis, partial_fit, (State, "after_task")),
    (IncrementalDiscriminantAnalysis, shards, (State, "after_task")),
    (FFNBClassifier, fit, (State, "after_task")),
    (NaiveIncrementalClassifier, partial_fit, (State, "after_task")),
    (extractor, fit, (_pretraining._Training, "run_epoch")),
]


def draws(seed, n_draws=0):
    """Return a RandomState after some draws of seeds."""
    generator = np.random.RandomState(seed)
    for _ in range(n_draws):
        advance_of(generator)()
    return generator


def same(first, second):
    """Whether two generators continue alike."""
    one, other = (generator.get_state(legacy=False) for generator in (first, second))
    return np.array_equal(one["state"]["key"], other["state"]["key"]) and (
        one["state"]["pos"] == other["state"]["pos"]
    )


def outputs(estimator):
    name = "transform" if isinstance(estimator, TorchFeatureExtractor) else "decision_function"
    return getattr(estimator, name)(ROWS)


@pytest.mark.parametrize(("make", "learn", "place"), CALLS)
def test_a_failing_call_leaves_the_generator(make, learn, place, monkeypatch):
    expected = outputs(learn(make(random_state=draws(5))))
    generator = draws(5)
    estimator = make(random_state=generator)

    with monkeypatch.context() as patch:
        patch.setattr(*place, failing)
        with pytest.raises(RuntimeError, match="told to fail"):
            learn(estimator)
    assert same(generator, draws(5))
    assert_array_equal(outputs(learn(estimator)), expected)
    assert same(generator, draws(5, 1))


@pytest.mark.parametrize("learn", [fit, partial_fit])
def test_a_refused_call_leaves_the_generator(learn):
    generator = draws(5)
    estimator = IncrementalDiscriminantAnalysis(random_state=generator)
    with pytest.raises(ConcurrentLearningError):
        exclusive(learn)(estimator)
    assert same(generator, draws(5))


def test_later_tasks_draw_nothing():
    generator = draws(5)
    estimator = partial_fit(IncrementalDiscriminantAnalysis(random_state=generator))
    estimator.partial_fit(X[60:], CODES[60:])
    assert same(generator, draws(5, 1))
    estimator.forget(estimator.classes_).partial_fit(ROWS, LABELS)
    assert same(generator, draws(5, 2))


@pytest.mark.parametrize("random_state", [None, 3, np.random.RandomState(3)])
@pytest.mark.parametrize("learn", [fit, partial_fit, shards])
def test_another_estimator_can_be_given_the_seed_that_was_drawn(random_state, learn):
    first = learn(IncrementalDiscriminantAnalysis(random_state=random_state))
    second = IncrementalDiscriminantAnalysis(random_state=first.random_state_)
    second.partial_fit(X[60:], CODES[60:])
    assert isinstance(first.random_state_, int)
    merged = first.merge(second)
    assert len(merged.classes_) == 8
    other = IncrementalDiscriminantAnalysis(random_state=None).partial_fit(X[60:], CODES[60:])
    expected = f"before an estimator learns, .* random_state={first.random_state_}"
    with pytest.raises(ValueError, match=expected):
        first.merge(other)


def test_seeds_of_other_random_states():
    assert next_seed(3) == next_seed(3) == np.random.RandomState(3).randint(2**31 - 1)
    before = np.random.get_state()[2]  # noqa: NPY002
    advance_of(3)()
    advance_of(None)()
    assert np.random.get_state()[2] == before  # noqa: NPY002
    assert next_seed(None) != next_seed(None)
    assert integer_state(3) == 3
    assert integer_state(draws(5)) == next_seed(draws(5))
