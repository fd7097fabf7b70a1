r"""Shrinkage, ridge and block energies in closed form from the classes' moments.

Shrinkage, ridge and cross-entropy are measured in the metric of one regularised pooled covariance,
:math:`B = \Sigma_{pooled} + v P`. The documentation gives the reasons
(docs/theory.rst, "How shrinkage, ridge and energies are chosen").

*Energy of the inputs*, unless it is below 2 by class separation: with the left-out cross-entropies
:math:`H_1` and :math:`H_{300}` of the pooled discriminant at the energies 1 and 300
(`ffnb_sklearn.core.classifier.left_out`),

.. math:: 300^\theta , \qquad
          \theta = \min\Bigl(\max\Bigl(\frac{1}{2} + 5 \, \frac{H_1 - H_{300}}{\max(H_1, 10^{-3})} ,
              0\Bigr), 1\Bigr) .

*Shrinkage*: the intensity of Ledoit and Wolf [1]_, the sampling error of a class covariance over
its squared distance from the pooled one,

.. math:: \rho = \frac{\sum_c \bigl((\mathrm{tr} \Sigma_c)^2 + \|\Sigma_c\|^2\bigr) / n_c}
                      {\sum_c \|\Sigma_c - \Sigma_{pooled}\|^2} .

In curved features of the Gaussian head, :math:`1 - a (1 - \rho)` takes its place, with the mean e
of the terms of the numerator over all samples and the mean squared distance :math:`D^2` of a class
mean from the nearest other one:

.. math:: a = \frac{1}{1 + (e / D^4)^2} .

*Ridge*: the intensity times :math:`1 + (12 r / (N - C))^2`, with the effective rank
:math:`r = (\mathrm{tr} \Sigma)^2 / \|\Sigma\|^2` of the pooled covariance, and in curved features
of the Gaussian head also times one plus the intensity. The linear scores of a smaller ridge have
the weight :math:`0.7 (1 - \rho)^2`.

As :math:`\theta` goes from a half to 1, the features go from curved to linear functions of the
inputs, the intensity of the ridge to 1, and the weight of the linear scores to 0.

*Gaussian classes*: the inputs count alone, with the densities of least left-out cross-entropy
(`ffnb_sklearn.core.classifier.left_out_densities`), if there are enough samples for the
covariances, if the random features do not show that the classes are not Gaussian
(`ffnb_sklearn.core.classifier.normality`), and if that cross-entropy is less than the one of the
pooled discriminant times :math:`0.82 + n / 2500`, with the mean number n of samples per class.

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
from ..linalg import DiagonalPlusGram
from ..settings import Settings
from .densities import LEAST_SHRINKAGE, shared_covariance
from .gaussians import ClassGaussians
from .left_out import LeftOutSamples
from .left_out_densities import best_densities, rare_classes, shrinkages
from .normality import deviation_score
from .penalties import block_penalties, separation_energy

__all__ = ["Choice", "choose", "with_choice"]

# Energies of the inputs that are compared, as multiples of the shared band's, and the least energy
# by class separation for this comparison (docs/benchmarks/choice_rules.md).
_EQUAL, _INPUTS, _SEPARATED = 1.0, 300.0, 2.0

# Relative difference of the cross-entropies that decides for one of them, and least entropy that it
# is relative to: if hardly a sample is in doubt, both are small errors
# (docs/benchmarks/choice_rules.md).
_CLEAR, _LEAST_ENTROPY = 0.1, 1e-3

# Ridge of the judged covariance, relative to the mean variance within classes.
_RIDGE = 1.0

# Largest chosen shrinkage, and smallest for dominant inputs: a tenth of the own covariance gains up
# to 3 points on unlike classes of 8 or 20 samples (benchmarks/sizes.py, fresh draws).
_MOST_SHRINKAGE = 0.9

# The same for distances in curved features: it gains 0.6 points on the mean of seventeen real
# tables, from +6.9 on acsf1 to -3.1 on gunpoint (docs/benchmarks/choice_rules.csv).
_MOST_CURVED = 0.5

# Weight of the linear scores of a smaller ridge where covariances are known, and weight below which
# they change nothing, but take a factorisation (benchmarks/linear_scores.py).
_MOST_LINEAR, _LEAST_LINEAR = 0.7, 0.01

# Relative ridge of one-vs-all regression, and of classes without a common covariance
# (docs/benchmarks/defaults_holdouts.md, recorded with the earlier default).
_EPSILON = 0.3

# Growth of the ridge with the relative sampling error of the pooled covariance: 12 instead of 8
# gains 1.0 to 2.2 points at 3 samples a class, and nothing from 70 samples on
# (docs/benchmarks/defaults.rst, on few samples).
_FEW_SAMPLES = 12.0

# Largest deviation from normality, in standard errors: one in 300 Gaussian sets is missed, which
# loses up to 30 points (benchmarks/gaussian_classes.py).
_MOST_DEVIATION = 3.0

# Least number of samples per input, of all classes together, for Gaussian classes of 20 samples on
# average, and of fewer: with 1.5 for both, classes of two or three clusters lose up to 3.2 points
# (benchmarks/gaussian_classes.py --per-input 1.5).
_PER_INPUT, _MANY, _PER_INPUT_OF_FEW = 3.0, 20.0, 5.0

# Largest left-out cross-entropy of the densities, relative to that of the pooled discriminant, and
# samples per class that raise it by one: no Gaussian set of benchmarks/gaussian_classes.py loses
# more than 0.5 points, and no classes that surround others pass. Without the limit, these lose 4.2
# points on average (docs/benchmarks/choice_rules.md).
_MOST_ENTROPY, _RISE = 0.82, 2500.0

# Energy of inputs that count alone.
_ALONE = 1e6

# Random signs of the trace of a squared covariance.
_N_SIGNS = 64


class Choice(NamedTuple):
    """Parameters that the classifier is solved with.

    Attributes
    ----------
    input_energy : float or None
        Energy of the inputs as a multiple of the shared band's; None: by class separation.
    shrinkage : float
        rho; of Gaussian classes of which some are rare, that of the largest class.
    epsilon : float
        Ridge, relative to the mean variance within classes.
    density_temperature : float or None, default=None
        Temperature of the densities of classes that were found to be Gaussian in the inputs; None
        if they were not.
    linear_weight : float, default=0.0
        Weight of the linear scores of a smaller ridge.
    """

    input_energy: float | None
    shrinkage: float
    epsilon: float
    density_temperature: float | None = None
    linear_weight: float = 0.0

    @property
    def normal(self) -> bool:
        """Whether the classes were found to be Gaussian in the inputs."""
        return self.density_temperature is not None


def with_choice(gaussians: ClassGaussians, blocks: Blocks, choice: Choice) -> ClassGaussians:
    """Return the classes with the penalties of a choice."""
    penalties = block_penalties(
        gaussians, blocks, pooled=choice.shrinkage > 0.0, input_energy=choice.input_energy
    )
    if choice.normal:
        # Trained bands count no more than the shared band.
        penalties[blocks.n_fixed :] *= _ALONE
    gaussians = replace(gaussians, penalties=penalties)
    has_rare = bool(rare_classes(gaussians.weights, blocks.n_inputs).any())
    if not (choice.normal and has_rare) or choice.shrinkage == 1.0:
        return gaussians
    # The shrinkage of the choice is that of the largest class.
    largest = gaussians.weights.max()
    shares = 1.0 - shrinkages(gaussians.weights, choice.shrinkage, largest)
    ridge = choice.epsilon / choice.shrinkage * gaussians.ridge_unit() * penalties
    return gaussians.with_shrunk(shares / shares.max(), ridge[: blocks.n_inputs])


def choose(
    gaussians: ClassGaussians, blocks: Blocks, settings: Settings, shared: SharedBand
) -> Choice:
    """Choose the values that the settings leave open.

    The order of the classes and their partition into tasks play no part.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes over the features that the classifier sees.
    blocks : Blocks
        Blocks of these features.
    settings : Settings
        With shrinkage, ridge, or both left open, or neither. The energies of the blocks are open
        as soon as one of them is.
    shared : SharedBand
        The shared band.

    Returns
    -------
    Choice
        Given values are kept.
    """
    shrinkage, epsilon = settings.shrinkage, settings.epsilon
    if shrinkage == 0.0 and epsilon is None:
        epsilon = _EPSILON
    if shrinkage is not None and epsilon is not None:
        return Choice(None, shrinkage, epsilon)
    # Old classes are only inferred in trained neurons, and look better there than they are.
    fixed = gaussians.first(blocks.n_fixed) if blocks.n_fixed else gaussians
    has_energy = min(blocks) > 0 and settings.covariance == "class"
    left_out = LeftOutSamples(fixed)
    metric = _best_metric(left_out, fixed, blocks, is_open=has_energy)
    if has_energy and shrinkage is None and epsilon is None and settings.classifier == "gaussian":
        normal = _choice_of_normal(gaussians, blocks, shared, left_out, metric)
        if normal is not None:
            return normal
    curved = settings.classifier == "gaussian" and blocks.n_shared > 0
    linear_weight = 0.0
    if shrinkage is not None:
        intensity = shrinkage
    else:
        intensity, error = _intensity(left_out, metric)
        least, most = max(intensity, _MOST_SHRINKAGE), _MOST_SHRINKAGE
        if curved:
            own = _own_factor(left_out, metric, error)
            intensity = 1.0 - own * (1.0 - intensity)
            most = min(most, 1.0 - own * (1.0 - _MOST_CURVED))
            if epsilon is None and settings.covariance == "class":
                linear_weight = _linear_weight(intensity, metric.linear)
        shrinkage = _between(min(intensity, most), least, metric.linear)
        intensity = _between(intensity, 1.0, metric.linear)
    if settings.classifier == "ova":
        return Choice(metric.energy, shrinkage, epsilon or _EPSILON)
    if epsilon is None:
        curvature = 1.0 - metric.linear if curved else 0.0
        epsilon = _ridge(metric, intensity) * (1.0 + curvature * intensity)
    return Choice(metric.energy, shrinkage, epsilon, linear_weight=linear_weight)


def _between(first: float, last: float, share: float) -> float:
    """Return the number at a share of the way from the first to the last."""
    return first + share * (last - first)


class _Metric(NamedTuple):
    """Energy of the inputs, the classes with its penalties, B, and centred means times inv(B).

    `linear` is the share of the way from curved features to linear functions of the inputs.
    """

    energy: float | None
    gaussians: ClassGaussians
    base: DiagonalPlusGram
    planes: torch.Tensor
    linear: float = 0.0


def _best_metric(
    left_out: LeftOutSamples, gaussians: ClassGaussians, blocks: Blocks, *, is_open: bool
) -> _Metric:
    """Return the metric by class separation, or by the comparison of equal and dominant inputs."""
    if not is_open or not left_out.classes or separation_energy(gaussians, blocks) < _SEPARATED:
        return _metric(left_out, gaussians, blocks, None)
    equal, inputs = (_metric(left_out, gaussians, blocks, one) for one in (_EQUAL, _INPUTS))
    first, last = (left_out.cross_entropy(one.base, one.planes)[0] for one in (equal, inputs))
    gain = (first - last) / max(first, _LEAST_ENTROPY) / _CLEAR
    if gain <= -1.0:
        return equal
    if gain < 1.0:
        inputs = _metric(left_out, gaussians, blocks, _INPUTS ** (0.5 + 0.5 * gain))
    return inputs._replace(linear=min(max(gain, 0.0), 1.0))


def _choice_of_normal(
    gaussians: ClassGaussians,
    blocks: Blocks,
    shared: SharedBand,
    left_out: LeftOutSamples,
    metric: _Metric,
) -> Choice | None:
    """Return the choice for classes that are Gaussian in the inputs, or None if they are not."""
    n_samples, n_classes = float(gaussians.weights.mean()), len(gaussians.weights)
    per_input = _PER_INPUT if n_samples >= _MANY else _PER_INPUT_OF_FEW
    enough = n_samples * n_classes >= per_input * blocks.n_inputs
    if not (enough and left_out.classes) or n_classes < 2:
        return None
    tested = torch.nonzero(gaussians.weights >= 2.0)[:, 0].tolist()
    if deviation_score(gaussians, tested, shared) > _MOST_DEVIATION:
        return None
    normal = Choice(_ALONE, 1.0, _RIDGE, density_temperature=1.0)
    inputs = gaussians.first(blocks.n_inputs)
    inputs = with_choice(inputs, Blocks(blocks.n_inputs, 0), normal)
    best = best_densities(inputs, left_out.classes)
    entropy, _ = left_out.cross_entropy(metric.base, metric.planes)
    limit = _MOST_ENTROPY + n_samples / _RISE
    # Else the classes would be compared by linear functions of the inputs anyway.
    is_linear = metric.linear > 0.0 and best.shrinkage == 1.0
    if not is_linear and best.entropy >= limit * entropy:
        return None
    # The unit of the ridge is the mean variance of all features.
    features = with_choice(gaussians, blocks, normal)
    unit = float(inputs.pooled_variance() / features.pooled_variance())
    weights, shrinkage = gaussians.weights, best.shrinkage
    if bool(rare_classes(weights, blocks.n_inputs).any()):
        shrinkage = float(shrinkages(weights.max(), shrinkage, weights.mean()))
    return Choice(_ALONE, shrinkage, shrinkage * best.ridge * unit, best.temperature)


def _ridge(metric: _Metric, intensity: float) -> float:
    """Return the ridge of an intensity, larger for few samples."""
    return _RIDGE * intensity * (1.0 + (_FEW_SAMPLES * _sampling_error(metric.gaussians)) ** 2)


def _metric(
    left_out: LeftOutSamples, gaussians: ClassGaussians, blocks: Blocks, energy: float | None
) -> _Metric:
    """Solve for the means under one energy."""
    gaussians = with_choice(gaussians, blocks, Choice(energy, 1.0, _RIDGE))
    base = shared_covariance(gaussians, 1.0, _RIDGE)
    return _Metric(energy, gaussians, base, base.solve(left_out.means))


def _intensity(left_out: LeftOutSamples, metric: _Metric) -> tuple[float, float]:
    """Return the intensity of the shrinkage, and the sampling error of a sample's class covariance.

    They are 1 and 0 if no class has a covariance.
    """
    gaussians = metric.gaussians
    ridge = _RIDGE * gaussians.pooled_variance()
    errors, squares, crosses = [], [], []
    parts = left_out.split(metric.base.solve_own(gaussians.rows, left_out.numbers))
    own = left_out.split(gaussians.rows[left_out.numbers])
    for c, rows, solved in zip(left_out.classes, own, parts, strict=True):
        weight = gaussians.weights[c]
        gram = rows @ solved.T / weight
        trace, square = gram.trace(), gram.square().sum()
        errors.append((trace.square() + square) / left_out.counts[c])
        squares.append(square)
        # B^-1 Sigma_pooled B^-1 is B^-1 less the ridge's part.
        crosses.append(trace - ridge * (solved.square() @ gaussians.penalties).sum() / weight)
    if not errors:
        return 1.0, 0.0
    shares, cross = gaussians.weights[left_out.classes], torch.stack(crosses)
    shares = shares / shares.sum()
    pooled_square = shares @ cross
    distance = float(torch.stack(squares).mean() - 2.0 * cross.mean() + pooled_square)
    error = float(torch.stack(errors).mean())
    if not error > 0.0:
        return 1.0, 0.0
    intensity = max(LEAST_SHRINKAGE, error / max(distance, error))
    return intensity, float(shares @ torch.stack(errors))


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


def _linear_weight(intensity: float, linear: float) -> float:
    """Return the weight of the linear scores of a smaller ridge."""
    weight = _MOST_LINEAR * (1.0 - intensity) ** 2 * (1.0 - linear)
    return weight if weight >= _LEAST_LINEAR else 0.0


def _sampling_error(gaussians: ClassGaussians) -> float:
    """Return the squared relative sampling error of the pooled covariance, r / (N - C)."""
    if not len(gaussians.rows):
        return 0.0
    root = gaussians.penalties.rsqrt()
    # E ||A s||^2 = ||A||^2 for random signs s.
    generator = torch.Generator().manual_seed(0)
    shape = (_N_SIGNS, len(root))
    signs = torch.randint(0, 2, shape, generator=generator, device="cpu") * 2.0 - 1.0
    probes = (signs.to(root) * root) @ gaussians.rows.T @ gaussians.rows * root
    # Energies may be as large as 1e160, and their squares overflow.
    energy = (gaussians.energies.sum(0) / gaussians.penalties).sum()
    if not energy > 0.0:
        return 0.0
    probes /= energy
    effective_rank = 1.0 / float(probes.square().sum(1).mean())
    dof = float((gaussians.counts - 1.0).sum())
    return effective_rank / max(dof, 1.0)
