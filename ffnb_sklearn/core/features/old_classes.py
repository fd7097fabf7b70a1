"""Moments of old classes in new neurons, without the data of these classes."""

from collections.abc import Sequence

import numpy as np
import torch

from ..class_moments import ClassMoments
from ..device import as_array, as_tensor
from ..scatter import check_finite
from .activations import ACTIVATIONS
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
    below the band (`Activation.gaussian_moments`). The rest of the variance is stored as the
    residual of each neuron. Raise `ValueError` if a new moment is not finite.
    """
    activation = ACTIVATIONS[band.activation]
    rows, offset = band.weights, np.zeros(len(band.weights))
    if band.batch_norm is not None:
        rows = band.batch_norm.scale[:, None] * rows
        offset = -band.batch_norm.scale * band.batch_norm.mean
    if old_statistics == "zero":
        constant = band.scale * as_array(activation.value(as_tensor(offset)))
        silent = np.zeros_like(constant)
        return tuple(
            one.append(constant, np.zeros((one.rank, len(silent))), silent) for one in moments
        )
    if not moments:
        return ()
    weights, columns = as_tensor(rows, device=device), as_slice(inputs)
    # Each product serves all classes, except for the products with their factors.
    factors = (as_tensor(one.columns(columns), device=device) for one in moments)
    responses = torch.cat([one @ weights.T for one in factors])
    lengths = torch.tensor([one.rank for one in moments], device=device)
    owners = torch.arange(len(moments), device=device).repeat_interleave(lengths)
    masses = as_tensor([[one.weight] for one in moments], device=device)
    means = as_tensor(np.stack([one.mean[columns] for one in moments]), device=device)
    residuals = as_tensor(np.stack([one.residual[columns] for one in moments]), device=device)
    mean = means @ weights.T + as_tensor(offset, device=device)
    scatter = residuals @ weights.square().T
    scatter.index_add_(0, owners, responses.square())
    output = activation.gaussian_moments(mean, scatter / masses)
    output_mean = band.scale * output.mean
    coupled = responses * (band.scale * output.slope)[owners]
    along = torch.zeros_like(scatter).index_add_(0, owners, coupled.square())
    own = (band.scale**2 * masses * output.variance - along).clamp_min(0.0)
    check_finite(*(float(one.sum()) for one in (output_mean, along, own)))
    parts = np.split(as_array(coupled), np.cumsum(lengths.tolist())[:-1])
    new = zip(moments, as_array(output_mean), parts, as_array(own), strict=True)
    return tuple(one.append(*its) for one, *its in new)
