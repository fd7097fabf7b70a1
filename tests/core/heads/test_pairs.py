"""Pairwise discriminants against one dense system per pair."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.gaussians import ClassGaussians
from ffnb_sklearn.core.heads.pairs import PairwiseFisher, fit_pairwise
from ffnb_sklearn.core.moments import ClassMoments

CPU = torch.device("cpu")
SIZES = (9, 1, 5, 30, 1, 4)


def classes(d, residual=0.0, sizes=SIZES, seed=0):
    """Classes with unequal numbers of samples; ``residual`` is a variance outside the factor."""
    rng = np.random.default_rng(seed)
    moments = []
    for n in sizes:
        X = rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + 2.0 * rng.normal(size=d)
        centred = X - X.mean(axis=0)
        factor = np.linalg.svd(centred)[2][: min(n - 1, d)]
        factor = np.linalg.norm(centred @ factor.T, axis=0)[:, None] * factor
        moments.append(
            ClassMoments(float(n), n**0.5, X.mean(axis=0), factor, np.full(d, residual * n))
        )
    return moments


def gaussians_of(moments, penalties=None):
    d = len(moments[0].mean)
    penalties = np.ones(d) if penalties is None else penalties
    return ClassGaussians.from_moments(moments, np.arange(d), penalties, device=CPU)


def naive(moments, covariance, shrinkage, epsilon, penalties):
    """Each pair's d x d system, as the formula has it."""
    weights = np.array([one.weight for one in moments])
    own = [one.scatter() / one.weight for one in moments]
    pooled = np.average(own, axis=0, weights=weights)
    ridges = [np.mean(np.diag(one) / penalties) for one in own]
    within = np.mean(np.diag(pooled) / penalties)
    planes, offsets = [], []
    for t in range(1, len(moments)):
        for r in range(t):
            if covariance == "identity":
                system = 2.0 * (1.0 + epsilon) * within * np.diag(penalties)
            else:
                ridge = ridges[t] + ridges[r] if shrinkage == 0.0 else 2.0 * within
                system = (
                    (1.0 - shrinkage) * (own[t] + own[r])
                    + 2.0 * shrinkage * pooled
                    + epsilon * ridge * np.diag(penalties)
                )
            plane = np.linalg.solve(system, moments[t].mean - moments[r].mean)
            planes.append(plane)
            offsets.append(-0.5 * plane @ (moments[t].mean + moments[r].mean))
    return np.array(planes), np.array(offsets)


def assert_matches(result, expected, rtol=1e-8):
    scale = np.abs(expected[0]).max(axis=1, keepdims=True)
    assert_allclose(result.planes / scale, expected[0] / scale, atol=rtol)
    assert_allclose(result.offsets, expected[1], rtol=rtol, atol=rtol * np.abs(expected[1]).max())


# The largest class has 29 rows: 70 columns are more than the rows of any pair.
@pytest.mark.parametrize("d", [3, 8, 40, 70])
@pytest.mark.parametrize(
    ("covariance", "shrinkage"),
    [("class", 0.0), ("class", 0.25), ("class", 1.0), ("identity", 0.25)],
)
def test_all_pairs_are_those_of_the_dense_systems(d, covariance, shrinkage):
    # Two classes of one sample have no ridge of their own at shrinkage 0: see below.
    moments = classes(d, sizes=SIZES if shrinkage else SIZES[:4])
    penalties = np.random.default_rng(1).uniform(0.5, 3.0, size=d)

    result = fit_pairwise(
        gaussians_of(moments, penalties), covariance=covariance, shrinkage=shrinkage, epsilon=0.3
    )

    assert result.n_classes == len(moments)
    assert_matches(result, naive(moments, covariance, shrinkage, 0.3, penalties))


@pytest.mark.parametrize(
    ("covariance", "shrinkage"),
    [("class", 0.0), ("class", 0.25), ("class", 1.0), ("identity", 0.25)],
)
def test_a_residual_that_all_classes_share_is_exact(covariance, shrinkage):
    moments = classes(12, residual=0.7, sizes=SIZES[:4])

    result = fit_pairwise(
        gaussians_of(moments), covariance=covariance, shrinkage=shrinkage, epsilon=0.3
    )

    assert_matches(result, naive(moments, covariance, shrinkage, 0.3, np.ones(12)))


def test_residuals_of_single_classes_are_exact_in_the_pooled_covariance():
    rng = np.random.default_rng(2)
    moments = [replace(one, truncated=rng.random(12)) for one in classes(12)]

    for covariance in ("class", "identity"):
        result = fit_pairwise(
            gaussians_of(moments), covariance=covariance, shrinkage=1.0, epsilon=0.3
        )
        assert_matches(result, naive(moments, covariance, 1.0, 0.3, np.ones(12)))


def test_without_shrinkage_a_pair_depends_on_its_two_classes_alone():
    moments, how = classes(10), {"covariance": "class", "shrinkage": 0.0, "epsilon": 0.3}

    first = fit_pairwise(gaussians_of(moments[:3]), **how)
    all_pairs = fit_pairwise(gaussians_of(moments), **how)

    assert_allclose(all_pairs.planes[:3], first.planes, rtol=1e-9, atol=1e-12)
    assert_allclose(all_pairs.offsets[:3], first.offsets, rtol=1e-9)


def test_two_classes_of_one_sample_are_told_apart_at_their_midpoint():
    moments = classes(4, sizes=(1, 1))
    X = torch.as_tensor(np.stack([moments[0].mean, moments[1].mean]))

    for shrinkage in (0.0, 0.25, 1.0):
        result = fit_pairwise(
            gaussians_of(moments), covariance="class", shrinkage=shrinkage, epsilon=0.3
        )
        scores = result.scores(X).numpy()
        middle = result.scores(X.mean(0, keepdim=True)).numpy()
        assert_array_equal(scores.argmax(axis=1), [0, 1])
        assert_allclose(middle, 0.0, atol=1e-12)


def test_the_threshold_lies_at_the_midpoint_of_the_means():
    moments = classes(6)
    result = fit_pairwise(gaussians_of(moments), covariance="class", shrinkage=0.25, epsilon=0.3)

    t, r = np.tril_indices(len(moments), -1)
    means = np.stack([one.mean for one in moments])
    at_middle = np.einsum("ij,ij->i", result.planes, 0.5 * (means[t] + means[r])) + result.offsets
    assert_allclose(at_middle, 0.0, atol=1e-12 * np.abs(result.offsets).max())


@pytest.mark.parametrize("n_samples", [1, 7, 40])
@pytest.mark.parametrize("n_classes", [1, 2, 5, 9])
def test_scores_are_sums_of_antisymmetric_pair_outputs(n_samples, n_classes):
    rng, n_pairs = np.random.default_rng(0), n_classes * (n_classes - 1) // 2
    planes, offsets = rng.normal(size=(n_pairs, 3)), rng.normal(size=n_pairs)
    X = rng.normal(size=(n_samples, 3))

    scores = PairwiseFisher(planes, offsets, n_classes).scores(torch.as_tensor(X)).numpy()

    outputs = np.tanh(X @ planes.T + offsets)
    expected, k = np.zeros((n_samples, n_classes)), 0
    for t in range(n_classes):
        for r in range(t):
            expected[:, t] += outputs[:, k]
            expected[:, r] -= outputs[:, k]
            k += 1
    assert_allclose(scores, expected, rtol=1e-12, atol=1e-13)
    assert_allclose(scores.sum(axis=1), 0.0, atol=1e-12)


def test_the_order_of_the_classes_only_turns_signs():
    moments = classes(6)
    X = torch.as_tensor(np.random.default_rng(0).normal(size=(5, 6)))

    for shrinkage in (0.0, 0.25):
        how = {"covariance": "class", "shrinkage": shrinkage, "epsilon": 0.3}
        forwards = fit_pairwise(gaussians_of(moments), **how).scores(X)
        backwards = fit_pairwise(gaussians_of(moments[::-1]), **how).scores(X)
        assert_allclose(backwards.flip(1), forwards, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("residual", [0.0, 0.2])
@pytest.mark.parametrize(
    ("covariance", "shrinkage"),
    [("class", 0.0), ("class", 0.25), ("class", 1.0), ("identity", 0.0)],
)
@pytest.mark.parametrize("half_bias", [True, False])
def test_an_absolute_ridge_is_that_of_a_pair(covariance, shrinkage, residual, half_bias):
    moments = classes(6, residual)
    # Without shrinkage, what is left out of a class has the shape of the penalties.
    penalties = np.ones(6) if residual else np.linspace(0.5, 2.0, 6)
    ridge = 0.7 * np.diag(penalties)
    gaussians = replace(gaussians_of(moments, penalties), absolute_ridge=True)

    result = fit_pairwise(
        gaussians,
        covariance=covariance,
        shrinkage=shrinkage,
        epsilon=0.7,
        half_bias=half_bias,
    )

    own = [one.scatter() / one.weight for one in moments]
    pooled = np.average(own, axis=0, weights=[one.weight for one in moments])
    pair = 0
    for t in range(1, len(moments)):
        for r in range(t):
            if covariance == "identity":
                system = 2.0 * ridge / 0.7 + ridge
            else:
                system = (1.0 - shrinkage) * (own[t] + own[r]) + 2.0 * shrinkage * pooled + ridge
            plane = np.linalg.solve(system, moments[t].mean - moments[r].mean)
            offset = plane @ (moments[t].mean + moments[r].mean)
            assert_allclose(result.planes[pair], plane, rtol=1e-8, atol=1e-10)
            assert_allclose(result.offsets[pair], -(0.5 if half_bias else 1.0) * offset, rtol=1e-7)
            pair += 1
