"""Learn a task: from validated samples and the parameters of an estimator to a new state."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from scipy.linalg import helmert

from .._inputs.arrays import Matrix
from .._inputs.columns import (
    ENOUGH_FOR_UNITS,
    ColumnSpreads,
    ColumnUnits,
    merged_by_label,
    spreads_by_label,
    warn_of_units,
)
from .._inputs.labels import Label, Labels, label_positions
from .._inputs.seeds import next_seed
from .._inputs.sparse_samples import place_samples
from ..core.bands.tuning.descent import EpochObserver
from ..core.device import Array, as_tensor
from ..core.model import Model, Task, empty_model
from ..core.moments import ClassMoments
from ..core.settings import Settings
from .parameters import (
    Discriminant,
    check_continuation,
    check_seed,
    check_unchanged,
    settings_of,
)
from .priors import check_priors
from .state import State, moments_by_label

__all__ = [
    "learn_task",
    "may_standardise",
    "place_task",
    "prepare_model",
    "spreads_of_task",
    "standardise_columns",
    "warn_of_new_columns",
]


def place_task(
    device: str, state: State, X: Matrix, positions: npt.NDArray[np.intp], weights: Array
) -> Task:
    """Place the validated samples of a task on a device; positions are numbers of classes."""
    samples = place_samples(device, X, state.projection, state.scaling)
    return Task(
        samples,
        as_tensor(positions, device=samples.device, dtype=torch.int64),
        as_tensor(weights, device=samples.device),
    )


def learn_task(
    estimator: Discriminant,
    state: State,
    X: Matrix,
    positions: npt.NDArray[np.intp],
    arrived: Labels,
    weights: Array,
    observe: EpochObserver = iter,
) -> State:
    """Return the state with the model after a task.

    Samples have a position in `arrived`, which holds the labels seen by the end of the task.
    `observe` reports the epochs, and may end them.
    """
    if may_standardise(estimator, state):
        y = arrived[positions]
        spreads = spreads_of_task(state, X, y, weights)
        state = standardise_columns(estimator, state, spreads, np.unique(y))
    model, settings = prepare_model(estimator, state)
    check_priors(estimator.priors, arrived)
    task = place_task(estimator.device, state, X, positions, weights)
    model = estimator._learn_model(model, task, settings, observe)
    warn_of_new_columns(estimator, state, model)
    return replace(state, model=model)


def prepare_model(estimator: Discriminant, state: State) -> tuple[Model, Settings]:
    """Return the model before a task, a new model if there is none, and the task's settings."""
    settings = settings_of(estimator, state.n_inputs, state.projection)
    if state.model is None:
        estimator._warn_of_idle_parameters()
        seed = next_seed(state.random_state)
        return empty_model(state.n_inputs, settings, seed), settings
    model = state.model
    check_continuation(model.settings, settings)
    check_seed(model.seed, estimator.random_state)
    return model, settings


def may_standardise(estimator: Discriminant, state: State) -> bool:
    """Return whether the next call may decide the standardisation of the columns."""
    if not estimator.scale or state.scaling_labels is not None:
        return False
    # The words of a text share a unit, and deviate by their frequency.
    return estimator.scale != "auto" or state.projection is None


def spreads_of_task(
    state: State, X: Matrix, y: Labels, weights: Array
) -> dict[Label, ColumnSpreads]:
    """Return the spreads of the columns in the samples of each label, by label.

    Wide sparse samples count as one class, because each class would need two dense rows.
    """
    if state.projection is not None:
        y = np.zeros(len(y), dtype=np.int64)
    return spreads_by_label(X, y, weights)


def standardise_columns(
    estimator: Discriminant, state: State, spreads: dict[Label, ColumnSpreads], labels: Labels
) -> State:
    """Return a state that standardises the columns, or keeps them as they are, for good.

    `spreads` are those of new samples by label, and `labels` their labels. The state does not
    change if the samples so far do not show the units: they are all equal, or with ``scale="auto"``
    too few.
    """
    if state.projection is not None:
        # Centred columns would not be sparse.
        units = ColumnUnits.of(list(spreads.values()))
        return replace(state, scaling=units.scaling(centring=False), scaling_labels=labels)
    if state.model is not None:
        check_unchanged("scale", state.model.settings.scale, estimator.scale)
        spreads = _with_earlier_spreads(spreads, state)
        labels = np.union1d(labels, state.arrived)
    units = ColumnUnits.of(list(spreads.values()))
    is_automatic = estimator.scale == "auto"
    if not units.varies.any() or (is_automatic and not units.are_known()):
        return state
    if is_automatic and not (units.are_unlike() or units.are_far()):
        return replace(state, scaling_labels=labels[:0].copy())
    scaling = units.scaling(centring=True)
    new_state = replace(state, scaling=scaling, scaling_labels=labels, model=None, task_classes=())
    for task_labels in state.task_classes:
        new_state = _learn_again(estimator, new_state, state, task_labels)
    return new_state


def _with_earlier_spreads(
    spreads: dict[Label, ColumnSpreads], state: State
) -> dict[Label, ColumnSpreads]:
    """Return the spreads of new samples merged with those of earlier samples, by label."""
    earlier_spreads = {}
    for label, moments in moments_by_label(state).items():
        earlier_spreads[label] = ColumnSpreads.of_moments(moments, state.n_inputs)
    return merged_by_label([earlier_spreads, spreads])


def _learn_again(
    estimator: Discriminant, new_state: State, state: State, task_labels: Labels
) -> State:
    """Return the new state after a task of a state with few samples.

    The samples are gone; others with the same mean and scatter of each class replace them.
    """
    moments_of_labels = moments_by_label(state)
    samples = []
    weights = []
    counts = []
    for label in task_labels.tolist():
        moments = moments_of_labels[label]
        replacements = samples_of_moments(moments, state.n_inputs)
        n_replacements = len(replacements)
        samples.append(replacements)
        weights.append(np.full(n_replacements, moments.weight / n_replacements))
        counts.append(n_replacements)
    labels = np.repeat(task_labels, counts)
    positions, arrived = label_positions(labels, new_state.arrived)
    new_state = learn_task(
        estimator, new_state, np.vstack(samples), positions, arrived, np.concatenate(weights)
    )
    return new_state.after_task(new_state.model, arrived)


def samples_of_moments(moments: ClassMoments, n_inputs: int) -> Array:
    r"""Return samples of equal weight whose inputs have the mean and the factor of a class.

    With the r rows of the factor F and the weight W, these are the r + 1 samples

    .. math:: \mu + \sqrt{\frac{r + 1}{W}} \, H F ,

    where the columns of H are orthonormal, and orthogonal to the vector of ones.
    """
    factor = moments.factor[:, :n_inputs].astype(np.float64)
    n_samples = len(factor) + 1
    # Helmert's matrix is orthogonal, and its first row is constant.
    contrasts = helmert(n_samples)
    scale = np.sqrt(n_samples / moments.weight)
    samples: Array = moments.mean[:n_inputs] + scale * contrasts.T @ factor
    return samples


def warn_of_new_columns(estimator: Discriminant, state: State, model: Model) -> None:
    """Warn of columns of unlike units as soon as a model has learned enough samples.

    `state` precedes the call, and `model` follows it.
    """
    if estimator.scale or state.projection is not None:
        return
    if state.model is not None and _degrees_of_freedom(state.model) >= ENOUGH_FOR_UNITS:
        return
    spreads = [ColumnSpreads.of_moments(moments, state.n_inputs) for moments in model.moments]
    units = ColumnUnits.of(spreads)
    if units.are_known():
        warn_of_units(units, state.feature_names_in)


def _degrees_of_freedom(model: Model) -> float:
    """Return the degrees of freedom within classes of the samples that a model has learned."""
    return sum(moments.n_samples - 1.0 for moments in model.moments)
