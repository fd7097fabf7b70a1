"""Left-out cross-entropy of truncated classes."""

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier.densities import shared_covariance
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.left_out import LeftOutSamples
from ffnb_sklearn.core.statistics import moments_of
from tests.core.small_models import CPU

N_CLASSES, N_SAMPLES, N_INPUTS = 4, 60, 50


def samples_of_one_covariance(seed, n, n_inputs=N_INPUTS, distance=0.55):
    """Classes whose covariance has a wide spectrum, with means along its axes."""
    scales = np.geomspace(1.0, 0.1, n_inputs)
    means = np.random.default_rng(1).standard_normal((N_CLASSES, n_inputs))
    labels = np.repeat(np.arange(N_CLASSES), n)
    noise = np.random.default_rng([2, seed]).standard_normal((len(labels), n_inputs))
    return (distance * means[labels] + noise) * scales, labels


def curved(X, n_neurons=300):
    """Random rectified neurons, as those of the shared band."""
    rows = np.random.default_rng(3).standard_normal((n_neurons, X.shape[1]))
    return np.abs(X @ rows.T)


def samples_of_unlike_variances(seed, n, n_inputs=60):
    """Classes whose means hardly differ, each large in its own pair of inputs."""
    labels = np.repeat(np.arange(N_CLASSES), n)
    X = np.random.default_rng([5, seed]).standard_normal((len(labels), n_inputs))
    for c in range(N_CLASSES):
        X[labels == c, 3 * c : 3 * c + 2] *= 3.0
    return X + 0.3 * np.random.default_rng(8).standard_normal((N_CLASSES, n_inputs))[labels], labels


def entropy_of(features, labels, rank, epsilon=1.0, weight=1.0):
    moments = []
    for c in range(N_CLASSES):
        rows = torch.as_tensor(features[labels == c])
        moments.append(moments_of([(rows, rows.new_full((len(rows),), weight))], rank))
    columns = np.arange(features.shape[1])
    gaussians = ClassGaussians.from_moments(moments, columns, device=CPU)
    base, left_out = shared_covariance(gaussians, 1.0, epsilon), LeftOutSamples(gaussians)
    return left_out.cross_entropy(base, base.solve(left_out.means))[0]


@pytest.mark.parametrize("rank", [15, 30, 45])
@pytest.mark.parametrize("features_of", [np.asarray, curved])
def test_truncated_classes_are_judged_as_if_they_had_all_axes(features_of, rank):
    X, labels = samples_of_one_covariance(0, N_SAMPLES)
    features = features_of(X)
    exact = entropy_of(features, labels, None)
    assert entropy_of(features, labels, rank) == pytest.approx(exact, rel=0.25)


def test_five_axes_tell_the_cross_entropy_of_fifty_nine():
    X, labels = samples_of_one_covariance(1, N_SAMPLES)
    features = curved(X)
    exact = entropy_of(features, labels, None)
    assert entropy_of(features, labels, 5) == pytest.approx(exact, rel=0.5)


@pytest.mark.parametrize("n", [75, 110])
def test_few_axes_do_not_hide_that_classes_are_linear(n):
    X, labels = samples_of_one_covariance(4, n, n_inputs=80, distance=0.35)
    X_test, y_test = samples_of_one_covariance(5, 400, n_inputs=80, distance=0.35)
    few, all_axes = (
        FFNBClassifier(shared_band_size=500, rank=rank, random_state=0).fit(X, labels)
        for rank in (16, None)
    )
    assert few.score(X_test, y_test) > all_axes.score(X_test, y_test) - 0.01


def test_equal_samples_have_no_axes_to_lose():
    X = np.repeat(np.eye(N_CLASSES), 5, axis=0)
    assert entropy_of(X, np.repeat(np.arange(N_CLASSES), 5), 2) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("rank", [10, 64])
def test_repeated_samples_have_fewer_axes_than_samples_and_lose_none(rank):
    X, labels = samples_of_one_covariance(0, 11)
    X, labels = np.repeat(X, 3, axis=0), np.repeat(labels, 3)
    assert entropy_of(X, labels, rank) == pytest.approx(entropy_of(X, labels, None))


@pytest.mark.parametrize("rank", [None, 5])
def test_a_ridge_that_is_only_rounding_leaves_finite_numbers(rank):
    X, labels = samples_of_one_covariance(0, 20)
    assert np.isfinite(entropy_of(curved(X), labels, rank, epsilon=1e-20))


@pytest.mark.parametrize("rank", [16, 32])
@pytest.mark.parametrize("samples", [samples_of_one_covariance, samples_of_unlike_variances])
def test_two_thousand_neurons_are_judged_as_if_they_had_all_axes(samples, rank):
    X, labels = samples(0, N_SAMPLES)
    features = np.hstack([X, curved(X, 2000) / 40.0])
    exact = entropy_of(features, labels, None)
    assert entropy_of(features, labels, rank) == pytest.approx(exact, rel=0.5)


def test_small_weights_do_not_make_samples_look_perfect():
    X, labels = samples_of_one_covariance(0, 400, n_inputs=100)
    features = curved(X)
    whole = entropy_of(features, labels, 64)
    assert entropy_of(features, labels, 64, weight=1.0 / len(X)) > 0.3 * whole


def test_few_axes_do_not_make_probabilities_uniform():
    X, labels = samples_of_one_covariance(4, 60)
    X_test, y_test = samples_of_one_covariance(5, 200)
    losses = []
    for rank in (15, None):
        estimator = FFNBClassifier(shrinkage=1.0, epsilon=0.01, rank=rank, random_state=0)
        probabilities = estimator.fit(X, labels).predict_proba(X_test)
        losses.append(log_loss(y_test, probabilities))
    assert losses[0] < 1.5 * losses[1]
