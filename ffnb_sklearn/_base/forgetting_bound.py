"""The bound on forgetting of the newest task (Proposition 1 of the paper)."""

import numpy as np
import torch

from .._inputs.arrays import UserArray
from .._inputs.labels import Labels, label_positions
from ..core.bands import bound as core_bound
from ..core.bands.trained import trained_of
from .base import ClassIncrementalClassifier
from .state import State
from .task_learning import place_task
from .validation import check_inputs

__all__ = ["descent_bound", "forgetting_bound"]


def forgetting_bound(state: State, X: torch.Tensor) -> core_bound.ForgettingBound:
    """Return the bound and the drift of the features of samples X of previous tasks, a tensor."""
    model = state.model
    trained = trained_of(model)
    is_normalised = any(band.batch_norm is not None for band in trained.layers.bands)
    if len(trained.null_space_dims) < 2 or not trained.n_newest or is_normalised:
        raise ValueError(
            "forgetting_bound needs two tasks that brought trained bands, with "
            "Bands(batch_norm=False), and no merge or forget after the newest task."
        )
    return core_bound.forgetting_bound(model, X)


def descent_bound(
    classifier: ClassIncrementalClassifier, X: UserArray, y: Labels, X_previous: UserArray
) -> float:
    """Return the printed bound of Proposition 1, the sum over the steps of Algorithm 2.

    Algorithm 2 runs for a further task, without a change of the classifier.

    Parameters
    ----------
    classifier : FFNBClassifier
        A classifier with trained bands and without batch normalisation, before the task.
    X : array-like of shape (n_samples, n_features)
        Samples of the task.
    y : array-like of shape (n_samples,)
        Labels of the task. At least one label is new.
    X_previous : array-like of shape (n_previous, n_features)
        Samples of the tasks that the classifier has learned.

    Returns
    -------
    float
        The bound on the squared change of the last layer's outputs, summed over the samples
        of previous tasks; 0 without a step.
    """
    state = classifier._learned_state()
    X, _ = check_inputs(classifier, X, state)
    positions, _ = label_positions(y, state.arrived)
    task = place_task(classifier.device, state, X, positions, np.ones(len(X)))
    previous = classifier._samples(state, X_previous, "X_previous")
    return core_bound.descent_bound(state.model, task, previous.double())
