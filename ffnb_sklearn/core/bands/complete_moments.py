"""Moments of the classes over all features: the fixed features and the trained neurons."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch

from ..features import as_slice
from ..learning import add_task, task_features
from ..left_out import FeaturesOf
from ..model import Model, Task
from ..moments import ClassMoments, check_size
from .trained import BandMoments, split_moments, trained_of

__all__ = ["add_task_to_bands", "features_with_outputs", "replace_complete_moments"]


def features_with_outputs(model: Model, task: Task, outputs: torch.Tensor | None) -> FeaturesOf:
    """Return the features of a task's samples, with given outputs of the newest neurons.

    The outputs are those for left-out samples; None computes all features.
    """

    def features_of(numbers: torch.Tensor) -> torch.Tensor:
        features = task_features(model.feature_map, task, numbers)
        if outputs is not None:
            n_newest = outputs.shape[1]
            features[:, -n_newest:] = outputs[as_slice(numbers.numpy())]
        return features

    return features_of


def add_task_to_bands(model: Model, task: Task, features_of: FeaturesOf) -> Model:
    """Add the samples of a task to the moments of all known classes; new classes follow.

    Raise `ValueError` if the fixed features of all classes are too small for double precision.
    """
    n_known = len(model.moments)
    numbers = torch.unique(task.classes).tolist()
    known_numbers = [number for number in numbers if number < n_known]
    moments = list(model.moments)
    for number in known_numbers:
        moments[number] = model.complete_moments(number)
    updated = add_task(moments, model, task, features_of)
    if known_numbers:
        # The stored past counts the samples that its classes had.
        model = replace(model, trained=replace(trained_of(model), past=None))
    learned = replace_complete_moments(model, updated, numbers)
    check_size(learned.moments)
    return learned


def replace_complete_moments(
    model: Model, moments: Sequence[ClassMoments], numbers: Iterable[int]
) -> Model:
    """Return the model with other moments over all features of the classes with some numbers.

    Numbers are ascending, and those of new classes continue those of the known classes.
    """
    trained = trained_of(model)
    fixed = list(model.moments)
    in_neurons: list[BandMoments] = list(trained.moments)
    for number in numbers:
        parts = split_moments(moments[number], model.features.n_features)
        if number < len(fixed):
            fixed[number], in_neurons[number] = parts
        else:
            fixed.append(parts[0])
            in_neurons.append(parts[1])
    trained = replace(trained, moments=tuple(in_neurons))
    return replace(model, moments=tuple(fixed), trained=trained)
