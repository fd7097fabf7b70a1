"""Learn a task: from validated samples and the parameters of an estimator to a new state."""

from dataclasses import replace

import numpy as np
import torch

from .._inputs.columns import ColumnSpreads, warn_of_columns
from .._inputs.labels import label_positions
from .._inputs.seeds import next_seed
from .._inputs.sparse import place_samples
from ..core.device import as_tensor
from ..core.model import Task, empty_model
from .priors import check_priors
from .settings import (
    check_continuation,
    check_seed,
    check_unchanged,
    settings_of,
)

__all__ = [
    "learn_task",
    "place_task",
    "prepare_model",
    "standardise_columns",
    "warn_of_new_columns",
]

# Number of samples from which on the spread of a column is known well enough to warn of it.
_ENOUGH_FOR_SPREADS = 10


def place_task(device, state, X, positions, weights):
    """Place the validated samples of a task on a device; positions are numbers of classes."""
    samples = place_samples(device, X, state)
    return Task(
        samples,
        as_tensor(positions, device=samples.device, dtype=torch.int64),
        as_tensor(weights, device=samples.device),
    )


def learn_task(estimator, state, X, positions, arrived, weights, observe=iter):
    """Return the state with the model after a task.

    Samples have a position in `arrived`, which holds the labels seen by the end of the task.
    `observe` reports the epochs, and may end them.
    """
    if estimator.scale and state.repair is None:
        labels = arrived[np.unique(positions)]
        spreads = ColumnSpreads.of(X, weights)
        state = standardise_columns(estimator, state, spreads, labels)
    model, settings = prepare_model(estimator, state)
    check_priors(estimator.priors, arrived)
    task = place_task(estimator.device, state, X, positions, weights)
    model = estimator._learn_model(model, task, settings, observe)
    warn_of_new_columns(estimator, state, model)
    return replace(state, model=model)


def prepare_model(estimator, state):
    """Return the model before a task, a new model if there is none, and the task's settings."""
    settings = settings_of(estimator, state.n_inputs, state.projection)
    model = state.model
    if model is None:
        estimator._warn_of_idle_parameters()
        seed = next_seed(state.random_state)
        model = empty_model(state.n_inputs, settings, seed)
    else:
        check_continuation(model.settings, settings)
        check_seed(model.seed, estimator.random_state)
    return model, settings


def standardise_columns(estimator, state, spreads, labels):
    """Return a state that standardises columns by the spreads of new samples of some labels.

    It is the given state if neither these samples nor earlier samples differ.
    """
    if state.projection is not None:
        # Centred columns would not be sparse.
        return replace(state, repair=spreads.repair(centring=False), repair_labels=labels)
    if state.model is not None:
        check_unchanged("scale", state.model.settings.scale, estimator.scale)
        earlier = ColumnSpreads.of_moments(state.model.moments, len(spreads.mean))
        spreads = ColumnSpreads.merged([earlier, spreads])
        labels = np.union1d(labels, state.arrived)
    if not spreads.varying().any():
        return state
    repair = spreads.repair(centring=True)
    new_state = replace(state, repair=repair, repair_labels=labels, model=None, task_classes=())
    for task_labels in state.task_classes:
        new_state = _learn_means(estimator, new_state, state, task_labels)
    return new_state


def _learn_means(estimator, new_state, state, task_labels):
    """Return the new state after a task of a state whose samples are all equal.

    The mean of a class stands for each of its samples.
    """
    moments_by_label = dict(zip(state.arrived.tolist(), state.model.moments, strict=True))
    moments = [moments_by_label[label] for label in task_labels.tolist()]
    means = np.stack([each.mean[: state.n_inputs] for each in moments])
    weights = np.array([each.weight for each in moments])
    positions, arrived = label_positions(task_labels, new_state.arrived)
    new_state = learn_task(estimator, new_state, means, positions, arrived, weights)
    return new_state.after_task(new_state.model, arrived)


def warn_of_new_columns(estimator, state, model):
    """Warn of columns of unlike units as soon as a model has learned enough samples.

    `state` precedes the call, and `model` follows it.
    """
    if estimator.scale or state.projection is not None:
        return
    n_before = 0
    if state.model is not None:
        n_before = state.n_samples
    n_after = sum(moments.n_samples for moments in model.moments)
    if n_before < _ENOUGH_FOR_SPREADS <= n_after:
        spreads = ColumnSpreads.of_moments(model.moments, state.n_inputs)
        warn_of_columns(spreads, state.feature_names_in)
