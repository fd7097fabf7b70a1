"""How classes whose data is gone look in neurons that came after them."""

import numpy as np
import torch

from .activations import ACTIVATIONS, gaussian_moments
from .device import as_array, as_tensor
from .features import Band, Index
from .statistics import Array, ClassMoments

__all__ = ["extend_moments"]


def extend_moments(
    moments: ClassMoments, band: Band, inputs: Index, old_statistics: str, *, device: torch.device
) -> ClassMoments:
    r"""Moments of a class with a new band's neurons appended.

    "zero" is the paper's answer: the null-space silences the class in the new neurons, so they
    give the constant g(0), or what batch normalisation makes of it. "gaussian" takes the class
    to be Gaussian below the band, which settles the neurons' means and variances, and their
    covariance with every other feature u by Stein's lemma,
    :math:`\mathrm{Cov}(u, g(z)) = \mathrm{Cov}(u, z) E[g'(z)]`. What the nonlinearity adds
    beyond that is kept as variance of each neuron alone.

    Parameters
    ----------
    moments : ClassMoments
        Of the features below the band.
    band : Band
        The new neurons.
    inputs : ndarray of shape (n_inputs,)
        Features that they look at.
    old_statistics : {"gaussian", "zero"}
        Which answer.
    device : torch.device
        Where to compute.

    Returns
    -------
    ClassMoments
        The old features' moments are unchanged.
    """
    rows, offset = _affine(band)
    weights, shift = as_tensor(rows, device=device), as_tensor(offset, device=device)
    factor = as_tensor(moments.factor, device=device)
    if old_statistics == "zero":
        constant = ACTIVATIONS[band.activation](shift)
        silent = weights.new_zeros((len(factor), len(weights)))
        return moments.append(as_array(constant), as_array(silent), as_array(0.0 * constant))
    columns = as_tensor(inputs, device=device, dtype=torch.int64)
    residual = as_tensor(moments.residual, device=device)[columns]
    mean = weights @ as_tensor(moments.mean, device=device)[columns] + shift
    response = factor[:, columns] @ weights.T
    scatter = response.square().sum(0) + weights.square() @ residual
    output = gaussian_moments(band.activation, mean, scatter / moments.weight)
    coupled = response * output.slope
    own = (moments.weight * output.variance - coupled.square().sum(0)).clamp_min(0.0)
    return moments.append(as_array(output.mean), as_array(coupled), as_array(own))


def _affine(band: Band) -> tuple[Array, Array]:
    """Rows and offsets of what goes into the activation."""
    if band.batch_norm is None:
        return band.weights, np.zeros(len(band.weights))
    scale = band.batch_norm.scale
    return scale[:, None] * band.weights, -scale * band.batch_norm.mean
