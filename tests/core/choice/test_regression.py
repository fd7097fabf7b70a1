"""Left-out samples of one-vs-all regression."""

import numpy as np
import torch
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from ffnb_sklearn.core.choice.regression import left_out_values


def test_left_out_values_are_those_of_the_regression_without_the_sample():
    rng, y = np.random.default_rng(0), np.repeat(np.arange(3), 8)
    X = rng.normal(size=(24, 5)) + 2.0 * rng.normal(size=(3, 5))[y]
    whole = Ridge(alpha=4.0).fit(X, np.eye(3)[y])
    # The ridge as samples of zero, so that the regression keeps the centre of all samples.
    Z = np.r_[np.c_[X - X.mean(0), np.ones(24)], np.c_[2.0 * np.eye(5), np.zeros(5)]]
    Y = np.r_[np.eye(3)[y], np.zeros((5, 3))]
    expected = Z[0] @ np.linalg.lstsq(Z[1:], Y[1:])[0]
    leverage = Z[0] @ np.linalg.solve(Z.T @ Z, Z[0])

    found = left_out_values(*map(torch.as_tensor, (whole.predict(X[:1]), np.array([leverage]))))

    assert_allclose(found[0], expected, rtol=1e-9, atol=1e-12)
