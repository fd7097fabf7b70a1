r"""Rows drawn from the moments of a class, and an affine map to a new feature space.

The map is a ridge regression of paired rows, whose ridge has the least generalised cross-validation
(G. H. Golub, M. Heath and G. Wahba. Generalized cross-validation as a method for choosing a good
ridge parameter. Technometrics 21(2), 1979). docs/user_guide/new_features.rst has the formulas.
"""

from dataclasses import dataclass

import numpy as np
import torch

from .device import Array, as_array
from .linalg import symmetric_root
from .moments import ClassMoments

__all__ = [
    "AffineMap",
    "covariance_of_inputs",
    "draw_deviations",
    "draw_white_rows",
    "fit_affine_map",
    "with_covariance",
]

# Ridges of the map, relative to the mean squared singular value of the old rows.
_RIDGES = np.logspace(-6.0, 2.0, 33)


def draw_deviations(
    moments: ClassMoments, n_inputs: int, n_rows: int, rng: np.random.Generator
) -> Array:
    """Draw deviations from the mean of a class, Gaussian with its covariance in the inputs.

    The inputs are the first features. The result has shape (n_rows, n_inputs).
    """
    axes = moments.factor[:, :n_inputs].astype(np.float64)
    along_axes = rng.standard_normal((n_rows, len(axes))) @ axes
    spreads = np.sqrt(moments.residual[:n_inputs])
    across = rng.standard_normal((n_rows, n_inputs)) * spreads
    deviations: Array = (along_axes + across) / np.sqrt(moments.weight)
    return deviations


def covariance_of_inputs(moments: ClassMoments, n_inputs: int) -> Array:
    """Return the covariance of a class in the inputs, the first features."""
    axes = moments.factor[:, :n_inputs].astype(np.float64)
    scatter = axes.T @ axes
    scatter[np.diag_indices(n_inputs)] += moments.residual[:n_inputs]
    covariance: Array = scatter / moments.weight
    return covariance


def draw_white_rows(n_rows: int, n_columns: int, rng: np.random.Generator) -> Array:
    """Draw rows whose mean is exactly 0, and whose covariance is exactly the identity.

    There are more rows than columns.
    """
    draws = rng.standard_normal((n_rows, n_columns + 1))
    # Columns that are orthogonal to the first have the mean 0.
    draws[:, 0] = 1.0
    rows: Array = np.sqrt(n_rows) * np.linalg.qr(draws).Q[:, 1:]
    return rows


def with_covariance(white_rows: Array, covariance: Array) -> Array:
    """Return rows with a covariance, from `draw_white_rows`."""
    root = as_array(symmetric_root(torch.from_numpy(covariance)))
    rows: Array = white_rows @ root
    return rows


@dataclass(frozen=True)
class AffineMap:
    """A map from rows of an old to rows of a new feature space, and its errors.

    Attributes
    ----------
    old_mean, new_mean : ndarray of shape (d_old,) and (d_new,)
        Means of the paired rows.
    weights : ndarray of shape (d_old, d_new)
        Coefficients.
    errors : ndarray of shape (n_pairs, d_new)
        Errors on the paired rows, scaled so that their Gram matrix is the covariance of the errors
        on other rows.
    explained_variance : float
        Share of the variance of new rows that the map explains, by cross-validation.
    """

    old_mean: Array
    new_mean: Array
    weights: Array
    errors: Array
    explained_variance: float

    def map_mean(self, mean: Array) -> Array:
        """Return the mean of a class in the new space."""
        mapped: Array = (mean - self.old_mean) @ self.weights + self.new_mean
        return mapped

    def map_covariance(self, covariance: Array) -> Array:
        """Return a covariance in the new space, with that of the errors of the map."""
        mapped: Array = self.weights.T @ covariance @ self.weights
        mapped += self.errors.T @ self.errors
        return mapped


def fit_affine_map(old: Array, new: Array) -> AffineMap:
    r"""Fit a map to paired rows, of shape (n_pairs, d_old) and (n_pairs, d_new).

    With the singular values s of the centred old rows the regression has
    :math:`1 + \sum s^2 / (s^2 + \lambda)` degrees of freedom. The ridge :math:`\lambda` minimises
    the squared error over the squared number of the remaining degrees.
    """
    n_pairs = len(old)
    old_mean = old.mean(axis=0)
    new_mean = new.mean(axis=0)
    targets = new - new_mean
    left, singular_values, right = np.linalg.svd(old - old_mean, full_matrices=False)
    squares = singular_values**2
    along = left.T @ targets
    energies = np.square(along).sum(axis=1)
    total = np.square(targets).sum()
    unexplained = max(total - energies.sum(), 0.0)
    least = np.inf
    shares = np.zeros_like(squares)
    for ridge in _RIDGES * squares.mean():
        if ridge == 0.0:
            # Old rows that are all equal predict nothing.
            break
        ridge_shares = squares / (squares + ridge)
        n_remaining = n_pairs - 1.0 - ridge_shares.sum()
        squared_error = unexplained + np.square(1.0 - ridge_shares) @ energies
        criterion = squared_error / n_remaining**2
        if criterion < least:
            least = criterion
            shares = ridge_shares
    n_remaining = n_pairs - 1.0 - shares.sum()
    inverse = np.divide(shares, singular_values, out=np.zeros_like(shares), where=squares > 0.0)
    weights = right.T @ (inverse[:, None] * along)
    errors = (targets - left @ (shares[:, None] * along)) / np.sqrt(n_remaining)
    # The mean error of rows that were left out, by the criterion, beside that of their mean.
    left_out_error = np.square(errors).sum() / n_remaining
    left_out_variance = total / (n_pairs - 1.0) ** 2
    explained = 0.0
    if left_out_variance > 0.0:
        explained = max(1.0 - left_out_error / left_out_variance, 0.0)
    return AffineMap(old_mean, new_mean, weights, errors, float(explained))
