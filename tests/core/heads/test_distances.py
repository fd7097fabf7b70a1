"""Distances to the classes, against dense matrices."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from sklearn.datasets import make_gaussian_quantiles
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.core.choice.pooled import Judge
from ffnb_sklearn.core.gaussians import ClassGaussians
from ffnb_sklearn.core.heads import distances
from ffnb_sklearn.core.moments import moments_of
from tests.core.small_models import CPU

SIZES = (4, 30, 1, 9)


def fit_distances(gaussians, *, covariance, shrinkage, epsilon, temperature=None):
    """The distances at a temperature of densities, or else of left-out samples."""
    solved_means = distances.solve_means(
        gaussians, covariance=covariance, shrinkage=shrinkage, epsilon=epsilon
    )
    is_normal = temperature is not None
    if temperature is None:
        temperature = solved_means.temperature(gaussians, epsilon)
    # The solution overwrites the rows of the classes.
    copy = replace(gaussians, rows=gaussians.rows.clone())
    return distances.fit_distances(
        copy, solved_means, temperature, covariance=covariance, is_normal=is_normal
    )


def samples(d, seed=0):
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) for n in SIZES]
    return [part + 3.0 * rng.standard_normal(d) for part in parts]


def gaussians_of(parts, rank=None, penalties=None):
    moments = [
        moments_of([(torch.as_tensor(part), torch.ones(len(part), dtype=torch.float64))], rank)
        for part in parts
    ]
    columns = np.arange(parts[0].shape[1])
    return ClassGaussians.from_moments(moments, columns, penalties, device=CPU)


def covariances_of(gaussians, shrinkage, epsilon):
    """The regularised covariances, one matrix per class."""
    n, residuals = gaussians.weights.numpy(), gaussians.residuals.numpy()
    own = [part.T.numpy() @ part.numpy() for part in gaussians.class_rows]
    pooled = (sum(own) + np.diag(residuals.sum(0))) / n.sum()
    ridge = epsilon * float(gaussians.pooled_variance) * np.diag(gaussians.penalties)
    outside = np.diag((residuals / n[:, None]).mean(0))
    return [
        shrinkage * pooled + ridge + (1.0 - shrinkage) * (one / size + outside)
        for one, size in zip(own, n, strict=True)
    ]


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("shrinkage", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("d", [5, 60])
def test_scores_are_distances_up_to_a_term_that_all_share(d, shrinkage, rank):
    penalties = np.linspace(1.0, 3.0, d)
    gaussians = gaussians_of(samples(d), rank, penalties)
    x = np.concatenate(samples(d, seed=1))

    head = fit_distances(gaussians, covariance="class", shrinkage=shrinkage, epsilon=0.3)
    scores = head.log_ratios(torch.as_tensor(x)).numpy()

    expected = np.empty_like(scores)
    covariances = covariances_of(gaussians, shrinkage, 0.3)
    for c, (mean, covariance) in enumerate(zip(gaussians.means.numpy(), covariances, strict=True)):
        solved = np.linalg.solve(covariance, (x - mean).T).T
        expected[:, c] = -0.5 * np.sum(solved * (x - mean), axis=1)
    size = np.abs(expected).max()
    assert_allclose(scores - scores[:, :1], expected - expected[:, :1], rtol=0.0, atol=1e-9 * size)


@pytest.mark.parametrize("shrinkage", [0.3, 1.0])
def test_the_temperature_grows_with_the_own_part_of_the_nearest_class(shrinkage):
    gaussians = gaussians_of(samples(5))
    x = np.concatenate(samples(5, seed=1))

    head = fit_distances(gaussians, covariance="class", shrinkage=shrinkage, epsilon=0.3)
    scores, ratios = (call(torch.as_tensor(x)).numpy() for call in (head.scores, head.log_ratios))

    shared, nearest = covariances_of(gaussians, shrinkage, 0.3), ratios.argmax(1)
    base = shared[2]  # The class of a single sample has no covariance of its own.
    own = np.empty(len(x))
    for i, c in enumerate(nearest):
        z = x[i] - gaussians.means[c].numpy()
        own[i] = z @ np.linalg.solve(base, z) - z @ np.linalg.solve(shared[c], z)
    expected = head.temperature + distances._OWN_TEMPERATURE * (5.0 * shrinkage) ** 0.25 * own
    assert_allclose(scores * expected[:, None], ratios, rtol=1e-9, atol=1e-9 * np.abs(ratios).max())
    assert np.ptp(expected) > 0.005 or shrinkage == 1.0


@pytest.mark.parametrize("shrinkage", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("covariance", ["class", "identity"])
def test_the_temperature_is_that_of_the_same_ridge_over_the_pooled_covariance(
    covariance, shrinkage
):
    # B / share has a ridge relative to a pooled covariance that counts in full.
    gaussians = gaussians_of(samples(5), None, np.linspace(1.0, 3.0, 5))
    share = 1.0 if covariance == "identity" else shrinkage or 1.0
    base, judge = gaussians.shared_covariance(1.0, 0.3 / share), Judge(gaussians)

    _, expected = judge.cross_entropy(judge.metric(base))

    head = fit_distances(gaussians, covariance=covariance, shrinkage=shrinkage, epsilon=0.3)
    assert_allclose(head.temperature, expected, rtol=1e-9)


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("shrinkage", [0.1, 1.0])
def test_with_a_temperature_scores_are_gaussian_densities(shrinkage, rank):
    gaussians = gaussians_of(samples(5), rank, np.linspace(1.0, 3.0, 5))
    x = np.concatenate(samples(5, seed=1))

    head = fit_distances(
        gaussians,
        covariance="class",
        shrinkage=shrinkage,
        epsilon=0.3,
        temperature=2.0,
    )

    covariances = covariances_of(gaussians, shrinkage, 0.3)
    expected = np.stack(
        [
            multivariate_normal.logpdf(x, mean, covariance)
            for mean, covariance in zip(gaussians.means.numpy(), covariances, strict=True)
        ],
        axis=1,
    )
    scores, size = head.scores(torch.as_tensor(x)).numpy(), np.abs(expected).max()
    assert_allclose(
        2.0 * (scores - scores[:, :1]), expected - expected[:, :1], rtol=0.0, atol=1e-9 * size
    )


def test_a_tiny_class_does_not_decide_the_temperature_of_large_ones():
    rng = np.random.default_rng(0)
    parts = [rng.standard_normal((200, 6)) + 1.5 * rng.standard_normal(6) for _ in range(4)]
    # The four samples lie so far apart that each one left out belongs to another class.
    few = rng.standard_normal((4, 6)) + 40.0 * np.eye(4, 6)

    with_few, without = (
        fit_distances(gaussians_of(one), covariance="class", shrinkage=1.0, epsilon=0.3)
        for one in ([few, *parts], parts)
    )

    assert with_few.temperature < 6.0 * without.temperature


def test_the_pooled_covariance_decides_as_linear_discriminant_analysis():
    # Classes of one size: scikit-learn weighs the covariances of classes by their priors.
    parts = [samples(6, seed)[1] for seed in range(3)]
    X, y = np.concatenate(parts), np.repeat(np.arange(3), SIZES[1])
    x = np.concatenate(samples(6, seed=1))
    uniform = np.full(3, 1.0 / 3.0)
    peer = LinearDiscriminantAnalysis(solver="lsqr", priors=uniform).fit(X, y)

    head = fit_distances(gaussians_of(parts), covariance="class", shrinkage=1.0, epsilon=1e-12)

    assert head.rows.shape == (0, 6)
    found = head.scores(torch.as_tensor(x)).argmax(1).numpy()
    np.testing.assert_array_equal(found, peer.predict(x))


@pytest.mark.parametrize("absolute", [False, True])
def test_identity_covariances_decide_by_the_nearest_mean(absolute):
    units = np.geomspace(0.2, 5.0, 6)
    parts, x = [part * units for part in samples(6)], np.concatenate(samples(6, seed=1)) * units
    gaussians = replace(gaussians_of(parts), absolute_ridge=absolute)

    head = fit_distances(gaussians, covariance="identity", shrinkage=0.5, epsilon=0.1)

    gaps = np.linalg.norm(x[:, None] - gaussians.means.numpy(), axis=2)
    found = head.scores(torch.as_tensor(x)).argmax(1).numpy()
    np.testing.assert_array_equal(found, gaps.argmin(1))


def test_a_common_offset_leaves_the_scores_alone():
    parts, x = samples(6) + samples(6, seed=2), np.concatenate(samples(6, seed=1))

    def scores(shift):
        gaussians = gaussians_of([part + shift for part in parts])
        head = fit_distances(gaussians, covariance="class", shrinkage=0.5, epsilon=0.1)
        return head.scores(torch.as_tensor(x + shift)).numpy()

    whole = scores(0.0)
    assert_allclose(scores(1e6), whole, rtol=1e-6, atol=1e-6 * np.abs(whole).max())


def test_cosines_tell_apart_classes_that_surround_others():
    X, y = make_gaussian_quantiles(n_samples=1500, n_features=5, n_classes=3, random_state=0)

    clf = IncrementalDiscriminantAnalysis(shared_band_size=300, random_state=0).fit(
        X[:1000], y[:1000]
    )

    # Frequencies of 0 tell norms apart by nothing.
    assert clf.score(X[1000:], y[1000:]) > 0.75


@pytest.mark.parametrize("lengths", [[2, 3], [0, 2, 0, 0, 3, 0], [0, 0], []])
def test_sums_of_classes_with_and_without_columns(lengths):
    squares = torch.arange(4.0 * sum(lengths), dtype=torch.float64).reshape(4, sum(lengths))
    parts = squares.split(lengths, 1) if lengths else []
    expected = [part.sum(1).tolist() for part in parts]
    assert distances._class_sums(squares, lengths).T.tolist() == expected
