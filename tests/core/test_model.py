"""The model: what it keeps, and that it is never changed."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.model import Task, empty_model, updated_moments
from tests.core.small_models import SETTINGS, empty, past_rows, second_moment

BARE = replace(SETTINGS, p=(0.95,), shared_band_size=7)
RNG = np.random.default_rng(0)
CLASSES = torch.as_tensor(RNG.permutation(np.repeat([0, 1, 2], [9, 4, 12])))
TASK = Task(
    torch.as_tensor(RNG.normal(size=(25, 5))), CLASSES, torch.as_tensor(RNG.uniform(0.5, 2, 25))
)


def known(settings=BARE):
    model = empty(5, settings)
    return replace(model, moments=updated_moments(model, TASK))


def test_an_empty_model_has_its_shared_band_and_nothing_else():
    model = empty_model(5, replace(BARE, band_size=1, p=(0.9, 3)), 3)

    assert model.features.shared.rows.shape == (7, 6)
    assert model.moments == ()
    assert [past_rows(model, layer).shape for layer in range(2)] == [(0, 5), (0, 0)]
    assert model.n_weights == 7 * 5 + 1


def test_the_shared_band_comes_from_the_seed():
    first, same, other = (empty_model(5, BARE, seed).features.shared.rows for seed in (3, 3, 4))

    assert_array_equal(first, same)
    assert not np.allclose(first, other)


def test_moments_are_those_of_each_class_over_all_features():
    model = known()

    values = model.feature_map(TASK.X).numpy()
    assert len(model.moments) == 3
    for label, one in enumerate(model.moments):
        now, weights = values[TASK.classes == label], TASK.weights[TASK.classes == label].numpy()
        assert one.weight == pytest.approx(weights.sum())
        assert_allclose(one.mean, np.average(now, axis=0, weights=weights), rtol=1e-10)
        assert_allclose(second_moment(one), now.T @ (now * weights[:, None]), rtol=1e-9)


@pytest.mark.parametrize("chunk", [1, 7])
def test_few_samples_at_a_time_give_the_same(chunk):
    whole = known()
    parts = known(replace(BARE, chunk_size=chunk))

    for one, expected in zip(parts.moments, whole.moments, strict=True):
        assert_allclose(one.mean, expected.mean, rtol=1e-12)
        assert_allclose(one.scatter(), expected.scatter(), rtol=1e-9, atol=1e-12)
    assert_allclose(prediction.scores(parts, TASK.X), prediction.scores(whole, TASK.X), rtol=1e-9)


def test_given_outputs_of_the_newest_neurons_stand_in_for_computed_ones():
    model = empty(5, BARE)
    fresh = torch.as_tensor(RNG.normal(size=(25, 2)))

    moments = updated_moments(model, TASK, fresh)

    for label, one in enumerate(moments):
        now = TASK.classes == label
        weights = TASK.weights[now]
        assert_allclose(one.mean[-2:], weights @ fresh[now] / weights.sum(), rtol=1e-10)


def test_pickles_leave_out_what_is_derived():
    model = known()
    before = pickle.dumps(model)
    scores = prediction.scores(model, TASK.X)
    prediction.likeness(model, TASK.X)
    after = pickle.dumps(model)

    assert after == before
    assert torch.equal(prediction.scores(pickle.loads(after), TASK.X), scores)
    # The model itself keeps its solution.
    assert model.solution is not None


def test_a_model_is_never_changed_so_that_copies_share_it():
    model = known()

    prediction.scores(model, TASK.X)

    assert copy.deepcopy(model) is model
    with pytest.raises(FrozenInstanceError):
        model.moments = ()
