r"""The choice of shrinkage, ridge and energy of the inputs, from the classes' moments alone.

Candidates are judged by the cross-entropy of left-out samples:

a. `PooledDiscriminant`: one covariance for all classes, with the ridge 0.7, or 0.07, or 0.007;
b. `GaussianDensities`: Gaussian classes in the inputs alone, with their own covariances.

The second is simpler, and wins unless the cross-entropy of the first is clearly lower. The heads
find their temperature by the same left-out samples (`LeftOutSamples`).
docs/theory/default.rst ("How shrinkage, ridge and energy are chosen") explains the formulas.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import product

import numpy as np
import torch
from torch.nn.functional import pad
from torch.quasirandom import SobolEngine

from ..device import as_tensor
from ..features import Blocks, SharedBand
from ..linalg import ROOT_ROUNDING, SUM_ROUNDING, DiagonalPlusGram, cholesky, symmetric_root
from ..settings import Settings
from .gaussians import ClassGaussians
from .interface import Choice, Head

__all__ = [
    "LEAST_SHARE",
    "GaussianDensities",
    "LeftOutSamples",
    "Metric",
    "PooledDiscriminant",
    "best_discriminant",
    "choose",
    "dispersion",
    "distances_from_others",
    "first_of_least",
    "ledoit_wolf",
    "left_out_distances",
    "normal_draws",
    "ridge_growth",
    "separation_energy",
]

# Ridges of the pooled discriminant, relative to the mean variance within classes, in the order in
# which they are preferred to the last. The last is best on most real tables.
_RIDGES = (0.007, 0.07, 0.7)

# Share of the cross-entropy of Gaussian densities below which that of the discriminant is clearly
# lower. The judge is optimistic about the discriminant: with 0.8 overlapping Gaussian classes are
# recognised. From 0.7 to 0.95 no real table changes; with 0.6 classes that surround others lose.
_CLEAR_SHARE = 0.8

# Grid of the Gaussian densities: shrinkages of the class covariances, and ridges of B.
_DENSITY_SHRINKAGES = (1.0, 0.3, 0.1, 0.03, 0.01)
_DENSITY_RIDGES = (0.01, 3.0)

# Largest dispersion of Gaussian classes. The judge draws Gaussian samples, and its cross-entropy is
# too small for other classes: without this limit, held-out rows of tables lose 0.7 to 1.5 points.
_MOST_DISPERSION = 1.35

# Most inputs of Gaussian densities, whose covariances are dense, and least samples per input: with
# fewer the judge is too uncertain, and classes that surround others lose 2.6 points.
_MOST_INPUTS = 100
_SAMPLES_PER_INPUT = 3.0

# Growth of the ridge with the relative sampling error of the pooled covariance.
_FEW_SAMPLES = 12.0

# Largest shrinkage in curved features: half of the own covariance gains 0.6 points on real tables.
_MOST_CURVED = 0.5

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


def choose(
    gaussians: ClassGaussians,
    blocks: Blocks,
    settings: Settings,
    shared: SharedBand,
    head: type[Head],
) -> Choice:
    """Choose the values that the settings leave open; given values are kept.

    With a shrinkage of 0, an open ridge is 0.7. Otherwise the steps are: estimate the energy of the
    inputs; search the ridge of the pooled discriminant, if it is open; compare this discriminant
    with Gaussian densities of the inputs alone, if shrinkage and ridge are open and the head keeps
    class covariances. The densities win unless the discriminant's left-out cross-entropy is clearly
    lower.

    The order of the classes and their partition into tasks play no part. `gaussians` has the
    features that the classifier sees.
    """
    shrinkage = settings.shrinkage
    epsilon = settings.epsilon
    if shrinkage == 0.0:
        if epsilon is None:
            epsilon = _RIDGES[-1]
        return Choice(None, shrinkage, epsilon)
    if epsilon is None:
        epsilon = head.fixed_ridge
    if 0 < blocks.n_fixed < len(gaussians.penalties):
        # The moments of old classes in trained neurons are only inferred, and overestimate their
        # separation.
        gaussians = gaussians.first_features(blocks.n_fixed)
    energy = separation_energy(gaussians, blocks)
    if shrinkage is not None and epsilon is not None:
        return Choice(energy, shrinkage, epsilon)
    left_out = LeftOutSamples(gaussians.weigh_blocks(blocks, energy))
    is_curved = head.keeps_own and blocks.n_shared > 0
    if epsilon is None:
        discriminant = best_discriminant(left_out, is_curved)
    else:
        discriminant = PooledDiscriminant(left_out, _RIDGES[-1], is_curved)
    is_open = shrinkage is None and epsilon is None and settings.covariance == "class"
    if is_open and head.keeps_own and _may_be_gaussian(left_out, blocks, shared):
        densities = GaussianDensities(left_out, blocks.n_inputs, discriminant.metric)
        # Without errors of either, nothing speaks against the discriminant.
        if discriminant.entropy >= _CLEAR_SHARE * densities.entropy + resolution(gaussians):
            return densities.choice()
    return discriminant.choice(energy, shrinkage, epsilon)


def separation_energy(gaussians: ClassGaussians, blocks: Blocks) -> float:
    r"""Return the energy of the inputs as a multiple of the shared band's, by class separation.

    .. math:: \min \Bigl(1, \frac{i^2}{b^2}\Bigr)

    with the Calinski-Harabasz index of the inputs, i, and of the shared band, b. The result is 1 if
    an index is undefined, or zero up to rounding.
    """
    penalties = gaussians.weigh_blocks(blocks, 1.0).penalties
    spreads = gaussians.spreads()
    inputs = slice(0, blocks.n_inputs)
    band = slice(blocks.n_inputs, blocks.n_fixed)
    of_inputs = _separation(spreads, penalties, inputs)
    of_band = _separation(spreads, penalties, band)
    if of_inputs == 0.0 or of_band == 0.0:
        return 1.0
    ratio = of_inputs / of_band
    return min(1.0, ratio**2)


def _separation(
    spreads: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    penalties: torch.Tensor,
    block: slice,
) -> float:
    """Return the scatter between the classes over that within, both in units of the penalties.

    `spreads` is the result of `ClassGaussians.spreads`. The quotient is the Calinski-Harabasz index
    of the block up to a factor that all blocks share, and zero if the index is undefined or only
    rounding.
    """
    sums = []
    for spread in spreads[:2]:
        relative_spread = spread[block] / penalties[block]
        sums.append(float(relative_spread.sum()))
    within, between = sums
    if within > 0.0:
        return between / within
    return 0.0


class PooledDiscriminant:
    r"""Candidate a: one covariance for all classes, :math:`B = \Sigma_{pooled} + r v P`.

    P holds the penalties of the features, and v is the mean variance within classes. The choice is
    the shrinkage of Ledoit and Wolf in the metric of B, and the ridge r times that shrinkage: the
    covariances become :math:`(1 - \rho) \Sigma_c + \rho B`. Features are curved if the head keeps
    class covariances over a shared band. `entropy` is infinite if it exceeds the `limit`.
    """

    def __init__(
        self, left_out: LeftOutSamples, ridge: float, is_curved: bool, limit: float = math.inf
    ) -> None:
        self._left_out = left_out
        self._ridge = ridge
        self._is_curved = is_curved
        pooled = left_out.gaussians.shared_covariance(1.0, ridge)
        self.metric = left_out.metric(pooled)
        self.entropy, _ = left_out.cross_entropy(self.metric, limit)

    def choice(self, energy: float, shrinkage: float | None, epsilon: float | None) -> Choice:
        r"""Return the values, with the given shrinkage :math:`\rho` or that of Ledoit and Wolf.

        The ridge is :math:`r \rho` times the growth with few samples, and in curved features times
        :math:`1 + \rho`. In curved features the shrinkage is then at most a half.
        """
        if shrinkage is None:
            intensity = ledoit_wolf(self._left_out, self.metric, self._ridge)
            shrinkage = intensity
            if self._is_curved:
                shrinkage = min(intensity, _MOST_CURVED)
        else:
            intensity = shrinkage
        if epsilon is None:
            epsilon = self._ridge * intensity * ridge_growth(self._left_out.gaussians)
            if self._is_curved:
                epsilon *= 1.0 + intensity
        return Choice(energy, shrinkage, epsilon, candidate="pooled")


def best_discriminant(left_out: LeftOutSamples, is_curved: bool) -> PooledDiscriminant:
    r"""Return the discriminant of a small ridge if its evidence is overwhelming, or of the largest.

    The cross-entropy e of a smaller ridge r has to fall by a larger factor than the ridge,

    .. math:: \frac{e + 3 / N}{e_{0.7} + 3 / N} < \frac{r}{0.7} ,

    with the `resolution` 3 / N. Smaller ridges are tried only if there are at least as many
    degrees of freedom as features: otherwise the pooled covariance is not known well enough, and
    the judge underestimates their cross-entropy.
    """
    gaussians = left_out.gaussians
    largest = PooledDiscriminant(left_out, _RIDGES[-1], is_curved)
    if degrees_of_freedom(gaussians) < len(gaussians.penalties):
        return largest
    least = resolution(gaussians)
    for ridge in _RIDGES[:-1]:
        share = ridge / _RIDGES[-1]
        limit = share * (largest.entropy + least) - least
        if limit > 0.0:
            discriminant = PooledDiscriminant(left_out, ridge, is_curved, limit)
            if discriminant.entropy < limit:
                return discriminant
    return largest


def resolution(gaussians: ClassGaussians) -> float:
    """Return the least cross-entropy that samples can show: 3 / N, or its rounding if larger.

    If N samples show no error, the share of errors is at most 3 / N (the rule of three).
    """
    return max(3.0 / float(gaussians.counts.sum()), ROOT_ROUNDING)


def degrees_of_freedom(gaussians: ClassGaussians) -> float:
    """Return the degrees of freedom of the pooled covariance."""
    counts = gaussians.counts
    total = (counts - 1.0).sum()
    return float(total)


def ridge_growth(gaussians: ClassGaussians) -> float:
    r"""Return the growth of the ridge with the sampling error of the pooled covariance.

    .. math:: 1 + \Bigl(\frac{12 \, r}{N - C}\Bigr)^2 , \qquad
              r = \frac{(\mathrm{tr} \Sigma)^2}{\|\Sigma\|^2} ,

    with the effective rank r of the pooled covariance.
    """
    relative_square = gaussians.relative_square()
    if not relative_square > 0.0:
        return 1.0
    effective_rank = 1.0 / relative_square
    error = _FEW_SAMPLES * effective_rank / max(degrees_of_freedom(gaussians), 1.0)
    return 1.0 + error**2


def ledoit_wolf(left_out: LeftOutSamples, metric: Metric, ridge: float) -> float:
    r"""Return the intensity of Ledoit and Wolf, in the metric of B with a ridge.

    .. math:: \rho = \frac{\sum_c \bigl((\mathrm{tr} \Sigma_c)^2 + \|\Sigma_c\|^2\bigr) / n_c}
                          {\sum_c \|\Sigma_c - \Sigma_{\mathrm{pooled}}\|^2}

    This is the shrinkage of least expected error: the numerator is the sampling error of Gaussian
    covariances, the denominator that error plus the true differences. The sums run over the judged
    classes, whose covariances are those along the kept axes. The result is between 0.001 and 1, and
    1 if no class is judged or varies.
    """
    gaussians = left_out.gaussians
    unit = ridge * gaussians.pooled_variance()
    traces = []
    squared_norms = []
    products_with_pooled = []
    for c in left_out.classes:
        rows = gaussians.class_rows[c]
        weight = gaussians.weights[c]
        solved = metric.solve_rows(c)
        # Squares of tiny weights would underflow.
        gram = (rows @ solved.T).div_(weight)
        trace = gram.trace()
        # B^-1 Sigma_pooled B^-1 is B^-1 minus the part of the ridge.
        penalised_squares = solved.square() @ gaussians.penalties
        part_of_ridge = penalised_squares.sum() / weight
        part_of_ridge *= unit
        traces.append(trace)
        squared_norms.append(gram.square().sum())
        products_with_pooled.append(trace - part_of_ridge)
    if not traces:
        return 1.0
    n_samples = gaussians.counts[left_out.classes]
    weights = gaussians.weights[left_out.classes]
    squares = torch.stack(squared_norms)
    squared_traces = torch.stack(traces).square()
    products = torch.stack(products_with_pooled)
    # The pooled covariance is the mean of the class covariances, and so are its products.
    pooled_square = weights @ products / weights.sum()
    sampling_errors = (squared_traces + squares) / n_samples
    sampling_error = float(sampling_errors.mean())
    distance = float(squares.mean() - 2.0 * products.mean() + pooled_square)
    if not sampling_error > 0.0:
        return 1.0
    return max(LEAST_SHARE, sampling_error / max(distance, sampling_error))


def _may_be_gaussian(left_out: LeftOutSamples, blocks: Blocks, shared: SharedBand) -> bool:
    """Return whether the classes may be Gaussian in the inputs, and the judge can test it."""
    if not left_out.classes or blocks.n_inputs == 0 or blocks.n_shared == 0:
        return False
    n_samples = float(left_out.gaussians.counts.sum())
    most_inputs = min(_MOST_INPUTS, n_samples / _SAMPLES_PER_INPUT)
    if blocks.n_inputs > most_inputs:
        return False
    return dispersion(left_out, shared) <= _MOST_DISPERSION


class GaussianDensities:
    r"""Candidate b: Gaussian classes, with the covariances :math:`(1 - \rho) \Sigma_c + \rho B`.

    The matrix that all classes share is :math:`B = \Sigma_{pooled} + r v P`. Shrinkage
    :math:`\rho`, ridge r and temperature are those of the least cross-entropy on a grid. The
    nearest classes are found in `metric`.

    The moments hold no samples, so Gaussian draws replace them: the same normal numbers for all
    classes, times the root of the class covariance. For each point of the grid, the cross-entropy
    follows from their log-densities in the own class minus those in the nearest classes.
    """

    def __init__(self, left_out: LeftOutSamples, n_inputs: int, metric: Metric) -> None:
        inputs = left_out.gaussians.first_features(n_inputs)
        self._inputs = inputs.weigh_blocks(Blocks(n_inputs, 0), 1.0)
        self._covariances = _class_covariances(inputs)
        draws = normal_draws(inputs.seed, n_inputs, inputs.means.device)
        # The mirror images, which follow, need no solutions of their own.
        draws = draws[: len(draws) // 2]
        self._samples = {}
        self._opponents = {}
        for c in left_out.classes:
            root = symmetric_root(self._covariances[c])
            self._samples[c] = draws @ root
            _, self._opponents[c] = left_out.nearest(c, metric)
        weights = inputs.weights[:, None, None]
        pooled = (weights * self._covariances).sum(0) / weights.sum()
        unit = torch.diag(self._inputs.pooled_variance() * self._inputs.penalties)
        grid = list(product(_DENSITY_RIDGES, _DENSITY_SHRINKAGES))
        entropies = []
        temperatures = []
        for ridge, shrinkage in grid:
            base = pooled + ridge * unit
            margins = self._margins(shrinkage, shrinkage * base)
            entropy, temperature = left_out.least_cross_entropy(margins)
            entropies.append(entropy)
            temperatures.append(temperature)
        position = first_of_least(entropies)
        self.ridge, self.shrinkage = grid[position]
        self.entropy = entropies[position]
        self.temperature = temperatures[position]

    def choice(self) -> Choice:
        """Return the values; the inputs count alone."""
        epsilon = self.shrinkage * self.ridge
        return Choice(1.0, self.shrinkage, epsilon, self.temperature, candidate="densities")

    def _margins(self, shrinkage: float, shared: torch.Tensor) -> list[torch.Tensor]:
        r"""Return the log-densities of left-out samples in their class minus those in k others.

        Up to a constant a log-density is :math:`-\frac12 (z^\top S^{-1} z + \log \det S)`. `shared`
        is :math:`\rho B`.
        """
        means = self._inputs.means
        counts = self._inputs.counts
        covariances = (1.0 - shrinkage) * self._covariances + shared
        factors = cholesky(covariances, name="a class covariance")
        log_determinants = _log_determinants(factors)
        margins = []
        for c, samples in self._samples.items():
            opponents = self._opponents[c]
            differences = means[c] - means[opponents]
            # The part of a sample's outer product that S holds through the pooled covariance.
            growth = counts[c] / (counts[c] - 1.0)
            in_shared = shrinkage * growth / counts.sum()
            from_others = distances_from_others(factors[opponents], differences, samples, in_shared)
            from_others += log_determinants[opponents, None]
            from_own = left_out_distances(
                samples, self._covariances[c], counts[c], shrinkage, shared, in_shared
            )
            # A mirror image is as far from the mean of its own class.
            from_own = from_own.repeat(2)
            margins.append(0.5 * (from_others - from_own).T)
        return margins


def left_out_distances(
    samples: torch.Tensor,
    covariance: torch.Tensor,
    n: torch.Tensor,
    shrinkage: float,
    shared: torch.Tensor,
    in_shared: torch.Tensor,
) -> torch.Tensor:
    r"""Return -2 times the log-density of each sample z in its class without it, up to a constant.

    .. math:: \frac{k^2 z^\top S^{-1} z}{1 - l} + \log \det S + \log (1 - l) , \qquad
              S = (1 - \rho) k \Sigma_c + \rho B ,

    with :math:`k = n / (n - 1)` and the mean l of the leverages :math:`h z^\top S^{-1} z`. Samples
    are deviations from the mean of their class, which has n samples. `shared` is :math:`\rho B`. A
    sample leaves both covariances: the factor h of its outer product in S is
    :math:`(1 - \rho) k / (n - 1)` plus `in_shared`.
    """
    k = n / (n - 1.0)
    regularised = (1.0 - shrinkage) * k * covariance + shared
    factor = cholesky(regularised, name="a class covariance")
    lengths = _squared_lengths(factor, samples)
    sample_share = (1.0 - shrinkage) * k / (n - 1.0)
    leverage = (sample_share + in_shared) * lengths.mean()
    remainder = (1.0 - leverage).clamp_min(LEAST_SHARE)
    log_determinant = _log_determinants(factor) + remainder.log()
    left_out_lengths = k.square() * lengths / remainder
    return left_out_lengths + log_determinant


def distances_from_others(
    factors: torch.Tensor, differences: torch.Tensor, samples: torch.Tensor, in_shared: torch.Tensor
) -> torch.Tensor:
    r"""Return distances of samples z from other classes, whose covariances S lose the sample.

    .. math:: g^\top S^{-1} g + \frac{h \, (z^\top S^{-1} g)^2}{1 - h l} + \log (1 - h l) , \qquad
              g = z + \delta , \qquad l = z^\top S^{-1} z

    up to log det S, where h, `in_shared`, is the factor of :math:`z z^\top` in S. `factors` are the
    Cholesky factors of the k matrices S, `differences`, of shape (k, d), are the deviations
    :math:`\delta` of the mean of the class from other means, and `samples` has the shape
    (n_samples, d). The result has the samples z, then their mirror images -z, in its columns.
    """
    samples_of_all = samples.expand(len(factors), -1, -1)
    vectors = torch.cat([samples_of_all, differences[:, None]], dim=1)
    white = torch.linalg.solve_triangular(factors, vectors.mT, upper=False)
    white_samples = white[..., :-1]
    white_differences = white[..., -1:]
    lengths = white_samples.square().sum(-2)
    products = (white_differences.mT @ white_samples)[:, 0]
    # Mirror images have the same lengths, and opposite products with the differences.
    lengths = torch.cat([lengths, lengths], dim=1)
    products = torch.cat([products, -products], dim=1)
    # With z replaced by -z, z' S^-1 g and g' S^-1 g follow from both.
    products_with_gaps = lengths + products
    gap_lengths: torch.Tensor = products_with_gaps + products
    gap_lengths += white_differences.square().sum(-2)
    remainders = 1.0 - in_shared * lengths
    remainders.clamp_min_(LEAST_SHARE)
    growths = in_shared * products_with_gaps.square() / remainders
    return gap_lengths + growths + remainders.log()


def _class_covariances(gaussians: ClassGaussians) -> torch.Tensor:
    """Return the covariances of all classes, dense and of shape (C, d, d)."""
    scatters = torch.diag_embed(gaussians.residuals)
    for scatter, rows in zip(scatters, gaussians.class_rows, strict=True):
        scatter += rows.T @ rows
    weights = gaussians.weights[:, None, None]
    return scatters / weights


def _squared_lengths(factors: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Return the squared lengths of rows in inverse covariances, given their Cholesky factors."""
    columns = rows.mT
    white: torch.Tensor = torch.linalg.solve_triangular(factors, columns, upper=False)
    squares = white.square()
    return squares.sum(-2)


def _log_determinants(factors: torch.Tensor) -> torch.Tensor:
    """Return the log-determinants of matrices, given their Cholesky factors."""
    diagonals = factors.diagonal(dim1=-2, dim2=-1)
    logarithms = diagonals.log()
    return 2.0 * logarithms.sum(-1)
