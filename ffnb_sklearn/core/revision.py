"""Merge models; forget classes, or decay them."""

from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import replace
from operator import itemgetter

import numpy as np
import torch

from .bands.old_classes import append_band
from .device import plain_torch
from .likeness import LeftOutLikeness, pooled_likeness
from .model import Model
from .statistics import merge_classes


def forget_classes(model: Model, gone: Sequence[int]) -> Model:
    """Forget the classes with the numbers `gone`; the others keep their order.

    Their moments are discarded, and so their share in the past of the layers. Neurons trained for
    them stay, because the moments of other classes include these neurons.
    """
    kept = tuple(one for label, one in enumerate(model.moments) if label not in gone)
    left_out = tuple(one for label, one in enumerate(model.left_out) if label not in gone)
    return replace(
        model, moments=kept, inputs_past=None, earlier=None, n_newest=0, left_out=left_out
    )


def decay_classes(model: Model, factor: float, positions: Container[int]) -> Model:
    """Multiply the weights of all samples so far of some classes, given by number, by a factor > 0.

    Bands stay as they are; the share of the classes in the past of the layers gets the factor too.
    With ``band_size=0`` and ``rank=None`` the model equals one of samples with such weights.
    """
    moments = tuple(
        one.weighted(factor) if label in positions else one
        for label, one in enumerate(model.moments)
    )
    return replace(model, moments=moments, inputs_past=None, earlier=None)


@plain_torch
def merge_models(
    first: Model, second: Model, positions: Sequence[int], *, device: torch.device
) -> Model:
    """Merge two models of the same inputs, settings and shared band, from disjoint samples.

    The bands of the second follow those of the first. The classes of each model get moments in the
    other's bands as old classes do in new bands. `positions` are the numbers in the result of the
    second model's classes: classes of both keep their number in the first; the other classes follow
    in any order.
    """
    left = _with_bands_of(first, second, device)
    right = _with_bands_of(second, first, device)
    end = left.features.n_features
    n_fixed = first.features.n_inputs + len(first.features.shared)
    n_second = end - first.features.n_features
    # The second model has its own bands before those of the first.
    order = np.r_[:n_fixed, n_fixed + n_second : end, n_fixed : n_fixed + n_second]
    # The second may have met its classes in another order than the result numbers them.
    aligned = sorted(zip(positions, right.moments, strict=True), key=itemgetter(0))
    new = ((position, one.take(order)) for position, one in aligned)
    pairs = first.features.shared.pairs()
    moments = merge_classes(left.moments, new, first.settings.rank, device=device, pairs=pairs)
    return replace(
        left,
        moments=moments,
        inputs_past=None,
        earlier=None,
        null_space_dims=first.null_space_dims + second.null_space_dims,
        n_newest=0,
        loss_curve=(),
        left_out=_joined_likeness(first, second, positions),
    )


def _joined_likeness(
    first: Model, second: Model, positions: Sequence[int]
) -> tuple[LeftOutLikeness, ...]:
    """Return the left-out likeness of the classes of both models, up to the last that has any."""
    parts = defaultdict[int, list[tuple[LeftOutLikeness, float]]](list)
    for model, numbers in ((first, range(len(first.moments))), (second, positions)):
        for number, one, moments in zip(numbers, model.left_out, model.moments, strict=False):
            parts[number].append((one, moments.weight))
    return tuple(pooled_likeness(parts[number]) for number in range(max(parts, default=-1) + 1))


def _with_bands_of(model: Model, other: Model, device: torch.device) -> Model:
    """Append the bands of another model to a model."""
    features = model.features
    for band in other.features.bands:
        n_own = len(features.layer(band.layer - 1)) if band.layer > 1 else 0
        # The bands keep their own inputs, and do not see neurons of the model.
        weights = np.pad(band.weights, ((0, 0), (n_own, 0)))
        model = append_band(model, replace(band, weights=weights), device)
    return model
