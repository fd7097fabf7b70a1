"""Old classes, whose data is gone: their past in a layer, and their moments in new neurons."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..class_moments import ClassMoments, Columns
from ..device import Array, as_array, as_tensor
from ..features.activations import ACTIVATIONS
from ..features.feature_map import Band, Index, as_slice
from ..model import Model
from ..past import Past
from ..scatter import check_finite

__all__ = ["append_band", "extend_moments", "layer_past", "store_inputs_past"]


def store_inputs_past(model: Model, device: torch.device) -> Model:
    """Return the model with the past of psi_0, which later tasks then reuse."""
    return replace(model, inputs_past=layer_past(model, 0, device))


def layer_past(model: Model, layer: int, device: torch.device) -> Past:
    """Return the past of a layer; that of the inputs continues the past that the model holds."""
    columns = model.features.layer(layer)
    past = Past.empty(len(columns), device)
    stored_past = model.inputs_past
    if layer == 0 and stored_past is not None:
        is_usable = stored_past.n_classes <= len(model.moments)
        if is_usable and stored_past.device == device:
            past = stored_past
    return past.extend(model.moments, as_slice(columns))


def append_band(model: Model, band: Band, device: torch.device) -> Model:
    """Return the model with a further band, and the moments of the known classes in it."""
    features = model.features.append_band(band)
    moments = extend_moments(
        model.moments,
        band,
        features.inputs_of(band),
        model.settings.old_statistics,
        device=device,
    )
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
    below the band. Raise `ValueError` if a new moment is not finite.
    """
    if not moments:
        return ()
    rows = band.weights
    offset = np.zeros(len(rows))
    if band.batch_norm is not None:
        rows = band.batch_norm.scale[:, None] * rows
        offset = -band.batch_norm.scale * band.batch_norm.mean
    if old_statistics == "zero":
        return _append_silence(moments, band, offset)
    return _append_gaussian(moments, band, as_slice(inputs), rows, offset, device)


def _append_silence(
    moments: Sequence[ClassMoments], band: Band, offset: Array
) -> tuple[ClassMoments, ...]:
    """Append the moments of neurons whose output is the constant g(offset)."""
    activation = ACTIVATIONS[band.activation]
    constant = band.scale * as_array(activation.value(as_tensor(offset)))
    no_variance = np.zeros_like(constant)
    extended = []
    for one_class in moments:
        no_factor = np.zeros((one_class.rank, len(constant)))
        extended.append(one_class.append(constant, no_factor, no_variance))
    return tuple(extended)


def _append_gaussian(
    moments: Sequence[ClassMoments],
    band: Band,
    columns: Columns,
    rows: Array,
    offset: Array,
    device: torch.device,
) -> tuple[ClassMoments, ...]:
    r"""Append the moments of neurons for classes that are Gaussian below the band.

    A class of weight n, mean :math:`\mu` and scatter :math:`F^\top F + \mathrm{diag}(v)` gives a
    neuron of weights w and output :math:`s\, g(z)` the response z, Gaussian with

    .. math:: E[z] = w \cdot \mu + b, \qquad
              n \mathrm{Var}[z] = |F w|^2 + \textstyle\sum_j v_j w_j^2 .

    The new column of the factor is :math:`s\, E[g'(z)]\, F w` (Stein's lemma, see
    `Activation.gaussian_moments`). The remainder of :math:`n s^2 \mathrm{Var}[g(z)]` is stored as
    the residual of the neuron.
    """
    weights = as_tensor(rows, device=device)
    class_weights = as_tensor([[one_class.weight] for one_class in moments], device=device)
    # Each product serves all classes, except for the products with their factors.
    means = _stacked([one_class.mean[columns] for one_class in moments], device)
    residuals = _stacked([one_class.residual[columns] for one_class in moments], device)
    responses = []
    for one_class in moments:
        factor = as_tensor(one_class.columns(columns), device=device)
        responses.append(factor @ weights.T)
    response_means = means @ weights.T + as_tensor(offset, device=device)
    response_scatters = residuals @ weights.square().T
    response_scatters += _sums_of_squares(responses)
    activation = ACTIVATIONS[band.activation]
    output = activation.gaussian_moments(response_means, response_scatters / class_weights)
    output_means = band.scale * output.mean
    slopes = band.scale * output.slope
    factors = [response * slope for response, slope in zip(responses, slopes, strict=True)]
    explained = _sums_of_squares(factors)
    output_scatters = band.scale**2 * class_weights * output.variance
    output_residuals = (output_scatters - explained).clamp_min(0.0)
    check_finite(float(output_means.sum()), float(explained.sum()), float(output_residuals.sum()))
    extended = []
    new_moments = zip(
        moments, as_array(output_means), factors, as_array(output_residuals), strict=True
    )
    for one_class, mean, factor, residual in new_moments:
        extended.append(one_class.append(mean, as_array(factor), residual))
    return tuple(extended)


def _stacked(rows: Sequence[Array], device: torch.device) -> torch.Tensor:
    """Return one row per class as a tensor."""
    return as_tensor(np.stack(rows), device=device)


def _sums_of_squares(factors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the sum of squares in each column of each factor, of shape (n_classes, n_columns)."""
    sums = []
    for factor in factors:
        squares = factor.square()
        sums.append(squares.sum(0))
    return torch.stack(sums)
