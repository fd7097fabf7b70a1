"""The choice of shrinkage, ridge and energy of the inputs, from the classes' moments.

docs/theory/default.rst ("How shrinkage, ridge and energy are chosen") has the formulas.
"""

import math
from typing import NamedTuple

import torch

from .features.feature_map import Blocks
from .features.shared_band import SharedBand
from .heads import Head
from .heads.gaussians import ClassGaussians
from .heads.interface import Choice
from .heads.judge import LEAST_SHARE, LeftOutSamples, best_densities, dispersion
from .linalg import ENERGY_ROUNDING, DiagonalPlusGram
from .settings import Settings

__all__ = ["Choice", "choose", "separation_energy", "with_choice"]

# Relative difference of cross-entropies that decides.
_CLEAR = 0.05

# Largest dispersion of Gaussian classes, whose judge draws Gaussian samples: it flatters others.
_MOST_DISPERSION = 1.35

# Most inputs of Gaussian classes, whose covariances are dense, and least samples per input: with
# fewer the judge is too uncertain.
_MOST_INPUTS, _PER_INPUT = 100, 3.0

# Ridge relative to the mean variance within classes, and its growth with the relative sampling
# error of the pooled covariance.
_RIDGE, _FEW_SAMPLES = 0.7, 12.0

# Largest shrinkage in curved features: half of the own covariance gains 0.6 points on real tables.
_MOST_CURVED = 0.5


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
    if epsilon is None:
        epsilon = _RIDGE if shrinkage == 0.0 else head.fixed_ridge
    if shrinkage == 0.0 and epsilon is not None:
        return Choice(None, shrinkage, epsilon)
    # Old classes are only inferred in trained neurons, and look better there than they are.
    fixed = gaussians.first(blocks.n_fixed) if blocks.n_fixed else gaussians
    energy = separation_energy(fixed, blocks)
    if shrinkage is not None and epsilon is not None:
        return Choice(energy, shrinkage, epsilon)
    left_out = LeftOutSamples(fixed)
    has_energy = bool(left_out.classes) and min(blocks) > 0 and settings.covariance == "class"
    metric = _metric(left_out, blocks, energy)
    if has_energy and head.keeps_own and shrinkage is None and epsilon is None:
        densities = _densities(left_out, blocks, shared, metric)
        if densities is not None:
            return densities
    curved = head.keeps_own and blocks.n_shared > 0
    intensity, own = _intensity(left_out, metric)
    if shrinkage is not None:
        intensity = shrinkage
    elif curved:
        intensity = 1.0 - own * (1.0 - intensity)
        shrinkage = min(intensity, 1.0 - own * (1.0 - _MOST_CURVED))
    else:
        shrinkage = intensity
    if epsilon is None:
        epsilon = _RIDGE * intensity * _few_samples(metric.gaussians)
        epsilon *= 1.0 + intensity if curved else 1.0
    return Choice(metric.energy, shrinkage, epsilon)


def with_choice(gaussians: ClassGaussians, blocks: Blocks, choice: Choice) -> ClassGaussians:
    """Return the classes with the penalties of a choice, and over the features that count."""
    if choice.temperature is not None:
        gaussians, blocks = gaussians.first(blocks.n_inputs), Blocks(blocks.n_inputs, 0)
    return gaussians.weigh_blocks(blocks, choice.input_energy)


def separation_energy(gaussians: ClassGaussians, blocks: Blocks) -> float:
    """Return the energy of the inputs as a multiple of the shared band's, by class separation.

    It is the squared ratio of the Calinski-Harabasz indices of both blocks, at most 1, and 1 if an
    index is undefined or zero but for rounding.
    """
    weighted = gaussians.weigh_blocks(blocks, 1.0)
    spreads = [one / weighted.penalties for one in weighted.spreads()]
    indices = []
    for block in (slice(0, blocks.n_inputs), slice(blocks.n_inputs, blocks.n_fixed)):
        within, between, size = (float(one[block].sum()) for one in spreads)
        if not (between > ENERGY_ROUNDING * size and within > 0.0):
            return 1.0
        indices.append(between / within)
    return min(1.0, (indices[0] / indices[1]) ** 2)


class _Metric(NamedTuple):
    """Classes with the penalties of one energy, B, centred means times inv(B), cross-entropy."""

    energy: float
    gaussians: ClassGaussians
    base: DiagonalPlusGram
    planes: torch.Tensor
    entropy: float


def _metric(left_out: LeftOutSamples, blocks: Blocks, energy: float) -> _Metric:
    """Solve the pooled discriminant under one energy, and judge it."""
    gaussians = left_out.gaussians.weigh_blocks(blocks, energy)
    base = gaussians.shared_covariance(1.0, _RIDGE)
    planes = base.solve(left_out.means)
    return _Metric(energy, gaussians, base, planes, left_out.cross_entropy(base, planes)[0])


def _few_samples(gaussians: ClassGaussians) -> float:
    """Return the growth of the ridge with the relative sampling error of the pooled covariance."""
    square, dof = gaussians.relative_square(), float((gaussians.counts - 1.0).sum())
    return 1.0 + (_FEW_SAMPLES / square / max(dof, 1.0)) ** 2 if square > 0.0 else 1.0


def _densities(
    left_out: LeftOutSamples, blocks: Blocks, shared: SharedBand, metric: _Metric
) -> Choice | None:
    """Return the choice for classes that are Gaussian in the inputs, or None if they are not."""
    n_samples = float(left_out.gaussians.counts.sum())
    if blocks.n_inputs > min(_MOST_INPUTS, n_samples / _PER_INPUT):
        return None
    if dispersion(left_out, shared) > _MOST_DISPERSION:
        return None
    inputs = with_choice(left_out.gaussians, blocks, Choice(1.0, 1.0, 1.0, temperature=1.0))
    entropy, rho, ridge, temperature = best_densities(left_out, inputs, metric.planes)
    if not entropy < (1.0 - _CLEAR) * metric.entropy:
        return None
    return Choice(1.0, rho, rho * ridge, temperature)


def _intensity(left_out: LeftOutSamples, metric: _Metric) -> tuple[float, float]:
    """Return the intensity of Ledoit and Wolf, and the factor a of own covariances.

    Both are 1 if no class has a covariance.
    """
    gaussians, found = metric.gaussians, list[torch.Tensor]()
    for c in left_out.classes:
        rows, weight = gaussians.parts()[c], gaussians.weights[c]
        solved = metric.base.solve(rows)
        # Squares of tiny weights would underflow.
        gram = (rows @ solved.T).div_(weight)
        lost = (solved.square() @ gaussians.penalties).sum() / weight
        apart, _ = left_out.nearest(c, metric.planes)
        found.append(torch.stack([gram.trace(), gram.square().sum(), lost, apart[0]]))
    if not found:
        return 1.0, 1.0
    traces, squares, lost, gaps = torch.stack(found).T
    weights = gaussians.weights[left_out.classes]
    shares = weights / weights.sum()
    # B^-1 Sigma_pooled B^-1 is B^-1 less the ridge's part.
    crosses = traces - _RIDGE * gaussians.pooled_variance() * lost
    errors = (traces.square() + squares) / gaussians.counts[left_out.classes]
    distance = float(squares.mean() - 2.0 * crosses.mean() + shares @ crosses)
    error, gap = float(errors.mean()), float(gaps.mean())
    if not error > 0.0:
        return 1.0, 1.0
    # The squares of large numbers overflow.
    overlap = float(shares @ errors) / gap / gap if gap > 0.0 else math.inf
    return max(LEAST_SHARE, error / max(distance, error)), 1.0 / (1.0 + overlap * overlap)
