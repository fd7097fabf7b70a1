r"""A test of classes that are Gaussian in the inputs.

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

References
----------
.. [1] R. C. Geary. The ratio of the mean deviation to the standard deviation as a test of
   normality. Biometrika 27(3/4), 1935.
"""

from collections.abc import Sequence

import torch

from ..device import as_tensor
from ..features.shared_band import SharedBand
from ..linalg import SUM_ROUNDING
from .gaussians import ClassGaussians

__all__ = ["excess_deviation"]

# Neurons that are tested: far more than directions in which classes usually differ.
_N_TESTED = 256


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
