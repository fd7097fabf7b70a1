r"""The pooled discriminant: one covariance for all classes, judged by left-out samples.

docs/theory/default.rst ("How shrinkage, ridge and energy are chosen") explains the formulas.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch.nn.functional import pad
from torch.quasirandom import SobolEngine

from ..gaussians import LEAST_SHARE, ClassGaussians
from ..linalg import ROOT_ROUNDING, DiagonalPlusGram, symmetric_root
from ..settings import Choice

__all__ = [
    "LARGEST_RIDGE",
    "Judge",
    "Metric",
    "PooledDiscriminant",
    "SolvedMeans",
    "best_discriminant",
    "first_of_least",
    "ledoit_wolf",
    "normal_draws",
    "resolution",
    "ridge_growth",
]

# Ridges of the pooled discriminant, relative to the mean variance within classes. The largest is
# best on most real tables; the smaller ridges are preferred to it in their order.
LARGEST_RIDGE = 0.7
_SMALLER_RIDGES = (0.007, 0.07)

# Growth of the ridge with the relative sampling error of the pooled covariance.
_FEW_SAMPLES = 12.0

# Largest shrinkage in nonlinear features: half of the own covariance gains 0.6 points on real
# tables.
_MOST_SHRINKAGE = 0.5

# Number of judged classes, and of the nearest opponents of each. It bounds the time: the choice
# takes less than the solution (benchmarks/speed).
_N_JUDGED = 10

# Grid of temperatures: powers of two, times the typical margin.
_TEMPERATURES = 2.0 ** torch.arange(-6.0, 2.5, 0.5, dtype=torch.float64, device="cpu")


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


class Judge:
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
        Products, in the inverse of `base`, of the centred means with `Judge.off_centre`.
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


@dataclass(frozen=True)
class SolvedMeans:
    """Class means, minus their centre, times the inverse of the matrix B that all classes share.

    Attributes
    ----------
    base : DiagonalPlusGram
        B, factored.
    planes : Tensor of shape (C, d)
        The products.
    share : float
        Weight of the pooled covariance in B.
    """

    base: DiagonalPlusGram
    planes: torch.Tensor
    share: float

    def temperature(self, gaussians: ClassGaussians, epsilon: float) -> float:
        """Return the temperature of least left-out cross-entropy; `epsilon` is the ridge of B."""
        judge = Judge(gaussians)
        if self.share == 0.0:
            # Without a pooled covariance in B, left-out samples are judged in that and the ridge.
            metric = judge.metric(gaussians.shared_covariance(1.0, epsilon))
        else:
            metric = judge.metric(self.base, self.planes, self.share)
        _, temperature = judge.cross_entropy(metric)
        return temperature


class PooledDiscriminant:
    r"""Candidate a: one covariance for all classes, :math:`B = \Sigma_{pooled} + r v P`.

    P holds the penalties of the features, and v is the mean variance within classes. The choice is
    the shrinkage of Ledoit and Wolf in the metric of B, and the ridge r times that shrinkage: the
    covariances become :math:`(1 - \rho) \Sigma_c + \rho B`. `is_nonlinear` tells whether the head
    keeps class covariances over a shared band. `entropy` is infinite if it exceeds the `limit`.
    """

    def __init__(
        self, judge: Judge, ridge: float, is_nonlinear: bool, limit: float = math.inf
    ) -> None:
        self._judge = judge
        self._ridge = ridge
        self._is_nonlinear = is_nonlinear
        pooled = judge.gaussians.shared_covariance(1.0, ridge)
        self.metric = judge.metric(pooled)
        self.entropy, _ = judge.cross_entropy(self.metric, limit)

    def choice(self, energy: float, shrinkage: float | None, epsilon: float | None) -> Choice:
        r"""Return the values, with the given shrinkage :math:`\rho` or that of Ledoit and Wolf.

        The ridge is :math:`r \rho` times the growth with few samples, and in nonlinear features
        times :math:`1 + \rho`. In nonlinear features the shrinkage is then at most a half.
        """
        if shrinkage is None:
            intensity = ledoit_wolf(self._judge, self.metric, self._ridge)
            shrinkage = intensity
            if self._is_nonlinear:
                shrinkage = min(intensity, _MOST_SHRINKAGE)
        else:
            intensity = shrinkage
        if epsilon is None:
            epsilon = self._ridge * intensity * ridge_growth(self._judge.gaussians)
            if self._is_nonlinear:
                epsilon *= 1.0 + intensity
        return Choice(energy, shrinkage, epsilon, candidate="pooled")


def best_discriminant(judge: Judge, is_nonlinear: bool) -> PooledDiscriminant:
    r"""Return the discriminant of a small ridge if its evidence is overwhelming, or of the largest.

    The cross-entropy e of a smaller ridge r has to fall by a larger factor than the ridge,

    .. math:: \frac{e + 3 / N}{e_{0.7} + 3 / N} < \frac{r}{0.7} ,

    with the `resolution` 3 / N. Smaller ridges are tried only if there are at least as many
    degrees of freedom as features: otherwise the pooled covariance is not known well enough, and
    the judge underestimates their cross-entropy.
    """
    gaussians = judge.gaussians
    largest = PooledDiscriminant(judge, LARGEST_RIDGE, is_nonlinear)
    if degrees_of_freedom(gaussians) < len(gaussians.penalties):
        return largest
    least = resolution(gaussians)
    for ridge in _SMALLER_RIDGES:
        share = ridge / LARGEST_RIDGE
        limit = share * (largest.entropy + least) - least
        if limit > 0.0:
            discriminant = PooledDiscriminant(judge, ridge, is_nonlinear, limit)
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


def ledoit_wolf(judge: Judge, metric: Metric, ridge: float) -> float:
    r"""Return the intensity of Ledoit and Wolf, in the metric of B with a ridge.

    .. math:: \rho = \frac{\sum_c \bigl((\mathrm{tr} \Sigma_c)^2 + \|\Sigma_c\|^2\bigr) / n_c}
                          {\sum_c \|\Sigma_c - \Sigma_{\mathrm{pooled}}\|^2}

    This is the shrinkage of least expected error: the numerator is the sampling error of Gaussian
    covariances, the denominator that error plus the true differences. The sums run over the judged
    classes, whose covariances are those along the kept axes. The result is between 0.001 and 1, and
    1 if no class is judged or varies.
    """
    gaussians = judge.gaussians
    unit = ridge * gaussians.pooled_variance
    traces = []
    squared_norms = []
    products_with_pooled = []
    for c in judge.classes:
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
    n_samples = gaussians.counts[judge.classes]
    weights = gaussians.weights[judge.classes]
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
