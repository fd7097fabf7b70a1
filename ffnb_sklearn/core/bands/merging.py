"""Merge models with trained bands."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..device import plain_torch
from ..merge_and_forget import merge_left_out, merge_moments
from ..model import Model
from .complete_moments import replace_complete_moments
from .old_classes import append_band
from .trained import trained_of

__all__ = ["merge_models_with_bands"]


@plain_torch
def merge_models_with_bands(
    first: Model, second: Model, positions: Sequence[int], *, device: torch.device
) -> Model:
    """Merge two models of the same inputs, settings and shared neurons, from disjoint samples.

    The bands of the second model follow the bands of the first. The classes of each model get
    moments in the other's bands as old classes do in new bands. `positions` are the numbers in the
    result of the second model's classes: classes of both keep their number in the first; the other
    classes follow in any order.
    """
    trained = trained_of(first)
    other = trained_of(second)
    result = _append_bands(first, second, positions, device)
    extended = _append_bands(second, first, range(len(first.moments)), device)
    n_first = trained.layers.n_neurons
    n_second = other.layers.n_neurons
    # The extended second model has its own bands before the bands of the first.
    order = np.r_[n_second : n_second + n_first, :n_second]
    in_neurons = []
    for moments, each in zip(extended.moments, trained_of(extended).moments, strict=True):
        in_neurons.append(each.take(order, moments.rank))
    reordered = replace(trained_of(extended), moments=tuple(in_neurons))
    extended = replace(extended, trained=reordered)
    merged = merge_moments(
        [result.complete_moments(number) for number in range(len(result.moments))],
        [extended.complete_moments(number) for number in range(len(extended.moments))],
        positions,
        first,
        device=device,
    )
    merged_state = replace(
        trained_of(result),
        null_space_dims=trained.null_space_dims + other.null_space_dims,
        n_newest=0,
        loss_curve=(),
        past=None,
    )
    result = replace(
        result,
        trained=merged_state,
        chosen_from=(),
        earlier=None,
        left_out=merge_left_out(first, second, positions),
    )
    return replace_complete_moments(result, merged, range(len(merged)))


def _append_bands(
    model: Model, other: Model, positions: Sequence[int], device: torch.device
) -> Model:
    """Append the bands of another model, whose classes have some numbers, to a model."""
    layers = trained_of(model).layers
    other_trained = trained_of(other)
    numbers = np.append(np.asarray(positions, dtype=np.int64), -1)
    owners = numbers[other_trained.owners]
    start = 0
    for band in other_trained.layers.bands:
        stop = start + len(band)
        n_below = layers.width(band.layer - 1) if band.layer > 1 else 0
        # The bands keep their inputs, and do not see neurons of the model.
        weights = np.pad(band.weights, ((0, 0), (n_below, 0)))
        model = append_band(model, replace(band, weights=weights), owners[start:stop], device)
        start = stop
    return model
