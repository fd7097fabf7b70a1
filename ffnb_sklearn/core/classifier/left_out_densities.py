r"""Shrinkage, ridge and temperature of Gaussian densities, by their left-out cross-entropy.

In the coordinates in which :math:`T = \Sigma_{pooled} + \epsilon v P` is the identity, the
covariance :math:`(1 - \rho) \Sigma_c + \rho I` of a class has the axes of :math:`\Sigma_c`. Without
one of n samples, :math:`\mu_c + z`, it is :math:`S_c - a z z^\top`, with
:math:`S_c = (1 - \rho) k \Sigma_c + \rho I`, :math:`k = n / (n - 1)` and
:math:`a = (1 - \rho) k / (n - 1)`. For z drawn from :math:`N(0, \Sigma_c)`, with the mean leverage
l of the samples of the class,

.. math:: D_c = k^2 \frac{z^\top S_c^{-1} z}{(1 - l) w} , \qquad \log \det S_c + \log (1 - l) ,

are the distance and log-determinant of its class, as in Hotelling's distribution [1]_. w is a
chi-square variable of :math:`(n - 1) (1 - l) / q^2` degrees of freedom divided by its mean, with
the part :math:`q = l (n - 1) / d` of :math:`S_c` that comes from the class itself, by the
approximation of Wilson and Hilferty [2]_.

If there are rare classes, the smaller a class is, the more it is shrunk: with :math:`\rho` for a
class of the mean weight :math:`\bar n`, a class of n samples has

.. math:: \rho_c = \frac{\rho \bar n}{\rho \bar n + (1 - \rho) n} ,

the mean of an inverse Wishart distribution [3]_. Classes count by their weights, and their shares
are the priors. The documentation gives the reasons (docs/theory.rst, "How shrinkage, ridge and
energies are chosen").

References
----------
.. [1] H. Hotelling. The generalization of Student's ratio. Annals of Mathematical Statistics 2(3),
   1931.
.. [2] E. B. Wilson and M. M. Hilferty. The distribution of chi-square. Proceedings of the National
   Academy of Sciences 17(12), 1931.
.. [3] C.-F. Chen. Bayesian inference for a normal dispersion matrix and its application to
   stochastic multiple regression analysis. Journal of the Royal Statistical Society B 41(2), 1979.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..linalg import SUM_ROUNDING, cholesky
from .gaussians import ClassGaussians

__all__ = ["DensityChoice", "best_densities", "rare_classes", "shrinkages"]

# Shrinkages, ridges of T and temperatures that are tried (docs/benchmarks/defaults.rst, on Gaussian
# classes). The first ones are taken if no sample is in doubt. Densities of a large ridge are too
# flat, hence temperatures below one.
_SHRINKAGES = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001)
_RIDGES = (0.01, 3.0)
_TEMPERATURES = 2.0 ** torch.arange(-1.0, 4.5, 0.5, dtype=torch.float64, device="cpu")

# Nearest opponents of each class, and draws of its samples, each with its mirror image.
_N_OPPONENTS, _N_DRAWS = 8, 128

# Least share of a class's covariance that is left without a sample, and least w.
_LEAST_LEFT, _LEAST_RATIO = 1e-3, 1e-4


class DensityChoice(NamedTuple):
    """Parameters of Gaussian densities.

    Attributes
    ----------
    shrinkage, ridge : float
        rho, with rare classes that of a class of the mean weight, and epsilon of T.
    temperature : float
        Temperature of the logarithms of density ratios.
    entropy : float
        Left-out cross-entropy with these values. Rare classes do not count: they are hard for any
        classifier.
    """

    shrinkage: float
    ridge: float
    temperature: float
    entropy: float


def best_densities(gaussians: ClassGaussians, classes: Sequence[int]) -> DensityChoice:
    """Return the parameters of least left-out cross-entropy.

    Parameters
    ----------
    gaussians : ClassGaussians
        Two classes or more over the inputs.
    classes : sequence of int
        Classes whose samples are left out, each of two samples or more.

    Returns
    -------
    DensityChoice
        The best shrinkage, ridge and temperature.
    """
    generator = torch.Generator().manual_seed(0)
    shape = (_N_DRAWS, gaussians.means.shape[1] + 1)
    draws = torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
    # Mirror images share the last column, which drives w.
    mirrored = torch.cat([-draws[:, :-1], draws[:, -1:]], dim=1)
    draws = torch.cat([draws, mirrored]).to(gaussians.means)
    weights = gaussians.weights
    temperatures = _TEMPERATURES.to(draws.device)[:, None, None, None, None]
    metrics = [_Metric(gaussians, ridge) for ridge in _RIDGES]
    # The same samples and opponents for all ridges: others would differ by chance.
    samples = [metrics[0].samples(c, draws[:, :-1]) for c in classes]
    opponents = [metrics[0].opponents(c) for c in classes]
    judged = list(zip(classes, opponents, samples, strict=True))
    priors = torch.stack([(weights[o] / weights[c]).log() for c, o, _ in judged])[:, None, None]
    shares = weights[list(classes)] / weights[list(classes)].sum()
    parts = []
    for metric in metrics:
        # Temperatures, classes, shrinkages, draws, opponents.
        margins = torch.stack([metric.margins(*one, draws[:, -1]) for one in judged])[None]
        logits = priors - 0.5 * margins / temperatures
        losses = torch.nn.functional.pad(logits, (1, 0)).logsumexp(-1).mean(-1)
        parts.append(losses)
    # Shrinkages, ridges, temperatures, classes.
    entropies = torch.stack(parts).permute(3, 0, 1, 2)
    means = entropies @ shares
    s, r, t = (int(k) for k in torch.unravel_index(means.argmin(), means.shape))
    rare = rare_classes(weights, gaussians.means.shape[1])
    large = torch.where(rare[list(classes)], 0.0, shares)
    if not bool(large.any()):
        large = shares
    entropy = float(entropies[s, r, t] @ large / large.sum())
    return DensityChoice(_SHRINKAGES[s], _RIDGES[r], float(_TEMPERATURES[t]), entropy)


def rare_classes(weights: torch.Tensor, n_inputs: int) -> torch.Tensor:
    """Return which classes are rare, of shape (C,).

    They weigh less than the number of inputs, and than half of the mean: with the first limit
    alone, some of equally small classes would be rare, and others not.
    """
    return weights < (0.5 * weights.mean()).clamp_max(n_inputs)


def shrinkages(
    weights: torch.Tensor, shrinkage: float | torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    """Return the shrinkages of classes of some weights, given that of a class of `weight`."""
    pooled = shrinkage * weight
    return pooled / (pooled + (1.0 - shrinkage) * weights)


class _Metric:
    """The classes in coordinates in which T is the identity."""

    def __init__(self, gaussians: ClassGaussians, ridge: float) -> None:
        self._gaussians, self._parts = gaussians, gaussians.parts()
        rows, weights = gaussians.rows, gaussians.weights
        total = rows.T @ rows / weights.sum()
        unit = ridge * gaussians.pooled_variance()
        total.diagonal().add_(
            gaussians.residuals.sum(0) / weights.sum() + unit * gaussians.penalties
        )
        self._root = cholesky(total, name="the pooled covariance of the inputs")
        means = gaussians.means - weights @ gaussians.means / weights.sum()
        self._means = torch.linalg.solve_triangular(self._root, means.T, upper=False).T
        self._shrinkages = means.new_tensor(_SHRINKAGES)[:, None]
        self._has_rare = bool(rare_classes(weights, means.shape[1]).any())
        self._spectra: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def samples(self, c: int, draws: torch.Tensor) -> torch.Tensor:
        """Turn standard normal draws into samples of class c, less its mean."""
        values, axes = self._spectrum(c)
        # Rounding may turn an axis round, or mix axes of equal values, but changes no sample.
        return (draws @ axes * values.sqrt()) @ axes.T @ self._root.T

    def margins(
        self, c: int, opponents: Sequence[int], samples: torch.Tensor, draws: torch.Tensor
    ) -> torch.Tensor:
        """Return minus twice the logarithms of the density ratios of left-out samples of class c.

        The shape is (n_shrinkages, n_samples, n_opponents); c is less likely where they are
        negative. The samples are relative to the mean, and one normal draw of each drives its w.
        """
        values, axes = self._spectrum(c)
        n, d, rho = float(self._gaussians.weights[c]), len(axes), self._shrinkages_of(c)
        k = n / (n - 1.0)
        mixed = (1.0 - rho) * k * values + rho
        white = torch.linalg.solve_triangular(self._root, samples.T, upper=False).T
        leverage = (1.0 - rho) * k / (n - 1.0) * (values / mixed).sum(1, keepdim=True)
        left = (1.0 - leverage).clamp_min(_LEAST_LEFT)
        share = leverage * (n - 1.0) / d
        spread = (2.0 / 9.0) * share.square() / ((n - 1.0) * left)
        ratio = (1.0 - spread + draws * spread.sqrt()).clamp_min(0.0) ** 3
        own = (
            k**2
            / left
            * ((1.0 / mixed) @ (white @ axes).square().T)
            / ratio.clamp_min(_LEAST_RATIO)
        )
        own += left.log() + mixed.log().sum(1, keepdim=True) + (d - len(values)) * rho.log()
        white += self._means[c]
        margins = []
        for r in opponents:
            values, axes = self._spectrum(r)
            rho = self._shrinkages_of(r)
            mixed = (1.0 - rho) * values + rho
            gaps = white - self._means[r]
            squares = (gaps @ axes).square()
            other = (1.0 / mixed) @ squares.T + mixed.log().sum(1, keepdim=True)
            if len(values) < d:
                rest = (gaps.square().sum(1) - squares.sum(1)).clamp_min(0.0)
                other += rest / rho + (d - len(values)) * rho.log()
            margins.append(other - own)
        return torch.stack(margins, dim=-1)

    def _shrinkages_of(self, c: int) -> torch.Tensor:
        """Return the shrinkages of class c that are tried, of shape (n_shrinkages, 1)."""
        weights = self._gaussians.weights
        if not self._has_rare:
            return self._shrinkages
        return shrinkages(weights[c], self._shrinkages, weights.mean())

    def opponents(self, c: int) -> list[int]:
        """Return the classes of the nearest means."""
        gaps = (self._means - self._means[c]).square().sum(1)
        gaps[c] = torch.inf
        n_opponents = min(_N_OPPONENTS, len(gaps) - 1)
        nearest: list[int] = gaps.topk(n_opponents, largest=False).indices.tolist()
        return nearest

    def _spectrum(self, c: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the eigenvalues of a class's covariance, and its axes, but for values of zero."""
        if c not in self._spectra:
            n, residual = float(self._gaussians.weights[c]), self._gaussians.residuals[c]
            rows = torch.linalg.solve_triangular(self._root, self._parts[c].T, upper=False).T
            if len(rows) < len(residual) and not bool(residual.any()):
                values, turns = torch.linalg.eigh(rows @ rows.T / n)
                kept = values > SUM_ROUNDING * values[-1:]
                values = values[kept]
                axes = rows.T @ turns[:, kept] / (n * values).sqrt()
            else:
                half = torch.linalg.solve_triangular(self._root, residual.diag(), upper=False)
                lost = torch.linalg.solve_triangular(self._root, half.T, upper=False)
                values, axes = torch.linalg.eigh((rows.T @ rows + lost) / n)
            self._spectra[c] = values.clamp_min(0.0), axes
        return self._spectra[c]
