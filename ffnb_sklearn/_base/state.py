"""Learned state of a classifier, as one value that is replaced and never changed."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from .._inputs.columns import ColumnScaling
from .._inputs.sparse import RandomProjection
from .open_set import ScoreDistributions, left_out_scores

__all__ = ["State"]


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
    model : object or None
        Model that scores samples by class, in order of arrival. None before the first task.
    classes : ndarray of shape (n_classes,) or None
        Labels seen or declared, sorted. None before the first task.
    task_classes : tuple of ndarray
        New labels of each task.
    random_state : int or None
        Integer that gives the seed, also if the parameter was no integer. None in old files.
    """

    n_features_in: int
    feature_names_in: np.ndarray | None = None
    projection: RandomProjection | None = None
    scaling: ColumnScaling | None = None
    scaling_labels: np.ndarray | None = None
    model: object = None
    classes: np.ndarray | None = None
    task_classes: tuple = ()
    random_state: int | None = None

    @property
    def n_inputs(self):
        """Number of inputs of the model: features, or columns of the projection."""
        if self.projection is None:
            return self.n_features_in
        return self.projection.n_columns

    @cached_property
    def arrived(self):
        """Labels seen, in order of arrival; None before the first task."""
        if not self.task_classes:
            return None
        return np.concatenate(self.task_classes)

    @property
    def n_arrived(self):
        """Number of labels seen."""
        return sum(map(len, self.task_classes))

    @cached_property
    def class_weights(self):
        """Total sample weight of each class seen, in order of arrival."""
        return np.array([moments.weight for moments in self.model.moments])

    @property
    def class_counts(self):
        """Total sample weight of each entry of `classes`; 0 for labels not seen."""
        return self.rows_by_class(self.class_weights)

    @cached_property
    def n_samples(self):
        """Number of samples learned."""
        return sum(moments.n_samples for moments in self.model.moments)

    @cached_property
    def score_distributions(self):
        """Distributions of the novelty scores of new samples of each entry of `classes`."""
        return ScoreDistributions.from_left_out(left_out_scores(self))

    def prepare(self):
        """Compute the values that judge unknown samples, which are kept, before they are read."""
        _ = self.n_samples, self.score_distributions

    def __getstate__(self):
        """Return the fields alone; the cached properties follow from them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def by_class(self, values, labels, missing):
        """Return one column per entry of `classes`, given the columns of some labels.

        `missing` fills the columns of all other labels.
        """
        full = np.full((len(values), len(self.classes)), missing)
        columns = np.searchsorted(self.classes, labels)
        full[:, columns] = values
        return full

    def rows_by_class(self, rows):
        """Return one row per entry of `classes`, given the rows of the labels in order of arrival.

        Labels not seen have rows of zeros.
        """
        full = np.zeros((len(self.classes), *rows.shape[1:]))
        positions = np.searchsorted(self.classes, self.arrived)
        full[positions] = rows
        return full

    def after_task(self, model, arrived):
        """Return the state after a task, given its model and the labels seen by then."""
        task_classes = self.task_classes
        new_labels = arrived[self.n_arrived :]
        if len(new_labels):
            task_classes = (*task_classes, new_labels)
        state = replace(self, model=model, task_classes=task_classes)
        return state.declaring(arrived)

    def declaring(self, labels):
        """Return the state with columns for more labels, if there are any."""
        if labels is None or not len(labels):
            return self
        if self.classes is None:
            return replace(self, classes=np.unique(labels))
        return replace(self, classes=np.union1d(self.classes, labels))

    def without(self, labels, model):
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

    def renamed(self, names):
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

    def merged(self, other):
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


def _new_labels(labels, names):
    """Return the sorted new labels of some labels; those without a new name keep theirs."""
    if not len(labels):
        return labels
    new_labels = [names.get(label, label) for label in labels.tolist()]
    return np.unique(new_labels)


def _tasks_without(task_classes, labels):
    """Return the labels of tasks without some labels; tasks that keep no label are left out."""
    remaining = []
    for task in task_classes:
        remaining_labels = np.setdiff1d(task, labels)
        if len(remaining_labels):
            remaining.append(remaining_labels)
    return tuple(remaining)
