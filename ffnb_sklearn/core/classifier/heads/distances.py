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

For classes that are Gaussian in the inputs :math:`-\log \det L_c` is added.

Probabilities are the softmax of the scores divided by the temperature of the sample. With the
temperature :math:`T_B` of least left-out cross-entropy of the discriminant of :math:`B / \rho`
(`ffnb_sklearn.core.classifier.judge`), the nearest class c and d features, it is

.. math:: T(x) = T_B + a \, (\rho d)^{1/4} \, \bigl\| L_c^{-1} V_c (x - \mu_c) \bigr\|^2 .

Classes that are Gaussian in the inputs have a = 0. The documentation gives the reasons
(docs/theory/default.rst).

References
----------
J. H. Friedman. Regularized discriminant analysis. Journal of the American Statistical Association
84(405), 1989.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch

from ...device import as_array, as_tensor
from ...linalg import DiagonalPlusGram, cholesky
from ...statistics import Array
from ..choice import LEAST_SHRINKAGE
from ..gaussians import ClassGaussians
from ..judge import LeftOutSamples

__all__ = ["GaussianDistances", "fit_distances"]

# Samples per product, and bytes of responses per product: a product reads the rows of its classes
# once for all samples, and its responses stay in the cache of the processor.
_SAMPLES_TOGETHER = 1024
_RESPONSE_BYTES = 8e6

# Temperature a of the own axes of a class: with 0 to 2000 random features, the mean cross-entropy
# on hold-outs of 16 sets is within 0.02 of that of the best factor of each.
_OWN_TEMPERATURE = 0.016

# Least share of the pooled covariance in B that temperatures assume: without any, distances of
# left-out samples are those of the own axes.
_FEWEST_SHARED = 0.1


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
    temperature : float
        T_B, the temperature of linear scores.
    own_temperature : float
        Factor by which own axes add to it.
    """

    centre: Array
    planes: Array
    offsets: Array
    rows: Array
    shifts: Array
    lengths: tuple[int, ...]
    temperature: float
    own_temperature: float

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return len(self.planes)

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores of all classes, of shape (n_samples, C), for a softmax."""
        return self.tempered(*self.terms(features))

    def tempered(self, scores: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
        """Divide s by the temperature of each sample, in place, given both terms."""
        nearest = scores.argmax(1, keepdim=True)
        temperatures = own.gather(1, nearest).mul_(self.own_temperature)
        return scores.div_(temperatures.add_(self.temperature))

    def log_ratios(self, features: torch.Tensor) -> torch.Tensor:
        """Return s, the scores at temperature 1, of shape (n_samples, C)."""
        return self.terms(features)[0]

    def terms(
        self, features: torch.Tensor, dtype: torch.dtype = torch.float64
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return s and the squared lengths in own axes, both of shape (n_samples, C).

        The products with own axes, which are most of the work, are computed in `dtype`.
        """
        device = features.device
        centre, planes, offsets, rows, shifts = (
            as_tensor(one, device=device)
            for one in (self.centre, self.planes, self.offsets, self.rows, self.shifts)
        )
        scores = features.new_empty((len(features), self.n_classes))
        own = torch.zeros_like(scores)
        parts = []
        together = (torch.split(one, _SAMPLES_TOGETHER) for one in (features, scores))
        for part, found in zip(*together, strict=True):
            x = part - centre
            torch.addmm(offsets, x, planes.T, out=found)
            parts.append(x.to(dtype).T)
        squares = torch.split(own, _SAMPLES_TOGETHER)
        most = max(1, int(_RESPONSE_BYTES / (8 * min(len(features), _SAMPLES_TOGETHER))))
        for c, start, stops in self.groups(most):
            axes = slice(start, stops[-1])
            own_rows, own_shifts = rows[axes].to(dtype), shifts[axes, None].to(dtype)
            for part, found in zip(parts, squares, strict=True):
                responses = torch.addmm(-own_shifts, own_rows, part).square_()
                for k, (first, stop) in enumerate(pairwise([start, *stops])):
                    found[:, c + k] = responses[first - start : stop - start].sum(0)
        return scores.add_(own, alpha=0.5), own

    def groups(self, most: int) -> Iterator[tuple[int, int, list[int]]]:
        """Yield consecutive classes with up to `most` rows, or a single class.

        A group is its first class, the first row, and the stop of each class's rows.
        """
        c, start, stop = 0, 0, 0
        stops: list[int] = []
        for length in self.lengths:
            if stops and stop + length - start > most:
                yield c, start, stops
                c, start, stops = c + len(stops), stop, []
            stop += length
            stops.append(stop)
        if stop > start:
            yield c, start, stops


def fit_distances(
    gaussians: ClassGaussians,
    *,
    covariance: str,
    shrinkage: float,
    epsilon: float,
    temperature: float | None = None,
    normal: bool = False,
    overwrite: bool = False,
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
    temperature : float or None, default=None
        Temperature of all samples; None is that of least left-out cross-entropy.
    normal : bool, default=False
        Whether the classes are Gaussian, so that scores have log-determinants.
    overwrite : bool, default=False
        Whether the rows of the classes may be overwritten, since they can take gigabytes.

    Returns
    -------
    GaussianDistances
        The scores.

    Raises
    ------
    NotPositiveDefiniteError
        If B or the system of a class cannot be factored.
    """
    judged = gaussians
    if covariance == "identity":
        gaussians, shrinkage = gaussians.with_identity(), 0.0
    base = gaussians.shared_covariance(shrinkage, epsilon)
    weights = gaussians.weights
    centre = weights @ gaussians.means / weights.sum()
    means = gaussians.means - centre
    planes = base.solve(means)
    offsets = -0.5 * torch.linalg.vecdot(planes, means)
    own_temperature = 0.0
    if temperature is None:
        temperature = _linear_temperature(judged, shrinkage, epsilon, base, planes)
        known = len(gaussians.penalties) * max(shrinkage, LEAST_SHRINKAGE)
        own_temperature = _OWN_TEMPERATURE * known**0.25
    rows, shifts, halves = _own_axes(gaussians, base, shrinkage, means, overwrite=overwrite)
    return GaussianDistances(
        as_array(centre),
        as_array(planes),
        as_array(offsets - halves if normal else offsets),
        as_array(rows),
        as_array(shifts),
        gaussians.lengths if len(rows) else (0,) * len(weights),
        temperature,
        own_temperature,
    )


def _linear_temperature(
    gaussians: ClassGaussians,
    shrinkage: float,
    epsilon: float,
    base: DiagonalPlusGram,
    planes: torch.Tensor,
) -> float:
    """Return T_B, given B and the centred means times its inverse."""
    left_out, share = LeftOutSamples(gaussians), max(shrinkage, _FEWEST_SHARED)
    if share > shrinkage:
        base = gaussians.shared_covariance(share, epsilon)
        planes = base.solve(left_out.means)
    return left_out.cross_entropy(base, planes, share)[1]


def _own_axes(
    gaussians: ClassGaussians,
    base: DiagonalPlusGram,
    shrinkage: float,
    means: torch.Tensor,
    *,
    overwrite: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return own axes, their responses to the means, and halves of the log-determinants."""
    halves = torch.zeros_like(gaussians.weights)
    if shrinkage == 1.0:
        return gaussians.rows[:0], means[:0, 0], halves
    at_once = base.is_wide
    if at_once:
        rows = base.solve_own(gaussians.rows) if shrinkage else base.solve(gaussians.rows)
    else:
        rows = gaussians.rows if overwrite else gaussians.rows.clone()
    shifts, stop = rows.new_empty(len(rows)), 0
    for c, (length, own) in enumerate(zip(gaussians.lengths, gaussians.parts(), strict=True)):
        start, stop = stop, stop + length
        if length:
            if not at_once:
                own = own.clone()
                rows[start:stop] = base.solve(own)
            solved, factor = rows[start:stop], ((1.0 - shrinkage) / gaussians.weights[c]).sqrt()
            system = (own @ solved.T).mul_(factor.square())
            system.diagonal().add_(1.0)
            lower = cholesky(system, name=f"the covariance of class {c}")
            solved *= factor
            torch.linalg.solve_triangular(lower, solved, upper=False, out=solved)
            shifts[start:stop] = solved @ means[c]
            halves[c] = lower.diagonal().log().sum()
    return rows, shifts, halves
