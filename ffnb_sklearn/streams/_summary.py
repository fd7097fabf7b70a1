"""Means and deviations over several streams."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._optional_dependencies import check_pandas_support

from ._evaluation import StreamResult
from ._html import curve_of, figure_of, heading, table_of, text_cells

if TYPE_CHECKING:
    import pandas

__all__ = ["StreamSummary"]


@dataclass(frozen=True, eq=False, repr=False)
class StreamSummary:
    """Results of several streams of one method, such as several orders of the classes.

    The deviation over the streams is the standard deviation of the sample, with n - 1 in the
    denominator; it is 0 for a single stream.

    Parameters
    ----------
    results : sequence of StreamResult
        Results of :func:`~ffnb_sklearn.evaluate_stream` with equally many tasks.

    Raises
    ------
    TypeError
        If a result is no `StreamResult`.
    ValueError
        If there is no result, or the numbers of tasks differ.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ffnb_sklearn.baselines import FeCAM
    >>> from ffnb_sklearn.streams import StreamSummary, evaluate_stream
    >>> X, y = load_iris(return_X_y=True)
    >>> results = []
    >>> for seed in range(3):
    ...     results.append(evaluate_stream(
    ...         FeCAM(), X[::2], y[::2], X[1::2], y[1::2], class_order="random", random_state=seed
    ...     ))
    >>> StreamSummary(results)
    StreamSummary of FeCAM, 3 streams of 3 tasks: accuracy 94.7% ± 0.0% at the end and ...
    """

    results: Sequence[StreamResult]

    def __post_init__(self) -> None:
        """Keep the results as a tuple; raise unless they have equally many tasks."""
        object.__setattr__(self, "results", tuple(self.results))
        for result in self.results:
            if not isinstance(result, StreamResult):
                raise TypeError(
                    f"results must hold objects of StreamResult; got {type(result).__name__}."
                )
        n_tasks = [len(result.accuracies) for result in self.results]
        if len(set(n_tasks)) != 1:
            raise ValueError(
                "results must hold at least one result, all with the same number of tasks; got "
                f"results with {n_tasks} tasks."
            )

    @property
    def accuracies(self) -> NDArray[np.float64]:
        """Accuracy after each task, of shape (n_streams, n_tasks)."""
        return np.array([result.accuracies for result in self.results])

    @property
    def final_accuracies(self) -> NDArray[np.float64]:
        """Accuracy of each stream after its last task."""
        return self.accuracies[:, -1]

    @property
    def average_incremental_accuracies(self) -> NDArray[np.float64]:
        """Average incremental accuracy of each stream."""
        return np.array([result.average_incremental_accuracy for result in self.results])

    def __repr__(self) -> str:
        """Return a line with the streams, and the means of their results ± deviations."""
        n_streams, n_tasks = self.accuracies.shape
        final = _with_deviation(self.final_accuracies)
        average = _with_deviation(self.average_incremental_accuracies)
        estimator = self.results[0].estimator
        return (
            f"StreamSummary of {type(estimator).__name__}, {n_streams} streams of {n_tasks} tasks: "
            f"accuracy {final} at the end and {average} on average"
        )

    def _repr_html_(self) -> str:
        """Return the mean curve and its deviations for notebooks."""
        means = self.accuracies.mean(axis=0)
        headings = ["after task", *map(str, range(1, len(means) + 1))]
        row = text_cells(["accuracy", *map(_with_deviation, self.accuracies.T)])
        return figure_of(heading(repr(self)), curve_of(means), table_of(headings, [row]))

    def to_frame(self) -> "pandas.DataFrame":
        """Return a table with a row for each task; pandas must be installed.

        Returns
        -------
        pandas.DataFrame
            Mean and deviation of the accuracy after each task, and the mean number of seconds that
            it took.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        pandas = check_pandas_support("StreamSummary.to_frame")
        seconds = np.array([result.fit_seconds for result in self.results])
        n_tasks = self.accuracies.shape[1]
        columns = {
            "accuracy": self.accuracies.mean(axis=0),
            "deviation": _deviations(self.accuracies),
            "fit_seconds": seconds.mean(axis=0),
        }
        index = pandas.RangeIndex(1, n_tasks + 1, name="task")
        return pandas.DataFrame(columns, index=index)


def _deviations(values):
    """Return the standard deviation over the first axis, 0 for a single value."""
    n_others = max(len(values) - 1, 1)
    squares = np.square(values - values.mean(axis=0))
    return np.sqrt(squares.sum(axis=0) / n_others)


def _with_deviation(values):
    """Return mean ± deviation of accuracies as text."""
    return f"{values.mean():.1%} ± {_deviations(values):.1%}"
