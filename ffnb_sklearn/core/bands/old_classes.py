"""Old classes, whose data is gone: their past in a layer, and their moments in new neurons."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..device import as_array, as_tensor
from ..features.activations import ACTIVATIONS
from ..features.feature_map import Band, Index, as_slice
from ..model import Model
from ..past import Past
from ..statistics import ClassMoments, check_finite

__all__ = ["append_band", "extend_moments", "layer_past", "store_inputs_past"]


def store_inputs_past(model: Model, device: torch.device) -> Model:
    """Return the model with the past of psi_0, so that it is not derived again."""
    return replace(model, inputs_past=layer_past(model, 0, device))


def layer_past(model: Model, layer: int, device: torch.device) -> Past:
    """Return the past of a layer, from that of the first classes if it is known."""
    columns = model.features.layer(layer)
    past = model.inputs_past if layer == 0 else None
    if past is None or past.device != device or past.n_classes > len(model.moments):
        past = Past.of_no_class(len(columns), device)
    if past.n_classes == len(model.moments):
        return past
    return past.extended(model.moments, as_slice(columns))


def append_band(model: Model, band: Band, device: torch.device) -> Model:
    """Return the model with a further band, and the moments of the known classes in it."""
    features = model.features.with_band(band)
    how, inputs = model.settings.old_statistics, features.inputs_of(band)
    moments = extend_moments(model.moments, band, inputs, how, device=device)
    return replace(model, features=features, moments=moments)


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
