"""Gaussian densities judged by left-out samples, and the test of Gaussian classes."""

from itertools import product

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import log_softmax
from scipy.stats import multivariate_normal
from sklearn.datasets import make_circles, make_classification, make_gaussian_quantiles

from ffnb_sklearn.core.choice.densities import (
    GaussianDensities,
    dispersion,
    distances_from_others,
    left_out_distances,
)
from ffnb_sklearn.core.choice.pooled import Judge
from ffnb_sklearn.core.features import Blocks, FixedFeatures, SharedBand, draw_shared_band
from ffnb_sklearn.core.gaussians import ClassGaussians
from ffnb_sklearn.core.moments import moments_of
from tests.core.small_models import CPU

D = 12


def three_classes(n, *, gap=1.0, common=0.0, seed=0):
    """Three classes with covariances of their own in 12 dimensions."""
    rng = np.random.default_rng(3)
    means = gap * rng.standard_normal((3, 12))
    mixing = common * np.eye(12) + rng.standard_normal((3, 12, 12))
    y = np.repeat(np.arange(3), n)
    noise = np.random.default_rng([7, seed]).standard_normal((len(y), 12))
    return np.einsum("ni,nij->nj", noise, mixing[y]) + means[y], y


def stacked(X, y, rank=None, weight=1.0):
    moments = []
    for c in range(int(y.max()) + 1):
        rows = torch.as_tensor(X[y == c])
        moments.append(moments_of([(rows, rows.new_full((len(rows),), weight))], rank))
    return ClassGaussians.from_moments(moments, np.arange(X.shape[1]), device=CPU)


def inputs_of(X, y, rank=None):
    return stacked(X, y, rank).weigh_blocks(Blocks(X.shape[1], 0), 1.0)


def densities_of(X, y, rank=None):
    judge = Judge(inputs_of(X, y, rank))
    base = judge.gaussians.shared_covariance(1.0, 0.7)
    return GaussianDensities(judge, X.shape[1], judge.metric(base))


def density_loss(X, y, gaussians, shrinkage, ridge, temperature):
    """Log-loss of samples that are really left out of their class and of B."""
    unit = float(gaussians.pooled_variance) * np.diag(gaussians.penalties)
    losses = []

    def pooled(X, y):
        scatter = sum(np.cov(X[y == c].T, bias=True) * (y == c).sum() for c in np.unique(y))
        return scatter / len(y)

    def log_density(x, part, shared):
        covariance = (1.0 - shrinkage) * np.cov(part.T, bias=True) + shrinkage * shared
        return multivariate_normal.logpdf(x, part.mean(axis=0), covariance)

    for i in range(len(y)):
        kept = np.arange(len(y)) != i
        shared = pooled(X[kept], y[kept]) + ridge * unit
        logits = np.array([log_density(X[i], X[kept & (y == c)], shared) for c in np.unique(y)])
        losses.append(-log_softmax(logits / temperature)[y[i]])
    return np.mean(losses)


def test_the_distance_of_a_left_out_sample_is_that_of_the_refitted_gaussian():
    # The samples lie at the mean plus and minus multiples of the axes, and have one leverage.
    n, shrinkage, in_shared = 8, 0.3, 0.02
    X = 2.0 * np.concatenate([np.eye(4), -np.eye(4)]) @ np.diag([1.0, 2.0, 3.0, 4.0])
    shared = shrinkage * np.diag([2.0, 1.0, 3.0, 2.0])
    covariance = np.cov(X.T, bias=True)
    expected = []
    for i in range(n):
        deviation = X[i] * n / (n - 1)
        # The scatter without the sample, over n - 1 of its n samples.
        scatter = n * covariance - np.outer(X[i], X[i]) * n / (n - 1)
        refitted = (1.0 - shrinkage) * scatter / (n - 1) + shared
        refitted -= in_shared * np.outer(X[i], X[i])
        expected.append(deviation @ np.linalg.solve(refitted, deviation))
        expected[-1] += np.linalg.slogdet(refitted)[1]

    arguments = (torch.as_tensor(array) for array in (X[[0, 4]], covariance))
    found = left_out_distances(
        *arguments,
        torch.tensor(8.0).double(),
        shrinkage,
        torch.as_tensor(shared),
        torch.tensor(in_shared, dtype=torch.float64),
    )

    assert_allclose(found, np.array(expected)[[0, 4]], rtol=1e-9)


def test_distances_from_other_classes_are_those_without_the_sample():
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((3, 5, 5))
    covariances = roots @ roots.transpose(0, 2, 1) + 2.0 * np.eye(5)
    samples = rng.standard_normal((4, 5))
    differences = rng.standard_normal((3, 5))
    in_shared = 0.1

    found = distances_from_others(
        torch.linalg.cholesky(torch.as_tensor(covariances)),
        torch.as_tensor(differences),
        torch.as_tensor(samples),
        torch.tensor(in_shared, dtype=torch.float64),
    )

    mirrored = np.concatenate([samples, -samples])
    for c, i in product(range(3), range(8)):
        gap = mirrored[i] + differences[c]
        without = covariances[c] - in_shared * np.outer(mirrored[i], mirrored[i])
        expected = gap @ np.linalg.solve(without, gap)
        expected += np.linalg.slogdet(without)[1] - np.linalg.slogdet(covariances[c])[1]
        assert_allclose(found[c, i], expected, rtol=1e-9)


def test_the_cross_entropy_of_densities_is_that_of_real_left_out_samples():
    n = 15
    found, real, grid = [], [], []
    for seed in range(4):
        # Covariances that overlap, so that the cross-entropy is no matter of single samples.
        X, y = three_classes(n, gap=0.8, common=8.0, seed=seed)
        gaussians = inputs_of(X, y)
        choice = densities_of(X, y)
        found.append(choice.entropy)
        values = choice.shrinkage, choice.ridge, choice.temperature
        real.append(density_loss(X, y, gaussians, *values))
        points = product((1.0, 0.1, 0.01), (0.01, 3.0), (1.0,))
        grid.append([density_loss(X, y, gaussians, *one) for one in points])

    assert np.mean(found) == pytest.approx(np.mean(real), rel=0.25)
    assert np.mean(real) < np.mean(grid, axis=0).min() + 0.05


def test_covariances_are_pooled_as_far_as_they_agree():
    rng, y = np.random.default_rng(1), np.repeat(np.arange(3), 60)
    equal = rng.standard_normal((180, 12)) + np.eye(3, 12)[y]

    assert densities_of(equal, y).shrinkage == 1.0
    assert densities_of(*three_classes(60)).shrinkage < 0.1


def test_classes_far_apart_share_their_covariance():
    rng, y = np.random.default_rng(0), np.repeat(np.arange(3), 60)

    found = densities_of(rng.standard_normal((180, 12)) + 1e3 * np.eye(3, 12)[y], y)

    assert found.entropy == 0.0
    assert found.shrinkage == 1.0


def test_few_samples_of_round_classes_shrink_their_covariances_towards_the_identity():
    rng, y = np.random.default_rng(0), np.repeat(np.arange(3), 16)
    scales = np.array([0.5, 1.0, 2.0])[y, None]

    found = densities_of(scales * rng.standard_normal((48, 12)), y)

    assert found.shrinkage < 1.0
    assert found.ridge == 3.0


def test_the_temperature_grows_where_covariances_are_uncertain():
    few, many = (densities_of(*three_classes(n, gap=0.2)) for n in (20, 2000))

    assert few.temperature > 1.5 * many.temperature


def test_samples_of_a_large_class_near_rare_ones_do_not_raise_the_temperature():
    X, y = make_classification(
        2400, 10, n_informative=6, n_redundant=0, n_classes=3, n_clusters_per_class=1,
        weights=[0.02, 0.05, 0.93], flip_y=0.0, class_sep=1.2, random_state=2,
    )  # fmt: skip

    assert densities_of(X, y).temperature <= 1.0


@pytest.mark.parametrize("unit", [1e-70, 1e70])
def test_order_and_unit_of_gaussian_classes_play_no_part(unit):
    X, y = three_classes(30)
    expected = densities_of(X, y)

    for rows, labels in [(unit * X, y), (X, np.array([2, 0, 1])[y]), (X, np.array([1, 2, 0])[y])]:
        found = densities_of(rows, labels)
        assert (found.shrinkage, found.ridge) == (expected.shrinkage, expected.ridge)
        assert_allclose(found.entropy, expected.entropy, rtol=1e-6)


def test_kept_axes_with_the_variance_outside_of_them_are_covariances():
    X, y = three_classes(100)

    whole, truncated = (densities_of(X, y, rank) for rank in (None, 11))

    assert (truncated.shrinkage, truncated.ridge) == (whole.shrinkage, whole.ridge)
    assert_allclose(truncated.entropy, whole.entropy, rtol=0.3)


# The test of Gaussian classes.


def unlike_samples(n, *, gap=1.0, common=0.0, seed=0):
    """Three classes with covariances of their own."""
    rng = np.random.default_rng(3)
    means = gap * rng.standard_normal((3, D))
    mixing = common * np.eye(D) + rng.standard_normal((3, D, D))
    y, rng = np.repeat(np.arange(3), n), np.random.default_rng([7, seed])
    return np.einsum("ni,nij->nj", rng.standard_normal((len(y), D)), mixing[y]) + means[y], y


def dispersion_of(X, y, n_neurons=60, rank=None):
    shared = draw_shared_band(n_neurons, X.shape[1], mirrored=True, seed=0)
    features = FixedFeatures(X.shape[1], shared)(torch.as_tensor(X)).numpy()
    return dispersion(Judge(stacked(features, y, rank)), shared)


@pytest.mark.parametrize("rank", [None, 40])
@pytest.mark.parametrize("n", [20, 200])
def test_the_dispersion_of_gaussian_classes_is_about_one(n, rank):
    found = [dispersion_of(*unlike_samples(n, seed=seed), rank=rank) for seed in range(10)]

    assert np.mean(found) == pytest.approx(1.0, abs=0.15)
    assert max(found) < 1.6


def clusters(n):
    rng, y = np.random.default_rng(0), np.repeat(np.arange(3), n)
    X = rng.standard_normal((len(y), 4))
    X[:, 0] += np.where(rng.random(len(y)) < 0.5, -2.5, 2.5)
    return X + y[:, None], y


def skewed(n):
    y = np.repeat(np.arange(3), n)
    return np.random.default_rng(0).exponential(size=(len(y), 4)) + y[:, None], y


@pytest.mark.parametrize("samples", [clusters, skewed])
def test_other_classes_deviate_more_the_more_samples_they_have(samples):
    few, many = (dispersion_of(*samples(n)) for n in (50, 1000))

    assert few > 1.1
    assert many > max(3.0, 3.0 * few)


def test_circles_and_shells_are_not_gaussian():
    circles = make_circles(400, noise=0.05, factor=0.5, random_state=0)
    shells = make_gaussian_quantiles(n_samples=600, n_features=10, random_state=0)

    assert dispersion_of(*circles) > 10.0
    assert dispersion_of(*shells) > 1.5


def test_small_weights_do_not_change_the_dispersion():
    X, y = unlike_samples(20)
    shared = draw_shared_band(60, D, mirrored=True, seed=0)
    features = FixedFeatures(D, shared)(torch.as_tensor(X)).numpy()

    # The 19 axes of a class tell the number of its samples.
    found, expected = (
        dispersion(Judge(stacked(features, y, weight=w)), shared) for w in (1e-3, 1.0)
    )
    assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("samples", ["equal", "single", "far", "without neurons"])
def test_nothing_can_be_tested_without_variance_or_neurons(samples):
    X, y = unlike_samples(20)
    if samples == "equal":
        X = np.eye(3, D)[y]
    if samples == "single":
        X, y = X[::20], y[::20]
    if samples == "far":
        # All neurons are linear.
        X = X + 1e6
    if samples == "without neurons":
        assert dispersion(Judge(stacked(X, y)), SharedBand.empty(D)) == np.inf
    else:
        assert dispersion_of(X, y) == np.inf
