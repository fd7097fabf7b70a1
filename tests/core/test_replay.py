"""Pseudo-features: their moments are those of the classes they are drawn from."""

import numpy as np
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.replay import pseudo_features
from ffnb_sklearn.core.statistics import ClassMoments

CPU = torch.device("cpu")
WEIGHT = 5.0


def a_class(seed):
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(2, 4)) * np.sqrt(WEIGHT)
    return ClassMoments(WEIGHT, rng.normal(size=4), factor, rng.uniform(0, WEIGHT, size=4))


def test_draws_have_the_moments_of_their_class():
    moments = [a_class(0), a_class(1)]

    draws = pseudo_features(moments, 200_000, np.random.default_rng(0), device=CPU).numpy()

    for one, own in zip(moments, np.split(draws, 2), strict=True):
        assert_allclose(own.mean(axis=0), one.mean, atol=0.02)
        assert_allclose(np.cov(own.T), one.scatter() / WEIGHT, atol=0.06)


def test_a_class_of_one_sample_is_drawn_as_that_sample():
    point = np.array([1.0, -2.0])
    moments = ClassMoments(1.0, point, np.empty((0, 2)), np.zeros(2))

    draws = pseudo_features([moments], 3, np.random.default_rng(0), device=CPU)

    assert_array_equal(draws, np.tile(point, (3, 1)))


def test_draws_repeat_with_their_generator():
    first, again, other = (
        pseudo_features([a_class(0)], 5, np.random.default_rng(seed), device=CPU)
        for seed in (1, 1, 2)
    )

    assert torch.equal(first, again)
    assert not torch.equal(first, other)
