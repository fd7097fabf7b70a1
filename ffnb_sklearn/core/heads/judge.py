"""The judge of the choice: cross-entropies of left-out samples, from the classes' moments alone.

docs/theory/default.rst ("How shrinkage, ridge and energy are chosen") has the formulas.
"""

import math
from collections.abc import Sequence
from itertools import product

import torch
from torch.nn.functional import pad
from torch.quasirandom import SobolEngine

from ..device import as_tensor
from ..features.shared_band import SharedBand
from ..linalg import SUM_ROUNDING, DiagonalPlusGram, cholesky, symmetric_root
from .gaussians import ClassGaussians

__all__ = [
    "LEAST_SHARE",
    "LeftOutSamples",
    "best_densities",
    "dispersion",
    "first_of_least",
    "normal_draws",
]

# Classes that are judged, and nearest opponents of each. They bound the time: the choice then takes
# less than the solution (benchmarks/speed).
_N_JUDGED = 10

# Grid of temperatures: powers of two, times the typical margin.
_TEMPERATURES = 2.0 ** torch.arange(-6.0, 2.5, 0.5, dtype=torch.float64, device="cpu")

# Grid of the Gaussian candidates: shrinkages of the class covariances, and ridges of B relative to
# the mean variance.
_SHRINKAGES, _RIDGES = (1.0, 0.3, 0.1, 0.03, 0.01), (0.01, 3.0)

# Difference of two cross-entropies that counts as rounding. Candidates within it are equal, and
# the first one of them is chosen.
_ENTROPY_ROUNDING = 1e-9

# Distance from the centre of the means, relative to their root mean square length, of a point to
# which no two classes have the same distance, unless they are equal.
_OFF_CENTRE = 1e-6

# Least share of a covariance that is left along a sample without the sample, and least shrinkage:
# beyond about 1e5 samples a class covariance is as good as known, and less only loses digits.
LEAST_SHARE = 1e-3


def normal_draws(
    seed: int, n_columns: int, device: torch.device, n_draws: int = 64
) -> torch.Tensor:
    """Draw scrambled Sobol points, normally distributed, and append their mirror images."""
    engine = SobolEngine(n_columns, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    # The first point has the default precision of torch, which users may set.
    engine.fast_forward(1)  # type: ignore[no-untyped-call]
    # A point may be 0 or 1 but for 30 binary digits.
    points = engine.draw(n_draws, dtype=torch.float64).clamp(2.0**-31, 1.0 - 2.0**-31)
    draws = torch.special.ndtri(points)
    return torch.cat([draws, -draws]).to(device)


class LeftOutSamples:
    """Samples of up to ten classes, each left out of the pooled discriminant.

    Attributes
    ----------
    gaussians : ClassGaussians
        All classes.
    classes : list of int
        The classes that are judged, of two samples or more; none without an opponent.
    means : Tensor of shape (C, d)
        Means of all classes, centred.
    """

    def __init__(self, gaussians: ClassGaussians) -> None:
        self.gaussians, weights = gaussians, gaussians.weights
        self.means = gaussians.means - weights @ gaussians.means / weights.sum()
        self.off_centre = _off_centre(self.means)
        self._n_opponents = min(_N_JUDGED, len(weights) - 1)
        # Weights may sum up to two but for rounding.
        able = torch.nonzero(gaussians.counts >= 2.0 - 1e-9)[:, 0]
        if len(able) > _N_JUDGED:
            # At even steps from central to remote classes.
            remote = (self.means[able] - self.off_centre).square().sum(1).argsort()
            able = able[remote[torch.linspace(0, len(able) - 1, _N_JUDGED).round().long()]]
        self.classes: list[int] = able.tolist() if self._n_opponents else []

    def cross_entropy(
        self, base: DiagonalPlusGram, planes: torch.Tensor, share: float = 1.0
    ) -> tuple[float, float]:
        """Return the least cross-entropy over temperatures, and its temperature.

        `base` is B times the share of the pooled covariance in it, and `planes` are the centred
        means times its inverse. The result is 0 and 1 without a class to judge and an opponent.
        """
        if not self.classes:
            return 0.0, 1.0
        draws = normal_draws(self.gaussians.seed, self._n_opponents, planes.device)
        counts, margins = self.gaussians.counts, []
        for c in self.classes:
            n, (apart, nearest) = counts[c], self.nearest(c, planes)
            h, root = self.spread(c, base, planes[c] - planes[nearest])
            h, apart, root = share * h, share * apart, share * root
            u, k = draws @ root, n / (n - 1.0) / counts.sum()
            # Weights below one make h too large.
            h = h.clamp_max((1.0 - LEAST_SHARE) / k)
            left = 1.0 - k * h
            own = (n / (n - 1.0)).square() * h / left
            margins.append(0.5 * (h + 2.0 * u + apart + k * (h + u).square() / left - own))
        return self.least_cross_entropy(margins)

    def least_cross_entropy(self, margins: list[torch.Tensor]) -> tuple[float, float]:
        """Return the least cross-entropy over temperatures, and its temperature.

        `margins` has the logits of each class that is judged less those of k others, for draws of
        its samples: tensors of shape (n_draws, k).
        """
        logits = pad(-torch.stack(margins), (1, 0))
        weights = self.gaussians.weights[self.classes]
        # Classes that coincide have no margin but rounding.
        scale = logits[..., 1:].abs().median().clamp_min(LEAST_SHARE)
        scales = scale * _TEMPERATURES.to(scale.device)
        entropies = torch.stack([(logits / one).logsumexp(-1).mean(-1) for one in scales])
        entropies = entropies @ weights / weights.sum()
        least = first_of_least(entropies.tolist())
        return float(entropies[least]), float(scales[least])

    def spread(
        self, c: int, base: DiagonalPlusGram, functions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean squared length of the samples of a class in the inverse of `base`.

        The second result is the symmetric root of the covariance of k linear functions of them.
        """
        rows, weight = self.gaussians.parts()[c], self.gaussians.weights[c]
        products = rows @ functions.T
        root = symmetric_root(products.T @ products / weight)
        return (rows * base.solve(rows)).sum() / weight, root

    def nearest(self, c: int, planes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the least squared distances from class c to other classes, and these classes."""
        gaps = torch.linalg.vecdot(self.means[c] - self.means, planes[c] - planes)
        # Classes at equal distances are told apart by where they lie, and not by their numbers.
        order = gaps + 2.0 * (planes @ self.off_centre)
        order[c] = torch.inf
        others = order.topk(self._n_opponents, largest=False).indices
        return gaps[others], others


def _off_centre(means: torch.Tensor) -> torch.Tensor:
    """Return a point near the origin that tells centred class means at equal distances apart."""
    size = means.square().mean().sqrt()
    positions = torch.arange(means.shape[1], dtype=means.dtype, device=means.device)
    # These cosines have no regularity that means may share.
    return _OFF_CENTRE * size * torch.cos(positions)


def first_of_least(entropies: Sequence[float]) -> int:
    """Return the position of the first cross-entropy that is the least one but for rounding."""
    least = min(entropies)
    return next(i for i, one in enumerate(entropies) if one <= least + _ENTROPY_ROUNDING)


def best_densities(
    left_out: LeftOutSamples, inputs: ClassGaussians, planes: torch.Tensor
) -> tuple[float, float, float, float]:
    """Return the least left-out cross-entropy of Gaussian densities of all classes' inputs.

    Its shrinkage, ridge of B and temperature follow. `planes` are the centred means times the
    inverse of a B, by which opponents are near.
    """
    weights = inputs.weights[:, None, None]
    parts = torch.stack([rows.T @ rows for rows in inputs.parts()])
    covariances = (parts + torch.diag_embed(inputs.residuals)) / weights
    pooled = (weights * covariances).sum(0) / weights.sum()
    unit = torch.diag(inputs.pooled_variance() * inputs.penalties)
    draws, found = normal_draws(inputs.seed, len(pooled) + 1, pooled.device), []
    samples = {}
    for c in left_out.classes:
        samples[c] = draws[:, :-1] @ symmetric_root(covariances[c])
    for ridge, shrinkage in product(_RIDGES, _SHRINKAGES):
        shared = shrinkage * (pooled + ridge * unit)
        roots = cholesky((1.0 - shrinkage) * covariances + shared, name="a class covariance")
        logs, margins = 2.0 * roots.diagonal(dim1=1, dim2=2).log().sum(1), []
        for c, z in samples.items():
            _, opponents = left_out.nearest(c, planes)
            gaps = z + (inputs.means[c] - inputs.means[opponents])[:, None]
            others = _squared_lengths(roots[opponents], gaps) + logs[opponents, None]
            n, k = inputs.counts[c], inputs.counts[c] / (inputs.counts[c] - 1.0)
            root = cholesky((1.0 - shrinkage) * k * covariances[c] + shared, name="a covariance")
            own = _squared_lengths(root, z)
            # The share of the covariance along a sample that the sample makes up.
            leverage = (1.0 - shrinkage) * k / (n - 1.0) * own.mean()
            left = (1.0 - leverage).clamp_min(LEAST_SHARE)
            # The part of the covariance that comes from the class varies (Wilson and Hilferty).
            spread = (2.0 / 9.0) * (leverage / len(z.T)).square() * (n - 1.0) / left
            ratio = (1.0 - spread + draws[:, -1] * spread.sqrt()) ** 3
            own = k.square() * own / left / ratio.clamp_min(LEAST_SHARE) + left.log()
            own += 2.0 * root.diagonal().log().sum()
            margins.append(0.5 * (others - own).T)
        entropy, temperature = left_out.least_cross_entropy(margins)
        found.append((entropy, shrinkage, ridge, temperature))
    return found[first_of_least([entropy for entropy, *_ in found])]


def _squared_lengths(roots: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the squared lengths of rows in inverse covariances, given their Cholesky factors."""
    white: torch.Tensor = torch.linalg.solve_triangular(roots, rows.mT, upper=False)
    return white.square().sum(-2)


def dispersion(left_out: LeftOutSamples, shared: SharedBand) -> float:
    """Return the dispersion of the means of mirrored neurons around those of Gaussian classes.

    It is about 1 for Gaussian classes, and infinite if nothing can be tested.
    """
    gaussians, neurons, d = left_out.gaussians, shared.moduli(), shared.rows.shape[1] - 1
    directions = as_tensor(shared.rows[neurons, :-1], device=gaussians.means.device).T
    ratios = []
    for c in left_out.classes:
        n, mean = gaussians.counts[c], gaussians.means[c, :d] @ directions
        scatter = (gaussians.parts()[c][:, :d] @ directions).square().sum(0)
        scatter += gaussians.residuals[c, :d] @ directions.square()
        variances = scatter / gaussians.weights[c] * (n / (n - 1.0))
        varying = variances > SUM_ROUNDING * mean.square()
        spread = variances[varying].sqrt()
        t = mean[varying] / spread
        density = torch.exp(-0.5 * t.square()) / math.sqrt(2.0 * math.pi)
        sign = torch.erf(t / math.sqrt(2.0))
        expected = 2.0 * density + t * sign
        # The mean and the deviation are estimated from the same samples, which lowers the variance.
        variance = 1.0 + t.square() - expected.square() - sign.square() - 2.0 * density.square()
        outputs = gaussians.means[c, d + neurons.start : d + neurons.stop][varying]
        deviations = math.sqrt(2.0) * outputs / spread - expected
        deviations += density * (1.0 + t.square()) / (2.0 * n)
        total = variance.clamp_min(0.0).sum()
        if total > 0.0:
            ratios.append(float(n * deviations.square().sum() / total))
    return sum(ratios) / len(ratios) if ratios else math.inf
