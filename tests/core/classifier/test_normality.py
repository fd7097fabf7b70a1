"""The test of Gaussian classes by the neurons of the shared band."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.datasets import make_gaussian_quantiles
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier import normality
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.normality import deviation_score
from ffnb_sklearn.core.features.shared_band import SharedBand
from tests.core.small_models import CPU

N_CLASSES, D = 6, 8


def gaussian_noise(rng, shape):
    return rng.standard_normal(shape)


def uniform_noise(rng, shape):
    return rng.uniform(-(3.0**0.5), 3.0**0.5, shape)


def clustered_noise(rng, shape):
    """Two clusters along the first axis."""
    noise = rng.standard_normal(shape)
    noise[:, 0] += np.where(rng.random(len(noise)) < 0.5, -2.5, 2.5)
    return noise


def skewed_noise(rng, shape):
    return rng.exponential(size=shape)


def samples(noise, n, seed=0):
    """Classes with covariances of their own."""
    rng = np.random.default_rng(4)
    means = 1.5 * rng.standard_normal((N_CLASSES, D))
    mixing = rng.standard_normal((N_CLASSES, D, D))
    labels, rng = np.repeat(np.arange(N_CLASSES), n), np.random.default_rng([5, seed])
    return np.einsum("ni,nij->nj", noise(rng, (len(labels), D)), mixing[labels]) + means[
        labels
    ], labels


def learned(noise, n, seed=0, **parameters):
    return FFNBClassifier(band_size=0, random_state=0, **parameters).fit(*samples(noise, n, seed))


def deviation_of(clf):
    model = clf._state.model
    gaussians = ClassGaussians.from_moments(
        model.moments, np.arange(model.features.n_features), device=CPU
    )
    return deviation_score(gaussians, range(len(model.moments)), model.features.shared)


@pytest.mark.parametrize("n_neurons", [100, 2000])
@pytest.mark.parametrize(("n", "in_total"), [(40, 4096), (200, 4096), (200, 150)])
def test_the_score_of_gaussian_classes_is_that_of_two_standard_normal_sums(
    n, in_total, n_neurons, monkeypatch
):
    monkeypatch.setattr(normality, "_MOST_IN_TOTAL", in_total)
    found = [
        deviation_of(learned(gaussian_noise, n, seed, shared_band_size=n_neurons))
        for seed in range(20)
    ]

    # The larger one of two independent standard normal variables has a mean of 0.56.
    assert -0.3 < np.mean(found) < 1.0
    assert 0.4 < np.std(found) < 1.4


def test_shells_deviate_in_all_directions_alike():
    X, y = make_gaussian_quantiles(n_samples=600, n_features=40, n_classes=2, random_state=0)

    found = [
        deviation_of(FFNBClassifier(band_size=0, random_state=0).fit(rows, y))
        for rows in (X, np.random.default_rng(0).standard_normal(X.shape))
    ]

    assert found[0] > 5.0 > 2.5 > found[1]


@pytest.mark.parametrize("noise", [uniform_noise, clustered_noise, skewed_noise])
def test_other_classes_deviate_more_the_more_samples_they_have(noise):
    few, many = (deviation_of(learned(noise, n)) for n in (100, 1000))

    assert few > 1.0
    assert many > max(5.0, 3.0 * few)


def deviations_covariance(t, r):
    """Covariance of the |z| of two neurons, each less its regression on z and z^2."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    first, second = np.meshgrid(nodes, nodes, indexing="ij")
    share = np.outer(weights, weights)
    z = t[0] + first, t[1] + r * first + np.sqrt(1.0 - r**2) * second
    left = []
    for one in z:
        basis = np.stack([np.ones_like(one), one, one**2]).reshape(3, -1)
        products = (basis * share.ravel()) @ basis.T
        regression = np.linalg.solve(products, (basis * share.ravel()) @ np.abs(one).ravel())
        left.append(np.abs(one) - (regression @ basis).reshape(one.shape))
    return np.array([[(a * b * share).sum() for b in left] for a in left])


def mean_modulus(t):
    """E|z| of a Gaussian variable of variance 1."""
    return 2.0 * stats.norm.pdf(t) + t * (2.0 * stats.norm.cdf(t) - 1.0)


def lowered(t, n):
    """By how much the estimates of mean and variance lower the expected deviation."""
    return stats.norm.pdf(t) * (1.0 + t**2) / (2.0 * n)


@pytest.mark.parametrize("t", [0.0, 0.7, 2.0])
def test_estimates_lower_the_mean_deviation(t):
    n, rng = 30, np.random.default_rng(0)
    z = t + rng.standard_normal((200_000, n))
    spread = z.std(axis=1, ddof=1)
    deviations = np.abs(z).mean(axis=1) / spread - mean_modulus(z.mean(axis=1) / spread)

    error = deviations.std() / len(z) ** 0.5
    assert abs(deviations.mean() + lowered(t, n)) < 4.0 * error + 0.1 * lowered(t, n)


@pytest.mark.parametrize("off", [(0.1, -0.2), (0.1, 0.1)])
@pytest.mark.parametrize(("t", "r"), [((0.0, 0.0), 0.6), ((0.7, -1.2), 0.5), ((0.3, 0.3), -0.8)])
def test_two_neurons_have_the_sums_of_the_formulas(t, r, off):
    n, t = 50, np.array(t)
    covariance = deviations_covariance(t, r)
    # A class of two inputs of the correlation r, with n - 1 in the variance.
    root = np.linalg.cholesky(np.array([[1.0, r], [r, 1.0]])).T * (n - 1.0) ** 0.5
    gaussians = ClassGaussians(
        weights=torch.tensor([float(n)]).double(),
        counts=torch.tensor([float(n)]).double(),
        means=torch.tensor(np.r_[t, (mean_modulus(t) + off) * 0.5**0.5][None]),
        rows=torch.tensor(np.c_[root, np.zeros((2, 2))]),
        lengths=(2,),
        residuals=torch.zeros((1, 4)).double(),
        penalties=torch.ones(4).double(),
        energies=torch.tensor(np.r_[np.square(root).sum(0), 0.0, 0.0][None]),
        gram=None,
    )

    found = deviation_score(gaussians, [0], SharedBand(np.eye(2, 3), mirrored=True))

    deviations, total = off + lowered(t, n), covariance.trace()
    variance = 2.0 * np.square(covariance).sum() / total**2 / 9.0
    ratio = n * np.square(deviations).sum() / total
    squares = (ratio ** (1.0 / 3.0) - 1.0 + variance) / variance**0.5
    weights = stats.norm.pdf(t) * (1.0 - t**2)
    signed = n**0.5 * weights @ deviations / (weights @ covariance @ weights) ** 0.5
    assert_allclose(found, max(squares, signed), rtol=0.02)


def test_classes_that_do_not_vary_cannot_be_tested():
    X = np.repeat(np.eye(3), 50, axis=0)
    clf = FFNBClassifier(band_size=0, random_state=0).fit(X, np.repeat(np.arange(3), 50))

    assert deviation_of(clf) == np.inf


@pytest.mark.parametrize("n", [16, 60, 400])
def test_gaussian_classes_get_their_own_covariances_in_the_inputs(n):
    clf = learned(gaussian_noise, n)
    X_new, y_new = samples(gaussian_noise, 500, seed=1)
    choice = clf._solved_choice()
    quadratic = QuadraticDiscriminantAnalysis().fit(*samples(gaussian_noise, n))

    assert choice.normal
    assert choice.input_energy > 1.0
    assert clf.score(X_new, y_new) > quadratic.score(X_new, y_new) - 0.01


@pytest.mark.parametrize(
    ("noise", "n", "parameters"),
    [
        (clustered_noise, 100, {}),
        (gaussian_noise, 6, {}),
        (gaussian_noise, 100, {"classifier": "ovo"}),
        (gaussian_noise, 100, {"shrinkage": 0.5}),
        (gaussian_noise, 100, {"epsilon": 0.05}),
        (gaussian_noise, 100, {"skip_connection": False}),
    ],
)
def test_other_models_are_not_taken_to_be_normal(noise, n, parameters):
    assert not learned(noise, n, **parameters)._solved_choice().normal


def test_a_few_samples_of_shells_pass_the_test_and_are_known_by_their_cross_entropy():
    X, y = make_gaussian_quantiles(n_samples=100, n_features=30, n_classes=2, random_state=0)
    clf = FFNBClassifier(band_size=0, random_state=0).fit(X, y)

    assert deviation_of(clf) < 3.0
    assert not clf._solved_choice().normal


def test_probabilities_of_gaussian_classes_are_calibrated():
    X_new, y_new = samples(gaussian_noise, 500, seed=1)
    probabilities = learned(gaussian_noise, 100).predict_proba(X_new)
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y_new

    assert abs(confidence.mean() - right.mean()) < 0.03


def test_trained_bands_do_not_count_for_gaussian_classes():
    X_new, _ = samples(gaussian_noise, 200, seed=1)
    small = {"shared_band_size": 40, "random_state": 0}
    with_bands = FFNBClassifier(band_size=20, classes_per_task=2, **small)
    with_bands.fit(*samples(gaussian_noise, 100))
    without = learned(gaussian_noise, 100, shared_band_size=40)

    assert with_bands._solved_choice().normal
    found, expected = (clf.predict_proba(X_new) for clf in (with_bands, without))
    assert_allclose(found, expected, atol=1e-3)
