"""Split labelled data into tasks of new classes, and score an estimator that learns them."""

import inspect
import pickle
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing, check_random_state, column_or_1d, indexable
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions, validate_params

from . import metrics
from ._inputs.arrays import in_memory
from ._inputs.labels import check_targets
from .core.messages import level_of_user

__all__ = ["StreamResult", "class_incremental_tasks", "evaluate_stream"]

_SPLIT_CONSTRAINTS = {
    "classes_per_task": [Interval(Integral, 1, None, closed="left"), "array-like"],
    "first_task_classes": [Interval(Integral, 1, None, closed="left"), None],
    "class_order": [StrOptions({"random"}), "array-like", None],
    "random_state": ["random_state"],
}


@dataclass(frozen=True, eq=False, repr=False)
class StreamResult:
    """Measurements of :func:`evaluate_stream`.

    Attributes
    ----------
    accuracy_matrix : ndarray of shape (n_tasks, n_tasks)
        Entry (i, j): accuracy on the test samples of task j after task i was learned. NaN for
        j > i, unless future tasks were scored.
    accuracies : ndarray of shape (n_tasks,)
        Accuracy over the test samples of all classes learned so far, after each task.
    task_classes : list of ndarray
        The labels of each task, in order of arrival.
    n_test_per_task : ndarray of shape (n_tasks,)
        Number of test samples of each task.
    fit_seconds : ndarray of shape (n_tasks,)
        Wall time of ``partial_fit`` on each task.
    state_bytes : ndarray of shape (n_tasks,)
        Size of the pickled estimator after each task, before it predicts; NaN if it cannot be
        pickled.
    estimator : estimator instance
        The clone that learned the stream.
    """

    accuracy_matrix: np.ndarray
    accuracies: np.ndarray
    task_classes: list[np.ndarray]
    n_test_per_task: np.ndarray
    fit_seconds: np.ndarray
    state_bytes: np.ndarray
    estimator: Any

    def __repr__(self):
        """Return a line with the stream and its results."""
        n_tasks, n_classes = len(self.task_classes), sum(map(len, self.task_classes))
        return (
            f"StreamResult of {type(self.estimator).__name__}, {n_tasks} tasks, {n_classes} "
            f"classes: accuracy {self.final_accuracy:.1%} at the end and "
            f"{self.average_incremental_accuracy:.1%} on average"
        )

    @property
    def final_accuracy(self):
        """Accuracy over all test samples after the last task (the "last" of most tables)."""
        return float(self.accuracies[-1])

    @property
    def average_incremental_accuracy(self):
        """See :func:`ffnb_sklearn.metrics.average_incremental_accuracy`."""
        return metrics.average_incremental_accuracy(self.accuracy_matrix, self.n_test_per_task)

    @property
    def forgetting(self):
        """See :func:`ffnb_sklearn.metrics.forgetting`."""
        return metrics.forgetting(self.accuracy_matrix)


@validate_params({"y": ["array-like"], **_SPLIT_CONSTRAINTS}, prefer_skip_nested_validation=True)
def class_incremental_tasks(
    y, *, classes_per_task=1, first_task_classes=None, class_order=None, random_state=None
):
    """Split the samples of `y` into tasks with disjoint classes.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Class labels of one kind.
    classes_per_task : int or sequence of int, default=1
        Number of classes of each task. An int applies to every task, and the last task takes the
        remaining classes. A sequence has one number per task and must sum to the number of classes.
    first_task_classes : int, default=None
        Number of classes of the first task, such as 50 for the usual "base" task of CIFAR-100.
        `classes_per_task` then applies to the remaining classes.
    class_order : "random" or array-like of shape (n_classes,), default=None
        Order in which the classes arrive, with each label once. None sorts the classes. "random"
        shuffles them with `random_state`; for 100 classes, the seed 1993 gives the order in which
        most papers stream CIFAR-100.
    random_state : int, RandomState instance or None, default=None
        Seed of the "random" class order.

    Returns
    -------
    tasks : list of ndarray of int
        The sample indices of each task, in increasing order. Every sample is in one task.

    Raises
    ------
    ValueError
        If `y` does not contain class labels, or the classes cannot be divided as requested.

    Warns
    -----
    UserWarning
        If `random_state` is given and has no effect, because `class_order` is not "random".

    See Also
    --------
    evaluate_stream : Learn and score the tasks one after another.

    Examples
    --------
    >>> from ffnb_sklearn.streams import class_incremental_tasks
    >>> y = ["dog", "cat", "cow", "cat", "owl"]
    >>> [task.tolist() for task in class_incremental_tasks(y, classes_per_task=2)]
    [[1, 2, 3], [0, 4]]
    """
    labels = _check_labels(y, "y")
    groups = _deal_classes(labels, classes_per_task, first_task_classes, class_order, random_state)
    return _samples_of_tasks(labels, groups, "y")


@validate_params(
    {
        "estimator": [HasMethods(["partial_fit", "predict"])],
        "y": ["array-like"],
        "y_test": ["array-like"],
        **_SPLIT_CONSTRAINTS,
        "score_future": ["boolean"],
        "declare_classes": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def evaluate_stream(
    estimator,
    X,
    y,
    X_test,
    y_test,
    *,
    classes_per_task=1,
    first_task_classes=None,
    class_order=None,
    random_state=None,
    score_future=False,
    declare_classes=False,
):
    """Train a clone of any estimator with `partial_fit` on each task, and score it after each task.

    A plain scikit-learn ``Pipeline`` has no `partial_fit`, but ``ContinualPipeline`` does. An
    estimator whose first call of `partial_fit` requires ``classes=``, as those of scikit-learn do,
    gets every label of `y` there. Pass ``declare_classes=True`` for an estimator that does not
    require them and still refuses new labels in later calls.

    Parameters
    ----------
    estimator : classifier with `partial_fit` and `predict`
        The estimator is not changed: a clone without its fitted state learns the stream.
    X : {array-like, sparse matrix, dataframe, list} of n_samples samples
        Training samples in a form that the estimator accepts. Rows are selected, not converted.
    y : array-like of shape (n_samples,)
        Training labels.
    X_test : {array-like, sparse matrix, dataframe, list} of n_test_samples samples
        Test samples.
    y_test : array-like of shape (n_test_samples,)
        Test labels. They must be labels of `y`, with at least one sample for each task.
    classes_per_task, first_task_classes, class_order, random_state : parameters of the split
        See :func:`class_incremental_tasks`.
    score_future : bool, default=False
        Whether to score future tasks as well, which
        :func:`~ffnb_sklearn.metrics.forward_transfer` needs.
    declare_classes : bool, default=False
        Whether the first call of `partial_fit` gets every label of `y` as ``classes=`` in any case.

    Returns
    -------
    result : StreamResult
        Accuracies, times and sizes, task by task.

    Raises
    ------
    ValueError
        If the lengths differ, a test label is not in `y`, a task has no test sample, or the classes
        cannot be divided as requested.

    See Also
    --------
    AccuracyMatrixDisplay : Plot of the task-by-task accuracies.
    IncrementalAccuracyDisplay : Plot of the accuracy as the classes arrive.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import SGDClassifier
    >>> from ffnb_sklearn.streams import evaluate_stream
    >>> X, y = load_digits(return_X_y=True)
    >>> result = evaluate_stream(
    ...     SGDClassifier(random_state=0), X[:1000], y[:1000], X[1000:], y[1000:],
    ...     classes_per_task=5,
    ... )
    >>> result.accuracy_matrix.shape
    (2, 2)
    >>> bool(result.forgetting > 0.5)  # the second task wipes out the first
    True
    """
    X, y = indexable(in_memory(X, "X"), _check_labels(y, "y"))
    X_test, y_test = indexable(in_memory(X_test, "X_test"), _check_labels(y_test, "y_test"))
    groups = _deal_classes(y, classes_per_task, first_task_classes, class_order, random_state)
    tasks = _samples_of_tasks(y, groups, "y")
    test_tasks = _samples_of_tasks(y_test, groups, "y_test")
    n_test = np.array([len(task) for task in test_tasks])
    for group, task in zip(groups, test_tasks, strict=True):
        if not len(task):
            raise ValueError(f"y_test holds no sample of the task with the classes {group}.")

    n_tasks = len(tasks)
    n_correct = np.full((n_tasks, n_tasks), np.nan)
    fit_seconds, state_bytes, accuracies = np.empty((3, n_tasks))
    takes_classes = "classes" in inspect.signature(estimator.partial_fit).parameters
    learner = clone(estimator)
    for i, task in enumerate(tasks):
        X_task, y_task = _safe_indexing(X, task), y[task]
        declared = {"classes": np.unique(y)} if declare_classes and i == 0 else {}
        try:
            fit_seconds[i] = _seconds_of(learner.partial_fit, X_task, y_task, **declared)
        except Exception as error:
            if declare_classes or not takes_classes:
                raise
            if i > 0:
                error.add_note(
                    f"This was task {i + 1} of {n_tasks}. If the estimator fixes its classes at "
                    "the first call, pass declare_classes=True to evaluate_stream."
                )
                raise
            if "classes" not in str(error):
                raise
            declare_classes = True
            learner = clone(estimator)
            fit_seconds[i] = _seconds_of(learner.partial_fit, X_task, y_task, classes=np.unique(y))
        # Measured before the estimator predicts, because a prediction may fill caches.
        state_bytes[i] = _pickled_size(learner)
        n_scored = n_tasks if score_future else i + 1
        samples = np.concatenate(test_tasks[:n_scored])
        predicted = column_or_1d(learner.predict(_safe_indexing(X_test, samples)))
        starts = np.cumsum(n_test[:n_scored]) - n_test[:n_scored]
        n_correct[i, :n_scored] = np.add.reduceat(predicted == y_test[samples], starts, dtype=float)
        accuracies[i] = n_correct[i, : i + 1].sum() / n_test[: i + 1].sum()

    return StreamResult(
        accuracy_matrix=n_correct / n_test,
        accuracies=accuracies,
        task_classes=groups,
        n_test_per_task=n_test,
        fit_seconds=fit_seconds,
        state_bytes=state_bytes,
        estimator=learner,
    )


def _check_labels(y, name):
    """Return one or more labels as an array."""
    labels = check_targets(y, None, name)
    if len(labels) == 0:
        raise ValueError(f"{name} holds no sample; at least one is needed.")
    return labels


def _deal_classes(labels, classes_per_task, first_task_classes, class_order, random_state):
    """Return the labels of each task, in order of arrival."""
    classes = np.unique(labels)
    sizes = _sizes_of_tasks(len(classes), classes_per_task, first_task_classes)
    if random_state is not None and not isinstance(class_order, str):
        warnings.warn(
            f"random_state={random_state!r} has no effect, because it only draws "
            f'class_order="random"; got class_order={class_order!r}.',
            UserWarning,
            stacklevel=level_of_user(),
        )
    if isinstance(class_order, str):
        classes = check_random_state(random_state).permutation(classes)
    elif class_order is not None:
        classes = classes[_order_of_classes(classes.tolist(), class_order)]
    return np.split(classes, np.cumsum(sizes)[:-1])


def _order_of_classes(classes, class_order):
    """Return the positions of the classes in order of arrival."""
    # Python values instead of an array, which would turn [1, "b"] into strings that match no label.
    order = class_order.tolist() if hasattr(class_order, "tolist") else list(class_order)
    given = Counter(order)
    if given != Counter(classes):
        raise ValueError(
            f"class_order must hold each of the {len(classes)} labels of y once; "
            f"missing: {[label for label in classes if label not in given]}, "
            f"not in y: {[label for label in given if label not in classes]}, "
            f"repeated: {[label for label, count in given.items() if count > 1]}."
        )
    return [classes.index(label) for label in order]


def _sizes_of_tasks(n_classes, classes_per_task, first_task_classes):
    """Return the number of classes of each task."""
    first = [] if first_task_classes is None else [int(first_task_classes)]
    left = n_classes - sum(first)
    if isinstance(classes_per_task, Integral):
        full, rest = divmod(left, int(classes_per_task))
        sizes = [int(classes_per_task)] * full + [rest] * (rest > 0)
    else:
        sizes = list(classes_per_task)
    if sum(sizes) != left or not all(size > 0 for size in sizes):
        raise ValueError(
            f"first_task_classes and classes_per_task must be positive numbers that sum to "
            f"{n_classes}, the number of classes of y; got {first_task_classes} and "
            f"{classes_per_task}."
        )
    return first + sizes


def _samples_of_tasks(labels, groups, name):
    """Return the sample indices of each task, in their original order."""
    # The keys are Python values, because NumPy compares 1 and "1" as equal strings.
    task_of_label = {label: t for t, group in enumerate(groups) for label in group.tolist()}
    present, codes = np.unique(labels, return_inverse=True)
    unknown = [label for label in present.tolist() if label not in task_of_label]
    if unknown:
        raise ValueError(f"{name} holds labels that y does not: {unknown}.")
    task_of_sample = np.array([task_of_label[label] for label in present.tolist()])[codes]
    return [np.flatnonzero(task_of_sample == t) for t in range(len(groups))]


def _seconds_of(call, *args, **kwargs):
    """Make a call; return the seconds that it took."""
    start = time.perf_counter()
    call(*args, **kwargs)
    return time.perf_counter() - start


def _pickled_size(estimator):
    """Return the number of bytes of the pickled estimator, NaN if it cannot be pickled."""
    try:
        return len(pickle.dumps(estimator, protocol=pickle.HIGHEST_PROTOCOL))
    except (pickle.PicklingError, AttributeError, TypeError):
        # For example a lambda among the parameters, which should not end a long run.
        return np.nan
