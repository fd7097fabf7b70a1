r"""Likeness of samples to the classes learned, for telling samples of none of them.

With the squared distance of a sample to its nearest class, in the shrunk covariance of that class,
and its squared distance from the mean m of all classes in the total covariance T,

.. math:: D(x) = \min_c (x - \mu_c)^\top S_c^{-1} (x - \mu_c) , \qquad
          D_T(x) = (x - m)^\top T^{-1} (x - m) ,

the likeness is :math:`-D / (D_T + p)`. The ratio allows for samples that are remote from everything
for reasons that have nothing to do with their class, as relative Mahalanobis distances do [1]_. The
constant :math:`p = \mathrm{tr}\, T^{-1} (T - \varepsilon v P)` is the mean of :math:`D_T` over the
samples learned. It keeps the ratio finite at m, and lets it grow with D where there is one class.

References
----------
.. [1] J. Ren, S. Fort, J. Liu, A. G. Roy, S. Padhy and B. Lakshminarayanan. A simple fix to
   Mahalanobis distance for improving near-OOD detection. arXiv:2106.09022, 2021.
"""

from dataclasses import dataclass

import torch

from ..device import as_array, as_tensor
from ..linalg import DiagonalPlusGram
from ..statistics import Array
from .densities import GaussianDistances, fit_distances, shared_covariance
from .gaussians import ClassGaussians

__all__ = ["RelativeDistances", "fit_relative_distances", "metrics_of"]

# Least mean distance p, the square of one standard deviation: a single sample has none.
_LEAST_DISTANCE = 1.0


@dataclass(frozen=True)
class RelativeDistances:
    """Distances to the nearest class, relative to those from all data.

    Attributes
    ----------
    distances : GaussianDistances
        Distances to the classes.
    shared, total : ndarray of shape (d, d)
        Inverses of B, the part of the covariances that the classes share, and of T.
    mean_distance : float
        p.
    """

    distances: GaussianDistances
    shared: Array
    total: Array
    mean_distance: float

    def likeness(self, features: torch.Tensor) -> torch.Tensor:
        """Return the likeness of samples to the classes, not positive and of shape (n_samples,)."""
        device = features.device
        x = features - as_tensor(self.distances.centre, device=device)
        common, remote = (
            torch.linalg.vecdot(x @ as_tensor(inverse, device=device), x)
            for inverse in (self.shared, self.total)
        )
        nearest = common - 2.0 * self.distances.log_ratios(features).amax(1)
        likeness: torch.Tensor = -nearest.clamp_min(0.0) / (
            remote.clamp_min(0.0) + self.mean_distance
        )
        return likeness


def fit_relative_distances(
    gaussians: ClassGaussians, *, covariance: str, shrinkage: float, epsilon: float
) -> RelativeDistances:
    """Solve the distances to the classes and from all data.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    covariance, shrinkage, epsilon
        As in `ffnb_sklearn.core.classifier.densities.fit_distances`.

    Returns
    -------
    RelativeDistances
        The distances.
    """
    distances, base, total, ridge = metrics_of(
        gaussians, covariance=covariance, shrinkage=shrinkage, epsilon=epsilon
    )
    identity = torch.eye(len(ridge), dtype=ridge.dtype, device=ridge.device)
    inverse = total.solve(identity)
    mean_distance = len(ridge) - float(inverse.diagonal() @ ridge)
    return RelativeDistances(
        distances,
        as_array(base.solve(identity)),
        as_array(inverse),
        max(mean_distance, _LEAST_DISTANCE),
    )


def metrics_of(
    gaussians: ClassGaussians, *, covariance: str, shrinkage: float, epsilon: float
) -> tuple[GaussianDistances, DiagonalPlusGram, DiagonalPlusGram, torch.Tensor]:
    """Return the distances to the classes, B, T, and the ridge of T, of shape (d,)."""
    if covariance == "identity":
        gaussians, shrinkage = gaussians.with_identity(), 0.0
    distances = fit_distances(
        gaussians, covariance="class", shrinkage=shrinkage, epsilon=epsilon, temperature=1.0
    )
    share = gaussians.weights / gaussians.weights.sum()
    ridge = epsilon * gaussians.ridge_unit() * gaussians.penalties
    from_centre = gaussians.means - share @ gaussians.means
    rows = [gaussians.rows / gaussians.weights.sum().sqrt(), from_centre * share.sqrt()[:, None]]
    residual = gaussians.residuals.sum(0) / gaussians.weights.sum()
    total = DiagonalPlusGram(ridge + residual, torch.cat(rows), name="the total covariance")
    return distances, shared_covariance(gaussians, shrinkage, epsilon), total, ridge
