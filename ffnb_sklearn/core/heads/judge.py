"""The judge of the choice: cross-entropies of left-out samples, from the classes' moments alone.

docs/theory/default.rst ("How shrinkage, ridge and energy are chosen") has the formulas.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch.nn.functional import pad
from torch.quasirandom import SobolEngine

from ..device import as_tensor
from ..features import SharedBand
from ..linalg import ROOT_ROUNDING, SUM_ROUNDING, DiagonalPlusGram, symmetric_root
from .gaussians import ClassGaussians

__all__ = [
    "LEAST_SHARE",
    "LeftOutSamples",
    "Metric",
    "dispersion",
    "first_of_least",
    "normal_draws",
]

# Number of judged classes, and of the nearest opponents of each. It bounds the time: the choice
# takes less than the solution (benchmarks/speed).
_N_JUDGED = 10

# Grid of temperatures: powers of two, times the typical margin.
_TEMPERATURES = 2.0 ** torch.arange(-6.0, 2.5, 0.5, dtype=torch.float64, device="cpu")

# Least share of a covariance that remains along a sample without the sample, and least shrinkage:
# about 1e5 samples determine a class covariance, and a smaller share only loses digits.
LEAST_SHARE = 1e-3


@lru_cache(maxsize=2)
def normal_draws(
    seed: int, n_columns: int, device: torch.device, n_draws: int = 64
) -> torch.Tensor:
    """Draw scrambled Sobol points, normally distributed, and append their mirror images.

    The choice and the head draw the same numbers, which are kept; never write to them.
    """
    engine = SobolEngine(n_columns, scramble=True, seed=seed)  # type: ignore[no-untyped-call]
    # The first point has the default precision of torch, which users may set.
    engine.fast_forward(1)  # type: ignore[no-untyped-call]
    points = engine.draw(n_draws, dtype=torch.float64)
    # Points have 30 binary digits, so they may be 0 or 1.
    half_digit = 2.0**-31
    probabilities = points.clamp(half_digit, 1.0 - half_digit)
    draws = torch.special.ndtri(probabilities)
    draws = torch.cat([draws, -draws])
    return draws.to(device)


class LeftOutSamples:
    """Samples drawn from the Gaussians of up to ten classes, each left out of a discriminant.

    Attributes
    ----------
    gaussians : ClassGaussians
        All classes.
    means : Tensor of shape (C, d)
        Means of all classes, centred.
    off_centre : Tensor of shape (d,)
        Point near the centre to which no two classes have the same distance; it breaks ties.
    classes : list of int
        The classes that are judged, of two samples or more; none without an opponent.
    """

    def __init__(self, gaussians: ClassGaussians) -> None:
        self.gaussians = gaussians
        self.means = gaussians.means - gaussians.centre()
        self.off_centre = _off_centre(self.means)
        self._n_opponents = min(_N_JUDGED, len(gaussians.weights) - 1)
        self.classes = self._judged_classes()

    @property
    def _draws(self) -> torch.Tensor:
        """Standard normal draws, a column for each opponent."""
        seed = self.gaussians.seed
        return normal_draws(seed, self._n_opponents, self.means.device)

    def _judged_classes(self) -> list[int]:
        """Return the classes that are judged, at even steps from central to remote classes."""
        if self._n_opponents == 0:
            return []
        # The total weight of two samples may be slightly below 2 after rounding.
        classes = torch.nonzero(self.gaussians.counts >= 2.0 - 1e-9)[:, 0]
        deviations = self.means[classes] - self.off_centre
        squares = deviations.square()
        squared_lengths = squares.sum(1)
        # The first classes may end `cross_entropy`, so their order must not be that of arrival.
        from_central = squared_lengths.argsort()
        classes = classes[from_central]
        n_classes = len(classes)
        if n_classes > _N_JUDGED:
            steps = torch.linspace(0, n_classes - 1, _N_JUDGED)
            positions = steps.round().long()
            classes = classes[positions]
        numbers: list[int] = classes.tolist()
        return numbers

    def metric(
        self, base: DiagonalPlusGram, planes: torch.Tensor | None = None, share: float = 1.0
    ) -> "Metric":
        """Return the metric of B = `base` / `share`.

        The share is the weight of the pooled covariance in `base`, so that its weight in B is 1.
        `planes` are the centred means times the inverse of `base`; None computes them.
        """
        if planes is None:
            planes = base.solve(self.means)
        return Metric(
            self.gaussians.class_rows,
            base,
            planes,
            share,
            squared_lengths=torch.linalg.vecdot(planes, self.means),
            towards_point=planes @ self.off_centre,
        )

    def cross_entropy(self, metric: "Metric", limit: float = math.inf) -> tuple[float, float]:
        """Return the least cross-entropy over temperatures, and its temperature.

        The result is 0 and 1 if no class is judged. The cross-entropy is infinite as soon as the
        first classes alone exceed the `limit`: no class lowers the sum of the losses.
        """
        if not self.classes:
            return 0.0, 1.0
        weights = self.gaussians.weights[self.classes]
        margins = []
        for n_judged, c in enumerate(self.classes, 1):
            margins.append(self._margins(c, metric))
            if limit < math.inf:
                entropy, _ = self.least_cross_entropy(margins)
                weight_judged = weights[:n_judged].sum()
                if entropy * weight_judged > limit * weights.sum():
                    return math.inf, 1.0
        return self.least_cross_entropy(margins)

    def _margins(self, c: int, metric: "Metric") -> torch.Tensor:
        r"""Return halves of :math:`D_r - D_c` for draws of samples of class c, (n_draws, k).

        The squared distances of a left-out sample from its own class and from another class are

        .. math:: D_c = \Bigl(\frac{n}{n - 1}\Bigr)^2 \frac{h}{g} , \qquad
                  D_r = h + 2 u_r + \|\mu_c - \mu_r\|^2 + \frac{k (h + u_r)^2}{g} , \qquad
                  k = \frac{n}{(n - 1) N} , \qquad g = 1 - k h ,

        with :math:`u_r = z^\top B^{-1} (\mu_c - \mu_r)`, which is drawn, and with the mean of
        :math:`z^\top B^{-1} z` over the class, h.
        """
        counts = self.gaussians.counts
        planes = metric.planes
        share = metric.share
        n = counts[c]
        growth = n / (n - 1.0)
        k = growth / counts.sum()
        gaps, nearest = self.nearest(c, metric)
        functions = planes[c] - planes[nearest]
        root = self.root(c, functions)
        u = self._draws @ (share * root)
        h = share * self.mean_length(c, metric)
        # Weights below one make h too large.
        most = (1.0 - LEAST_SHARE) / k
        h = h.clamp_max(most)
        g = 1.0 - k * h
        from_own = growth.square() * h / g
        grown = k * (h + u).square() / g
        from_others = h + 2.0 * u + share * gaps + grown
        return 0.5 * (from_others - from_own)

    def least_cross_entropy(self, margins: list[torch.Tensor]) -> tuple[float, float]:
        """Return the least cross-entropy over temperatures, and its temperature.

        `margins` has a tensor of shape (n_draws, k) for each of the first judged classes: the
        logit of the class minus those of its k opponents, for draws of its samples.
        """
        stacked_margins = torch.stack(margins)
        logits = pad(-stacked_margins, (1, 0))
        classes = self.classes[: len(margins)]
        weights = self.gaussians.weights[classes]
        shares = weights / weights.sum()
        # Classes that coincide have no margin but rounding.
        sizes = stacked_margins.abs()
        typical_margin = sizes.median()
        typical_margin = typical_margin.clamp_min(LEAST_SHARE)
        temperatures = typical_margin * _TEMPERATURES.to(logits.device)
        entropies = []
        for temperature in temperatures:
            scaled_logits = logits / temperature
            losses = scaled_logits.logsumexp(-1)
            mean_losses = losses.mean(-1)
            entropies.append(mean_losses @ shares)
        values = torch.stack(entropies).tolist()
        position = first_of_least(values)
        entropy = float(entropies[position])
        temperature = float(temperatures[position])
        return entropy, temperature

    def mean_length(self, c: int, metric: "Metric") -> torch.Tensor:
        """Return the mean squared length of the samples of a class in the inverse of `base`."""
        gaussians = self.gaussians
        rows = gaussians.class_rows[c]
        products = rows * metric.solve_rows(c)
        total = products.sum()
        return total / gaussians.weights[c]

    def root(self, c: int, functions: torch.Tensor) -> torch.Tensor:
        """Return the symmetric root of the covariance of k linear functions in a class."""
        gaussians = self.gaussians
        rows = gaussians.class_rows[c]
        values = rows @ functions.T
        scatter = values.T @ values
        covariance = scatter / gaussians.weights[c]
        return symmetric_root(covariance)

    def nearest(self, c: int, metric: "Metric") -> tuple[torch.Tensor, torch.Tensor]:
        """Return the least squared distances from class c to other classes, and these classes.

        Products shortlist the classes. Only differences have the digits of small distances, and
        they take ten times as long.
        """
        # The product with `off_centre` orders equally near classes, whatever their numbers are.
        from_point = metric.squared_lengths + 2.0 * metric.towards_point
        order = from_point - 2.0 * (metric.planes @ self.means[c])
        order[c] = torch.inf
        n_candidates = min(2 * self._n_opponents, len(order) - 1)
        candidates = order.topk(n_candidates, largest=False).indices
        differences = self.means[c] - self.means[candidates]
        plane_differences = metric.planes[c] - metric.planes[candidates]
        gaps = torch.linalg.vecdot(differences, plane_differences)
        exact_order = gaps + 2.0 * metric.towards_point[candidates]
        nearest = exact_order.topk(self._n_opponents, largest=False).indices
        return gaps[nearest], candidates[nearest]


class Metric:
    """The metric of B, with the means and the rows of the classes times its inverse.

    Attributes
    ----------
    base : DiagonalPlusGram
        B times the share.
    planes : Tensor of shape (C, d)
        Centred means times the inverse of `base`.
    share : float
        Weight of the pooled covariance in `base`; in B it is 1.
    squared_lengths : Tensor of shape (C,)
        Squared lengths of the centred means in the inverse of `base`.
    towards_point : Tensor of shape (C,)
        Products, in the inverse of `base`, of the centred means with `LeftOutSamples.off_centre`.
    """

    def __init__(
        self,
        rows: tuple[torch.Tensor, ...],
        base: DiagonalPlusGram,
        planes: torch.Tensor,
        share: float,
        *,
        squared_lengths: torch.Tensor,
        towards_point: torch.Tensor,
    ) -> None:
        self.base = base
        self.planes = planes
        self.share = share
        self.squared_lengths = squared_lengths
        self.towards_point = towards_point
        self._rows = rows
        self._solved = dict[int, torch.Tensor]()

    def solve_rows(self, c: int) -> torch.Tensor:
        """Return the rows of a class times the inverse of `base`, solved at the first call."""
        if c not in self._solved:
            rows = self._rows[c]
            self._solved[c] = self.base.solve(rows)
        return self._solved[c]


def _off_centre(means: torch.Tensor) -> torch.Tensor:
    """Return a point near the origin whose distances from class means of equal length differ."""
    squares = means.square()
    mean_square = squares.mean()
    # Far above the rounding of distances, and far below distances between classes.
    length = ROOT_ROUNDING * mean_square.sqrt()
    n_features = means.shape[1]
    positions = torch.arange(n_features, dtype=means.dtype, device=means.device)
    # These cosines have no regularity that means may share.
    return length * positions.cos()


def first_of_least(entropies: Sequence[float]) -> int:
    """Return the position of the first cross-entropy that equals the least up to rounding."""
    largest = min(entropies) + ROOT_ROUNDING
    is_least = np.asarray(entropies) <= largest
    return int(is_least.argmax())


def dispersion(left_out: LeftOutSamples, shared: SharedBand) -> float:
    r"""Return the dispersion of the means of mirrored neurons around those of Gaussian classes.

    It is the mean over the classes of

    .. math:: \frac{n \sum_j \bigl(\overline{|z_j|} / s_j - E_j\bigr)^2}{\sum_j V_j} ,

    with the projections z of the samples on the direction of neuron j, their standard deviation s,
    the mean E of the quotient and n times its variance, V, for Gaussian samples. The code names the
    mean of z in units of s `t`. The dispersion is about 1 for Gaussian
    classes, and infinite if nothing can be tested.
    """
    gaussians = left_out.gaussians
    n_inputs = shared.rows.shape[1] - 1
    neurons = shared.moduli()
    outputs = slice(n_inputs + neurons.start, n_inputs + neurons.stop)
    rows = shared.rows[neurons, :-1]
    directions = as_tensor(rows, device=gaussians.means.device).T
    ratios = []
    for c in left_out.classes:
        n = gaussians.counts[c]
        class_mean = gaussians.means[c]
        means = class_mean[:n_inputs] @ directions
        variances = _projected_variances(gaussians, c, directions)
        rounding = SUM_ROUNDING * means.square()
        varying = variances > rounding
        deviations = variances[varying].sqrt()
        t = means[varying] / deviations
        mean_outputs = class_mean[outputs][varying]
        # A mirrored neuron is |z| divided by the root of two.
        mean_moduli = math.sqrt(2.0) * mean_outputs
        ratios_of_moduli = mean_moduli / deviations
        errors = ratios_of_moduli - _expected_moduli(t, n)
        total_error = errors.square().sum()
        total_variance = _modulus_variances(t).sum()
        if total_variance > 0.0:
            ratios.append(float(n * total_error / total_variance))
    if not ratios:
        return math.inf
    return sum(ratios) / len(ratios)


def _projected_variances(
    gaussians: ClassGaussians, c: int, directions: torch.Tensor
) -> torch.Tensor:
    """Return the variances of a class along directions in the inputs, of shape (d, k)."""
    n_inputs = len(directions)
    n = gaussians.counts[c]
    rows = gaussians.class_rows[c]
    residuals = gaussians.residuals[c, :n_inputs]
    projections = rows[:, :n_inputs] @ directions
    squares = projections.square()
    scatters = squares.sum(0)
    scatters += residuals @ directions.square()
    variances = scatters / gaussians.weights[c]
    bessel_correction = n / (n - 1.0)
    return variances * bessel_correction


def _normal_density(t: torch.Tensor) -> torch.Tensor:
    """Return the density of the standard normal distribution."""
    square = t.square()
    normaliser = math.sqrt(2.0 * math.pi)
    return torch.exp(-0.5 * square) / normaliser


def _mean_sign(t: torch.Tensor) -> torch.Tensor:
    """Return the mean sign of normal numbers of mean t and variance 1."""
    scaled = t / math.sqrt(2.0)
    return torch.erf(scaled)


def _expected_moduli(t: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    r"""Return the mean modulus of normal samples over their standard deviation, both estimated.

    .. math:: E = 2 \varphi(t) + t (2 F(t) - 1) - \varphi(t) \frac{1 + t^2}{2 n}

    is that of n samples whose mean is t standard deviations [Geary]; the last term is due to the
    estimate of the standard deviation.
    """
    density = _normal_density(t)
    sign = _mean_sign(t)
    mean_modulus = 2.0 * density + t * sign
    square = t.square()
    bias = density * (1.0 + square) / (2.0 * n)
    return mean_modulus - bias


def _modulus_variances(t: torch.Tensor) -> torch.Tensor:
    r"""Return n times the variance of the mean modulus over the standard deviation.

    .. math:: V = 1 + t^2 - \bigl(2 \varphi(t) + t (2 F(t) - 1)\bigr)^2 - (2 F(t) - 1)^2
                  - 2 \varphi(t)^2 .

    The last two terms are due to the estimates of mean and standard deviation from the same
    samples, which lower the variance.
    """
    density = _normal_density(t)
    sign = _mean_sign(t)
    mean_modulus = 2.0 * density + t * sign
    mean_square = 1.0 + t.square()
    of_modulus = mean_square - mean_modulus.square()
    of_deviation = 2.0 * density.square()
    of_mean = sign.square()
    of_estimates = of_mean + of_deviation
    variances = of_modulus - of_estimates
    return variances.clamp_min(0.0)
