"""One-vs-all ridge against scikit-learn's Ridge on the indicators of the classes."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.one_vs_all import fit_one_vs_all
from ffnb_sklearn.core.statistics import moments_of

CPU = torch.device("cpu")


def samples(d):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], [12, 1, 7, 20])
    means = rng.normal(size=(4, d))
    return rng.normal(size=(40, d)) + means[y] + 5.0, y, rng.uniform(0.2, 3.0, size=40)


def fitted(X, y, weights, penalties):
    moments = [
        moments_of([(torch.as_tensor(X[y == label]), torch.as_tensor(weights[y == label]))])
        for label in range(4)
    ]
    gaussians = ClassGaussians.from_moments(moments, np.arange(X.shape[1]), penalties, device=CPU)
    return fit_one_vs_all(gaussians, epsilon=0.3), gaussians


@pytest.mark.parametrize("d", [5, 60])
def test_it_is_ridge_regression_of_the_indicators(d):
    X, y, weights = samples(d)

    result, gaussians = fitted(X, y, weights, np.ones(d))

    alpha = 0.3 * float(gaussians.pooled_variance()) * weights.sum()
    ridge = Ridge(alpha=alpha).fit(X, np.eye(4)[y], sample_weight=weights)
    assert len(result.planes) == 4
    assert_allclose(result.planes, ridge.coef_, rtol=1e-7, atol=1e-10)
    assert_allclose(result.offsets, ridge.intercept_, rtol=1e-7)
    assert_allclose(result.scores(torch.as_tensor(X)), ridge.predict(X), rtol=1e-7, atol=1e-9)


def test_a_penalty_is_a_scaled_feature():
    X, y, weights = samples(5)
    scale = np.array([0.1, 1.0, 3.0, 1.0, 0.5])

    scaled, _ = fitted(X * scale, y, weights, np.ones(5))
    penalised, _ = fitted(X, y, weights, 1.0 / scale**2)

    assert_allclose(scaled.planes * scale, penalised.planes, rtol=1e-9, atol=1e-12)
    assert_allclose(scaled.offsets, penalised.offsets, rtol=1e-9)
