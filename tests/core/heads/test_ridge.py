"""One-vs-all ridge against scikit-learn's Ridge on the indicators of the classes."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.special import log_softmax
from sklearn.linear_model import Ridge

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.core.gaussians import ClassGaussians
from ffnb_sklearn.core.heads.ridge import OneVsAllRidge
from ffnb_sklearn.core.linalg import NotPositiveDefiniteError
from ffnb_sklearn.core.moments import moments_of
from ffnb_sklearn.core.settings import Choice
from tests.core.small_models import SETTINGS

CPU = torch.device("cpu")


def samples(d):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], [12, 1, 7, 20])
    means = rng.normal(size=(4, d))
    return rng.normal(size=(40, d)) + means[y] + 5.0, y, rng.uniform(0.2, 3.0, size=40)


def solved(gaussians):
    choice = Choice(1.0, 1.0, 0.3)
    solved_means = OneVsAllRidge.solve_means(gaussians, choice, SETTINGS)
    temperature = solved_means.temperature(gaussians, choice.epsilon)
    choice = choice._replace(temperature=temperature)
    return OneVsAllRidge.from_gaussians(gaussians, solved_means, choice, SETTINGS)


def fitted(X, y, weights, penalties):
    moments = [
        moments_of([(torch.as_tensor(X[y == label]), torch.as_tensor(weights[y == label]))])
        for label in range(4)
    ]
    gaussians = ClassGaussians.from_moments(moments, np.arange(X.shape[1]), penalties, device=CPU)
    return solved(gaussians), gaussians


@pytest.mark.parametrize("d", [5, 60])
def test_it_is_ridge_regression_of_the_indicators(d):
    X, y, weights = samples(d)

    result, gaussians = fitted(X, y, weights, np.ones(d))

    alpha = 0.3 * float(gaussians.pooled_variance) * weights.sum()
    ridge = Ridge(alpha=alpha).fit(X, np.eye(4)[y], sample_weight=weights)
    assert len(result.planes) == 4
    shares = np.bincount(y, weights) / weights.sum()
    scores = result.apply_priors(result.scores(torch.as_tensor(X)).numpy(), shares)
    assert_allclose(scores, ridge.predict(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("d", [5, 60])
def test_equal_shares_weigh_the_scatter_of_the_means_and_not_that_within(d):
    X, y, weights = samples(d)

    result, gaussians = fitted(X, y, weights, np.ones(d))

    within = sum(
        weights[y == c].sum() * np.cov(X[y == c].T, aweights=weights[y == c], ddof=0)
        for c in range(4)
    ) / weights.sum() + 0.3 * float(gaussians.pooled_variance) * np.eye(d)
    means = gaussians.means.numpy()
    between = np.cov(means.T, ddof=0)
    planes = np.linalg.solve(within + between, (means - means.mean(0)).T).T / 4
    assert_allclose(result.planes, planes, rtol=1e-7, atol=1e-10)
    assert_allclose(result.offsets, 0.25 - planes @ means.mean(0), rtol=1e-7)
    scores = result.scores(torch.as_tensor(X)).numpy()
    assert_allclose(scores.sum(1), 1.0)
    assert_allclose(result.apply_priors(scores, np.full(4, 0.25)), scores, atol=1e-12)


def test_a_penalty_is_a_scaled_feature():
    X, y, weights = samples(5)
    scale = np.array([0.1, 1.0, 3.0, 1.0, 0.5])

    scaled, _ = fitted(X * scale, y, weights, np.ones(5))
    penalised, _ = fitted(X, y, weights, 1.0 / scale**2)

    assert_allclose(scaled.planes * scale, penalised.planes, rtol=1e-9, atol=1e-12)
    assert_allclose(scaled.offsets, penalised.offsets, rtol=1e-9)


def cross_entropy(values, y, power):
    logits = log_softmax(power * np.arcsinh(values), axis=1)
    return -np.mean(logits[np.arange(len(y)), y])


@pytest.mark.parametrize(
    ("n", "d", "skewed"), [(10, 5, False), (10, 5, True), (10, 60, False), (10, 60, True)]
)
def test_the_power_is_about_the_best_of_real_left_out_samples(n, d, skewed):
    rng = np.random.default_rng(0)
    sizes = [n // 2, n // 2, n, 2 * n] if skewed else [n] * 4
    y = np.repeat(np.arange(4), sizes)
    X = rng.normal(size=(4 * n, d)) + 1.2 * rng.normal(size=(4, d))[y] * (5 / d) ** 0.5
    head, _ = fitted(X, y, np.ones(4 * n), np.ones(d))
    values = np.concatenate(
        [
            fitted(np.delete(X, i, 0), np.delete(y, i), np.ones(4 * n - 1), np.ones(d))[0]
            .scores(torch.as_tensor(X[i : i + 1]))
            .numpy()
            for i in range(4 * n)
        ]
    )

    powers = 2.0 ** np.arange(-3, 9, 0.25)
    best = min(cross_entropy(values, y, one) for one in powers)
    assert cross_entropy(values, y, head.power) < (1.1 if skewed else 1.05) * best
    if d > n:
        # Samples that were learned are far more certain.
        learned = head.scores(torch.as_tensor(X)).numpy()
        surest = powers[np.argmin([cross_entropy(learned, y, one) for one in powers])]
        assert cross_entropy(values, y, surest) > 1.05 * best


def test_the_power_does_not_depend_on_the_order_of_the_classes():
    X, y, weights = samples(60)
    order = np.array([2, 0, 3, 1])

    powers = [fitted(X, one, weights, np.ones(60))[0].power for one in (y, order[y])]

    assert_allclose(powers[0], powers[1], rtol=1e-9)


def test_probabilities_have_the_order_of_the_values():
    head = OneVsAllRidge(np.zeros((4, 1)), np.zeros(4), np.zeros((4, 4)), 3.0)
    values = np.array([[-0.9, -0.1, 0.8, 1.2]])
    y = values + np.sqrt(values**2 + 1.0)
    assert_allclose(head.logits(values), 3.0 * np.log(y))


def test_a_single_class_has_a_power():
    moments = [moments_of([(torch.ones(3, 2).double(), torch.ones(3).double())])]
    gaussians = ClassGaussians.from_moments(moments, np.arange(2), np.ones(2), device=CPU)
    assert solved(gaussians).power == 1.0


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_classes_with_equal_means_have_finite_probabilities(scale):
    A = scale * np.random.default_rng(0).normal(size=(2, 10))
    X, y = np.concatenate([A, A, -A]), np.repeat([0, 1, 2], 2)
    clf = IncrementalDiscriminantAnalysis(classifier="ova", random_state=0).fit(X, y)
    probabilities = clf.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert_allclose(probabilities[:, 0], probabilities[:, 1])


def test_a_class_of_another_order_of_magnitude_is_predicted():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 20)
    X = rng.normal(size=(80, 5)) + 4.0 * rng.normal(size=(4, 5))[y]
    X[y == 3] *= 1e12
    probabilities = (
        IncrementalDiscriminantAnalysis(classifier="ova", random_state=0).fit(X, y).predict_proba(X)
    )
    assert np.isfinite(probabilities).all()


def test_shares_that_cannot_be_solved_are_a_named_error():
    # The system is then 0.5 everywhere.
    head = OneVsAllRidge(np.zeros((2, 1)), np.zeros(2), 8.0 * np.eye(2), 1.0)

    with pytest.raises(NotPositiveDefiniteError, match="larger ridge"):
        head.apply_priors(np.zeros((1, 2)), np.array([0.75, 0.25]))


@pytest.mark.parametrize(("n_classes", "n_columns"), [(3, 2), (3, 24), (10, 24)])
@pytest.mark.parametrize("shared_band_size", [0, 100])
def test_classes_that_are_tight_beside_their_distances_are_told_apart(
    n_classes, n_columns, shared_band_size
):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), 30)
    means = rng.normal(size=(n_classes, n_columns))
    X = means[y] * (1.0 + 6e-8 * rng.uniform(size=(len(y), n_columns)))

    clf = IncrementalDiscriminantAnalysis(
        classifier="ova", shared_band_size=shared_band_size, random_state=0
    ).fit(X, y)

    assert clf.score(X, y) == 1.0


def test_tight_classes_have_the_values_of_the_limit_of_no_spread():
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(4), 12)
    means, noise = rng.normal(size=(4, 8)), rng.normal(size=(48, 8))

    tight, limit = (
        fitted(means[y] + spread * noise, y, np.ones(48), np.ones(8))[0] for spread in (1e-8, 1e-5)
    )

    assert_allclose(tight.planes, limit.planes, rtol=1e-3, atol=1e-4)
    assert_allclose(tight.gram, limit.gram, rtol=1e-3, atol=1e-4)
