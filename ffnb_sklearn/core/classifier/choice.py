r"""The choice of shrinkage, ridge and energy of the inputs, from the classes' moments.

Three candidates are compared by the cross-entropy of left-out samples
(`ffnb_sklearn.core.classifier.judge`): the pooled discriminant with equal energies of inputs and
shared band, the same with dominant inputs, and Gaussian classes in the inputs. The shrinkage is the
intensity of Ledoit and Wolf [1]_ in the metric of :math:`B = \Sigma_{pooled} + v P`, the sampling
error of a class covariance over its squared distance from the pooled one,

.. math:: \rho = \frac{\sum_c \bigl((\mathrm{tr} \Sigma_c)^2 + \|\Sigma_c\|^2\bigr) / n_c}
                      {\sum_c \|\Sigma_c - \Sigma_{pooled}\|^2} .

In curved features of a head whose classes keep their own covariances, :math:`1 - a (1 - \rho)`
takes its place, with the mean e of the terms of the numerator over all samples, the mean squared
distance :math:`D^2` of a class mean from the nearest other one, and
:math:`a = 1 / (1 + (e / D^4)^2)`. The ridge is the intensity times
:math:`1 + (12 r / (N - C))^2`, with the effective rank
:math:`r = (\mathrm{tr} \Sigma)^2 / \|\Sigma\|^2` of the pooled covariance.

References
----------
.. [1] O. Ledoit and M. Wolf. A well-conditioned estimator for large-dimensional covariance
   matrices. Journal of Multivariate Analysis 88(2), 2004.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import torch

from ..features.feature_map import Blocks
from ..features.shared_band import SharedBand
from ..linalg import ENERGY_ROUNDING, DiagonalPlusGram
from ..settings import Settings
from .gaussians import ClassGaussians
from .heads import Head
from .heads.interface import Choice
from .judge import LEAST_SHARE, LeftOutSamples, best_densities, dispersion

__all__ = ["Choice", "choose", "with_choice"]

# Energy of dominant inputs as a multiple of the shared band's, and the energy by class separation
# that makes the comparison worth while: without it, real tables lose 0.5 points.
_DOMINANT, _SEPARATED = 300.0, 2.0

# Relative difference of cross-entropies that decides.
_CLEAR = 0.05

# Largest dispersion of Gaussian classes, whose judge draws Gaussian samples: it flatters others.
_MOST_DISPERSION = 1.35

# Least samples per input for Gaussian classes; with fewer the judge is too uncertain.
_PER_INPUT = 3.0

# Ridge relative to the mean variance within classes, and its growth with the relative sampling
# error of the pooled covariance.
_RIDGE, _FEW_SAMPLES = 0.7, 12.0

# Largest shrinkage in curved features: half of the own covariance gains 0.6 points on real tables.
_MOST_CURVED = 0.5

# Energy of trained neurons relative to all other features: they separate the samples of their fit
# better than new samples.
_BAND_ENERGY = 0.001


def choose(
    gaussians: ClassGaussians,
    blocks: Blocks,
    settings: Settings,
    shared: SharedBand,
    head: type[Head],
) -> Choice:
    """Choose the values that the settings leave open; given values are kept.

    The order of the classes and their partition into tasks play no part. `gaussians` has the
    features that the classifier sees. The energies of their blocks are open as soon as shrinkage or
    ridge is.
    """
    shrinkage, epsilon = settings.shrinkage, settings.epsilon
    if shrinkage == 0.0 and epsilon is None:
        epsilon = _RIDGE if head.fixed_ridge is None else head.fixed_ridge
    if shrinkage is not None and epsilon is not None:
        return Choice(None, shrinkage, epsilon)
    # Old classes are only inferred in trained neurons, and look better there than they are.
    fixed = gaussians.first(blocks.n_fixed) if blocks.n_fixed else gaussians
    left_out = LeftOutSamples(fixed)
    has_energy = bool(left_out.classes) and min(blocks) > 0 and settings.covariance == "class"
    metric = _best_metric(left_out, blocks, has_energy=has_energy)
    if has_energy and head.keeps_own and shrinkage is None and epsilon is None:
        densities = _densities(left_out, gaussians, blocks, shared, metric)
        if densities is not None:
            return densities
    curved = head.keeps_own and blocks.n_shared > 0 and metric.energy != _DOMINANT
    if shrinkage is not None:
        intensity = shrinkage
    elif metric.energy == _DOMINANT:
        # The comparison has found linear functions of the inputs to be better.
        intensity = shrinkage = 1.0
    else:
        intensity, error = _intensity(left_out, metric)
        shrinkage = intensity
        if curved:
            own = _own_factor(left_out, metric, error)
            intensity = 1.0 - own * (1.0 - intensity)
            shrinkage = min(intensity, 1.0 - own * (1.0 - _MOST_CURVED))
    if epsilon is None:
        epsilon = head.fixed_ridge
    if epsilon is None:
        epsilon = _ridge(metric.gaussians, intensity) * (1.0 + intensity if curved else 1.0)
    return Choice(metric.energy, shrinkage, epsilon)


def with_choice(gaussians: ClassGaussians, blocks: Blocks, choice: Choice) -> ClassGaussians:
    """Return the classes with the penalties of a choice, and over the features that count.

    The ridge of an input is proportional to its variance within the classes, plus the median
    variance of all inputs, so the unit of an input has little influence. The inputs and the shared
    band are weighted by the energy of the choice, and trained neurons get a fixed share of the
    spread of all other features. Without shrinkage all inputs and the shared band have one penalty,
    because a pair is to depend on its two classes alone.
    """
    if choice.temperature is not None:
        gaussians, blocks = gaussians.first(blocks.n_inputs), Blocks(blocks.n_inputs, 0)
    inputs, shared = slice(0, blocks.n_inputs), slice(blocks.n_inputs, blocks.n_fixed)
    bands = slice(blocks.n_fixed, None)
    within, between, sizes = _spreads(gaussians)
    penalties = torch.ones_like(within)
    if choice.shrinkage > 0.0:
        penalties[inputs] = _column_penalties(within[inputs], sizes[inputs])
        if blocks.n_inputs and blocks.n_shared:
            energy = choice.input_energy
            if energy is None:
                energy = separation_energy(gaussians, blocks)
            penalties[inputs] *= max(1.0, 1.0 / energy)
            penalties[shared] *= max(1.0, energy)
    spread = (within + between) / penalties
    trained, rest = spread[bands].sum(), spread[: blocks.n_fixed].sum()
    rounding = ENERGY_ROUNDING * (rest + (sizes / penalties)[: blocks.n_fixed].sum())
    if trained > rounding and rest > 0.0:
        penalties[bands] = trained / rest / _BAND_ENERGY
    return replace(gaussians, penalties=penalties)


def separation_energy(gaussians: ClassGaussians, blocks: Blocks) -> float:
    """Return the energy of the inputs as a multiple of the shared band's, by class separation.

    It is the squared ratio of the Calinski-Harabasz indices of both blocks, and 1 if an index is
    undefined or zero but for rounding.
    """
    within, between, sizes = _spreads(gaussians)
    inputs, shared = slice(0, blocks.n_inputs), slice(blocks.n_inputs, blocks.n_fixed)
    penalties = torch.ones_like(within)
    penalties[inputs] = _column_penalties(within[inputs], sizes[inputs])
    indices = []
    for block in (inputs, shared):
        inside, outside, size = ((one / penalties)[block].sum() for one in (within, between, sizes))
        if not (outside > ENERGY_ROUNDING * size and inside > 0.0):
            return 1.0
        indices.append(float(outside / inside))
    return (indices[0] / indices[1]) ** 2


def _spreads(gaussians: ClassGaussians) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the scatter of each feature within classes and between means, and its energy."""
    weights = gaussians.weights
    centre = weights @ gaussians.means / weights.sum()
    within = gaussians.energies.sum(0) + gaussians.residuals.sum(0)
    return within, weights @ (gaussians.means - centre).square(), weights @ gaussians.means.square()


def _column_penalties(within: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """Return the penalty of each input, which leaves the sum of the spreads as it is."""
    varying = within[within > ENERGY_ROUNDING * sizes]
    if not len(varying):
        return torch.ones_like(within)
    penalties = within + varying.median()
    return penalties * ((within / penalties).sum() / within.sum())


class _Metric(NamedTuple):
    """Classes with the penalties of one energy, B, centred means times inv(B), cross-entropy."""

    energy: float | None
    gaussians: ClassGaussians
    base: DiagonalPlusGram
    planes: torch.Tensor
    entropy: float


def _metric(left_out: LeftOutSamples, blocks: Blocks, energy: float | None) -> _Metric:
    """Solve the pooled discriminant under one energy, and judge it."""
    gaussians = with_choice(left_out.gaussians, blocks, Choice(energy, 1.0, _RIDGE))
    base = gaussians.shared_covariance(1.0, _RIDGE)
    planes = base.solve(left_out.means)
    return _Metric(energy, gaussians, base, planes, left_out.cross_entropy(base, planes)[0])


def _best_metric(left_out: LeftOutSamples, blocks: Blocks, *, has_energy: bool) -> _Metric:
    """Return the better of equal energies and dominant inputs if the inputs separate classes."""
    if not has_energy or separation_energy(left_out.gaussians, blocks) < _SEPARATED:
        return _metric(left_out, blocks, None)
    equal, dominant = (_metric(left_out, blocks, energy) for energy in (1.0, _DOMINANT))
    return dominant if dominant.entropy < (1.0 - _CLEAR) * equal.entropy else equal


def _ridge(gaussians: ClassGaussians, intensity: float) -> float:
    """Return the ridge, given the penalties."""
    # The squared relative sampling error of the pooled covariance is r / (N - C).
    square, dof = gaussians.relative_square(), float((gaussians.counts - 1.0).sum())
    few = 1.0 + (_FEW_SAMPLES / square / max(dof, 1.0)) ** 2 if square > 0.0 else 1.0
    return _RIDGE * intensity * few


def _densities(
    left_out: LeftOutSamples,
    gaussians: ClassGaussians,
    blocks: Blocks,
    shared: SharedBand,
    metric: _Metric,
) -> Choice | None:
    """Return the choice for classes that are Gaussian in the inputs, or None if they are not."""
    few = float(gaussians.counts.sum()) < _PER_INPUT * blocks.n_inputs
    if few or dispersion(gaussians, shared) > _MOST_DISPERSION:
        return None
    inputs = with_choice(gaussians, blocks, Choice(None, 1.0, _RIDGE, temperature=1.0))
    best = best_densities(left_out, inputs)
    if not best.entropy < (1.0 - _CLEAR) * metric.entropy:
        return None
    return Choice(None, best.shrinkage, best.shrinkage * best.ridge, best.temperature)


def _intensity(left_out: LeftOutSamples, metric: _Metric) -> tuple[float, float]:
    """Return the intensity of the shrinkage, and the sampling error of a sample's class covariance.

    They are 1 and 0 if no class has a covariance.
    """
    gaussians, found = metric.gaussians, list[torch.Tensor]()
    parts = left_out.split(metric.base.solve_own(gaussians.rows, left_out.numbers))
    own = left_out.split(gaussians.rows[left_out.numbers])
    for rows, solved in zip(own, parts, strict=True):
        gram, lost = rows @ solved.T, (solved.square() @ gaussians.penalties).sum()
        found.append(torch.stack([gram.trace(), gram.square().sum(), lost]))
    if not found:
        return 1.0, 0.0
    weights = gaussians.weights[left_out.classes]
    traces, squares, lost = torch.stack(found).T / weights
    squares = squares / weights
    # B^-1 Sigma_pooled B^-1 is B^-1 less the ridge's part.
    crosses = traces - _RIDGE * gaussians.pooled_variance() * lost
    errors = (traces.square() + squares) / gaussians.counts[left_out.classes]
    shares = weights / weights.sum()
    distance = float(squares.mean() - 2.0 * crosses.mean() + shares @ crosses)
    error = float(errors.mean())
    if not error > 0.0:
        return 1.0, 0.0
    return max(LEAST_SHARE, error / max(distance, error)), float(shares @ errors)


def _own_factor(left_out: LeftOutSamples, metric: _Metric, error: float) -> float:
    """Return the factor a of own covariances, which is small if classes overlap."""
    products = left_out.means @ metric.planes.T
    if len(products) < 2 or error == 0.0:
        return 1.0
    lengths = products.diagonal()
    gaps = (lengths + lengths[:, None] - 2.0 * products).clamp_min(0.0)
    gaps.fill_diagonal_(torch.inf)
    gap = float(gaps.min(1).values.mean())
    # The squares of large numbers overflow.
    ratio = error / gap / gap if gap > 0.0 else math.inf
    return 1.0 / (1.0 + ratio * ratio)
