"""The model: what it keeps, and that it is never changed."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.learning import add_task, task_features
from ffnb_sklearn.core.model import Task
from tests.core.small_models import SETTINGS, empty, learnt, second_moment, task

BARE = replace(SETTINGS, band_size=0, shared_band_size=7)
RNG = np.random.default_rng(0)
CLASSES = torch.as_tensor(RNG.permutation(np.repeat([0, 1, 2], [9, 4, 12])))
TASK = Task(
    torch.as_tensor(RNG.normal(size=(25, 5))), CLASSES, torch.as_tensor(RNG.uniform(0.5, 2, 25))
)


def known(settings=BARE):
    model = empty(5, settings)
    features_of = partial(task_features, model.features, TASK)
    return replace(model, moments=add_task((), model, TASK, features_of))


def test_an_empty_model_has_its_shared_band_and_nothing_else():
    model = empty(5, BARE)

    assert model.features.shared.rows.shape == (7, 6)
    assert model.moments == ()
    assert model.trained is None
    assert model.feature_map.n_features == 5 + 7
    assert model.n_weights == 7 * 5 + 1


def test_the_shared_band_comes_from_the_seed():
    first, same, other = (empty(5, BARE, seed).features.shared.rows for seed in (3, 3, 4))

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


def test_the_moments_are_those_of_the_features_that_are_given():
    given = torch.as_tensor(RNG.normal(size=(25, 2)))

    moments = add_task((), empty(5, BARE), TASK, lambda numbers: given[numbers])

    for label, one in enumerate(moments):
        now = TASK.classes == label
        weights = TASK.weights[now]
        assert_allclose(one.mean, weights @ given[now] / weights.sum(), rtol=1e-10)


def test_samples_of_a_known_class_are_added_to_its_moments():
    model = known()
    features_of = partial(task_features, model.features, TASK)

    twice = add_task(model.moments, model, TASK, features_of)

    for one, both in zip(model.moments, twice, strict=True):
        assert both.weight == pytest.approx(2.0 * one.weight)
        assert_allclose(both.mean, one.mean, rtol=1e-12)
        assert_allclose(both.scatter(), 2.0 * one.scatter(), rtol=1e-9, atol=1e-12)


def test_complete_moments_are_those_of_all_features():
    plain, with_bands = known(), learnt([task(0, 1), task(2)])

    assert plain.complete_moments(1) is plain.moments[1]
    n_fixed = with_bands.features.n_features
    for number, fixed in enumerate(with_bands.moments):
        moments = with_bands.complete_moments(number)
        assert len(fixed.mean) == n_fixed
        assert len(moments.mean) == with_bands.feature_map.n_features == n_fixed + 6
        assert_array_equal(moments.mean[:n_fixed], fixed.mean)
        assert_array_equal(moments.factor[:, :n_fixed], fixed.factor)


@pytest.mark.parametrize("band_size", [0, 1])
def test_the_classifier_sees_no_spare_axes(band_size):
    tasks = [task(0, 1, n=30), task(2), task(0, seed=1)]
    model = learnt(tasks, band_size=band_size, p=(2,), rank=3)

    seen = model.classifier_moments(range(3))

    assert model.moments[0].rank > 3
    for number, one in enumerate(seen):
        whole = model.complete_moments(number)
        assert one.rank == 3
        assert_array_equal(one.mean, whole.mean)
        assert_allclose(np.diag(one.scatter()), np.diag(whole.scatter()), rtol=1e-6)


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
