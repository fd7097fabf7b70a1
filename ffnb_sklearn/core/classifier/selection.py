r"""Shrinkage, ridge and block energies in closed form from the classes' moments.

Everything is measured in the metric of one regularised pooled covariance,
:math:`B = \Sigma_{pooled} + v P`, in which all classes have about the same spread.

*Energy of the inputs.* Each candidate is judged by the left-out cross-entropy of the pooled
discriminant. Its outputs are linear in a sample, so the moments of a class give their mean and
covariance exactly, truncated or not. Without the sample :math:`\mu_c + z` the mean of its class
moves by :math:`-z / (n - 1)` and :math:`\Sigma_{pooled}` loses :math:`k z z^\top` with
:math:`k = n / (n - 1) / N`. With :math:`h = z^\top B^{-1} z`,
:math:`u_r = z^\top B^{-1} (\mu_c - \mu_r)` and :math:`g = 1 - k h` the squared distances are then

.. math:: D_c = \Bigl(\frac{n}{n - 1}\Bigr)^2 \frac{h}{g} , \qquad
          D_r = h + 2 u_r + \|\mu_c - \mu_r\|^2_{B^{-1}} + \frac{k (h + u_r)^2}{g} .

The rotation of a class's samples is not kept, so h is their mean and the u of several opponents
are drawn jointly Gaussian, as in generalised cross-validation [1]_. Classes count by their weights:
with equal shares, a class of a few samples, all of which are wrong when they are left out, would
decide the temperature of all others.

*Shrinkage.* The intensity of Ledoit and Wolf [2]_ in the metric of B: the sampling error of a class
covariance over its squared distance from the pooled one,

.. math:: \rho = \frac{\sum_c \bigl((\mathrm{tr} \Sigma_c)^2 + \|\Sigma_c\|^2\bigr) / n_c}
                      {\sum_c \|\Sigma_c - \Sigma_{pooled}\|^2} .

Many samples and unlike covariances leave the classes their own; few samples or equal covariances
lead towards linear discriminant analysis. No class is too small or too large to take part. All
terms are those of the kept axes: with the trace outside of them in the error alone, truncated
classes lose their covariances.

The chosen energy tells which classes can share a covariance. If the inputs outweigh the random
features, linear functions of the inputs separate the classes best: the intensity is 1 without an
estimate, and a tenth of its own covariance is left to each class. Otherwise the features are curved
functions of the inputs, whose class covariances always differ, even if too few samples show it:
half of the own covariance is left to each class of the Gaussian head. The planes of a pair of
classes depend on the sum of their covariances and keep the limit of a tenth.

*Temperature.* The cross-entropy is minimised over a temperature that divides the outputs, with the
ridge that the classifier is solved with.

*Ridge.* The pooled covariance is shrunk half of the way to a multiple of the identity, which makes
the relative ridge as large as the intensity of the shrinkage. Few samples need a larger ridge. The
pooled covariance has an effective rank :math:`r = (\mathrm{tr} \Sigma)^2 / \|\Sigma\|^2` and N - C
degrees of freedom, so its squared relative sampling error is about :math:`r / (N - C)`. The ridge
is multiplied by :math:`1 + (12 r / (N - C))^2`. Curved features of the Gaussian head multiply it by
one plus the intensity, since own covariances that are little known need more of it.

References
----------
.. [1] G. H. Golub, M. Heath and G. Wahba. Generalized cross-validation as a method for choosing a
   good ridge parameter. Technometrics 21(2), 1979.
.. [2] O. Ledoit and M. Wolf. A well-conditioned estimator for large-dimensional covariance
   matrices. Journal of Multivariate Analysis 88(2), 2004.
"""

from dataclasses import replace
from typing import NamedTuple

import torch

from ..features.feature_map import Blocks
from ..linalg import SUM_ROUNDING, DiagonalPlusGram
from ..settings import Settings
from .densities import LEAST_SHRINKAGE, shared_covariance
from .gaussians import ClassGaussians
from .penalties import block_penalties

__all__ = ["Choice", "choose", "with_choice"]

# Energies of the inputs that are tried, as multiples of the shared band's; None weighs both blocks
# by their class separation (hold-outs of the sets of benchmarks/defaults.py).
_INPUTS = 300.0
_ENERGIES = (None, _INPUTS, 1.0)

# Ridge of the judged covariance, relative to the mean variance within classes.
_RIDGE = 1.0

# Most of the chosen shrinkage: a tenth of the own covariance costs equal covariances 0.1 points at
# 60 samples a class, and gives unlike ones up to 3 at 8 or 20 (benchmarks/sizes.py, fresh draws).
_MOST_SHRINKAGE = 0.9

# The same for distances in curved features: with the larger ridge it gains 1 to 5 points on seven
# of seventeen real tables, and loses 1 on one (docs/benchmarks/defaults.rst, on public tables).
_MOST_CURVED = 0.5

# Relative ridge of one-vs-all regression, and of classes without a common covariance
# (docs/benchmarks/defaults_holdouts.md, recorded with the earlier default).
_EPSILON = 0.3

# Growth of the ridge with the relative sampling error of the pooled covariance: 12 instead of 8
# gains 1.0 to 2.2 points at 3 samples a class, and nothing from 70 samples on
# (docs/benchmarks/defaults.rst, on few samples).
_FEW_SAMPLES = 12.0

# Classes that are judged, and nearest opponents of each.
_N_JUDGED, _N_OPPONENTS = 12, 8

# Least share of the pooled covariance in B that the temperature of given values assumes: without
# any, distances of left-out samples are those of the own axes.
_FEWEST_SHARED = 0.1

# Draws of a left-out sample's outputs, each with its mirror image.
_N_DRAWS = 64

# Ratios of neighbouring temperatures among which the cross-entropy is least.
_TEMPERATURES = 2.0 ** torch.arange(-6.0, 2.0, 0.5, dtype=torch.float64, device="cpu")

# Least typical margin, a squared distance in standard deviations within classes; classes that
# coincide have none but rounding.
_LEAST_MARGIN = 0.1

# Cross-entropies closer than this are ties, and the earlier energy stands.
_TIE = 1e-6


class Choice(NamedTuple):
    """Parameters that the classifier is solved with.

    Attributes
    ----------
    input_energy : float or None
        Energy of the inputs as a multiple of the shared band's; None: by class separation.
    shrinkage : float
        rho.
    epsilon : float
        Ridge, relative to the mean variance within classes.
    temperature : float, default=1.0
        Temperature of the linear scores of the pooled discriminant.
    """

    input_energy: float | None
    shrinkage: float
    epsilon: float
    temperature: float = 1.0


def with_choice(gaussians: ClassGaussians, blocks: Blocks, choice: Choice) -> ClassGaussians:
    """Return the classes with the penalties of a choice.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes over the features that the classifier sees.
    blocks : Blocks
        Blocks of these features.
    choice : Choice
        Energy of the inputs; with a shrinkage of zero the penalties depend on no class.

    Returns
    -------
    ClassGaussians
        The same but for their penalties.
    """
    penalties = block_penalties(
        gaussians, blocks, pooled=choice.shrinkage > 0.0, input_energy=choice.input_energy
    )
    return gaussians.with_penalties(penalties)


def choose(gaussians: ClassGaussians, blocks: Blocks, settings: Settings) -> Choice:
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

    Returns
    -------
    Choice
        Given values are kept.
    """
    # Old classes are only inferred in trained neurons, and look better there than they are.
    fixed = gaussians.first(blocks.n_fixed) if blocks.n_fixed else gaussians
    shrinkage, epsilon = settings.shrinkage, settings.epsilon
    absolute = settings.units == "absolute"
    if shrinkage == 0.0 and epsilon is None:
        epsilon = _EPSILON
    if shrinkage is not None and epsilon is not None:
        choice = Choice(None, shrinkage, epsilon)
        if settings.classifier == "ovo":
            return choice
        judge = _Judge(fixed, blocks)
        return choice._replace(temperature=judge.temperature(choice, absolute=absolute))
    judge = _Judge(fixed, blocks)
    energies = _ENERGIES if min(blocks) > 0 and settings.covariance == "class" else _ENERGIES[:1]
    metric, temperature = judge.best(energies)
    linear = metric.energy == _INPUTS
    curved = settings.classifier == "gaussian" and blocks.n_shared > 0 and not linear
    if shrinkage is not None:
        intensity = shrinkage
    else:
        intensity = 1.0 if linear else judge.shrinkage(metric)
        shrinkage = min(intensity, _MOST_CURVED if curved else _MOST_SHRINKAGE)
    if settings.classifier == "ova":
        return Choice(metric.energy, shrinkage, epsilon or _EPSILON, temperature)
    if epsilon is None:
        epsilon = intensity * (1.0 + (_FEW_SAMPLES * judge.sampling_error(metric)) ** 2)
        epsilon *= _RIDGE * (1.0 + intensity if curved else 1.0)
    choice = Choice(metric.energy, shrinkage, epsilon)
    if settings.classifier == "ovo":
        return choice
    return choice._replace(temperature=judge.temperature(choice, absolute=absolute))


class _Metric(NamedTuple):
    """Vectors of the classes under the inverse of the regularised pooled covariance B.

    Attributes
    ----------
    energy : float or None
        Energy of the inputs.
    gaussians : ClassGaussians
        The classes, with its penalties.
    base : DiagonalPlusGram
        B.
    planes : Tensor of shape (C, d)
        Centred means times the inverse of B.
    """

    energy: float | None
    gaussians: ClassGaussians
    base: DiagonalPlusGram
    planes: torch.Tensor


class _Judge:
    """Left-out cross-entropy of the pooled discriminant, and the shrinkage in its metric."""

    def __init__(self, gaussians: ClassGaussians, blocks: Blocks) -> None:
        self._gaussians, self._blocks = gaussians, blocks
        rows, weights = gaussians.rows, gaussians.weights
        self._means = gaussians.means - weights @ gaussians.means / weights.sum()
        self._n_opponents = min(_N_OPPONENTS, len(weights) - 1)
        self._judged = self._choose_classes()
        parts = gaussians.parts()
        self._rows = [parts[c] for c in self._judged]
        numbers = torch.split(torch.arange(len(rows), device=rows.device), list(gaussians.lengths))
        self._numbers = torch.cat([numbers[c] for c in self._judged] or [numbers[0][:0]])
        generator = torch.Generator().manual_seed(0)
        shape = (_N_DRAWS, self._n_opponents)
        draws = torch.randn(shape, generator=generator, dtype=rows.dtype, device="cpu")
        self._draws = torch.cat([draws, -draws]).to(rows.device)

    def best(self, energies: tuple[float | None, ...]) -> tuple[_Metric, float]:
        """Return the metric of least cross-entropy and its temperature.

        The first energy stands if no class can be judged.
        """
        best = self._metric(energies[0], _RIDGE)
        least, temperature = self._cross_entropy(best)
        for energy in energies[1:] if self._judged else ():
            metric = self._metric(energy, _RIDGE)
            entropy, scale = self._cross_entropy(metric)
            if entropy < least - _TIE:
                best, least, temperature = metric, entropy, scale
        return best, temperature

    def temperature(self, choice: Choice, *, absolute: bool) -> float:
        """Return the temperature of B, the ridge of which is epsilon / rho of the pooled scatter.

        The ridge is relative to the mean variance within classes, or absolute.
        """
        ridge = choice.epsilon / max(choice.shrinkage, _FEWEST_SHARED)
        return self._cross_entropy(self._metric(choice.input_energy, ridge, absolute=absolute))[1]

    def shrinkage(self, metric: _Metric) -> float:
        """Return the intensity of the shrinkage, 1 if no class has a covariance."""
        penalties = metric.gaussians.penalties
        ridge = _RIDGE * metric.gaussians.pooled_variance()
        errors, squares, crosses = [], [], []
        parts = self._split(metric.base.solve_own(metric.gaussians.rows, self._numbers))
        for c, rows, solved in zip(self._judged, self._rows, parts, strict=True):
            n = metric.gaussians.weights[c]
            gram = rows @ solved.T / n
            trace, square = gram.trace(), gram.square().sum()
            errors.append((trace.square() + square) / n)
            squares.append(square)
            # B^-1 Sigma_pooled B^-1 is B^-1 less the ridge's part.
            crosses.append(trace - ridge * (solved.square() @ penalties).sum() / n)
        if not errors:
            return 1.0
        weights, cross = metric.gaussians.weights[self._judged], torch.stack(crosses)
        pooled_square = weights @ cross / weights.sum()
        distance = float(torch.stack(squares).mean() - 2.0 * cross.mean() + pooled_square)
        error = float(torch.stack(errors).mean())
        if not error > 0.0:
            return 1.0
        return max(LEAST_SHRINKAGE, error / max(distance, error))

    def sampling_error(self, metric: _Metric) -> float:
        """Return the squared relative sampling error of the pooled covariance, r / (N - C)."""
        gaussians = metric.gaussians
        if not len(gaussians.rows):
            return 0.0
        root = gaussians.penalties.rsqrt()
        # E ||A s||^2 = ||A||^2 for random signs s.
        generator = torch.Generator().manual_seed(0)
        shape = (_N_DRAWS, len(root))
        signs = torch.randint(0, 2, shape, generator=generator, device="cpu") * 2.0 - 1.0
        probes = (signs.to(root) * root) @ gaussians.rows.T @ gaussians.rows * root
        # Energies may be as large as 1e160, and their squares overflow.
        energy = (gaussians.energies.sum(0) / gaussians.penalties).sum()
        if not energy > 0.0:
            return 0.0
        probes /= energy
        effective_rank = 1.0 / float(probes.square().sum(1).mean())
        dof = float(gaussians.weights.sum()) - len(gaussians.weights)
        return effective_rank / max(dof, 1.0)

    def _metric(self, energy: float | None, ridge: float, *, absolute: bool = False) -> _Metric:
        """Solve for the means under one energy and ridge."""
        gaussians = replace(self._gaussians, absolute_ridge=absolute)
        gaussians = with_choice(gaussians, self._blocks, Choice(energy, 1.0, ridge))
        base = shared_covariance(gaussians, 1.0, ridge)
        return _Metric(energy, gaussians, base, base.solve(self._means))

    def _split(self, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the values of the rows of each judged class."""
        return torch.split(values, [len(rows) for rows in self._rows])

    def _choose_classes(self) -> list[int]:
        """Return classes of two samples or more, at even steps from crowded to remote ones."""
        gaussians = self._gaussians
        # Weights may sum up to two but for rounding.
        able = torch.nonzero(gaussians.weights >= 2.0 - 1e-9)[:, 0]
        if len(able) > _N_JUDGED:
            # A product would lose the digits of means that share a large offset.
            gaps = torch.cdist(
                self._means, self._means, compute_mode="donot_use_mm_for_euclid_dist"
            )
            # Two classes may be nearest to each other; the sum tells them apart.
            crowd = gaps.topk(self._n_opponents + 1, largest=False).values.sum(1)
            steps = torch.linspace(0, len(able) - 1, _N_JUDGED, device=able.device).round().long()
            able = able[crowd[able].argsort()[steps]]
        chosen: list[int] = able.tolist()
        return chosen

    def _cross_entropy(self, metric: _Metric) -> tuple[float, float]:
        """Return the least left-out cross-entropy and its temperature; 0 and 1 without judges."""
        if not self._judged or not self._n_opponents:
            return 0.0, 1.0
        lengths = self._split(metric.base.own_lengths(metric.gaussians.rows, self._numbers))
        judged = zip(self._judged, self._rows, lengths, strict=True)
        margins = torch.stack([self._margins(metric, *one) for one in judged])
        weights = metric.gaussians.weights[self._judged]
        # Squared distances are twice the logarithms of densities.
        scale = 0.5 * margins.abs().median().clamp_min(_LEAST_MARGIN)
        entropies = torch.stack(
            [
                torch.logsumexp(
                    torch.nn.functional.pad(-0.5 * margins / (scale * float(ratio)), (1, 0)), 2
                ).mean(1)
                @ weights
                / weights.sum()
                for ratio in _TEMPERATURES
            ]
        )
        least = int(entropies.argmin())
        return float(entropies[least]), float(scale * _TEMPERATURES[least])

    def _margins(
        self, metric: _Metric, c: int, rows: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Return D_r - D_c for draws of left-out samples of class c, nearest opponents first."""
        gaussians, planes = metric.gaussians, metric.planes
        n, total = gaussians.weights[c], gaussians.weights.sum()
        gaps = torch.linalg.vecdot(self._means[c] - self._means, planes[c] - planes)
        gaps[c] = torch.inf
        apart, nearest = gaps.topk(self._n_opponents, largest=False)
        difference = planes[c] - planes[nearest]
        h = lengths.sum() / n
        responses = rows @ difference.T
        covariance = responses.T @ responses + (difference * gaussians.residuals[c]) @ difference.T
        values, axes = torch.linalg.eigh(covariance / n)
        # The root of an eigenvalue that is only rounding would not be.
        values = torch.where(values > SUM_ROUNDING * values[-1], values, 0.0)
        u = self._draws @ ((axes * values.sqrt()) @ axes.T)
        k = n / (n - 1.0) / total
        left = 1.0 - k * h
        own = (n / (n - 1.0)).square() * h / left
        margins: torch.Tensor = h + 2.0 * u + apart + k * (h + u).square() / left - own
        return margins
