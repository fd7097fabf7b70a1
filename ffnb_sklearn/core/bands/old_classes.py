"""Old classes, whose data is gone: their past in a layer, and their moments in new neurons."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..device import Array, as_array, as_tensor
from ..model import Model
from ..moments import ClassMoments, check_finite
from .activations import ACTIVATIONS
from .layers import Band
from .past import LayerMoments, Past
from .trained import BandMoments, trained_of

__all__ = ["append_band", "constant_inputs", "layer_past", "moments_in_band", "store_inputs_past"]


def store_inputs_past(model: Model, device: torch.device) -> Model:
    """Return the model with the past of psi_0, which later tasks then reuse."""
    trained = replace(trained_of(model), past=layer_past(model, 0, device))
    return replace(model, trained=trained)


def layer_past(model: Model, layer: int, device: torch.device) -> Past:
    """Return the past of a layer; that of the inputs continues the past that the model holds."""
    trained = trained_of(model)
    past = Past.empty(trained.layers.width(layer), device)
    stored_past = trained.past
    if layer == 0 and stored_past is not None:
        is_usable = stored_past.n_classes <= len(model.moments)
        if is_usable and stored_past.device == device:
            past = stored_past
    further_moments = []
    for number in range(past.n_classes, len(model.moments)):
        further_moments.append(trained.layer_moments(model.moments[number], number, layer))
    return past.extend(further_moments)


def constant_inputs(moments: Sequence[ClassMoments], rows: Array) -> npt.NDArray[np.bool_] | None:
    """Return in which columns all samples of some classes, and rows, have one value other than 0.

    None stands for no column. Columns that have not varied yet are not told from the others while
    no class is known, or if no column varies.
    """
    if not moments:
        return None
    n_inputs = rows.shape[1]
    is_constant: npt.NDArray[np.bool_] = (rows == rows[0]).all(axis=0) & (rows[0] != 0.0)
    for each in moments:
        has_value = each.mean[:n_inputs] == rows[0]
        varies = each.factor[:, :n_inputs].any(axis=0) | (each.residual[:n_inputs] > 0.0)
        is_constant &= has_value & ~varies
    if not is_constant.any() or is_constant.all():
        return None
    return is_constant


def append_band(
    model: Model, band: Band, owners: npt.NDArray[np.int64], device: torch.device
) -> Model:
    """Return the model with a further band, and the moments of the known classes in it.

    `owners` are the numbers of the classes of its neurons.
    """
    trained = trained_of(model)
    moments = _extend_moments(model, band, device)
    trained = replace(
        trained,
        layers=trained.layers.append_band(band),
        moments=moments,
        owners=np.append(trained.owners, owners),
    )
    return replace(model, trained=trained)


def _extend_moments(model: Model, band: Band, device: torch.device) -> tuple[BandMoments, ...]:
    """Return the moments of the classes in all trained neurons, those of a new band at the end."""
    trained = trained_of(model)
    below = []
    for number, moments in enumerate(model.moments):
        below.append(trained.layer_moments(moments, number, band.layer - 1))
    added = moments_in_band(below, band, trained.settings.old_statistics, device=device)
    extended = []
    for moments, in_neurons, (mean, factor, residual) in zip(
        model.moments, trained.moments, added, strict=True
    ):
        factor = factor.astype(moments.factor.dtype)
        extended.append(in_neurons.append(mean, factor, residual))
    return tuple(extended)


class MomentsInBand(NamedTuple):
    """Mean, columns of the factor, and residual of a class in the neurons of a band."""

    mean: Array
    factor: Array
    residual: Array


def moments_in_band(
    below: Sequence[LayerMoments], band: Band, old_statistics: str, *, device: torch.device
) -> list[MomentsInBand]:
    """Return the moments of classes in a band, given their moments in the layer below.

    With the statistics "zero", as in the paper, the null-space silences the neurons, so their
    output is the constant g(0), after any batch normalisation. "gaussian" assumes that the class is
    Gaussian below the band. Raise `ValueError` if a moment is not finite.
    """
    if not below:
        return []
    n_below = band.weights.shape[1]
    seen = []
    for layer in below:
        mean = layer.mean[:n_below]
        factor = layer.factor[:, :n_below]
        residual = layer.residual[:n_below]
        seen.append(LayerMoments(layer.weight, mean, factor, residual))
    if old_statistics == "zero":
        return _silent_moments(seen, band)
    return _gaussian_moments(seen, band, device)


def _response_map(band: Band) -> tuple[Array, Array]:
    """Return the rows and the offsets of the responses of a band, batch normalisation included."""
    if band.batch_norm is None:
        return band.weights, np.zeros(len(band))
    scale = band.batch_norm.scale
    return scale[:, None] * band.weights, -scale * band.batch_norm.mean


def _silent_moments(below: Sequence[LayerMoments], band: Band) -> list[MomentsInBand]:
    """Return the moments of neurons whose output is the constant g(offset)."""
    _, offset = _response_map(band)
    activation = ACTIVATIONS[band.activation]
    constant = band.scale * as_array(activation.value(as_tensor(offset)))
    no_variance = np.zeros_like(constant)
    silent = []
    for layer in below:
        no_factor = np.zeros((len(layer.factor), len(constant)))
        silent.append(MomentsInBand(constant, no_factor, no_variance))
    return silent


def _gaussian_moments(
    below: Sequence[LayerMoments], band: Band, device: torch.device
) -> list[MomentsInBand]:
    r"""Return the moments of neurons for classes that are Gaussian below the band.

    A class of weight n, mean :math:`\mu` and scatter :math:`F^\top F + \mathrm{diag}(v)` gives a
    neuron of weights w and output :math:`s\, g(z)` the response z, Gaussian with

    .. math:: E[z] = w \cdot \mu + b, \qquad
              n \mathrm{Var}[z] = |F w|^2 + \textstyle\sum_j v_j w_j^2 .

    The new column of the factor is :math:`s\, E[g'(z)]\, F w` (Stein's lemma, see
    `Activation.gaussian_moments`). The remainder of :math:`n s^2 \mathrm{Var}[g(z)]` is stored as
    the residual of the neuron.
    """
    rows, offset = _response_map(band)
    weights = as_tensor(rows, device=device)
    class_weights = as_tensor([[layer.weight] for layer in below], device=device)
    # Each product serves all classes, except for the products with their factors.
    means = _stacked([layer.mean for layer in below], device)
    residuals = _stacked([layer.residual for layer in below], device)
    responses = []
    for layer in below:
        factor = as_tensor(layer.factor, device=device)
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
    moments = []
    for mean, factor, residual in zip(output_means, factors, output_residuals, strict=True):
        moments.append(MomentsInBand(as_array(mean), as_array(factor), as_array(residual)))
    return moments


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
