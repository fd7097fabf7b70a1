"""Gaussian classes with their own covariances in the inputs, judged by left-out samples.

docs/theory/default.rst ("How shrinkage, ridge and energy are chosen") explains the formulas.
"""

import math
from itertools import product

import torch

from ..device import as_tensor
from ..features import Blocks, SharedBand
from ..gaussians import LEAST_SHARE, ClassGaussians
from ..linalg import SUM_ROUNDING, cholesky, symmetric_root
from ..settings import Choice
from .pooled import Judge, Metric, first_of_least, normal_draws

__all__ = [
    "GaussianDensities",
    "dispersion",
    "distances_from_others",
    "left_out_distances",
    "may_be_gaussian",
]

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


def may_be_gaussian(judge: Judge, blocks: Blocks, shared: SharedBand) -> bool:
    """Return whether the classes may be Gaussian in the inputs, and the judge can test it."""
    if not judge.classes or blocks.n_inputs == 0 or blocks.n_shared == 0:
        return False
    n_samples = float(judge.gaussians.counts.sum())
    most_inputs = min(_MOST_INPUTS, n_samples / _SAMPLES_PER_INPUT)
    if blocks.n_inputs > most_inputs:
        return False
    return dispersion(judge, shared) <= _MOST_DISPERSION


def dispersion(judge: Judge, shared: SharedBand) -> float:
    r"""Return the dispersion of the means of mirrored neurons around those of Gaussian classes.

    It is the mean over the classes of

    .. math:: \frac{n \sum_j \bigl(\overline{|z_j|} / s_j - E_j\bigr)^2}{\sum_j V_j} ,

    with the projections z of the samples on the direction of neuron j, their standard deviation s,
    the mean E of the quotient and n times its variance, V, for Gaussian samples. The code names the
    mean of z in units of s `t`. The dispersion is about 1 for Gaussian
    classes, and infinite if nothing can be tested.
    """
    gaussians = judge.gaussians
    n_inputs = shared.rows.shape[1] - 1
    neurons = shared.moduli()
    outputs = slice(n_inputs + neurons.start, n_inputs + neurons.stop)
    rows = shared.rows[neurons, :-1]
    directions = as_tensor(rows, device=gaussians.means.device).T
    ratios = []
    for c in judge.classes:
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


class GaussianDensities:
    r"""Candidate b: Gaussian classes, with the covariances :math:`(1 - \rho) \Sigma_c + \rho B`.

    The matrix that all classes share is :math:`B = \Sigma_{pooled} + r v P`. Shrinkage
    :math:`\rho`, ridge r and temperature are those of the least cross-entropy on a grid. The
    nearest classes are found in `metric`.

    The moments hold no samples, so Gaussian draws replace them: the same normal numbers for all
    classes, times the root of the class covariance. For each point of the grid, the cross-entropy
    follows from their log-densities in the own class minus those in the nearest classes.
    """

    def __init__(self, judge: Judge, n_inputs: int, metric: Metric) -> None:
        inputs = judge.gaussians.first_features(n_inputs)
        self._inputs = inputs.weigh_blocks(Blocks(n_inputs, 0), 1.0)
        self._covariances = _class_covariances(inputs)
        draws = normal_draws(inputs.seed, n_inputs, inputs.means.device)
        # The mirror images, which follow, need no solutions of their own.
        draws = draws[: len(draws) // 2]
        self._samples = {}
        self._opponents = {}
        for c in judge.classes:
            root = symmetric_root(self._covariances[c])
            self._samples[c] = draws @ root
            _, self._opponents[c] = judge.nearest(c, metric)
        weights = inputs.weights[:, None, None]
        pooled = (weights * self._covariances).sum(0) / weights.sum()
        unit = torch.diag(self._inputs.pooled_variance * self._inputs.penalties)
        grid = list(product(_DENSITY_RIDGES, _DENSITY_SHRINKAGES))
        entropies = []
        temperatures = []
        for ridge, shrinkage in grid:
            base = pooled + ridge * unit
            margins = self._margins(shrinkage, shrinkage * base)
            entropy, temperature = judge.least_cross_entropy(margins)
            entropies.append(entropy)
            temperatures.append(temperature)
        position = first_of_least(entropies)
        self.ridge, self.shrinkage = grid[position]
        self.entropy = entropies[position]
        self.temperature = temperatures[position]

    def choice(self) -> Choice:
        """Return the values; the inputs count alone."""
        epsilon = self.shrinkage * self.ridge
        return Choice(1.0, self.shrinkage, epsilon, "densities", self.temperature)

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
