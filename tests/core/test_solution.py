"""The classifier that follows from what is learnt."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.gaussians import ClassGaussians
from ffnb_sklearn.core.heads.pairs import PairwiseFisher
from ffnb_sklearn.core.heads.ridge import OneVsAllRidge
from ffnb_sklearn.core.linalg import IllConditionedWarning, NotPositiveDefiniteError
from ffnb_sklearn.core.model import Task
from ffnb_sklearn.core.solution import apply_choice, n_classifier_weights, solve
from tests.core.small_models import CPU, SETTINGS, D, empty, learnt, moments_of_all, task

KINDS = {
    "all pairs": ({}, PairwiseFisher),
    "one against all": ({"classifier": "ova"}, OneVsAllRidge),
}


def solved(model, moments=None, **changes):
    moments = moments_of_all(model) if moments is None else moments
    settings = replace(model.settings, **changes)
    return solve(replace(model, settings=settings).space, moments, device=CPU).head


@pytest.mark.parametrize(("changes", "kind"), KINDS.values(), ids=KINDS)
def test_the_classifier_is_of_the_kind_chosen(changes, kind):
    model = learnt([task(0, 1), task(2, 3)], **changes)

    assert isinstance(solved(model), kind)
    assert isinstance(prediction.solve_once(model, CPU).head, kind)


@pytest.mark.parametrize("changes", [changes for changes, _ in KINDS.values()], ids=KINDS)
def test_weights_are_counted_as_they_are_solved(changes):
    model = learnt([task(0, 1), task(2, 3)], **changes)

    counted = n_classifier_weights(len(model.columns), model.moments, model.settings)

    found = solved(model)
    assert counted == found.planes.size + found.offsets.size


@pytest.mark.parametrize("head", ["ovo", "ova", "gaussian"])
def test_an_absolute_ridge_of_a_class_is_half_of_that_of_a_pair(head):
    # Exact moments without a skip connection: the features all weigh the same.
    model = learnt([task(0, 1), task(2, 3)], skip_connection=False, band_size=0)
    gaussians = ClassGaussians.from_moments(model.moments, model.columns, device=CPU)
    variance = gaussians.pooled_variance

    absolute = solved(model, classifier=head, units="absolute", epsilon=0.6)
    relative = solved(model, classifier=head, epsilon=0.3 / float(variance))

    assert_allclose(absolute.planes, relative.planes, rtol=1e-9, atol=1e-12)
    assert_allclose(absolute.offsets, relative.offsets, rtol=1e-9, atol=1e-12)


def test_no_class_has_no_weights():
    assert n_classifier_weights(len(empty(D, SETTINGS).columns), (), SETTINGS) == 0


def test_a_warning_comes_once():
    model = learnt([task(0, 1, 2)], band_size=0)
    # Many rows along few axes, and a ridge that is nothing beside them.
    moments = [replace(one, factor=np.tile(one.factor[:1], (9, 1))) for one in model.moments]

    with pytest.warns(IllConditionedWarning) as warned:
        solved(model, moments, shrinkage=1.0, epsilon=1e-30)

    assert len(warned) == 1


def test_moments_that_are_no_numbers_are_refused():
    model = learnt([task(0, 1, 2)], band_size=0)
    moments = [replace(one, truncated=np.nan * one.mean) for one in model.moments]

    with pytest.raises(NotPositiveDefiniteError, match="NaN"):
        solved(model, moments)


@pytest.mark.parametrize("rank", [None, 3])
def test_weights_of_distances_are_counted_as_they_are_solved(rank):
    tasks = [task(0, n=2), task(1, n=40)]
    tasks = [replace(one, weights=torch.ones_like(one.weights)) for one in tasks]
    model = learnt(tasks, classifier="gaussian", rank=rank, band_size=0)

    found = solved(model)

    counted = n_classifier_weights(len(model.columns), model.moments, model.settings)
    parts = (found.centre, found.planes, found.offsets, found.rows, found.shifts)
    assert counted == sum(one.size for one in parts)


def left_open(**changes):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 12)
    X = rng.normal(size=(48, D)) * np.linspace(0.5, 2.0, D) + rng.normal(size=(4, D))[y]
    rows = Task(*(torch.as_tensor(one) for one in (X, y, np.ones(48))))
    return learnt([rows], shared_band_size=30, band_size=0, **changes)


OPEN = {"shrinkage": None, "epsilon": None}


@pytest.mark.parametrize("head", ["ovo", "ova", "gaussian"])
def test_draws_follow_the_seed(head):
    # A given ridge leaves the temperature of the distances to the draws.
    model = left_open(classifier=head, shrinkage=None, epsilon=0.5 if head == "gaussian" else None)

    def solution(seed, choice=None):
        how = {"device": CPU, "seed": seed, "choice": choice}
        return solve(model.space, model.moments, **how)

    first, again, other = solution(0), solution(0), solution(1)
    assert first.choice == again.choice
    assert solution(1, first.choice).choice == first.choice
    assert_array_equal(first.head.planes, again.head.planes)
    if head == "ova":
        assert first.head.power == again.head.power != other.head.power
    if head == "gaussian":
        found = [one.head.temperature for one in (first, again, other)]
        assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("shrinkage", [0.3, None])
@pytest.mark.parametrize("head", ["gaussian", "ova"])
@pytest.mark.parametrize("skip", [False, True])
def test_the_temperature_of_an_absolute_ridge_is_that_of_the_same_relative_one(
    head, shrinkage, skip
):
    model = left_open(skip_connection=skip, shrinkage=shrinkage, classifier=head)
    settings = replace(model.settings, epsilon=1.0)
    choice = solve(replace(model, settings=settings).space, model.moments, device=CPU).choice
    gaussians = ClassGaussians.from_moments(model.moments, model.columns, device=CPU)
    blocks = model.features.blocks(skip)
    variance = float(apply_choice(gaussians, blocks, choice).pooled_variance)

    absolute = solved(model, units="absolute", epsilon=0.6)
    relative = solved(model, epsilon=0.3 / variance)

    name = "power" if head == "ova" else "temperature"
    assert_allclose(getattr(absolute, name), getattr(relative, name), rtol=1e-9)
