"""Score an estimator that learns tasks of new classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, validate_params

from .. import metrics
from .._inputs.tasks import SPLIT_CONSTRAINTS, classes_of_tasks, samples_of_tasks
from ._learner import StreamLearner, check_stream

__all__ = ["StreamResult", "evaluate_stream"]


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

    accuracy_matrix: NDArray[np.float64]
    accuracies: NDArray[np.float64]
    task_classes: list[np.ndarray]
    n_test_per_task: NDArray[np.int64]
    fit_seconds: NDArray[np.float64]
    state_bytes: NDArray[np.float64]
    estimator: Any

    def __repr__(self) -> str:
        """Return a line with the stream and its results."""
        n_tasks = len(self.task_classes)
        n_classes = sum(map(len, self.task_classes))
        return (
            f"StreamResult of {type(self.estimator).__name__}, {n_tasks} tasks, {n_classes} "
            f"classes: accuracy {self.final_accuracy:.1%} at the end and "
            f"{self.average_incremental_accuracy:.1%} on average"
        )

    @property
    def final_accuracy(self) -> float:
        """Accuracy over all test samples after the last task (the "last" of most tables)."""
        accuracy = self.accuracies[-1]
        return float(accuracy)

    @property
    def average_incremental_accuracy(self) -> float:
        """See :func:`ffnb_sklearn.metrics.average_incremental_accuracy`."""
        task_sizes = self.n_test_per_task
        return metrics.average_incremental_accuracy(self.accuracy_matrix, task_sizes)

    @property
    def forgetting(self) -> float:
        """See :func:`ffnb_sklearn.metrics.forgetting`."""
        return metrics.forgetting(self.accuracy_matrix)


@validate_params(
    {
        "estimator": [HasMethods(["partial_fit", "predict"])],
        "y": ["array-like"],
        "y_test": ["array-like"],
        **SPLIT_CONSTRAINTS,
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

    A plain scikit-learn ``Pipeline`` has no `partial_fit`, but ``ContinualPipeline`` does. If the
    first call of `partial_fit` requires ``classes=``, as in scikit-learn, it gets every label of
    `y`. Pass ``declare_classes=True`` for an estimator that does not require them and still refuses
    new labels in later calls.

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
    X, y = check_stream(X, y, "X", "y")
    X_test, y_test = check_stream(X_test, y_test, "X_test", "y_test")
    task_classes = classes_of_tasks(
        y, classes_per_task, first_task_classes, class_order, random_state
    )
    tasks = samples_of_tasks(y, task_classes, "y")
    test_tasks = samples_of_tasks(y_test, task_classes, "y_test")
    n_test = np.array([len(samples) for samples in test_tasks])
    if not n_test.all():
        classes = task_classes[n_test.argmin()]
        raise ValueError(f"y_test holds no sample of the task with the classes {classes}.")

    n_tasks = len(tasks)
    n_correct = np.full((n_tasks, n_tasks), np.nan)
    accuracies = np.empty(n_tasks)
    fit_seconds = np.empty(n_tasks)
    state_bytes = np.empty(n_tasks)
    learner = StreamLearner(estimator, np.unique(y), declare_classes, "evaluate_stream")
    for i, samples in enumerate(tasks):
        X_task = _safe_indexing(X, samples)
        name = f"task {i + 1} of {n_tasks}"
        fit_seconds[i] = learner.learn(X_task, y[samples], name, is_first=i == 0)
        # Measured before the estimator predicts, because a prediction may fill caches.
        state_bytes[i] = learner.pickled_size()
        n_learned = i + 1
        n_scored = n_tasks if score_future else n_learned
        n_correct[i, :n_scored] = _n_correct(learner, X_test, y_test, test_tasks[:n_scored])
        accuracies[i] = n_correct[i, :n_learned].sum() / n_test[:n_learned].sum()

    return StreamResult(
        accuracy_matrix=n_correct / n_test,
        accuracies=accuracies,
        task_classes=task_classes,
        n_test_per_task=n_test,
        fit_seconds=fit_seconds,
        state_bytes=state_bytes,
        estimator=learner.estimator,
    )


def _n_correct(learner, X, y, tasks):
    """Return the number of samples of each task that the estimator predicts correctly."""
    # A single prediction for all tasks is faster than a prediction for each task.
    samples = np.concatenate(tasks)
    predictions, _ = learner.predict(_safe_indexing(X, samples))
    is_correct = predictions == y[samples]
    ends = np.cumsum([len(task) for task in tasks])
    return [task_is_correct.sum() for task_is_correct in np.split(is_correct, ends[:-1])]
