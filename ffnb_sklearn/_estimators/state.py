"""Learned state of a classifier, as one value that is replaced and never changed."""

from dataclasses import dataclass, replace

import numpy as np

from .._inputs.columns import ColumnRepair
from .._inputs.seeds import advance
from .._inputs.sparse import RandomProjection
from .._locks import ForkSafeLock

__all__ = [
    "ConcurrentLearningError",
    "State",
    "exchange",
    "learned_attribute",
    "present_attribute",
    "read_only",
]

# Held while the states of an estimator are compared and exchanged. One lock serves all estimators,
# because a lock in each estimator could be neither pickled nor copied.
_EXCHANGE = ForkSafeLock()


class ConcurrentLearningError(RuntimeError):
    """Two calls that learn have run in one estimator at the same time.

    The call that ends second raises this error and changes nothing; the result of the first call is
    kept. Repeat the second call to learn its samples too. In a pipeline, whose steps change in
    place, the call that begins second raises the error.
    """


@dataclass(frozen=True, eq=False)
class State:
    """Learned state of a classifier after some tasks.

    A call that learns stores it by a single assignment, so that errors, interrupts and other
    threads always leave or find a whole state.

    Attributes
    ----------
    n_features_in : int
        Number of input features.
    feature_names_in : ndarray of shape (n_features_in,) or None
        Names of the features, if they have any.
    projection : RandomProjection or None
        Projection of the samples, if the first samples were sparse and wide.
    repair : ColumnRepair or None
        Repair of the columns of X, decided at the first task; None leaves them as they are.
    model : object or None
        Model that scores samples by class, in order of arrival. None before the first task.
    arrived : ndarray of shape (n_arrived,) or None
        Labels seen, in order of arrival. None before the first task.
    classes : ndarray of shape (n_classes,) or None
        Labels seen or declared, sorted. None before the first task.
    task_classes : tuple of ndarray
        New labels of each task.
    """

    n_features_in: int
    feature_names_in: np.ndarray | None = None
    projection: RandomProjection | None = None
    repair: ColumnRepair | None = None
    model: object = None
    arrived: np.ndarray | None = None
    classes: np.ndarray | None = None
    task_classes: tuple = ()

    @property
    def n_inputs(self):
        """Number of inputs of the model: features, or columns of the projection."""
        return self.n_features_in if self.projection is None else self.projection.n_columns

    def by_class(self, values, missing):
        """Return one column per entry of `classes`; `missing` fills those of labels not seen."""
        full = np.full((len(values), len(self.classes)), missing)
        full[:, np.searchsorted(self.classes, self.arrived)] = values
        return full

    def after_task(self, model, arrived):
        """Return the state after a task, given its model and the labels seen by then."""
        new = arrived[0 if self.arrived is None else len(self.arrived) :]
        tasks = (*self.task_classes, new) if len(new) else self.task_classes
        state = replace(self, model=model, arrived=arrived, task_classes=tasks)
        return state.declaring(arrived)

    def declaring(self, labels):
        """Return the state with columns for more labels, if there are any."""
        if labels is None or not len(labels):
            return self
        known = labels[:0] if self.classes is None else self.classes
        return replace(self, classes=np.union1d(known, labels))

    def without(self, labels, model):
        """Return the state without some labels, given a model without their classes."""
        tasks = (np.setdiff1d(task, labels) for task in self.task_classes)
        return replace(
            self,
            model=model,
            arrived=self.arrived[~np.isin(self.arrived, labels)],
            classes=np.setdiff1d(self.classes, labels),
            task_classes=tuple(task for task in tasks if len(task)),
        )

    def merged(self, other, model, arrived):
        """Return the union of two states, given their merged model and the labels of both."""
        tasks = (np.setdiff1d(task, self.arrived) for task in other.task_classes)
        return replace(
            self,
            model=model,
            arrived=arrived,
            classes=np.union1d(self.classes, other.classes),
            task_classes=self.task_classes + tuple(task for task in tasks if len(task)),
        )


def exchange(estimator, name, before, after, *, random_state=None):
    """Replace an attribute; raise if it is not the object that a call that learns began with.

    A `random_state` is advanced if the attribute is replaced, and not if the call is refused.
    """
    with _EXCHANGE.held:
        is_current = getattr(estimator, name) is before
        if is_current:
            attributes = vars(estimator)
            advance(random_state)
            # No call comes between, which could fail: both or none.
            attributes[name] = after
    if not is_current:
        raise ConcurrentLearningError(
            f"This {type(estimator).__name__} was changed by another thread while this call ran. "
            "That change is kept, and this call has changed nothing: repeat it. Let only one "
            "thread at a time learn."
        )


def learned_attribute(read):
    """Make a read-only attribute that `read` computes from the state of an estimator.

    It raises `NotFittedError`, an `AttributeError`, while there is no state.
    """
    return property(lambda estimator: read_only(read(estimator._learned_state())))


def read_only(value):
    """Return an array, or the arrays of a list, as views that callers cannot write to."""
    if isinstance(value, list):
        return [read_only(one) for one in value]
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


def present_attribute(read):
    """Make a read-only attribute that `read` computes from an estimator and its parameters.

    It does not exist while a parameter is refused, so that such an estimator can be displayed.
    """

    def value(estimator):
        # An error of an estimator that is not fitted is an `AttributeError` already.
        estimator._learned_state()
        try:
            estimator._present_state()
        except ValueError as error:
            raise AttributeError(str(error)) from error
        return read_only(read(estimator))

    return property(value)
