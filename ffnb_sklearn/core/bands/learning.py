"""The steps of the paper for one task: null-space, bands, fine-tuning, moments."""

import math
from dataclasses import replace

from ..device import few_threads
from ..learning import n_operations_to_learn, with_choice_and_likeness
from ..model import Model, Task
from ..settings import Settings
from .band_settings import BandSettings
from .complete_moments import add_task_to_bands, features_with_outputs
from .drafts import append_drafts, draft_bands
from .layers import Layers
from .old_classes import store_inputs_past
from .trained import Trained, trained_of
from .tuning.descent import EpochObserver
from .tuning.finetune import finetune

__all__ = ["learn_with_bands"]


def learn_with_bands(
    model: Model,
    task: Task,
    settings: Settings,
    band_settings: BandSettings,
    observe: EpochObserver = iter,
) -> Model:
    """Learn one task, of new classes, known classes, or both; new classes get a band.

    `observe` reports the epochs of fine-tuning, and may end them. Raise `ValueError` if `p` leaves
    no axis for new neurons in some layer.
    """
    n_passes = 1 + band_settings.descent.max_epochs
    with few_threads(n_passes * n_operations_to_learn(model.feature_map, task)):
        # Bands need all samples at once in double precision.
        task = replace(task, samples=task.X)
        learned = _prepare(model, task, settings, band_settings)
        outputs = None
        if _has_new_classes(learned, task):
            if band_settings.sees_past:
                learned = store_inputs_past(learned, task.classes.device)
            first_drafts = draft_bands(learned, task)
            drafts, loss_curve = finetune(learned, task, first_drafts, observe=observe)
            learned, outputs = append_drafts(learned, task, drafts)
            trained = replace(trained_of(learned), loss_curve=loss_curve)
            learned = replace(learned, trained=trained)
        features_of = features_with_outputs(learned, task, outputs)
        learned = add_task_to_bands(learned, task, features_of)
        return with_choice_and_likeness(learned, model, task, features_of)


def _prepare(model: Model, task: Task, settings: Settings, band_settings: BandSettings) -> Model:
    """Return the model with the settings of a task, and with its batch normalisation."""
    if model.trained is None:
        trained = Trained(band_settings, Layers(model.features.n_inputs))
    else:
        trained = replace(trained_of(model), settings=band_settings, loss_curve=())
    if band_settings.batch_norm:
        layers = _renormalise(trained.layers, task, band_settings)
        trained = replace(trained, layers=layers)
    return replace(model, settings=settings, trained=trained, chosen_from=(), earlier=None)


def _renormalise(layers: Layers, task: Task, settings: BandSettings) -> Layers:
    """Return the layers after the task's mini-batches of batch normalisation."""
    X = task.X
    descent = settings.descent
    n_batches = math.ceil(len(X) / descent.batch_size)
    n_epochs = max(1, descent.max_epochs)
    n_steps = n_batches * n_epochs
    return layers.update_batch_norms(X, task.weights, n_steps)


def _has_new_classes(model: Model, task: Task) -> bool:
    """Return whether a task has samples of classes that the model has not learned."""
    last_class = int(task.classes.max())
    n_known = len(model.moments)
    return last_class >= n_known
