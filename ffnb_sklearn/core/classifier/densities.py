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

These scores can be mixed with the linear ones of :math:`\rho = 1` and a twentieth of the ridge. For
classes that are Gaussian in the inputs :math:`-\log \det L_c` is added.

Probabilities are the softmax of the scores divided by the temperature of the sample. With the
temperature :math:`T_B` of least left-out cross-entropy of the discriminant of :math:`B / \rho`
(`ffnb_sklearn.core.classifier.left_out`), the nearest class c and d features, it is

.. math:: T(x) = T_B + a f \, (\rho d)^{1/4} \, \bigl\| L_c^{-1} V_c (x - \mu_c) \bigr\|^2 .

If :math:`f_0` makes the mean entropy of typical samples
(`ffnb_sklearn.core.classifier.typical`) that of the linear discriminant, f is its root, or with C
classes its power 4 / (C - 1) if that is less. Classes that are Gaussian in the inputs have a = 0.
The documentation gives the reasons (docs/theory.rst, "Distances instead of pairs").

References
----------
J. H. Friedman. Regularized discriminant analysis. Journal of the American Statistical Association
84(405), 1989.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from ..device import as_array, as_tensor
from ..linalg import DiagonalPlusGram, cholesky
from ..statistics import Array
from .gaussians import ClassGaussians
from .left_out import N_OPPONENTS, LeftOutSamples

__all__ = [
    "LEAST_SHRINKAGE",
    "GaussianDistances",
    "fit_distances",
    "fit_linear",
    "mix_with_linear",
    "shared_covariance",
]

# Samples per product, and bytes of responses per product: a product reads the rows of its classes
# once for all samples, and its responses stay in the cache of the processor.
_SAMPLES_TOGETHER = 1024
_RESPONSE_BYTES = 8e6

# Temperature a of the own axes of a class, chosen with f = 1: with 0, 100, 300 and 2000 random
# features, the mean cross-entropy on hold-outs of 16 sets is within 0.02 of that of the best factor
# of each.
_OWN_TEMPERATURE = 0.013

# Largest power of f_0 (docs/benchmarks/choice_rules.md, on its fit to typical samples); largest f_0
# and 1 / f_0, as a power of two, and bisections.
_MOST_POWER, _MOST_DOUBLINGS, _N_HALVINGS = 0.5, 5.0, 20

# Ridge of the linear scores that are mixed in, relative to that of the distances: a fiftieth gains
# on some tables, and costs log-loss (benchmarks/linear_scores.py).
_FINE_RIDGE = 0.05

# Least shrinkage that is chosen, or that temperatures assume: beyond about 1e5 samples a class
# covariance is as good as known, and a smaller relative ridge only loses digits.
LEAST_SHRINKAGE = 1e-3

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


def shared_covariance(
    gaussians: ClassGaussians, shrinkage: float, epsilon: float
) -> DiagonalPlusGram:
    """Return B, the part of the regularised covariance that all classes share, factored.

    `shrinkage` is rho, and `epsilon` the ridge relative to the mean variance within classes.
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
        gram=gaussians.gram_in(diagonal) if shrinkage else None,
    )


def fit_linear(
    gaussians: ClassGaussians,
    shrinkage: float,
    epsilon: float,
    solved: tuple[DiagonalPlusGram, torch.Tensor] | None = None,
) -> GaussianDistances:
    """Return linear scores with the temperature of least left-out cross-entropy.

    They are those of the discriminant of B, divided by its share of the pooled covariance. `solved`
    holds B and the centred means times its inverse, if they are known.
    """
    left_out, share = LeftOutSamples(gaussians), max(shrinkage, _FEWEST_SHARED)
    if solved is None or share > shrinkage:
        base = shared_covariance(gaussians, share, epsilon)
        solved = base, base.solve(left_out.means)
    _, temperature = left_out.cross_entropy(*solved, share)
    planes = share * solved[1]
    return GaussianDistances(
        as_array(gaussians.weights @ gaussians.means / gaussians.weights.sum()),
        as_array(planes),
        as_array(-0.5 * torch.linalg.vecdot(planes, left_out.means)),
        as_array(gaussians.rows[:0]),
        as_array(planes[:0, 0]),
        (0,) * len(planes),
        temperature,
        0.0,
    )


def fit_distances(
    gaussians: ClassGaussians,
    *,
    covariance: str,
    shrinkage: float,
    epsilon: float,
    normal: bool = False,
    temperature: float | None = None,
    linear_weight: float = 0.0,
    samples: torch.Tensor | None = None,
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
    normal : bool, default=False
        Whether the classes are Gaussian, so that scores are logarithms of density ratios.
    temperature : float or None, default=None
        Temperature T_B; None is that of `fit_linear`.
    linear_weight : float, default=0.0
        Weight of the linear scores of a smaller ridge that are mixed in.
    samples : Tensor of shape (n_samples, d) or None, default=None
        Typical samples, to which the temperature of own axes is fitted unless `temperature` is
        given.

    Returns
    -------
    GaussianDistances
        The scores.

    Raises
    ------
    NotPositiveDefiniteError
        If B or the system of a class cannot be factored.
    """
    learned = gaussians
    if covariance == "identity":
        gaussians, shrinkage = gaussians.with_identity(), 0.0
    base = shared_covariance(gaussians, shrinkage, epsilon)
    weights = gaussians.weights
    centre = weights @ gaussians.means / weights.sum()
    means = gaussians.means - centre
    planes = base.solve(means)
    offsets = -0.5 * torch.linalg.vecdot(planes, means)
    rows, shifts, halves = _own_axes(gaussians, base, shrinkage, means)
    linear = None
    if temperature is None:
        linear = fit_linear(learned, shrinkage, epsilon, (base, planes))
        temperature = linear.temperature
    known = len(gaussians.penalties) * max(shrinkage, LEAST_SHRINKAGE)
    distances = GaussianDistances(
        as_array(centre),
        as_array(planes),
        as_array(offsets - halves if normal else offsets),
        as_array(rows),
        as_array(shifts),
        gaussians.lengths if len(rows) else (0,) * len(weights),
        temperature,
        0.0 if normal else _OWN_TEMPERATURE * known**0.25,
    )
    if linear_weight > 0.0:
        distances = mix_with_linear(distances, gaussians, linear_weight, epsilon)
    if linear is not None and samples is not None and len(rows):
        distances = _as_sure(distances, linear, samples)
    return distances


def _own_axes(
    gaussians: ClassGaussians, base: DiagonalPlusGram, shrinkage: float, means: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return own axes, their responses to the means, and halves of the log-determinants."""
    halves = torch.zeros_like(gaussians.weights)
    if shrinkage == 1.0:
        return gaussians.rows[:0], means[:0, 0], halves
    rows = base.solve_own(gaussians.rows) if shrinkage else base.solve(gaussians.rows)
    shifts, stop = rows.new_empty(len(rows)), 0
    for c, (length, own) in enumerate(zip(gaussians.lengths, gaussians.parts(), strict=True)):
        start, stop = stop, stop + length
        if length:
            solved, factor = rows[start:stop], ((1.0 - shrinkage) / gaussians.weights[c]).sqrt()
            system = (own @ solved.T).mul_(factor.square())
            system.diagonal().add_(1.0)
            lower = cholesky(system, name=f"the covariance of class {c}")
            solved *= factor
            torch.linalg.solve_triangular(lower, solved, upper=False, out=solved)
            shifts[start:stop] = solved @ means[c]
            halves[c] = lower.diagonal().log().sum()
    return rows, shifts, halves


def _as_sure(
    distances: GaussianDistances, linear: GaussianDistances, samples: torch.Tensor
) -> GaussianDistances:
    """Return distances that are about as sure of typical samples as linear scores."""
    scores, own = distances.terms(samples)
    own = own.gather(1, scores.argmax(1, keepdim=True)) * distances.own_temperature
    entropy = _mean_entropy(linear.scores(samples))
    least, most = -_MOST_DOUBLINGS, _MOST_DOUBLINGS
    for _ in range(_N_HALVINGS):
        middle = 0.5 * (least + most)
        if _mean_entropy(scores / (distances.temperature + 2.0**middle * own)) < entropy:
            least = middle
        else:
            most = middle
    power = _MOST_POWER * min(1.0, N_OPPONENTS / (distances.n_classes - 1))
    factor = 2.0 ** (power * 0.5 * (least + most))
    return replace(distances, own_temperature=factor * distances.own_temperature)


def _mean_entropy(logits: torch.Tensor) -> float:
    """Return the mean entropy of the softmax."""
    logs = logits.log_softmax(1)
    return -float((logs.exp() * logs).sum(1).mean())


def mix_with_linear(
    distances: GaussianDistances, gaussians: ClassGaussians, weight: float, epsilon: float
) -> GaussianDistances:
    """Mix the scores of distances with the linear ones of a twentieth of their ridge.

    Parameters
    ----------
    distances : GaussianDistances
        The distances; their rows and shifts are overwritten, since they can take gigabytes.
    gaussians : ClassGaussians
        The classes that they were solved for.
    weight : float
        Weight of the linear scores, in [0, 1).
    epsilon : float
        Ridge of the distances, relative to the mean variance within classes.

    Returns
    -------
    GaussianDistances
        The mixture; its temperature T_B is mixed likewise.
    """
    linear = fit_linear(gaussians, 1.0, _FINE_RIDGE * epsilon)
    for own in (distances.rows, distances.shifts):
        # Responses in own axes are squared.
        own *= (1.0 - weight) ** 0.5
    return replace(
        distances,
        planes=(1.0 - weight) * distances.planes + weight * linear.planes,
        offsets=(1.0 - weight) * distances.offsets + weight * linear.offsets,
        temperature=(1.0 - weight) * distances.temperature + weight * linear.temperature,
    )
