"""Score an estimator that learns tasks of new classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils._optional_dependencies import check_pandas_support
from sklearn.utils._param_validation import HasMethods

from .. import metrics
from .._inputs.arguments import validate_arguments
from .._inputs.tasks import SPLIT_CONSTRAINTS, samples_of_tasks, split_into_tasks
from ._html import MOST_ROWS, cells_of, curve_of, figure_of, heading, table_of, text_cells
from ._learner import StreamClassifier, StreamLearner, check_stream

if TYPE_CHECKING:
    import pandas

__all__ = ["StreamResult", "evaluate_stream"]


@dataclass(frozen=True, eq=False, repr=False)
class StreamResult:
    """Measurements of :func:`~ffnb_sklearn.evaluate_stream`.

    Attributes
    ----------
    accuracy_matrix : ndarray of shape (n_tasks, n_tasks)
        Entry (i, j): accuracy on the test samples of task j after task i was learned. NaN for
        j > i, unless future tasks were scored.
    accuracies : ndarray of shape (n_tasks,)
        Accuracy over the test samples of all classes seen so far, after each task.
    n_classes : ndarray of shape (n_tasks,)
        Number of these classes.
    task_classes : list of ndarray
        The labels of each task, in order of arrival. A blurry class belongs to one task, although
        other tasks hold samples of it.
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
    n_classes: NDArray[np.int64]
    task_classes: list[np.ndarray]
    n_test_per_task: NDArray[np.int64]
    fit_seconds: NDArray[np.float64]
    state_bytes: NDArray[np.float64]
    estimator: Any

    def __repr__(self) -> str:
        """Return a line with the stream and its results."""
        n_tasks = len(self.task_classes)
        return (
            f"StreamResult of {type(self.estimator).__name__}, {n_tasks} tasks, "
            f"{self.n_classes[-1]} classes: accuracy {self.final_accuracy:.1%} at the end and "
            f"{self.average_incremental_accuracy:.1%} on average"
        )

    def _repr_html_(self) -> str:
        """Return the curve and the accuracies of the tasks for notebooks."""
        parts = [heading(repr(self)), curve_of(self.accuracies)]
        n_tasks = len(self.task_classes)
        if n_tasks <= MOST_ROWS:
            numbers = [str(number) for number in range(1, n_tasks + 1)]
            cells = cells_of(np.column_stack([self.accuracies, self.accuracy_matrix]))
            rows = [[first, *row] for first, row in zip(text_cells(numbers), cells, strict=True)]
            headings = ["after task", "% of all", *(f"% of task {number}" for number in numbers)]
            parts.append(table_of(headings, rows))
        return figure_of(*parts)

    def to_frame(self) -> "pandas.DataFrame":
        """Return a table with a row for each task; pandas must be installed.

        Returns
        -------
        pandas.DataFrame
            Number of classes seen so far, accuracy over all of them, seconds, bytes, and the
            accuracy on the test samples of each task.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pandas = check_pandas_support("StreamResult.to_frame")
        columns: dict[str, Any] = {
            "n_classes": self.n_classes,
            "accuracy": self.accuracies,
            "fit_seconds": self.fit_seconds,
            "state_bytes": self.state_bytes,
        }
        for number, accuracies in enumerate(self.accuracy_matrix.T, start=1):
            columns[f"accuracy_task_{number}"] = accuracies
        index = pandas.RangeIndex(1, len(self.n_classes) + 1, name="task")
        return pandas.DataFrame(columns, index=index)

    @property
    def final_accuracy(self) -> float:
        """Accuracy over all test samples after the last task (the "last" of most tables)."""
        accuracy = self.accuracies[-1]
        return float(accuracy)

    @property
    def average_incremental_accuracy(self) -> float:
        """Mean of `accuracies`; see :func:`ffnb_sklearn.metrics.average_incremental_accuracy`."""
        return float(self.accuracies.mean())

    @property
    def forgetting(self) -> float:
        """See :func:`ffnb_sklearn.metrics.forgetting`."""
        return metrics.forgetting(self.accuracy_matrix)


@validate_arguments(
    {
        "estimator": [HasMethods(["partial_fit", "predict"])],
        "y": ["array-like"],
        "y_test": ["array-like"],
        **SPLIT_CONSTRAINTS,
        "score_future": ["boolean"],
        "declare_classes": ["boolean"],
    }
)
def evaluate_stream(
    estimator: StreamClassifier,
    X: object,
    y: ArrayLike,
    X_test: object,
    y_test: ArrayLike,
    *,
    classes_per_task: int | Sequence[int] = 1,
    first_task_classes: int | None = None,
    class_order: Literal["sorted", "random"] | ArrayLike = "sorted",
    blurry_classes: float = 0.0,
    blurry_samples: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
    score_future: bool = False,
    declare_classes: bool = False,
) -> StreamResult:
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
    classes_per_task, first_task_classes, class_order : parameters of the split
        See :func:`class_incremental_tasks`.
    blurry_classes, blurry_samples, random_state : parameters of the split
        See :func:`class_incremental_tasks`. The test samples of a blurry class belong to the task
        of the class, and count in `accuracies` from the first task that holds samples of it.
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
    streams.StreamSummary : Means and deviations over several class orders.
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
    samples, labels = check_stream(X, y, "X", "y")
    test_samples, test_labels = check_stream(X_test, y_test, "X_test", "y_test")
    tasks, task_classes = split_into_tasks(
        labels,
        classes_per_task,
        first_task_classes,
        class_order,
        blurry_classes,
        blurry_samples,
        random_state,
    )
    test_tasks = samples_of_tasks(test_labels, task_classes, "y_test")
    n_test = np.array([len(task) for task in test_tasks])
    if not n_test.all():
        classes = task_classes[n_test.argmin()]
        raise ValueError(f"y_test holds no sample of the task with the classes {classes}.")

    n_tasks = len(tasks)
    classes, arrivals = _arrivals(labels, tasks)
    test_arrivals = arrivals[np.searchsorted(classes, test_labels)]
    n_correct = np.full((n_tasks, n_tasks), np.nan)
    accuracies = np.empty(n_tasks)
    n_classes = np.empty(n_tasks, dtype=int)
    fit_seconds = np.empty(n_tasks)
    state_bytes = np.empty(n_tasks)
    learner = StreamLearner(estimator, classes, declare_classes, "evaluate_stream")
    for i, task in enumerate(tasks):
        X_task = _safe_indexing(samples, task)
        name = f"task {i + 1} of {n_tasks}"
        fit_seconds[i] = learner.learn(X_task, labels[task], name, is_first=i == 0)
        # Measured before the estimator predicts, because a prediction may fill caches.
        state_bytes[i] = learner.pickled_size()
        is_seen = test_arrivals <= i
        is_scored = np.full_like(is_seen, True) if score_future else is_seen
        is_correct = _is_correct(learner, test_samples, test_labels, is_scored)
        n_scored = n_tasks if score_future else i + 1
        n_correct[i, :n_scored] = [is_correct[task].sum() for task in test_tasks[:n_scored]]
        accuracies[i] = is_correct[is_seen].mean()
        n_classes[i] = (arrivals <= i).sum()

    return StreamResult(
        accuracy_matrix=n_correct / n_test,
        accuracies=accuracies,
        n_classes=n_classes,
        task_classes=task_classes,
        n_test_per_task=n_test,
        fit_seconds=fit_seconds,
        state_bytes=state_bytes,
        estimator=learner.estimator,
    )


def _arrivals(labels, tasks):
    """Return the classes, and the number of the first task with samples of each class."""
    classes, codes = np.unique(labels, return_inverse=True)
    arrivals = np.empty(len(classes), dtype=int)
    for number, task in reversed(list(enumerate(tasks))):
        arrivals[codes[task]] = number
    return classes, arrivals


def _is_correct(learner, X, y, is_scored):
    """Return whether the prediction of each sample is correct, False for samples not scored."""
    scored = np.flatnonzero(is_scored)
    predictions, _ = learner.predict(_safe_indexing(X, scored))
    is_correct = np.zeros(len(y), dtype=bool)
    is_correct[scored] = predictions == y[scored]
    return is_correct
