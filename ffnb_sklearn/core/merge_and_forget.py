"""Merge models; forget, decay or join classes."""

from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

import numpy as np
import torch

from .device import Array, plain_torch
from .learning import add_task, task_features
from .linalg import ENERGY_ROUNDING
from .model import Model, Task
from .moments import (
    ClassMoments,
    LostDigitsError,
    merge,
    merge_classes,
    most_axes,
    subtract,
    subtract_truncated,
)
from .novelty.likeness import LeftOutLikeness, change_weights, pooled_likeness


def forget_classes(model: Model, gone: Sequence[int]) -> Model:
    """Forget the classes with the numbers `gone`; the others keep their order.

    Their moments are discarded. The left-out likeness of other classes stays, with the weights that
    it would have without the forgotten classes.
    """
    moments = []
    for label, class_moments in enumerate(model.moments):
        if label not in gone:
            moments.append(class_moments)
    weights = _class_weights(model.moments)
    weights[list(gone)] = 0.0
    left_out = []
    for label, likeness in enumerate(_left_out_with_weights(model, weights)):
        if label not in gone:
            left_out.append(likeness)
    trained = model.trained
    if trained is not None:
        trained = trained.without_classes(gone)
    return replace(
        model,
        moments=tuple(moments),
        trained=trained,
        chosen_from=(),
        earlier=None,
        left_out=tuple(left_out),
    )


def is_in_left_out(model: Model, numbers: Sequence[int]) -> bool:
    """Return whether classes were learned before left-out likeness of any other class."""
    weights = _class_weights(model.moments)
    weights[list(numbers)] = 0.0
    without = _left_out_with_weights(model, weights)
    for label, (before, after) in enumerate(zip(model.left_out, without, strict=True)):
        is_same = np.array_equal(before.learned_weights, after.learned_weights)
        if label not in numbers and not is_same:
            return True
    return False


def decay_classes(model: Model, factor: float, positions: Container[int]) -> Model:
    """Multiply the weights of all samples so far of some classes, given by number, by a factor > 0.

    Trained neurons do not change. With exact moments, a model without trained neurons equals a
    model that learned samples of these weights.
    """
    moments = list(model.moments)
    for label, each in enumerate(moments):
        if label in positions:
            moments[label] = each.scale_weights(factor)
    left_out = _left_out_with_weights(model, _class_weights(moments))
    trained = model.trained
    if trained is not None:
        trained = trained.scale_weights(factor, positions)
    return replace(
        model,
        moments=tuple(moments),
        trained=trained,
        chosen_from=(),
        earlier=None,
        left_out=left_out,
    )


def _class_weights(moments: Sequence[ClassMoments]) -> Array:
    """Return the total weight of each class."""
    return np.array([each.weight for each in moments])


def _left_out_with_weights(model: Model, weights: Array) -> tuple[LeftOutLikeness, ...]:
    """Return the left-out likeness of a model as if its classes had always had other weights."""
    return change_weights(model.left_out, _class_weights(model.moments), weights)


@plain_torch
def subtract_samples(
    model: Model, task: Task, numbers: Sequence[int]
) -> tuple[Model, list[int], list[int]]:
    """Return a model, without trained neurons, without samples.

    Also return the numbers of the classes of which no sample remains, and of the classes of which
    only rounding errors may remain. The classes of the samples are numbered from 0; `numbers` has
    their numbers in the model. The moments of classes without a sample stay, for `forget_classes`.
    The classes lose their left-out likeness, because any of its values may follow from a lost
    sample.
    """
    is_exact = model.settings.rank is None
    # The moments of the samples themselves are exact.
    settings = replace(model.settings, rank=None)
    blank = replace(model, settings=settings, moments=(), chosen_from=(), earlier=None)
    removed_moments = add_task((), blank, task, partial(task_features, blank.features, task))
    moments = list(model.moments)
    gone = []
    rounded = []
    for number, removed in zip(numbers, removed_moments, strict=True):
        try:
            if is_exact:
                remaining = subtract(moments[number], removed, device=task.classes.device)
            else:
                remaining = subtract_truncated(moments[number], removed, device=task.classes.device)
        except LostDigitsError:
            rounded.append(number)
            continue
        if remaining is None:
            gone.append(number)
        else:
            moments[number] = remaining
    if is_exact and not rounded:
        rounded = _rounded_classes(moments, numbers, gone)
    left_out = list(_left_out_with_weights(model, _class_weights(moments)))
    for number in numbers:
        if number < len(left_out):
            left_out[number] = left_out[number].without_values()
    model = replace(
        model,
        moments=tuple(moments),
        chosen_from=(),
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
    energies: Array = np.square(moments.factor).sum(axis=0)
    return energies


@plain_torch
def join_classes(model: Model, groups: Sequence[Sequence[int]], *, device: torch.device) -> Model:
    """Return a model whose classes are groups of the classes of a model, given by their numbers.

    Each class is in one group. The moments of a group are those of all its samples. The groups of a
    model with trained neurons, which belong to single classes, have one class each.
    """
    count = most_axes(model.settings.rank)
    n_inputs = model.features.n_inputs
    moments = []
    left_out = []
    for group in groups:
        members = [model.moments[number] for number in group]
        joined = members[0]
        if len(members) > 1:
            joined = merge(members, count, device=device, n_inputs=n_inputs, with_spare=True)
        moments.append(joined)
        left_out.append(_join_left_out(model, group))
    while left_out and left_out[-1].is_empty:
        left_out.pop()
    trained = model.trained
    if trained is not None:
        trained = trained.reorder([number for (number,) in groups])
    return replace(
        model,
        moments=tuple(moments),
        trained=trained,
        chosen_from=(),
        earlier=None,
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
    """Merge two models of the same inputs, settings and shared neurons, from disjoint samples.

    `positions` are the numbers in the result of the second model's classes: classes of both keep
    their number in the first; the other classes follow in any order. Models with trained neurons
    are merged by `ffnb_sklearn.core.bands.merging`.
    """
    moments = merge_moments(first.moments, second.moments, positions, first, device=device)
    return replace(
        first,
        moments=moments,
        chosen_from=(),
        earlier=None,
        left_out=merge_left_out(first, second, positions),
    )


def merge_moments(
    first_moments: Sequence[ClassMoments],
    second_moments: Sequence[ClassMoments],
    positions: Sequence[int],
    model: Model,
    *,
    device: torch.device,
) -> tuple[ClassMoments, ...]:
    """Merge the moments of the classes of two models, of which `model` is the first."""
    # The second model may have learned its classes in another order than the order of the result.
    numbered = sorted(zip(positions, second_moments, strict=True), key=itemgetter(0))
    return merge_classes(
        first_moments,
        numbered,
        most_axes(model.settings.rank),
        device=device,
        n_inputs=model.features.n_inputs,
    )


def merge_left_out(
    first: Model, second: Model, positions: Sequence[int]
) -> tuple[LeftOutLikeness, ...]:
    """Return the left-out likeness of the classes of both models, up to the last that has any."""
    summands = defaultdict[int, list[LeftOutLikeness]](list)
    for model, numbers in ((first, range(len(first.moments))), (second, positions)):
        for number, likeness in zip(numbers, model.left_out, strict=False):
            summands[number].append(likeness)
    n_classes = max(summands, default=-1) + 1
    return tuple(pooled_likeness(summands[number]) for number in range(n_classes))
