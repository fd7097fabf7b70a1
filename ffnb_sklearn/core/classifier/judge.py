r"""The judge of the choice: cross-entropies of left-out samples, from the classes' moments alone.

Samples z around the mean of their class are drawn from :math:`N(0, \Sigma_c)`, and judged by the
classes without them (docs/theory/default.rst). `LeftOutSamples` judges the discriminant of a pooled
covariance, `best_densities` judges Gaussian classes. Classes that are not Gaussian would look
better in the latter than they are. `dispersion` tells: a rectified neuron without a bias has a mean
that a Gaussian class determines [1]_.

References
----------
.. [1] R. C. Geary. The ratio of the mean deviation to the standard deviation as a test of
   normality. Biometrika 27(3/4), 1935.
"""

import math
from typing import NamedTuple

import torch
from torch.nn.functional import pad
from torch.quasirandom import SobolEngine

from ..device import as_tensor
from ..features.shared_band import SharedBand
from ..linalg import SUM_ROUNDING, DiagonalPlusGram, cholesky
from .gaussians import ClassGaussians

__all__ = ["LEAST_SHARE", "LeftOutSamples", "best_densities", "dispersion", "normal_draws"]

# Classes that are judged, and nearest opponents of each. They bound the time: the choice then takes
# less than the solution (benchmarks/speed).
_N_JUDGED = 10

# Grid of temperatures: powers of two, times the typical margin for linear candidates.
_TEMPERATURES = 2.0 ** torch.arange(-6.0, 2.5, 0.5, dtype=torch.float64, device="cpu")

# Grid of the Gaussian candidates: shrinkages of the class covariances, and ridges of B relative to
# the mean variance.
_SHRINKAGES, _RIDGES = (1.0, 0.3, 0.1, 0.03, 0.01), (0.01, 3.0)

# Least share of a covariance that is left along a sample without the sample, and least shrinkage:
# beyond about 1e5 samples a class covariance is as good as known, and less only loses digits.
LEAST_SHARE = 1e-3


def normal_draws(
    seed: int, n_columns: int, device: torch.device, n_draws: int = 64
) -> torch.Tensor:
    """Draw scrambled Sobol points, normally distributed, and append their mirror images."""
    if not n_columns:
        return torch.zeros((2 * n_draws, 0), dtype=torch.float64, device=device)
    engine = SobolEngine(n_columns, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    # The first point has the default precision of torch, which users may set.
    engine.fast_forward(1)  # type: ignore[no-untyped-call]
    points = engine.draw(n_draws, dtype=torch.float64)
    # A point may be 0 or 1 but for 30 binary digits.
    draws = torch.special.ndtri(points.clamp(2.0**-31, 1.0 - 2.0**-31))
    return torch.cat([draws, -draws]).to(device)


class LeftOutSamples:
    r"""Samples of up to ten classes, each left out of the pooled discriminant.

    Without the sample :math:`\mu_c + z` the mean of its class moves by :math:`-z / (n - 1)`, and
    :math:`\Sigma_{pooled}` loses :math:`k z z^\top` with :math:`k = n / (n - 1) / N`. With
    :math:`h = z^\top B^{-1} z`, :math:`u_r = z^\top B^{-1} (\mu_c - \mu_r)`,
    :math:`g = 1 - k h` and :math:`B = \Sigma_{pooled} + v P`, the squared distances are

    .. math:: D_c = \Bigl(\frac{n}{n - 1}\Bigr)^2 \frac{h}{g} , \qquad
              D_r = h + 2 u_r + \|\mu_c - \mu_r\|^2_{B^{-1}} + \frac{k (h + u_r)^2}{g} .

    As in generalised cross-validation, h is its mean over the samples of a class. The u of several
    opponents are drawn jointly Gaussian.

    Attributes
    ----------
    classes : list of int
        The classes that are judged, of two samples or more; none without an opponent.
    numbers : Tensor of shape (R,)
        Numbers of their rows.
    means : Tensor of shape (C, d)
        Means of all classes, centred.
    """

    def __init__(self, gaussians: ClassGaussians) -> None:
        self.gaussians = gaussians
        rows, weights = gaussians.rows, gaussians.weights
        self.means = gaussians.means - weights @ gaussians.means / weights.sum()
        self.n_opponents = min(_N_JUDGED, len(weights) - 1)
        self.classes = self._choose_classes()
        numbers = torch.split(torch.arange(len(rows), device=rows.device), list(gaussians.lengths))
        self.numbers = torch.cat([numbers[c] for c in self.classes] or [numbers[0][:0]])
        self._draws = normal_draws(gaussians.seed, self.n_opponents, rows.device)

    def split(self, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the values of the rows of each judged class."""
        return torch.split(values, [self.gaussians.lengths[c] for c in self.classes])

    def cross_entropy(
        self, base: DiagonalPlusGram, planes: torch.Tensor, share: float = 1.0
    ) -> tuple[float, float]:
        """Return the least cross-entropy over temperatures, and its temperature.

        `base` is B times the share of the pooled covariance in it, and `planes` are the centred
        means times its inverse. The result is 0 and 1 without a class to judge and an opponent.
        """
        if not self.classes:
            return 0.0, 1.0
        lengths = self.split(share * base.own_lengths(self.gaussians.rows, self.numbers))
        classes = zip(self.classes, lengths, strict=True)
        return self.least_cross_entropy([self._margins(share * planes, *one) for one in classes])

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
        least = int(entropies.argmin())
        return float(entropies[least]), float(scales[least])

    def spread(
        self, c: int, lengths: torch.Tensor, functions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return h of a class, and the root of the covariance of k functions of its samples.

        `lengths` are the squared lengths of its rows in the inverse of B, and `functions` has the
        shape (k, d). The root, of shape (k, k), is symmetric.
        """
        weight, products = self.gaussians.weights[c], self.gaussians.parts()[c] @ functions.T
        values, axes = torch.linalg.eigh(products.T @ products / weight)
        return lengths.sum() / weight, (axes * values.clamp_min(0.0).sqrt()) @ axes.T

    def nearest(self, c: int, gaps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the least squared distances from class c to other classes, and these classes."""
        others = gaps.index_fill(0, torch.tensor([c], device=gaps.device), torch.inf)
        return others.topk(self.n_opponents, largest=False)

    def _choose_classes(self) -> list[int]:
        """Return classes of two samples or more, at even steps from central to remote ones."""
        # Weights may sum up to two but for rounding.
        able = torch.nonzero(self.gaussians.counts >= 2.0 - 1e-9)[:, 0]
        if not self.n_opponents:
            return []
        if len(able) > _N_JUDGED:
            remote = self.means[able].square().sum(1).argsort()
            able = able[remote[torch.linspace(0, len(able) - 1, _N_JUDGED).round().long()]]
        chosen: list[int] = able.tolist()
        return chosen

    def _margins(self, planes: torch.Tensor, c: int, lengths: torch.Tensor) -> torch.Tensor:
        """Return (D_r - D_c) / 2 for draws of left-out samples, nearest opponents first."""
        n = self.gaussians.counts[c]
        gaps = torch.linalg.vecdot(self.means[c] - self.means, planes[c] - planes)
        apart, nearest = self.nearest(c, gaps)
        h, root = self.spread(c, lengths, planes[c] - planes[nearest])
        u = self._draws @ root
        k = n / (n - 1.0) / self.gaussians.counts.sum()
        # Weights below one make h too large.
        h = h.clamp_max((1.0 - LEAST_SHARE) / k)
        left = 1.0 - k * h
        own = (n / (n - 1.0)).square() * h / left
        margins: torch.Tensor = h + 2.0 * u + apart + k * (h + u).square() / left - own
        return 0.5 * margins


class DensityChoice(NamedTuple):
    """Shrinkage, ridge of B, temperature and left-out cross-entropy of Gaussian densities."""

    shrinkage: float
    ridge: float
    temperature: float
    entropy: float


def best_densities(left_out: LeftOutSamples, inputs: ClassGaussians) -> DensityChoice:
    """Return the point of the grid of least left-out cross-entropy, given all classes' inputs."""
    shares = inputs.weights[left_out.classes] / inputs.weights[left_out.classes].sum()
    draws = normal_draws(inputs.seed, inputs.means.shape[1] + 1, shares.device)
    temperatures = _TEMPERATURES.to(shares.device)[:, None, None, None]
    found = []
    for ridge in _RIDGES:
        densities = _Densities(inputs, ridge)
        # Temperatures, shrinkages, draws, opponents.
        logits = (-densities.margins(c, left_out, draws) / temperatures for c in left_out.classes)
        losses = [pad(one, (1, 0)).logsumexp(-1).mean(-1) for one in logits]
        found.append(torch.tensordot(shares, torch.stack(losses), 1))
    # Ridges, temperatures, shrinkages.
    grid = torch.stack(found)
    r, t, s = (int(one) for one in torch.unravel_index(grid.argmin(), grid.shape))
    return DensityChoice(_SHRINKAGES[s], _RIDGES[r], float(_TEMPERATURES[t]), float(grid[r, t, s]))


class _Densities:
    """The classes in coordinates in which B is the identity, for all shrinkages of the grid."""

    def __init__(self, gaussians: ClassGaussians, ridge: float) -> None:
        self._gaussians, weights = gaussians, gaussians.weights
        total = gaussians.rows.T @ gaussians.rows
        total.diagonal().add_(gaussians.residuals.sum(0))
        total /= weights.sum()
        total.diagonal().add_(ridge * gaussians.pooled_variance() * gaussians.penalties)
        self._root = cholesky(total, name="the pooled covariance of the inputs")
        self._means = self._whitened(gaussians.means - weights @ gaussians.means / weights.sum())
        self._rho = weights.new_tensor(_SHRINKAGES)[:, None]
        self._spectra: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def margins(self, c: int, left_out: LeftOutSamples, draws: torch.Tensor) -> torch.Tensor:
        r"""Return log density ratios of left-out samples of class c against its opponents.

        Without a sample, :math:`S_c = (1 - \rho) k \Sigma_c + \rho I` with :math:`k = n / (n - 1)`
        loses :math:`(1 - \rho) k z z^\top / (n - 1)`. With the mean leverage l of the samples, the
        distance and the log-determinant of their class are :math:`k^2 z^\top S_c^{-1} z / (1 - l)`
        and :math:`\log \det S_c + \log (1 - l)`. The shape is (n_shrinkages, n_draws, n_opponents).
        """
        values, axes = self._spectrum(c)
        n, d = float(self._gaussians.counts[c]), len(axes)
        k = n / (n - 1.0)
        mixed, logs = self._shrunk(c, k)
        z = (draws[:, :-1] @ axes) * values.sqrt()
        leverage = (1.0 - self._rho) * k / (n - 1.0) * (values / mixed).sum(1, keepdim=True)
        left = (1.0 - leverage).clamp_min(LEAST_SHARE)
        # The part of S_c that comes from the class itself varies; Wilson and Hilferty's chi-square.
        spread = (2.0 / 9.0) * (leverage * (n - 1.0) / d).square() / ((n - 1.0) * left)
        ratio = ((1.0 - spread + draws[:, -1] * spread.sqrt()) ** 3).clamp_min(LEAST_SHARE)
        own = k**2 / left * ((1.0 / mixed) @ z.square().T) / ratio + left.log() + logs
        samples = z @ axes.T + self._means[c]
        _, opponents = left_out.nearest(c, (self._means - self._means[c]).square().sum(1))
        others = [self._distances(r, samples) for r in opponents.tolist()]
        return 0.5 * (torch.stack(others, dim=-1) - own[..., None])

    def _distances(self, c: int, samples: torch.Tensor) -> torch.Tensor:
        """Return squared distances plus log-determinants of class c, by shrinkage and sample."""
        mixed, logs = self._shrunk(c, 1.0)
        gaps = samples - self._means[c]
        squares = (gaps @ self._spectrum(c)[1]).square()
        rest = (gaps.square().sum(1) - squares.sum(1)).clamp_min(0.0)
        return (1.0 / mixed) @ squares.T + rest / self._rho + logs

    def _shrunk(self, c: int, k: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the eigenvalues of S_c along the axes of a class, and the log-determinants."""
        values, axes = self._spectrum(c)
        mixed = (1.0 - self._rho) * k * values + self._rho
        outside = (len(axes) - len(values)) * self._rho.log()
        return mixed, mixed.log().sum(1, keepdim=True) + outside

    def _spectrum(self, c: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the variances along the kept axes of a class, and these axes."""
        if c not in self._spectra:
            white = self._whitened(self._gaussians.parts()[c])
            values, turns = torch.linalg.eigh(white @ white.T / self._gaussians.weights[c])
            kept = values > SUM_ROUNDING * values[-1:]
            axes = white.T @ turns[:, kept] / (values[kept] * self._gaussians.weights[c]).sqrt()
            self._spectra[c] = values[kept], axes
        return self._spectra[c]

    def _whitened(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows in these coordinates."""
        white: torch.Tensor = torch.linalg.solve_triangular(self._root, rows.T, upper=False).T
        return white


def dispersion(gaussians: ClassGaussians, shared: SharedBand) -> float:
    r"""Return the dispersion of the means of rectified neurons around those of Gaussian classes.

    The projection of a Gaussian class of mean t and standard deviation s on a direction has
    :math:`E |z| = s (2 \varphi(t/s) + (t/s) (2 \Phi(t/s) - 1))`. The squared deviation of the mean
    of a mirrored neuron without a bias, over its sampling variance, is about 1 on average if the
    classes, over inputs and shared band, are Gaussian. It is infinite if nothing can be tested.
    """
    neurons, n_inputs = shared.moduli(), shared.rows.shape[1] - 1
    directions = as_tensor(shared.rows[neurons, :-1], device=gaussians.means.device).T
    outputs = slice(n_inputs + neurons.start, n_inputs + neurons.stop)
    ratios = []
    for c, rows in enumerate(gaussians.parts()):
        # Weights may be small; their sum is not the number of samples.
        n = gaussians.counts[c]
        if n < 2.0 - 1e-9:
            continue
        mean = gaussians.means[c, :n_inputs] @ directions
        scatter = (rows[:, :n_inputs] @ directions).square().sum(0)
        scatter += gaussians.residuals[c, :n_inputs] @ directions.square()
        variances = scatter / gaussians.weights[c] * (n / (n - 1.0))
        varying = variances > SUM_ROUNDING * mean.square()
        spread = variances[varying].sqrt()
        t = mean[varying] / spread
        density = torch.exp(-0.5 * t.square()) / math.sqrt(2.0 * math.pi)
        sign = torch.erf(t / math.sqrt(2.0))
        expected = 2.0 * density + t * sign
        # The mean and the deviation are estimated from the same samples, which lowers the variance.
        variance = 1.0 + t.square() - expected.square() - sign.square() - 2.0 * density.square()
        found = math.sqrt(2.0) * gaussians.means[c, outputs][varying] / spread
        deviations = found - expected + density * (1.0 + t.square()) / (2.0 * n)
        total = variance.clamp_min(0.0).sum()
        if total > 0.0:
            ratios.append(float(n * deviations.square().sum() / total))
    return sum(ratios) / len(ratios) if ratios else math.inf
