"""Accuracies, times and sizes measured on a stream of tasks."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import metrics

__all__ = ["StreamResult"]


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
    score_seconds : ndarray of shape (n_tasks,)
        Wall time of ``predict`` on the test samples scored after each task.
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
    score_seconds: np.ndarray
    state_bytes: np.ndarray
    estimator: Any

    def __repr__(self):
        """Return two lines: a description of the stream, and its results."""
        n_tasks, n_classes = len(self.task_classes), sum(map(len, self.task_classes))
        forgotten = f"forgetting {self.forgetting:.1%}, " if n_tasks > 1 else ""
        size = self.state_bytes[-1]
        state = "" if np.isnan(size) else f", state {size / 1e6:.1f} MB"
        return (
            f"StreamResult of {type(self.estimator).__name__}: {n_tasks} tasks, {n_classes} "
            f"classes, {self.n_test_per_task.sum()} test samples\n"
            f"accuracy {self.final_accuracy:.1%} at the end and "
            f"{self.average_incremental_accuracy:.1%} on average, {forgotten}learned in "
            f"{self.fit_seconds.sum():.2f} s{state}"
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
    def average_accuracy(self):
        """See :func:`ffnb_sklearn.metrics.average_accuracy`."""
        return metrics.average_accuracy(self.accuracy_matrix)

    @property
    def forgetting(self):
        """See :func:`ffnb_sklearn.metrics.forgetting`."""
        return metrics.forgetting(self.accuracy_matrix)

    @property
    def backward_transfer(self):
        """See :func:`ffnb_sklearn.metrics.backward_transfer`."""
        return metrics.backward_transfer(self.accuracy_matrix)

    @property
    def forward_transfer(self):
        """See :func:`ffnb_sklearn.metrics.forward_transfer`; requires scores of future tasks."""
        return metrics.forward_transfer(self.accuracy_matrix)
