"""Learn the samples of a task: add them to the moments of their classes."""

from dataclasses import replace
from functools import partial

from .device import few_threads
from .left_out import left_out_likeness
from .model import FeaturesOf, Model, Task, add_task, task_features
from .settings import Settings


def learn(model: Model, task: Task, settings: Settings) -> Model:
    """Learn one task, of new classes, known classes, or both."""
    with few_threads(n_operations_to_learn(model, task)):
        learned = replace(model, settings=settings)
        features_of = partial(task_features, learned, task)
        moments = add_task(model.moments, learned, task, features_of)
        learned = replace(learned, moments=moments)
        return prepare_predictions(learned, model, task, features_of)


def n_operations_to_learn(model: Model, task: Task) -> float:
    """Estimate the number of operations of the moments of a task."""
    n_samples = len(task.classes)
    n_features = model.feature_map.n_features
    return 2.0 * n_samples * n_features * min(n_samples, n_features)


def prepare_predictions(
    learned: Model, before: Model, task: Task, features_of: FeaturesOf
) -> Model:
    """Return a model that has learned a task with what its settings keep for predictions.

    These are the solution of the model before the task, and scores of left-out samples.
    """
    if learned.settings.refresh:
        learned = learned.store_earlier(before)
    if learned.settings.novelty:
        likeness = left_out_likeness(before, task, learned, features_of)
        learned = learned.replace_left_out(likeness)
    return learned
