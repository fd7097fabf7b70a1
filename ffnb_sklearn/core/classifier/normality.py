r"""A test of classes that are Gaussian in the inputs.

If a class is Gaussian, the mean :math:`m` and the variance :math:`s^2` of :math:`z = r \cdot x`
determine the mean of the neuron :math:`|z|` of the shared band. With :math:`t = m / s`,

.. math:: E|z| = s \, \bigl(2 \varphi(t) + t (2 \Phi(t) - 1)\bigr) .

The neurons thus repeat the test of normality by the mean absolute deviation [1]_. If m and s are
estimated from the same n samples, the deviation of the mean of :math:`|z| / s` has no part along z
and :math:`z^2`. By the Hermite series of :math:`|z|`, the deviations of two neurons with the
correlation r have the covariance

.. math:: K_{ij} = \frac{1}{n} \sum_{k \ge 3} c_k(t_i) \, c_k(t_j) \, r_{ij}^k , \qquad
          c_k(t) = \frac{2 \varphi(t) \, \mathrm{He}_{k-2}(-t)}{\sqrt{k!}} ,

and the sum over k of :math:`c_k^2` is

.. math:: v = 1 + t^2 - \bigl(2 \varphi(t) + t (2 \Phi(t) - 1)\bigr)^2
          - (2 \Phi(t) - 1)^2 - 2 \varphi(t)^2 .

The estimates alone lower the expected deviation by :math:`\varphi(t) (1 + t^2) / (2 n)`, which is
added. Two sums over the neurons and classes are about standard normal for Gaussian classes.

*Of squares*, which shows classes that differ from Gaussian ones in some directions: the squared
deviations, divided by their expectation tr K, have the variance
:math:`2 \, \mathrm{tr} K^2 / (\mathrm{tr} K)^2` in each class. The approximation of Wilson and
Hilferty [2]_ makes a normal variable of their mean over the classes.

*Signed*, which shows lighter tails in all directions, as of shells: the deviations are summed with
the weights :math:`u = \varphi(t) (1 - t^2)` by which an excess of kurtosis changes the mean of
:math:`|z| / s`, and divided by the root of :math:`u^\top K u`. Heavier tails make the sum negative:
Gaussian densities suit them better than shells.

References
----------
.. [1] R. C. Geary. The ratio of the mean deviation to the standard deviation as a test of
   normality. Biometrika 27(3/4), 1935.
.. [2] E. B. Wilson and M. M. Hilferty. The distribution of chi-square. Proceedings of the National
   Academy of Sciences 17(12), 1931.
"""

from collections.abc import Sequence

import torch

from ..device import as_tensor
from ..features.shared_band import SharedBand
from ..linalg import SUM_ROUNDING
from .gaussians import ClassGaussians

__all__ = ["deviation_score"]

# Most neurons that are tested for a class: more than directions in which classes usually differ.
# Most of all classes together, which bounds the time, and least for a class.
_MOST_NEURONS, _MOST_IN_TOTAL, _FEWEST_NEURONS = 512, 4096, 16

# Terms of the Hermite series; the rest counts as uncorrelated.
_N_TERMS = 10


def deviation_score(gaussians: ClassGaussians, classes: Sequence[int], shared: SharedBand) -> float:
    """Return the deviation from Gaussian classes, in standard errors: the larger of two sums.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes over the inputs and the shared band.
    classes : sequence of int
        Classes that are tested.
    shared : SharedBand
        The shared band; its rectified neurons without a bias are tested, which are mirrored.

    Returns
    -------
    float
        The larger sum; each is about standard normal for Gaussian classes, and larger for others.
        Infinite if nothing can be tested.
    """
    neurons = shared.moduli()
    n_neurons = max(_FEWEST_NEURONS, _MOST_IN_TOTAL // max(len(classes), 1))
    stop = neurons.start + min(n_neurons, _MOST_NEURONS)
    neurons = slice(neurons.start, min(neurons.stop, stop))
    n_inputs = shared.rows.shape[1] - 1
    directions = as_tensor(shared.rows[neurons, :-1], device=gaussians.means.device).T
    outputs = slice(n_inputs + neurons.start, n_inputs + neurons.stop)
    parts, ratios = gaussians.parts(), list[torch.Tensor]()
    variances, signed = list[torch.Tensor](), list[torch.Tensor]()
    for c in classes:
        n = gaussians.weights[c]
        mean = gaussians.means[c, :n_inputs] @ directions
        rows = parts[c][:, :n_inputs] @ directions
        weighted = gaussians.residuals[c, :n_inputs, None] * directions
        covariance = (rows.T @ rows + directions.T @ weighted) / (n - 1.0)
        varying = covariance.diagonal() > SUM_ROUNDING * mean.square()
        spread = covariance.diagonal()[varying].sqrt()
        t = mean[varying] / spread
        density = torch.exp(-0.5 * t.square()) / (2.0 * torch.pi) ** 0.5
        sign = torch.erf(t / 2**0.5)
        expected = 2.0 * density + t * sign
        found = 2.0**0.5 * gaussians.means[c, outputs][varying] / spread
        values = 1.0 + t.square() - expected.square() - sign.square() - 2.0 * density.square()
        total = values.clamp_min(0.0).sum()
        correlations = covariance[varying][:, varying] / torch.outer(spread, spread)
        covariances = _covariance(t, density, values, correlations)
        deviations = found - expected + density * (1.0 + t.square()) / (2.0 * n)
        ratios.append(n * deviations.square().sum() / total)
        variances.append(2.0 * covariances.square().sum() / total.square())
        weights = density * (1.0 - t.square())
        signed.append(n.sqrt() * (weights @ deviations) / (weights @ covariances @ weights).sqrt())
    if not ratios:
        return torch.inf
    variance = torch.stack(variances).sum() / len(ratios) ** 2 / 9.0
    squares = (torch.stack(ratios).mean() ** (1.0 / 3.0) - 1.0 + variance) / variance.sqrt()
    common = torch.stack(signed).sum() / len(signed) ** 0.5
    score = float(torch.maximum(squares, common))
    return score if score == score else torch.inf


def _covariance(
    t: torch.Tensor, density: torch.Tensor, values: torch.Tensor, correlations: torch.Tensor
) -> torch.Tensor:
    """Return n K, with the diagonal v."""
    powers, covariance = correlations.square(), torch.zeros_like(correlations)
    before, hermite, factorial = torch.zeros_like(t), torch.ones_like(t), 2.0
    for k in range(3, 3 + _N_TERMS):
        before, hermite = hermite, -t * hermite - (k - 3.0) * before
        factorial *= k
        powers *= correlations
        root = density * hermite * (4.0 / factorial) ** 0.5
        covariance.addcmul_(powers, torch.outer(root, root))
    covariance.diagonal().copy_(values)
    return covariance
