"""The distances of the novelty score against dense matrices, and for classes that are tight."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.core.novelty import InverseTotal
from tests.core.heads.test_gaussians import classes, stacked


def test_the_total_covariance_is_that_of_dense_matrices():
    gaussians = stacked(classes())
    weights = gaussians.weights.numpy()
    shares = weights / weights.sum()
    from_centre = gaussians.means.numpy() - shares @ gaussians.means.numpy()
    rows, residual = gaussians.rows.numpy(), gaussians.residuals.numpy().sum(axis=0)
    within = (rows.T @ rows + np.diag(residual)) / weights.sum()
    ridge = 0.4 * float(gaussians.ridge_unit()) * np.diag(gaussians.penalties.numpy())
    expected = np.linalg.inv(within + from_centre.T @ np.diag(shares) @ from_centre + ridge)

    total = InverseTotal.from_gaussians(gaussians, gaussians.shared_covariance(1.0, 0.4))

    x = np.random.default_rng(0).normal(size=(5, 3))
    lengths = np.einsum("ij,jk,ik->i", x, expected, x)
    assert_allclose(total.lengths(torch.as_tensor(x)).numpy(), lengths, rtol=1e-12)
    diagonal = np.array([1.0, 0.2, 3.0])
    assert_allclose(total.trace_with(diagonal), np.trace(expected @ np.diag(diagonal)), rtol=1e-12)


@pytest.mark.parametrize("shared_band_size", [0, "auto"])
@pytest.mark.parametrize("n_classes", [3, 10])
def test_classes_that_are_tight_score_like_others(n_classes, shared_band_size):
    rng = np.random.default_rng(0)
    means = rng.normal(size=(n_classes, 24))
    y = np.repeat(np.arange(n_classes), 30)
    noise = rng.uniform(size=(len(y), 24))

    def scores(spread):
        model = IncrementalDiscriminantAnalysis(shared_band_size=shared_band_size, random_state=0)
        X = means[y] * (1.0 + spread * noise)
        return model.fit(X, y).score_samples(X)

    assert_allclose(scores(6e-8), scores(1e-3), atol=0.05)
