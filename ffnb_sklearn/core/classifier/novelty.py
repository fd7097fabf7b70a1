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

__all__ = ["InverseCovariance", "InverseTotal", "RelativeDistances", "fit_relative_distances"]


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
class InverseTotal:
    r"""The inverse of the covariance of all samples, :math:`T = W + M^\top M`.

    W is the covariance within the classes. M has the class means less their centre, each times the
    root of the share of its class, as rows. The eigenvectors a of :math:`H = M W^{-1} M^\top` with
    eigenvalues h split a sample into coordinates t along the means and a remainder r:

    .. math:: t = h^{-1/2} a^\top M W^{-1} x , \quad r = x - \sum t h^{-1/2} M^\top a , \quad
              x^\top T^{-1} x = r^\top W^{-1} r + \sum \frac{t^2}{1 + h} .

    No term is a difference of large numbers, however small the classes are beside their distances.

    Attributes
    ----------
    within : InverseCovariance
        The inverse of W.
    functions, axes : ndarray of shape (K, d)
        Rows that give t, and the directions that belong to them.
    shrunk : ndarray of shape (K,)
        1 / (1 + h).
    """

    within: InverseCovariance
    functions: Array
    axes: Array
    shrunk: Array

    @classmethod
    def of(cls, gaussians: ClassGaussians, epsilon: float) -> "InverseTotal":
        """Return the inverse for classes with their weights as shares, and a ridge."""
        shares = gaussians.weights / gaussians.weights.sum()
        means = (gaussians.means - shares @ gaussians.means) * shares.sqrt()[:, None]
        within = gaussians.shared_covariance(1.0, epsilon)
        solved = within.solve(means)
        values, vectors = torch.linalg.eigh(means @ solved.T)
        # Means that depend on each other, as centred means do, leave eigenvalues of rounding.
        varying = values > len(values) * torch.finfo(values.dtype).eps * values[-1]
        values, vectors = values[varying], vectors[:, varying]
        scaled = (vectors / values.sqrt()).T
        return cls(
            InverseCovariance.of(within),
            as_array(scaled @ solved),
            as_array(scaled @ means),
            as_array(1.0 / (1.0 + values)),
        )

    def lengths(self, x: Rows) -> torch.Tensor:
        """Return the squared lengths of rows of shape (n, d)."""
        functions, axes, shrunk = (
            as_tensor(one, device=x.device) for one in (self.functions, self.axes, self.shrunk)
        )
        coordinates = x @ functions.T
        squares = coordinates.square()
        if isinstance(x, torch.Tensor):
            return self.within.lengths(x - coordinates @ axes) + squares @ shrunk
        # Sparse rows less their parts along the means would be dense.
        return (self.within.lengths(x) - squares @ (1.0 - shrunk)).clamp_min_(0.0)

    def trace_with(self, diagonal: Array) -> float:
        """Return the trace of the product with a diagonal matrix."""
        along_means = np.square(self.functions) @ diagonal
        return self.within.trace_with(diagonal) - float(along_means @ (1.0 - self.shrunk))


@dataclass(frozen=True)
class RelativeDistances:
    """Distances to the nearest class, relative to those from all data, with p.

    `shared` and `total` are the inverses of B, which the classes share, and of T; `means`, of
    shape (C, d), are those of the classes.
    """

    distances: GaussianDistances
    shared: InverseCovariance
    total: InverseTotal
    mean_distance: float
    means: Array

    def likeness(self, x: Rows) -> torch.Tensor:
        """Return the likeness of samples to the classes, not positive and of shape (n_samples,)."""
        x = self.distances.centred(x)
        return -self._to_nearest(x) / (self.total.lengths(x) + self.mean_distance)

    def _to_nearest(self, x: Rows) -> torch.Tensor:
        """Return the squared distances of centred samples to the nearest class."""
        linear, own = self.distances.terms(x)
        ratios, nearest = linear.add_(own, alpha=0.5).max(1)
        if not isinstance(x, torch.Tensor):
            # Sparse rows less the mean of a class would be dense.
            return (self.shared.lengths(x) - 2.0 * ratios).clamp_min_(0.0)
        # Distances from the centre would lose the digits of classes that are small beside them.
        means, centre = (
            as_tensor(one, device=x.device) for one in (self.means, self.distances.centre)
        )
        gaps = x - (means - centre)[nearest]
        own = own.gather(1, nearest[:, None])[:, 0]
        return (self.shared.lengths(gaps) - own).clamp_min_(0.0)


def fit_relative_distances(
    gaussians: ClassGaussians, *, covariance: str, shrinkage: float, epsilon: float
) -> RelativeDistances:
    """Solve the distances to the classes, whose rows may be overwritten, and from all data."""
    if covariance == "identity":
        gaussians, shrinkage = gaussians.with_identity(), 0.0
    ridge = epsilon * gaussians.ridge_unit() * gaussians.penalties
    shared = InverseCovariance.of(gaussians.shared_covariance(shrinkage, epsilon))
    total = InverseTotal.of(gaussians, epsilon)
    # The distances overwrite the rows.
    distances = fit_distances(gaussians, covariance="class", shrinkage=shrinkage, epsilon=epsilon)
    mean_distance = max(len(ridge) - total.trace_with(as_array(ridge)), 1.0)
    means = as_array(gaussians.means)
    return RelativeDistances(distances, shared, total, mean_distance, means)
