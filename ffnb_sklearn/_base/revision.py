"""Change what was learned without samples: forget, decay, rename and merge."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from math import isnan
from numbers import Real

import numpy as np
import torch
from sklearn.utils.validation import check_scalar

from .._inputs.arrays import UserArray
from .._inputs.labels import Label, Labels, check_labels, label_positions
from ..core.merge_and_forget import (
    decay_classes,
    forget_classes,
    is_in_left_out,
    join_classes,
    subtract_samples,
)
from ..core.messages import level_of_user
from .base import ClassIncrementalClassifier
from .parameters import Discriminant, check_mergeable
from .priors import Priors, check_priors
from .state import State, moments_by_label
from .task_learning import place_task
from .validation import check_samples

__all__ = ["check_and_merge", "decay", "forget", "forget_samples", "merge_states", "rename"]

# Weight of a class below which it does not decay, so that an endless stream does not end in 0.
_LIGHTEST = 1e-20


def forget(state: State, classes: UserArray) -> State | None:
    """Return the state without classes; None if no class is left."""
    labels = _learned_labels(state, classes)
    numbers = _numbers_of_classes(state, labels)
    if len(numbers) == len(state.arrived):
        return None
    _warn_of_trace(state, labels)
    model = state.model
    if is_in_left_out(model, numbers):
        warnings.warn(
            f"The novelty scores of other classes keep a trace of the classes {labels.tolist()}, "
            "which the model had learned when the scores were stored. novelty_threshold and "
            "OpenSetClassifier follow from these scores, and no other prediction does. The scores "
            "count less with each call that learns; only a new fit removes the trace.",
            UserWarning,
            stacklevel=level_of_user(),
        )
    return state.without(labels, forget_classes(model, numbers))


def forget_samples(
    estimator: ClassIncrementalClassifier,
    state: State,
    X: UserArray,
    y: UserArray,
    sample_weight: UserArray,
) -> State | None:
    """Return the state without samples; None if no class is left."""
    X, y, _, weights, _ = check_samples(
        estimator, X, y, classes=None, sample_weight=sample_weight, state=state
    )
    unknown = np.setdiff1d(y, state.arrived)
    if len(unknown):
        raise ValueError(
            f"y must hold labels that were learned; got {unknown.tolist()}, known are "
            f"{np.sort(state.arrived).tolist()}."
        )
    if not len(y):
        return state
    labels, codes = np.unique(y, return_inverse=True)
    numbers, _ = label_positions(labels, state.arrived)
    task = place_task(estimator.device, state, X, codes, weights)
    try:
        model, gone, rounded = subtract_samples(state.model, task, numbers.tolist())
    except ValueError as error:
        raise ValueError(
            f"the samples cannot be subtracted from the moments of their classes: {error}. Pass "
            "samples as they were learned, with their present weights."
        ) from error
    if rounded:
        raise ValueError(
            "forget_samples cannot be exact: the samples of classes "
            f"{state.arrived[rounded].tolist()} lie so far from the other samples of their class, "
            "or have so much larger weights, in this call or in earlier calls, that only rounding "
            "errors of these would remain. Forget these classes, and learn their other samples "
            "again."
        )
    _warn_of_trace(state, labels)
    if state.model.left_out:
        warnings.warn(
            f"forget_samples deletes the novelty scores of the classes {labels.tolist()}, and the "
            "scores of other classes may keep a trace of the samples. Until these classes learn "
            "again, novelty_threshold and OpenSetClassifier judge them by the scores of other "
            "classes. No other prediction follows from the scores; only a new fit removes the "
            "trace.",
            UserWarning,
            stacklevel=level_of_user(),
        )
    state = replace(state, model=model)
    if not gone:
        return state
    if len(gone) == len(state.arrived):
        return None
    gone_labels = state.arrived[gone]
    return state.without(gone_labels, forget_classes(model, gone))


def _warn_of_trace(state: State, labels: Labels) -> None:
    """Warn if classes to be forgotten have decided the standardisation of the columns."""
    if state.scaling_labels is None:
        return
    traced = np.intersect1d(state.scaling_labels, labels)
    if len(traced):
        warnings.warn(
            f"offset_ and scale_ keep a trace of the classes {traced.tolist()}, whose samples "
            "decided the standardisation of the columns. Only a new fit removes it. With "
            "scale=False forgetting leaves no trace.",
            UserWarning,
            stacklevel=level_of_user(),
        )


def decay(state: State, factor: float, classes: UserArray) -> State:
    """Return the state in which the samples of classes, None for all, count less by a factor."""
    check_scalar(factor, "factor", Real, min_val=0.0, max_val=1.0, include_boundaries="right")
    if isnan(factor):
        raise ValueError("factor must be a number in (0, 1]; got nan.")
    factor = float(factor)
    labels = state.classes
    if classes is not None:
        labels = _learned_labels(state, classes)
    model = state.model
    decaying = []
    for number in _numbers_of_classes(state, labels):
        weight = model.moments[number].weight
        if factor * weight >= _LIGHTEST:
            decaying.append(number)
    return replace(state, model=decay_classes(model, factor, decaying))


def rename(
    state: State, mapping: Mapping[Label, Label], priors: Priors, device: torch.device
) -> State:
    """Return the state with new labels; classes whose new labels are equal are joined."""
    names = _new_names(state, mapping)
    renamed = state.renamed(names)
    model = state.model
    if len(renamed.arrived) < len(state.arrived) and model.trained is not None:
        raise ValueError(
            "mapping must give each class a label of its own, because neurons are trained for "
            "single classes; got equal new labels. IncrementalDiscriminantAnalysis joins classes."
        )
    check_priors(priors, renamed.arrived)
    groups: list[list[int]] = [[] for _ in renamed.arrived]
    numbers = {label: number for number, label in enumerate(renamed.arrived.tolist())}
    for old_number, old_label in enumerate(state.arrived.tolist()):
        new_label = names.get(old_label, old_label)
        new_number = numbers[new_label]
        groups[new_number].append(old_number)
    return replace(renamed, model=join_classes(model, groups, device=device))


def _new_names(state: State, mapping: object) -> dict[Label, Label]:
    """Return a dictionary of new labels by old labels; raise if a mapping is not valid."""
    if not isinstance(mapping, Mapping):
        raise TypeError(
            "mapping must be a dictionary of new labels by old labels; got "
            f"{type(mapping).__name__}."
        )
    old_labels = check_labels(list(mapping), state.classes, "mapping")
    unknown = np.setdiff1d(old_labels, state.classes)
    if len(unknown):
        raise ValueError(
            f"mapping must rename labels in classes_; got {unknown.tolist()}, known are "
            f"{state.classes.tolist()}."
        )
    new_labels = check_labels(list(mapping.values()), state.classes, "new labels in mapping")
    kept_labels = np.setdiff1d(state.classes, old_labels)
    taken = np.intersect1d(new_labels, kept_labels)
    if len(taken):
        raise ValueError(
            f"new labels in mapping must not be labels of other classes; got {taken.tolist()}. To "
            "join classes, name each of them in mapping: {1: 2, 2: 2} joins 1 and 2."
        )
    return dict(zip(old_labels.tolist(), new_labels.tolist(), strict=True))


def _learned_labels(state: State, classes: UserArray) -> Labels:
    """Return a label or labels in `classes_` as an array; raise for any other label."""
    # An array of the labels of a list could turn all into strings or floats.
    labels = classes if np.ndim(classes) else [classes]
    labels = check_labels(labels, state.classes, "classes")
    unknown = np.setdiff1d(labels, state.classes)
    if len(unknown):
        raise ValueError(
            f"classes must be labels in classes_; got {unknown.tolist()}, known are "
            f"{state.classes.tolist()}."
        )
    return labels


def _numbers_of_classes(state: State, labels: Labels) -> list[int]:
    """Return the numbers of the classes that were seen under some labels."""
    is_named = np.isin(state.arrived, labels)
    numbers: list[int] = np.flatnonzero(is_named).tolist()
    return numbers


def check_and_merge(
    mine: State, theirs: State, estimator: Discriminant, device: torch.device
) -> State:
    """Return the state with all that two states have learned; raise if they cannot be merged.

    `estimator` has learned the first state.
    """
    check_mergeable(mine, theirs, estimator._merge_conditions)
    _check_different_samples(mine, theirs)
    return merge_states(mine, theirs, estimator, device)


def merge_states(
    mine: State, theirs: State, estimator: Discriminant, device: torch.device
) -> State:
    """Return the state with everything that two mergeable states have learned."""
    state = mine.merged(theirs)
    check_priors(estimator.priors, state.arrived)
    positions, _ = label_positions(theirs.arrived, state.arrived)
    model = estimator._merge_models(mine.model, theirs.model, positions.tolist(), device=device)
    return replace(state, model=model)


def _check_different_samples(mine: State, theirs: State) -> None:
    """Raise if a class has the same moments in two states: they have learned the same samples."""
    my_moments = moments_by_label(mine)
    repeated = []
    for label, moments in moments_by_label(theirs).items():
        if label in my_moments and my_moments[label].equals(moments):
            repeated.append(label)
    if repeated:
        raise ValueError(
            "other must have learned other samples than this estimator; the moments of classes "
            f"{repeated} are the same in both, so a merge would count the same samples twice. "
            "Merge each estimator once, and let an estimator that is merged again begin without "
            "these classes (forget), or empty. Equal samples that are to count twice can be "
            "learned by partial_fit."
        )
