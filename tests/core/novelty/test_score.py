"""The distances of the novelty score against dense matrices, and for classes that are tight."""

from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.core.device import as_tensor
from ffnb_sklearn.core.linalg import DiagonalPlusGram
from ffnb_sklearn.core.novelty.score import InverseCovariance, InverseTotal
from tests.core.test_gaussians import classes, stacked


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


@pytest.mark.parametrize("n_rows", [3, 8])
def test_an_inverse_covariance_is_dense_and_not_copied_in_predictions(n_rows):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n_rows, 5))
    diagonal = rng.uniform(0.5, 2.0, size=5)
    covariance = DiagonalPlusGram(
        torch.as_tensor(diagonal), torch.as_tensor(rows), name="a covariance"
    )
    inverse = InverseCovariance.from_covariance(covariance)
    assert as_tensor(inverse.rows).data_ptr() == inverse.rows.ctypes.data
    x = rng.standard_normal((4, 5))
    expected = np.linalg.inv(np.diag(diagonal) + rows.T @ rows)
    lengths = np.einsum("ij,jk,ik->i", x, expected, x)
    assert_allclose(inverse.lengths(torch.as_tensor(x)).numpy(), lengths, rtol=1e-12)


def exact_lengths(x, covariance, means, weights):
    """Return the squared lengths of x in the total covariance, in 60 decimal digits."""
    with mpmath.workdps(60):
        shares = mpmath.matrix(weights.tolist()) / weights.sum()
        means = mpmath.matrix(means.tolist())
        total = mpmath.matrix(covariance.tolist())
        centre = shares.T * means
        for label in range(means.rows):
            deviation = means[label, :] - centre
            total += shares[label] * deviation.T * deviation
        columns = [mpmath.matrix(row.tolist()) for row in x]
        return np.array([float((one.T * mpmath.lu_solve(total, one))[0]) for one in columns])


@pytest.mark.parametrize("n_rows", [3, 8])
@pytest.mark.parametrize("separation", [1e2, 1e6, 1e8])
@pytest.mark.parametrize("n_far", [1, 5])
def test_lengths_keep_their_digits_beside_classes_far_away(n_rows, separation, n_far):
    """A class at 1e8 erased the distances between the other classes."""
    rng = np.random.default_rng(0)
    means = rng.integers(-99, 99, size=(5, 4)) / 32.0
    means[:n_far, 1] += separation * rng.integers(1, 9, size=n_far)
    weights = np.array([1.0, 2.0, 1.0, 4.0, 8.0])
    rows = rng.integers(-9, 9, size=(n_rows, 4)) / 8.0
    diagonal = np.array([0.5, 1.0, 0.25, 2.0])
    centre = weights @ means / weights.sum()
    gaussians = SimpleNamespace(
        weights=torch.as_tensor(weights),
        means=torch.as_tensor(means),
        centre=lambda: torch.as_tensor(centre),
    )
    within = DiagonalPlusGram(torch.as_tensor(diagonal), torch.as_tensor(rows), name="W")

    total = InverseTotal.from_gaussians(gaussians, within)

    x = means - centre + rng.integers(-9, 9, size=(5, 4)) / 8.0
    covariance = np.diag(diagonal) + rows.T @ rows
    expected = exact_lengths(x, covariance, means, weights)
    assert_allclose(total.lengths(torch.as_tensor(x)), expected, rtol=1e-14 * separation)


@pytest.mark.parametrize("seed", [12, 62, 77])
def test_centred_means_of_two_classes_leave_no_axis_of_rounding(seed):
    """The second singular value was one of rounding, and its axis changed the lengths by 1e-3."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(2, 300))
    rows = rng.normal(size=(20, 300))
    centre = means.mean(axis=0)
    gaussians = SimpleNamespace(
        weights=torch.ones(2, dtype=torch.float64),
        means=torch.as_tensor(means),
        centre=lambda: torch.as_tensor(centre),
    )
    diagonal = torch.ones(300, dtype=torch.float64)
    within = DiagonalPlusGram(diagonal, torch.as_tensor(rows), name="W")

    total = InverseTotal.from_gaussians(gaussians, within)

    deviation = (means[0] - means[1]) / 2.0
    covariance = np.eye(300) + rows.T @ rows + np.outer(deviation, deviation)
    x = rng.normal(size=(5, 300))
    expected = (x * np.linalg.solve(covariance, x.T).T).sum(axis=1)
    assert_allclose(total.lengths(torch.as_tensor(x)), expected, rtol=1e-11)


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
