"""Pseudo-features: their moments are those of the classes they are drawn from."""

from dataclasses import replace

import numpy as np
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.bands.tuning.draws import pseudo_features
from ffnb_sklearn.core.class_moments import ClassMoments

CPU = torch.device("cpu")
WEIGHT = 5.0


def a_class(seed):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(2, 4)) * np.sqrt(WEIGHT)
    return ClassMoments(
        WEIGHT, WEIGHT**0.5, rng.normal(size=4), factor, rng.uniform(0, WEIGHT, size=4)
    )


def scaled(moments, weight):
    """The same class, its samples weighted otherwise."""
    factor = weight / moments.weight
    return ClassMoments(
        weight,
        factor * moments.weight_norm,
        moments.mean,
        factor**0.5 * moments.factor,
        factor * moments.residual,
    )


def test_draws_are_what_the_next_sample_of_their_class_may_be():
    moments = [a_class(0), replace(a_class(1), weight=80.0, weight_norm=80.0**0.5)]

    draws = pseudo_features(moments, 200_000, np.random.default_rng(0), device=CPU).numpy()

    covariances = [one.scatter() / one.weight for one in moments]
    prior = np.mean(covariances, axis=0)
    # All classes together count as 20 samples of each.
    for one, own, share in zip(moments, np.split(draws, 2), (0.8, 0.2), strict=True):
        expected = (1 - share) * one.scatter() / one.weight + share * prior
        assert_allclose(own.mean(axis=0), one.mean, atol=0.02)
        assert_allclose(np.cov(own.T), (1 + 1 / one.weight) * expected, atol=0.06)


def test_a_single_class_of_one_sample_is_drawn_as_that_sample():
    point = np.array([1.0, -2.0])
    moments = ClassMoments(1.0, 1.0, point, np.empty((0, 2)), np.zeros(2))

    draws = pseudo_features([moments], 3, np.random.default_rng(0), device=CPU)

    assert_array_equal(draws, np.tile(point, (3, 1)))


def test_a_common_factor_on_the_weights_makes_samples_no_fewer():
    heavy, light = (
        pseudo_features([scaled(a_class(0), weight)], 9, np.random.default_rng(0), device=CPU)
        for weight in (1.0, 1e-6)
    )

    assert_allclose(light, heavy, rtol=1e-9)


def test_draws_repeat_with_their_generator():
    first, again, other = (
        pseudo_features([a_class(0)], 5, np.random.default_rng(seed), device=CPU)
        for seed in (1, 1, 2)
    )

    assert torch.equal(first, again)
    assert not torch.equal(first, other)
