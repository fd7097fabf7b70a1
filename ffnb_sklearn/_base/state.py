"""Learned state of a classifier, as one value that is replaced and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .._inputs.columns import ColumnScaling
from .._inputs.labels import Label, Labels
from .._inputs.sparse_samples import RandomProjection
from ..core.device import Array
from ..core.moments import ClassMoments
from ..core.novelty.likeness import LeftOutLikeness
from .typicality import ScoreDistributions

__all__ = ["State", "moments_by_label"]


def _no_labels() -> Labels:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class State:
    """Learned state of a classifier after some tasks.

    Attributes
    ----------
    n_features_in : int
        Number of input features.
    feature_names_in : ndarray of shape (n_features_in,) or None
        Names of the features, if they have any.
    projection : RandomProjection or None
        Projection of the samples, if the first samples were sparse and wide.
    scaling : ColumnScaling or None
        Standardisation of the columns of X; None leaves them as they are.
    scaling_labels : ndarray or None
        Labels of the samples that decided the standardisation: empty if they decided that the
        columns stay as they are, None before a decision.
    model : Any
        Model that scores samples by class, in order of arrival, of the class that belongs to the
        classifier: `Model` if it solves a discriminant. None before the first task.
    classes : ndarray of shape (n_classes,)
        Labels seen or declared, sorted.
    task_classes : tuple of ndarray
        New labels of each task.
    random_state : int or None
        Integer that gives the seed, also if the parameter was no integer. None in old files.
    """

    n_features_in: int
    feature_names_in: npt.NDArray[np.generic] | None = None
    projection: RandomProjection | None = None
    scaling: ColumnScaling | None = None
    scaling_labels: Labels | None = None
    model: Any = None
    classes: Labels = field(default_factory=_no_labels)
    task_classes: tuple[Labels, ...] = ()
    random_state: int | None = None

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the model: features, or columns of the projection."""
        if self.projection is None:
            return self.n_features_in
        return self.projection.n_columns

    @cached_property
    def arrived(self) -> Labels:
        """Labels seen, in order of arrival."""
        if not self.task_classes:
            return self.classes[:0]
        return np.concatenate(self.task_classes)

    @property
    def n_arrived(self) -> int:
        """Number of labels seen."""
        return sum(map(len, self.task_classes))

    @cached_property
    def class_weights(self) -> Array:
        """Total sample weight of each class seen, in order of arrival."""
        weights = [moments.weight for moments in self.model.moments]
        return np.array(weights, dtype=np.float64)

    @property
    def class_counts(self) -> Array:
        """Total sample weight of each entry of `classes`; 0 for labels not seen."""
        return self.rows_by_class(self.class_weights)

    @cached_property
    def n_samples(self) -> float:
        """Number of samples learned."""
        numbers = [moments.n_samples for moments in self.model.moments]
        return float(sum(numbers))

    @cached_property
    def score_distributions(self) -> ScoreDistributions:
        """Distributions of the novelty scores of new samples of each entry of `classes`."""
        return ScoreDistributions.from_left_out(self.left_out_scores())

    def left_out_scores(self) -> list[LeftOutLikeness]:
        """Return the novelty scores of the left-out samples of each entry of `classes`.

        A class without left-out samples has none.
        """
        # Classes that only `partial_fit_shards` has seen may be missing at the end of `left_out`.
        left_out = self.model.left_out
        stored = dict(zip(self.arrived.tolist(), left_out, strict=False))
        return [stored.get(label, LeftOutLikeness()) for label in self.classes.tolist()]

    def prepare(self) -> None:
        """Compute the values that judge unknown samples, which are kept, before they are read."""
        _ = self.n_samples, self.score_distributions

    def __getstate__(self) -> dict[str, object]:
        """Return the fields alone; the cached properties follow from them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def by_class(self, values: Array, labels: Labels, missing: float | Array) -> Array:
        """Return one column per entry of `classes`, given the columns of some labels.

        `missing` fills the columns of all other labels.
        """
        full = np.full((len(values), len(self.classes)), missing)
        columns = np.searchsorted(self.classes, labels)
        full[:, columns] = values
        return full

    def rows_by_class(self, rows: Array) -> Array:
        """Return one row per entry of `classes`, given the rows of the labels in order of arrival.

        Labels not seen have rows of zeros.
        """
        full = np.zeros((len(self.classes), *rows.shape[1:]))
        positions = np.searchsorted(self.classes, self.arrived)
        full[positions] = rows
        return full

    def after_task(self, model: object, arrived: Labels) -> "State":
        """Return the state after a task, given its model and the labels seen by then."""
        task_classes = self.task_classes
        new_labels = arrived[self.n_arrived :]
        if len(new_labels):
            task_classes = (*task_classes, new_labels)
        state = replace(self, model=model, task_classes=task_classes)
        return state.declaring(new_labels)

    def declaring(self, labels: Labels | None) -> "State":
        """Return the state with columns for more labels, if there are any."""
        if labels is None or not len(labels):
            return self
        if not len(self.classes):
            return replace(self, classes=np.unique(labels))
        return replace(self, classes=np.union1d(self.classes, labels))

    def without(self, labels: Labels, model: object) -> "State":
        """Return the state without some labels, given a model without their classes."""
        scaling_labels = self.scaling_labels
        if scaling_labels is not None:
            scaling_labels = np.setdiff1d(scaling_labels, labels)
        return replace(
            self,
            model=model,
            scaling_labels=scaling_labels,
            classes=np.setdiff1d(self.classes, labels),
            task_classes=_tasks_without(self.task_classes, labels),
        )

    def renamed(self, names: Mapping[Label, Label]) -> "State":
        """Return the state with new labels, given by their old labels; it still lacks its model."""
        scaling_labels = self.scaling_labels
        if scaling_labels is not None:
            scaling_labels = _new_labels(scaling_labels, names)
        task_classes = []
        earlier_labels = self.classes[:0]
        for task in self.task_classes:
            labels = _new_labels(task, names)
            # A joined class belongs to the first of its tasks.
            labels = np.setdiff1d(labels, earlier_labels)
            if len(labels):
                task_classes.append(labels)
                earlier_labels = np.union1d(earlier_labels, labels)
        return replace(
            self,
            scaling_labels=scaling_labels,
            classes=_new_labels(self.classes, names),
            task_classes=tuple(task_classes),
        )

    def merged(self, other: "State") -> "State":
        """Return the state with the labels of another state, which still lacks its model."""
        scaling_labels = self.scaling_labels
        if scaling_labels is None:
            scaling_labels = other.scaling_labels
        elif other.scaling_labels is not None:
            scaling_labels = np.union1d(scaling_labels, other.scaling_labels)
        return replace(
            self,
            scaling_labels=scaling_labels,
            classes=np.union1d(self.classes, other.classes),
            task_classes=self.task_classes + _tasks_without(other.task_classes, self.arrived),
        )


def moments_by_label(state: State) -> dict[Label, ClassMoments]:
    """Return the moments of the classes seen, by label in order of arrival."""
    return dict(zip(state.arrived.tolist(), state.model.moments, strict=True))


def _new_labels(labels: Labels, names: Mapping[Label, Label]) -> Labels:
    """Return the sorted new labels of some labels; those without a new name keep theirs."""
    if not len(labels):
        return labels
    new_labels = [names.get(label, label) for label in labels.tolist()]
    return np.unique(new_labels)


def _tasks_without(task_classes: tuple[Labels, ...], labels: Labels) -> tuple[Labels, ...]:
    """Return the labels of tasks without some labels; tasks that keep no label are left out."""
    remaining = []
    for task in task_classes:
        remaining_labels = np.setdiff1d(task, labels)
        if len(remaining_labels):
            remaining.append(remaining_labels)
    return tuple(remaining)
