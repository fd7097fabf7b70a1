r"""Distances of samples to the Gaussians of the classes, at the cost of C and not of C^2.

With the regularised covariance of a class,

.. math:: S_c = B + (1 - \rho) \Sigma_c , \qquad
          B = \rho \Sigma_{pooled} + \varepsilon v P + (1 - \rho) \bar{D} ,

where P holds the penalties of the features, v is the mean variance within classes and
:math:`\bar{D}` the mean variance outside the kept axes, the score of a class is

.. math:: s_c(x) = \tfrac12 (x - m)^\top B^{-1} (x - m)
          - \tfrac12 (x - \mu_c)^\top S_c^{-1} (x - \mu_c) .

The first term is common to all classes and cancels what is quadratic in x but for the own axes of
the class. B is factored once, and by the Woodbury identity each class adds a system of the size of
its factor: with :math:`U_c^\top U_c = (1 - \rho) \Sigma_c`, :math:`V_c = U_c B^{-1}` and
:math:`L_c L_c^\top = I + U_c V_c^\top`,

.. math:: s_c(x) = (\mu_c - m)^\top B^{-1} \bigl(x - \tfrac12 (\mu_c + m)\bigr)
          + \tfrac12 \bigl\| L_c^{-1} V_c (x - \mu_c) \bigr\|^2 .

The determinants of :math:`S_c` do not enter: in the lifted features they measure the ridge more
than the class. All scores are divided by one temperature, so that their softmax is a probability.

References
----------
J. H. Friedman. Regularized discriminant analysis. Journal of the American Statistical Association
84(405), 1989.
"""

from dataclasses import dataclass
from itertools import accumulate

import torch

from ..device import as_array, as_tensor
from ..linalg import DiagonalPlusGram, cholesky
from ..statistics import Array
from .gaussians import ClassGaussians

__all__ = ["GaussianDistances", "fit_distances", "shared_covariance"]

# Fewest samples per product, and bytes of responses per product: fewer samples make it inefficient,
# more bytes leave the cache of the processor.
_FEWEST_TOGETHER = 64
_RESPONSE_BYTES = 32e6


@dataclass(frozen=True)
class GaussianDistances:
    """Scores of the classes from regularised Mahalanobis distances.

    Attributes
    ----------
    centre : ndarray of shape (d,)
        Weighted mean of the class means.
    planes, offsets : ndarray of shape (C, d) and (C,)
        Linear part of the scores of centred samples.
    rows : ndarray of shape (R, d)
        Own axes of all classes, one class under the other.
    shifts : ndarray of shape (R,)
        Responses of these rows to the mean of their class.
    lengths : tuple of int
        Number of rows of each class.
    """

    centre: Array
    planes: Array
    offsets: Array
    rows: Array
    shifts: Array
    lengths: tuple[int, ...]

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return len(self.planes)

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores of all classes, of shape (n_samples, C)."""
        device = features.device
        centre, planes, offsets, rows, shifts = (
            as_tensor(one, device=device)
            for one in (self.centre, self.planes, self.offsets, self.rows, self.shifts)
        )
        n_together = max(
            _FEWEST_TOGETHER, int(_RESPONSE_BYTES / (8 * (len(rows) + self.n_classes)))
        )
        scores = features.new_empty((len(features), self.n_classes))
        stops = list(accumulate(self.lengths))
        parts = zip(torch.split(features, n_together), torch.split(scores, n_together), strict=True)
        for part, found in parts:
            x = part - centre
            torch.addmm(offsets, x, planes.T, out=found)
            responses = torch.addmm(-shifts[:, None], rows, x.T).square_()
            for c, (stop, length) in enumerate(zip(stops, self.lengths, strict=True)):
                if length:
                    found[:, c].add_(responses[stop - length : stop].sum(0), alpha=0.5)
        return scores


def shared_covariance(
    gaussians: ClassGaussians, shrinkage: float, epsilon: float
) -> DiagonalPlusGram:
    """Return B, the part of the regularised covariance that all classes share, factored.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    shrinkage : float
        rho in [0, 1].
    epsilon : float
        Ridge, relative to the mean variance within classes.

    Returns
    -------
    DiagonalPlusGram
        B.
    """
    weights = gaussians.weights
    diagonal = (
        epsilon * gaussians.ridge_unit() * gaussians.penalties
        + shrinkage * gaussians.residuals.sum(0) / weights.sum()
        + (1.0 - shrinkage) * (gaussians.residuals / weights[:, None]).mean(0)
    )
    return DiagonalPlusGram(
        diagonal,
        gaussians.rows if shrinkage else gaussians.rows[:0],
        name="the pooled covariance",
        scale=shrinkage / float(weights.sum()),
        gram=gaussians.gram,
    )


def fit_distances(
    gaussians: ClassGaussians,
    *,
    covariance: str,
    shrinkage: float,
    epsilon: float,
    temperature: float = 1.0,
) -> GaussianDistances:
    """Solve the distances to all classes.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    covariance : {"class", "identity"}
        Whether the covariances are used, or the identity times the mean variance.
    shrinkage : float
        rho in [0, 1]: 0 are class covariances, 1 is linear discriminant analysis.
    epsilon : float
        Ridge, relative to the mean variance within classes.
    temperature : float, default=1.0
        Divisor of the scores.

    Returns
    -------
    GaussianDistances
        The scores.

    Raises
    ------
    NotPositiveDefiniteError
        If B or the system of a class cannot be factored.
    """
    if covariance == "identity":
        # A scalar covariance: its size changes no decision.
        gaussians, shrinkage, epsilon = gaussians.without_rows(), 0.0, 1.0 + epsilon
    base = shared_covariance(gaussians, shrinkage, epsilon)
    weights = gaussians.weights
    centre = weights @ gaussians.means / weights.sum()
    means = gaussians.means - centre
    planes = base.solve(means) / temperature
    rows = gaussians.rows[:0] if shrinkage == 1.0 else base.solve(gaussians.rows)
    lengths = (0,) * len(weights) if shrinkage == 1.0 else gaussians.lengths
    shifts = rows.new_empty(len(rows))
    stop = 0
    for c, (length, own) in enumerate(zip(lengths, gaussians.parts(), strict=True)):
        start, stop = stop, stop + length
        if length:
            solved, factor = rows[start:stop], ((1.0 - shrinkage) / weights[c]).sqrt()
            system = (own @ solved.T).mul_(factor.square())
            system.diagonal().add_(1.0)
            lower = cholesky(system, name=f"the covariance of class {c}")
            solved *= factor / temperature**0.5
            torch.linalg.solve_triangular(lower, solved, upper=False, out=solved)
            shifts[start:stop] = solved @ means[c]
    offsets = -0.5 * torch.linalg.vecdot(planes, means)
    return GaussianDistances(
        as_array(centre),
        as_array(planes),
        as_array(offsets),
        as_array(rows),
        as_array(shifts),
        tuple(lengths),
    )
