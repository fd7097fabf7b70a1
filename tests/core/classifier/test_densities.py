"""Distances to the classes, against dense matrices."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import log_softmax
from sklearn.datasets import make_gaussian_quantiles
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier import densities
from ffnb_sklearn.core.classifier.densities import fit_distances, fit_linear, mix_with_linear
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.statistics import moments_of
from tests.core.small_models import CPU

SIZES = (4, 30, 1, 9)


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
    own = [part.T.numpy() @ part.numpy() for part in gaussians.parts()]
    pooled = (sum(own) + np.diag(residuals.sum(0))) / n.sum()
    ridge = epsilon * float(gaussians.pooled_variance()) * np.diag(gaussians.penalties)
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


@pytest.mark.parametrize("rank", [None, 3])
def test_linear_scores_of_a_twentieth_of_the_ridge_are_mixed_in(rank):
    gaussians = gaussians_of(samples(7), rank, np.linspace(1.0, 3.0, 7))
    x = torch.as_tensor(np.concatenate(samples(7, seed=1)))

    def head(shrinkage, epsilon):
        return fit_distances(gaussians, covariance="class", shrinkage=shrinkage, epsilon=epsilon)

    distances, linear = head(0.3, 0.3), head(1.0, 0.015)
    mixed = mix_with_linear(head(0.3, 0.3), gaussians, 0.4, 0.3)

    expected = 0.6 * distances.log_ratios(x) + 0.4 * linear.log_ratios(x)
    assert_allclose(mixed.log_ratios(x), expected, rtol=1e-9, atol=1e-9 * expected.abs().max())
    temperatures = distances.temperature, linear.temperature
    assert temperatures[0] != temperatures[1]
    assert_allclose(mixed.temperature, 0.6 * temperatures[0] + 0.4 * temperatures[1])
    # Own axes add to the temperature by their part in the scores.
    own = [one.terms(x)[1] for one in (mixed, distances)]
    assert_allclose(own[0], 0.6 * own[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shrinkage", [0.3, 1.0])
def test_the_temperature_grows_with_the_own_part_of_the_nearest_class(shrinkage):
    gaussians = gaussians_of(samples(5))
    x = np.concatenate(samples(5, seed=1))

    head = fit_distances(
        gaussians, covariance="class", shrinkage=shrinkage, epsilon=0.3, temperature=2.0
    )
    scores, ratios = (call(torch.as_tensor(x)).numpy() for call in (head.scores, head.log_ratios))

    shared, nearest = covariances_of(gaussians, shrinkage, 0.3), ratios.argmax(1)
    base = shared[2]  # The class of a single sample has no covariance of its own.
    own = np.empty(len(x))
    for i, c in enumerate(nearest):
        z = x[i] - gaussians.means[c].numpy()
        own[i] = z @ np.linalg.solve(base, z) - z @ np.linalg.solve(shared[c], z)
    expected = 2.0 + 0.013 * (5.0 * shrinkage) ** 0.25 * own
    assert_allclose(scores * expected[:, None], ratios, rtol=1e-9, atol=1e-9 * np.abs(ratios).max())
    assert np.ptp(expected) > 0.005 or shrinkage == 1.0


def mean_entropy(logits):
    logs = log_softmax(logits, axis=1)
    return -np.mean((np.exp(logs) * logs).sum(1))


@pytest.mark.parametrize("linear_weight", [0.0, 0.4])
@pytest.mark.parametrize("shrinkage", [0.02, 0.3])
def test_own_axes_make_distances_as_sure_as_linear_scores(shrinkage, linear_weight, monkeypatch):
    monkeypatch.setattr(densities, "_MOST_POWER", 1.0)
    monkeypatch.setattr(densities, "_MOST_DOUBLINGS", 10.0)
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(30, 5)) @ rng.normal(size=(5, 5)) for _ in range(4)]
    gaussians, x = gaussians_of(parts), torch.as_tensor(np.concatenate(parts))

    head = fit_distances(
        gaussians,
        covariance="class",
        shrinkage=shrinkage,
        epsilon=0.3,
        linear_weight=linear_weight,
        samples=x,
    )

    linear = fit_linear(gaussians, shrinkage, 0.3)
    sure = mean_entropy(head.scores(x).numpy())
    assert sure == pytest.approx(mean_entropy(linear.scores(x).numpy()), rel=1e-3)


@pytest.mark.parametrize(("n_classes", "power"), [(4, 0.5), (9, 0.5), (17, 0.25)])
def test_temperatures_go_half_of_the_way_and_less_with_many_classes(n_classes, power, monkeypatch):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(12, 6)) + rng.normal(size=6) for _ in range(n_classes)]
    gaussians, x = gaussians_of(parts), torch.as_tensor(np.concatenate(parts))

    def own_temperature(most, samples=x):
        monkeypatch.setattr(densities, "_MOST_POWER", most)
        given = {"covariance": "class", "shrinkage": 0.3, "epsilon": 0.3}
        return fit_distances(gaussians, **given, samples=samples).own_temperature

    start = own_temperature(0.5, None)
    whole = own_temperature(max(1.0, (n_classes - 1) / 8)) / start
    assert own_temperature(0.5) / start == pytest.approx(whole**power)
    assert abs(np.log(whole)) > 0.1


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


@pytest.mark.parametrize("n_rows", [1, 10, 40])
def test_chunks_and_a_common_offset_leave_the_scores_alone(monkeypatch, n_rows):
    # In groups of up to ten rows, several classes may follow another group.
    parts, x = samples(6) + samples(6, seed=2), np.concatenate(samples(6, seed=1))

    def scores(shift):
        gaussians = gaussians_of([part + shift for part in parts])
        head = fit_distances(gaussians, covariance="class", shrinkage=0.5, epsilon=0.1)
        return head.scores(torch.as_tensor(x + shift)).numpy()

    whole = scores(0.0)
    assert_allclose(scores(1e6), whole, rtol=1e-6, atol=1e-6 * np.abs(whole).max())
    monkeypatch.setattr("ffnb_sklearn.core.classifier.densities._RESPONSE_BYTES", 24.0 * n_rows)
    monkeypatch.setattr("ffnb_sklearn.core.classifier.densities._SAMPLES_TOGETHER", 3)
    assert_allclose(scores(0.0), whole, rtol=1e-9)


def test_cosines_tell_apart_classes_that_surround_others():
    X, y = make_gaussian_quantiles(n_samples=3000, n_features=5, n_classes=3, random_state=0)

    clf = FFNBClassifier(random_state=0).fit(X[:1500], y[:1500])

    # It has 88 % here; with frequencies of 0 it had 60.
    assert clf.score(X[1500:], y[1500:]) > 0.82
