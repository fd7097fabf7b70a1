"""Moments of old classes in new neurons, without the data of these classes."""

from collections.abc import Sequence

import numpy as np
import torch

from ..device import as_array, as_tensor
from ..statistics import Array, ClassMoments, check_finite
from .activations import ACTIVATIONS, gaussian_moments
from .feature_map import Band, Index, as_slice

__all__ = ["extend_moments"]


def extend_moments(
    moments: Sequence[ClassMoments],
    band: Band,
    inputs: Index,
    old_statistics: str,
    *,
    device: torch.device,
) -> tuple[ClassMoments, ...]:
    r"""Append the moments of classes in the neurons of a new band, which sees some `inputs`.

    "zero" follows the paper: the null-space silences the new neurons, so their output is the
    constant g(0), after any batch normalisation. "gaussian" assumes that the class is Gaussian
    below the band. This gives the means and variances of the neurons, and their covariance with
    every other feature u by Stein's lemma,
    :math:`\mathrm{Cov}(u, g(z)) = \mathrm{Cov}(u, z) E[g'(z)]`. The rest of the variance is stored
    as the residual of each neuron. Raise `ValueError` if a new moment is not finite.
    """
    if not moments:
        return ()
    if old_statistics == "zero":
        return _silenced(moments, band, device)
    rows, offset = _affine(band)
    weights, columns = as_tensor(rows, device=device), as_slice(inputs)
    # Each product serves all classes, except for the products with their factors.
    responses = torch.cat([_columns(one, columns, device) @ weights.T for one in moments])
    lengths = torch.tensor([one.rank for one in moments], device=device)
    owners = torch.arange(len(moments), device=device).repeat_interleave(lengths)
    masses = as_tensor([[one.weight] for one in moments], device=device)
    means = as_tensor(np.stack([one.mean[columns] for one in moments]), device=device)
    residuals = as_tensor(np.stack([one.residual[columns] for one in moments]), device=device)
    mean = means @ weights.T + as_tensor(offset, device=device)
    scatter = residuals @ weights.square().T
    scatter.index_add_(0, owners, responses.square())
    output = gaussian_moments(band.activation, mean, scatter / masses)
    output_mean = band.scale * output.mean
    coupled = responses * (band.scale * output.slope)[owners]
    along = torch.zeros_like(scatter).index_add_(0, owners, coupled.square())
    own = (band.scale**2 * masses * output.variance - along).clamp_min(0.0)
    check_finite(*(float(one.sum()) for one in (output_mean, along, own)))
    parts = np.split(as_array(coupled), np.cumsum(lengths.tolist())[:-1])
    new = zip(moments, as_array(output_mean), parts, as_array(own), strict=True)
    return tuple(one.append(*its) for one, *its in new)


def _silenced(
    moments: Sequence[ClassMoments], band: Band, device: torch.device
) -> tuple[ClassMoments, ...]:
    """Append the constant output g(0) of the neurons of a new band."""
    shift = as_tensor(_affine(band)[1], device=device)
    constant = band.scale * as_array(ACTIVATIONS[band.activation](shift))
    width = len(constant)
    return tuple(
        one.append(constant, np.zeros((one.rank, width)), np.zeros(width)) for one in moments
    )


def _columns(moments: ClassMoments, columns: Index | slice, device: torch.device) -> torch.Tensor:
    """Return some columns of a factor, without a transfer of other columns to the device."""
    return as_tensor(moments.columns(columns), device=device)


def _affine(band: Band) -> tuple[Array, Array]:
    """Return the rows and offsets of the input of the activation."""
    if band.batch_norm is None:
        return band.weights, np.zeros(len(band.weights))
    scale = band.batch_norm.scale
    return scale[:, None] * band.weights, -scale * band.batch_norm.mean
