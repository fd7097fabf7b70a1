"""Likeness of samples to the classes learned, for telling samples of none of them.

docs/theory/default.rst ("Samples of no class learned") has the formulas. It relates two Mahalanobis
distances as J. Ren et al. do (A simple fix to Mahalanobis distance for improving near-OOD
detection. arXiv:2106.09022, 2021).
"""

from dataclasses import dataclass

import numpy as np
import torch

from ..device import as_array, as_tensor
from ..linalg import DiagonalPlusGram
from ..statistics import Array
from .gaussians import ClassGaussians
from .heads.distances import GaussianDistances, fit_distances
from .heads.interface import Rows

__all__ = ["InverseCovariance", "RelativeDistances", "fit_relative_distances"]


@dataclass(frozen=True)
class InverseCovariance:
    r"""An inverse covariance :math:`\mathrm{diag}(a) + s V^\top V`, with s = 1 or -1."""

    diagonal: Array
    rows: Array
    sign: float

    @classmethod
    def of(cls, covariance: DiagonalPlusGram) -> "InverseCovariance":
        """Return the inverse of a covariance."""
        diagonal, rows, sign = covariance.inverse_parts()
        return cls(as_array(diagonal), as_array(rows), sign)

    def lengths(self, x: Rows) -> torch.Tensor:
        """Return the squared lengths of rows of shape (n, d)."""
        diagonal, rows = (as_tensor(one, device=x.device) for one in (self.diagonal, self.rows))
        explained = (x @ rows.T).square_().sum(1)
        # Sparse rows have no squares of their own.
        near = x.square() @ diagonal if isinstance(x, torch.Tensor) else x.squares_times(diagonal)
        return near.add_(explained, alpha=self.sign).clamp_min_(0.0)

    def trace_with(self, diagonal: Array) -> float:
        """Return the trace of the product with a diagonal matrix."""
        explained = float((np.square(self.rows) @ diagonal).sum())
        return float(self.diagonal @ diagonal) + self.sign * explained


@dataclass(frozen=True)
class RelativeDistances:
    """Distances to the nearest class, relative to those from all data, with p.

    `shared` and `total` are the inverses of B, which the classes share, and of T.
    """

    distances: GaussianDistances
    shared: InverseCovariance
    total: InverseCovariance
    mean_distance: float

    def likeness(self, x: Rows) -> torch.Tensor:
        """Return the likeness of samples to the classes, not positive and of shape (n_samples,)."""
        ratios, x = self.distances.log_ratios(x).amax(1), self.distances.centred(x)
        nearest = (self.shared.lengths(x) - 2.0 * ratios).clamp_min_(0.0)
        return -nearest / (self.total.lengths(x) + self.mean_distance)


def fit_relative_distances(
    gaussians: ClassGaussians, *, covariance: str, shrinkage: float, epsilon: float
) -> RelativeDistances:
    """Solve the distances to the classes, whose rows may be overwritten, and from all data."""
    if covariance == "identity":
        gaussians, shrinkage = gaussians.with_identity(), 0.0
    shares = gaussians.weights / gaussians.weights.sum()
    ridge = epsilon * gaussians.ridge_unit() * gaussians.penalties
    shared = InverseCovariance.of(gaussians.shared_covariance(shrinkage, epsilon))
    total = InverseCovariance.of(gaussians.total_covariance(shares, epsilon))
    # The distances overwrite the rows.
    distances = fit_distances(gaussians, covariance="class", shrinkage=shrinkage, epsilon=epsilon)
    mean_distance = max(len(ridge) - total.trace_with(as_array(ridge)), 1.0)
    return RelativeDistances(distances, shared, total, mean_distance)
