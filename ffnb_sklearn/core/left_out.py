"""Likeness (`RelativeDistances`) of the samples of a task to the model without each of them.

A class keeps the values, or quantiles of them. Shrinkage and ridge are still those of all samples.
While a model keeps its choice, nothing is solved anew: the model before a task has not learned any
of its samples, and judges them.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import torch

from .device import Array, as_array, as_tensor, few_threads, plain_torch
from .heads.interface import NUMBERS_TOGETHER
from .linalg import LENGTH_ROUNDING
from .model import Model, Samples, Task
from .novelty.likeness import LeftOutLikeness, pooled_likeness
from .prediction import relative_distances, select_columns
from .sparse import SparseInputs

# Returns the features that moments get of the samples of a task with some numbers.
FeaturesOf = Callable[[torch.Tensor], torch.Tensor]

# Samples whose left-out likeness is computed: a quantile of 5 % is then known up to 0.7 %.
_ENOUGH = 1000


def left_out_likeness(
    before: Model, task: Task, learned: Model, features_of: FeaturesOf
) -> tuple[LeftOutLikeness, ...]:
    """Return the left-out likeness of all classes, given the models before and after a task.

    `features_of` returns the features that the moments have learned. The likeness is computed for a
    fair choice of distinct samples of the task, and pooled with the values of their classes.
    Samples that make up a whole class are excluded.
    """
    n_classes = len(learned.moments)
    rng = np.random.default_rng([before.seed, len(before.moments), 2])
    numbers, weights = _distinct_samples(task, before.settings.chunk_size)
    classes = task.classes.cpu().numpy()[numbers]
    keeps_choice = bool(learned.chosen_from)
    model = before if keeps_choice else learned
    class_weights = np.array([each.weight for each in model.moments])
    learned_weight = float(class_weights.sum())
    candidates = np.arange(len(numbers))
    if not keeps_choice:
        # Without all samples of a class there would be no class.
        least_weights = (1.0 - LENGTH_ROUNDING) * class_weights[classes]
        candidates = np.flatnonzero(weights < least_weights)
    chosen = candidates[_fair_choice(classes[candidates], rng)]
    values = np.empty(0)
    if len(chosen):
        excluded = None if keeps_choice else weights[chosen]
        values = _likeness_of_each(model, task, features_of, numbers[chosen], excluded)
    n_missing = n_classes - len(before.left_out)
    left_out = list(before.left_out)
    left_out += [LeftOutLikeness()] * n_missing
    chosen_classes = classes[chosen]
    chosen_weights = weights[chosen]
    for label in np.unique(classes):
        members = chosen_classes == label
        member_weights = chosen_weights[members]
        task_weight = weights[classes == label].sum()
        added = LeftOutLikeness()
        if len(member_weights):
            # The samples that were chosen stand for all samples of the class in the task.
            represented = member_weights * (task_weight / member_weights.sum())
            learned_weights = np.full(len(represented), learned_weight)
            added = LeftOutLikeness.of(values[members], represented, learned_weights)
        added = added.after_call(learned_weight, task_weight)
        left_out[label] = pooled_likeness([left_out[label], added])
    return tuple(left_out)


@plain_torch
def _likeness_of_each(
    model: Model,
    task: Task,
    features_of: FeaturesOf,
    numbers: npt.NDArray[np.intp],
    weights: Array | None,
) -> Array:
    """Return the likeness of samples of a task, with given numbers, to a model without each.

    `weights`, each less than that of its class, are left out with the samples; None if the model
    has not learned the task.
    """
    device = task.classes.device
    relative = relative_distances(model, device)
    n_features = model.feature_map.n_features
    size = max(1, min(model.settings.chunk_size, NUMBERS_TOGETHER // n_features))
    results = []
    with few_threads(2.0 * model.n_operations * len(numbers)):
        for start in range(0, len(numbers), size):
            chunk = torch.from_numpy(numbers[start : start + size])
            samples = features_of(chunk)
            if weights is None:
                values = relative.likeness(select_columns(model, samples))
            else:
                chunk_weights = as_tensor(weights[start : start + size], device=device)
                classes = task.classes[chunk]
                along_axes, leverages = _along_axes(model, samples, classes, chunk_weights)
                values = relative.left_out_likeness(
                    select_columns(model, samples),
                    select_columns(model, along_axes),
                    classes,
                    chunk_weights,
                    leverages,
                )
            results.append(values)
        return as_array(torch.cat(results))


def _along_axes(
    model: Model, samples: torch.Tensor, classes: torch.Tensor, weights: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the parts of samples along the axes of their classes, and their leverages."""
    along_axes = torch.zeros_like(samples)
    leverages = torch.zeros_like(weights)
    if model.settings.covariance == "identity":
        return along_axes, leverages
    for label in torch.unique(classes).tolist():
        members = classes == label
        (moments,) = model.classifier_moments([label])
        along_axes[members], leverages[members] = moments.along_axes(
            samples[members], weights[members]
        )
    return along_axes, leverages


def _fair_choice(classes: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Choose up to 1000 samples at random, taking one sample of each class in turn."""
    turns = np.empty(len(classes), dtype=np.intp)
    for label in np.unique(classes):
        members = rng.permutation(np.flatnonzero(classes == label))
        turns[members] = np.arange(len(members))
    return np.argsort(turns, kind="stable")[:_ENOUGH]


def _distinct_samples(task: Task, chunk_size: int) -> tuple[npt.NDArray[np.intp], Array]:
    """Return the number of the first copy of each sample of a class, and the weight of all copies.

    Equal samples are left out together: a model that has learned an equal sample has learned the
    sample.
    """
    labels = task.classes.tolist()
    first_numbers: dict[tuple[int, bytes], int] = {}
    groups = np.empty(len(labels), dtype=np.intp)
    for number, row in enumerate(_rows(task.samples, chunk_size)):
        digest = blake2b(row, digest_size=16).digest()
        key = labels[number], digest
        groups[number] = first_numbers.setdefault(key, number)
    numbers = np.array(list(first_numbers.values()))
    weights = np.bincount(groups, as_array(task.weights))
    return numbers, weights[numbers]


def _rows(samples: Samples, chunk_size: int) -> Iterator[bytes]:
    """Yield the inputs of each sample as bytes, which are equal for equal inputs."""
    for start in range(0, len(samples), chunk_size):
        block = slice(start, start + chunk_size)
        if isinstance(samples, SparseInputs):
            yield from samples.sparse(block).row_bytes()
        else:
            # The sum turns -0.0 into 0.0.
            for row in as_array(samples[block] + 0.0):
                yield row.tobytes()
