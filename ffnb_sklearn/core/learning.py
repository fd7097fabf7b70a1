"""The steps of the paper for one task: null-space, bands, moments."""

import math
from dataclasses import replace

import torch

from .bands.drafts import append_drafts, draft_bands
from .bands.old_classes import store_inputs_past
from .bands.tuning.descent import EpochObserver
from .bands.tuning.finetune import finetune
from .device import few_threads
from .features.feature_map import FeatureMap
from .left_out import left_out_likeness
from .model import Model, Task, updated_moments
from .settings import Settings


def learn(model: Model, task: Task, settings: Settings, observe: EpochObserver = iter) -> Model:
    """Learn one task, of new classes, known classes, or both.

    `observe` reports the epochs of fine-tuning, and may end them. Raise `ValueError` if `p` leaves
    no axis for new neurons in some layer.
    """
    n_samples = len(task.classes)
    n_features = model.features.n_features
    n_operations = 2.0 * n_samples * n_features * min(n_samples, n_features)
    n_passes = 1 + settings.descent.max_epochs
    with few_threads(n_operations * n_passes):
        learned, last_features = _learn_moments(model, task, settings, observe)
        learned = learned.keep_choice(model)
        if not settings.novelty:
            return learned
        likeness = left_out_likeness(model, task, learned, last_features)
        return learned.replace_left_out(likeness)


def _learn_moments(
    model: Model, task: Task, settings: Settings, observe: EpochObserver
) -> tuple[Model, torch.Tensor | None]:
    """Learn the bands and the moments of a task, without left-out likeness of its samples.

    The second result holds the outputs of new neurons, as the moments have them.
    """
    if settings.band_size:
        # Bands need all samples at once in double precision.
        task = replace(task, samples=task.X)
    model = replace(model, settings=settings, loss_curve=())
    if settings.batch_norm:
        model = replace(model, features=_renormalise(model, task))
    last_features = None
    if settings.band_size and _has_new_classes(model, task):
        if settings.sees_past:
            model = store_inputs_past(model, task.classes.device)
        first_drafts = draft_bands(model, task)
        drafts, loss_curve = finetune(model, task, first_drafts, observe=observe)
        model = replace(model, loss_curve=loss_curve)
        model, last_features = append_drafts(model, task, drafts)
    moments = updated_moments(model, task, last_features)
    return model.replace_moments(moments), last_features


def _has_new_classes(model: Model, task: Task) -> bool:
    """Return whether a task has samples of classes that the model has not learned."""
    last_class = int(task.classes.max())
    n_known = len(model.moments)
    return last_class >= n_known


def _renormalise(model: Model, task: Task) -> FeatureMap:
    """Return the feature map after the task's mini-batches of batch normalisation."""
    X = task.X
    descent = model.settings.descent
    n_batches = math.ceil(len(X) / descent.batch_size)
    n_epochs = max(1, descent.max_epochs)
    n_steps = n_batches * n_epochs
    return model.features.update_batch_norms(X, task.weights, n_steps)
