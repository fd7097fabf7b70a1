"""Learn the samples of a task: add them to the moments of their classes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch

from .device import few_threads
from .features import FeatureMap, FixedFeatures, as_slice
from .left_out import FeaturesOf, left_out_likeness
from .model import Model, Task
from .moments import ClassMoments, MomentSums, add_to_class, check_size, most_axes
from .prediction import relative_distances
from .settings import Settings
from .sparse import SparseInputs, moments_of_inputs


def learn(model: Model, task: Task, settings: Settings) -> Model:
    """Learn one task, of new classes, known classes, or both.

    Raise `ValueError` if the features of all classes are too small for double precision.
    """
    with few_threads(n_operations_to_learn(model.features, task)):
        learned = replace(model, settings=settings, chosen_from=(), earlier=None)
        features_of = partial(task_features, model.features, task)
        moments = add_task(model.moments, learned, task, features_of)
        check_size(moments)
        learned = replace(learned, moments=moments)
        return with_choice_and_likeness(learned, model, task, features_of)


def with_choice_and_likeness(
    learned: Model, before: Model, task: Task, features_of: FeaturesOf
) -> Model:
    """Return the model after a task with the choice that it keeps, and with left-out likeness."""
    settings = learned.settings
    if settings.refresh and learned.may_keep_choice(before):
        if settings.novelty:
            # The model before the task judges the samples, and is solved for that.
            relative_distances(before, task.classes.device)
        learned = learned.keep_choice(before)
    if settings.novelty:
        likeness = left_out_likeness(before, task, learned, features_of)
        learned = learned.replace_left_out(likeness)
    return learned


def n_operations_to_learn(features: FixedFeatures | FeatureMap, task: Task) -> float:
    """Estimate the number of operations of the moments of a task."""
    n_features = features.n_features
    n_samples = len(task.classes)
    return 2.0 * n_samples * n_features * min(n_samples, n_features)


def task_features(
    features: Callable[[torch.Tensor], torch.Tensor], task: Task, numbers: torch.Tensor
) -> torch.Tensor:
    """Return features of the samples of a task with some numbers."""
    # Samples in class order are not copied.
    rows = as_slice(numbers.numpy())
    return features(task.samples[rows].double())


def add_task(
    moments: Sequence[ClassMoments], model: Model, task: Task, features_of: FeaturesOf
) -> tuple[ClassMoments, ...]:
    """Add the samples of a task to the moments of all known classes; new classes follow."""
    updated = list(moments)
    for number, samples in samples_by_class(task):
        is_known = number < len(moments)
        added = _moments_of_class(model, task, features_of, samples, is_known)
        add_to_class(
            updated,
            number,
            added,
            most_axes(model.settings.rank),
            device=task.classes.device,
            n_inputs=model.features.n_inputs,
        )
    return tuple(updated)


def samples_by_class(task: Task) -> list[tuple[int, torch.Tensor]]:
    """Return the numbers of the classes of a task, in order, with the numbers of their samples."""
    order = torch.argsort(task.classes, stable=True)
    labels, counts = torch.unique_consecutive(task.classes[order], return_counts=True)
    members = torch.split(order.cpu(), counts.tolist())
    return list(zip(labels.tolist(), members, strict=True))


def _moments_of_class(
    model: Model, task: Task, features_of: FeaturesOf, samples: torch.Tensor, is_known: bool
) -> ClassMoments:
    """Return the moments of the samples of a class in a task, with spare axes if it is known."""
    rank = most_axes(model.settings.rank)
    if isinstance(task.samples, SparseInputs):
        inputs = task.samples.sparse(samples.numpy())
        return moments_of_inputs(inputs, task.weights.cpu()[samples], rank, with_spare=is_known)
    sums = MomentSums(model.features.n_inputs)
    for chunk in torch.split(samples, model.settings.chunk_size):
        weights = task.weights[chunk.to(task.weights.device)]
        # No name refers to the features of a chunk, so they leave memory before the next chunk.
        sums.add(features_of(chunk), weights)
    return sums.moments(rank, with_spare=is_known)
