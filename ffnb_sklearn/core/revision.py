"""Merge models; forget, decay or join classes."""

from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import replace
from operator import itemgetter

import numpy as np
import torch

from .bands.old_classes import append_band
from .class_moments import ClassMoments, merge, merge_classes, subtract
from .device import Array, plain_torch
from .likeness import LeftOutLikeness, pooled_likeness
from .linalg import ENERGY_ROUNDING
from .model import Model, Task, updated_moments


def forget_classes(model: Model, gone: Sequence[int]) -> Model:
    """Forget the classes with the numbers `gone`; the others keep their order.

    Their moments are discarded, and so their share in the past of the layers. Neurons trained for
    them stay, because the moments of other classes include these neurons.
    """
    moments = []
    for label, class_moments in enumerate(model.moments):
        if label not in gone:
            moments.append(class_moments)
    left_out = []
    for label, likeness in enumerate(model.left_out):
        if label not in gone:
            left_out.append(likeness)
    return replace(
        model,
        moments=tuple(moments),
        inputs_past=None,
        earlier=None,
        n_newest=0,
        left_out=tuple(left_out),
    )


def decay_classes(model: Model, factor: float, positions: Container[int]) -> Model:
    """Multiply the weights of all samples so far of some classes, given by number, by a factor > 0.

    Bands do not change; the share of the classes in the past of the layers gets the factor too.
    With ``band_size=0`` and ``rank=None`` the model equals a model that learned samples of these
    weights.
    """
    moments = list(model.moments)
    left_out = list(model.left_out)
    for label, each in enumerate(moments):
        if label in positions:
            moments[label] = each.scale_weights(factor)
            if label < len(left_out):
                left_out[label] = left_out[label].scale_weights(factor)
    return replace(
        model, moments=tuple(moments), inputs_past=None, earlier=None, left_out=tuple(left_out)
    )


@plain_torch
def subtract_samples(
    model: Model, task: Task, numbers: Sequence[int]
) -> tuple[Model, list[int], list[int]]:
    """Return a model without samples.

    Also return the numbers of the classes of which no sample remains, and of the classes of which
    only rounding errors may remain. The classes of the samples are numbered from 0; `numbers` has
    their numbers in the model. The moments of classes without a sample stay, for `forget_classes`.
    The classes lose their left-out likeness, because any of its values may follow from a lost
    sample.
    """
    blank = replace(model, moments=(), inputs_past=None, earlier=None)
    moments = list(model.moments)
    left_out = list(model.left_out)
    for number in numbers:
        if number < len(left_out):
            left_out[number] = LeftOutLikeness()
    gone = []
    for number, removed in zip(numbers, updated_moments(blank, task), strict=True):
        if moments[number].residual.any() or removed.residual.any():
            raise ValueError("the scatter of the class is not stored exactly")
        remaining = subtract(moments[number], removed, device=task.classes.device)
        if remaining is None:
            gone.append(number)
        else:
            moments[number] = remaining
    rounded = _rounded_classes(moments, numbers, gone)
    model = replace(
        model,
        moments=tuple(moments),
        inputs_past=None,
        earlier=None,
        left_out=tuple(left_out),
    )
    return model, gone, rounded


def _rounded_classes(
    after: Sequence[ClassMoments],
    numbers: Sequence[int],
    gone: Sequence[int],
) -> list[int]:
    """Return the numbers of the classes whose scatter may be rounding errors after a subtraction.

    The error of the variance of a column is too large above a tenth of the variance of the column
    within and between all classes. Columns may have unlike units, so each is compared with itself.
    """
    changed = [number for number in numbers if number not in gone]
    if not changed:
        return []
    remaining = [each for number, each in enumerate(after) if number not in gone]
    weights = np.array([each.weight for each in remaining])
    means = np.stack([each.mean for each in remaining])
    shares = weights / weights.sum()
    centre = shares @ means
    between_classes = shares @ np.square(means - centre)
    within_classes = sum(map(_energies, remaining)) / weights.sum()
    variances = within_classes + between_classes
    # Equal samples have no variance; their values show the scale. Nothing is compared in columns
    # of zeros, which contribute nothing.
    squares = np.square(centre)
    scales = np.where(variances > ENERGY_ROUNDING * squares, variances, squares)
    rounded = []
    for number in changed:
        errors = after[number].error_energies / after[number].weight
        if ((errors > 0.1 * scales) & (scales > 0.0)).any():
            rounded.append(number)
    return rounded


def _energies(moments: ClassMoments) -> Array:
    """Return the diagonal of a scatter that is stored exactly."""
    factor = moments.columns(slice(None))
    energies: Array = np.square(factor).sum(axis=0)
    return energies


@plain_torch
def join_classes(model: Model, groups: Sequence[Sequence[int]], *, device: torch.device) -> Model:
    """Return a model whose classes are groups of the classes of a model, given by their numbers.

    Each class is in one group. The moments of a group are those of all its samples.
    """
    pairs = model.features.shared.pairs()
    moments = []
    left_out = []
    for group in groups:
        members = [model.moments[number] for number in group]
        joined = members[0]
        if len(members) > 1:
            joined = merge(
                members, model.settings.rank, device=device, pairs=pairs, with_spare=True
            )
        moments.append(joined)
        left_out.append(_join_left_out(model, group))
    while left_out and not len(left_out[-1].values):
        left_out.pop()
    n_newest = model.n_newest
    if len(groups) < len(model.moments):
        n_newest = 0
    return replace(
        model,
        moments=tuple(moments),
        inputs_past=None,
        earlier=None,
        n_newest=n_newest,
        left_out=tuple(left_out),
    )


def _join_left_out(model: Model, group: Sequence[int]) -> LeftOutLikeness:
    """Return the left-out likeness of a group of classes."""
    n_stored = len(model.left_out)
    return pooled_likeness([model.left_out[number] for number in group if number < n_stored])


@plain_torch
def merge_models(
    first: Model, second: Model, positions: Sequence[int], *, device: torch.device
) -> Model:
    """Merge two models of the same inputs, settings and shared band, from disjoint samples.

    The bands of the second model follow the bands of the first. The classes of each model get
    moments in the other's bands as old classes do in new bands. `positions` are the numbers in the
    result of the second model's classes: classes of both keep their number in the first; the other
    classes follow in any order.
    """
    result = _append_bands(first, second, device)
    extended = _append_bands(second, first, device)
    n_features = result.features.n_features
    n_fixed = first.features.n_inputs + len(first.features.shared)
    n_second = n_features - first.features.n_features
    end_second = n_fixed + n_second
    # The extended second model has its own bands before the bands of the first.
    order = np.r_[:n_fixed, end_second:n_features, n_fixed:end_second]
    # The second model may have learned its classes in another order than the order of the result.
    numbered = sorted(zip(positions, extended.moments, strict=True), key=itemgetter(0))
    moments = merge_classes(
        result.moments,
        ((position, each.take(order)) for position, each in numbered),
        first.settings.rank,
        device=device,
        pairs=first.features.shared.pairs(),
    )
    return replace(
        result,
        moments=moments,
        inputs_past=None,
        earlier=None,
        null_space_dims=first.null_space_dims + second.null_space_dims,
        n_newest=0,
        loss_curve=(),
        left_out=_merge_left_out(first, second, positions),
    )


def _merge_left_out(
    first: Model, second: Model, positions: Sequence[int]
) -> tuple[LeftOutLikeness, ...]:
    """Return the left-out likeness of the classes of both models, up to the last that has any."""
    summands = defaultdict[int, list[LeftOutLikeness]](list)
    for model, numbers in ((first, range(len(first.moments))), (second, positions)):
        for number, likeness in zip(numbers, model.left_out, strict=False):
            summands[number].append(likeness)
    n_classes = max(summands, default=-1) + 1
    return tuple(pooled_likeness(summands[number]) for number in range(n_classes))


def _append_bands(model: Model, other: Model, device: torch.device) -> Model:
    """Append the bands of another model to a model."""
    features = model.features
    for band in other.features.bands:
        n_below = len(features.layer(band.layer - 1)) if band.layer > 1 else 0
        # The bands keep their inputs, and do not see neurons of the model.
        weights = np.pad(band.weights, ((0, 0), (n_below, 0)))
        model = append_band(model, replace(band, weights=weights), device)
    return model
