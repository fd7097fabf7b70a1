r"""Classes that are Gaussian in the inputs: a test of it, and their most likely covariances.

A neuron :math:`|z|` of the shared band, :math:`z = r \cdot x`, has a mean that the mean
:math:`m` and the variance :math:`s^2` of z determine if the class is Gaussian: with
:math:`t = m / s`,

.. math:: E|z| = s \, \bigl(2 \varphi(t) + t (2 \Phi(t) - 1)\bigr) .

The neurons thus repeat, in many random directions, the test of normality by the mean absolute
deviation [1]_. If m and s are estimated from the same n samples, the squared deviation of the mean
of :math:`|z| / s` has the expectation

.. math:: \frac{1}{n} \Bigl(1 + t^2 - \bigl(2 \varphi(t) + t (2 \Phi(t) - 1)\bigr)^2
          - (2 \Phi(t) - 1)^2 - 2 \varphi(t)^2\Bigr) :

the variance of the absolute value less the parts along z and :math:`z^2`.

*Covariances.* Shrinkage and ridge of Gaussian classes maximise the likelihood of left-out samples
[2]_. In the metric of :math:`T = \Sigma_{pooled} + \epsilon v P` the covariance
:math:`S_c = (1 - \rho) \Sigma_c + \rho T` of a class has the eigenvalues
:math:`s = (1 - \rho) k \lambda + \rho` with :math:`k = n / (n - 1)` and those of
:math:`\Sigma_c`, :math:`\lambda`. Without a sample :math:`\mu_c + z` it loses
:math:`a z z^\top`, :math:`a = (1 - \rho) n / (n - 1)^2`. With the mean
:math:`h = \sum \lambda / s` of :math:`z^\top S_c^{-1} z` over the samples, the negative
logarithm of the likelihood of a sample is, but for a constant,

.. math:: \frac{1}{2} \Bigl(\log \det T + \sum \log s + \log (1 - a h)
          + k^2 \frac{h}{1 - a h}\Bigr) .

Variance outside of the kept axes of a class counts in the inputs that have it or, if the class has
fewer axes than inputs, evenly along all that its axes leave out.

References
----------
.. [1] R. C. Geary. The ratio of the mean deviation to the standard deviation as a test of
   normality. Biometrika 27(3/4), 1935.
.. [2] J. P. Hoffbeck and D. A. Landgrebe. Covariance matrix estimation and classification with
   limited training data. IEEE Transactions on Pattern Analysis and Machine Intelligence 18(7),
   1996.
"""

import math
from collections.abc import Sequence
from itertools import product

import torch

from ..device import as_tensor
from ..features.shared_band import SharedBand
from ..linalg import SUM_ROUNDING
from .densities import shared_covariance
from .gaussians import ClassGaussians

__all__ = ["excess_deviation", "most_likely"]

# Neurons that are tested: far more than directions in which classes usually differ.
_N_TESTED = 256

# Shrinkages and ridges of T that are tried.
_SHRINKAGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
_RIDGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)

# Least share of a left-out sample's density that is left without it.
_LEAST_LEFT = 1e-3


def excess_deviation(
    gaussians: ClassGaussians, classes: Sequence[int], shared: SharedBand
) -> float:
    """Return the squared deviations from Gaussian classes, relative to their expectation.

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
        About 1 for Gaussian classes, and larger for others; infinite if nothing can be tested.
    """
    neurons = shared.moduli()
    neurons = slice(neurons.start, min(neurons.stop, neurons.start + _N_TESTED))
    n_inputs = shared.rows.shape[1] - 1
    directions = as_tensor(shared.rows[neurons, :-1], device=gaussians.means.device).T
    outputs = slice(n_inputs + neurons.start, n_inputs + neurons.stop)
    parts, ratios = gaussians.parts(), list[torch.Tensor]()
    for c in classes:
        n = gaussians.weights[c]
        mean = gaussians.means[c, :n_inputs] @ directions
        along = (parts[c][:, :n_inputs] @ directions).square().sum(0)
        variance = (along + gaussians.residuals[c, :n_inputs] @ directions.square()) / (n - 1.0)
        varying = variance > SUM_ROUNDING * mean.square()
        spread = variance[varying].sqrt()
        t = mean[varying] / spread
        density, sign = (
            torch.exp(-0.5 * t.square()) / (2.0 * torch.pi) ** 0.5,
            torch.erf(t / 2**0.5),
        )
        expected = 2.0 * density + t * sign
        found = 2.0**0.5 * gaussians.means[c, outputs][varying] / spread
        variances = 1.0 + t.square() - expected.square() - sign.square() - 2.0 * density.square()
        ratios.append(n * (found - expected).square().sum() / variances.clamp_min(0.0).sum())
    found_ratio = float(torch.stack(ratios).mean()) if ratios else torch.inf
    return found_ratio if found_ratio == found_ratio else torch.inf


def most_likely(gaussians: ClassGaussians, classes: Sequence[int]) -> tuple[float, float]:
    """Return the shrinkage and the ridge of T that are most likely for left-out samples.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes over the inputs.
    classes : sequence of int
        Classes whose samples count, each of two samples or more.

    Returns
    -------
    shrinkage, ridge : float
        rho, and epsilon of T.
    """
    losses = dict.fromkeys(product(_SHRINKAGES, _RIDGES), 0.0)
    weights, parts = gaussians.weights.tolist(), gaussians.parts()
    width = gaussians.means.shape[1]
    identity = torch.eye(width, dtype=gaussians.means.dtype, device=gaussians.means.device)
    for ridge in _RIDGES:
        base = shared_covariance(gaussians, 1.0, ridge)
        log_determinant, inverse = base.log_determinant(), base.solve(identity)
        for c in classes:
            n, rows, residual = weights[c], parts[c], gaussians.residuals[c]
            missing = width - len(rows)
            if missing <= 0 and bool(residual.any()):
                rows = torch.cat([rows, residual.sqrt().diag()])
            values = torch.linalg.eigvalsh(rows @ inverse @ rows.T / n).clamp_min(0.0)
            # More rows than inputs have values of zero, and fewer rows lack some.
            values = values[-width:]
            if missing > 0:
                rest = inverse.diagonal() @ residual / n / missing
                values = torch.cat([values, rest.expand(missing)])
            for shrinkage in _SHRINKAGES:
                losses[shrinkage, ridge] += n * (
                    log_determinant + _left_out_loss(values, n, shrinkage)
                )
    return min(losses, key=losses.__getitem__)


def _left_out_loss(values: torch.Tensor, n: float, shrinkage: float) -> float:
    """Return minus twice the logarithm of the likelihood of a sample, without that of T."""
    factor = n / (n - 1.0)
    mixed = (1.0 - shrinkage) * factor * values + shrinkage
    h = float((values / mixed).sum())
    left = max(1.0 - (1.0 - shrinkage) * factor / (n - 1.0) * h, _LEAST_LEFT)
    return float(mixed.log().sum()) + math.log(left) + factor**2 * h / left
