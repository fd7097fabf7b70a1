"""Test an estimator on every sample before it learns the sample."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval

from .._inputs.arguments import validate_arguments
from ._html import MOST_ROWS, cells_of, curve_of, figure_of, heading, table_of, text_cells
from ._learner import StreamClassifier, StreamLearner, check_stream, unknown_label_of

__all__ = ["PrequentialResult", "evaluate_prequential", "windowed_means"]

# Number of points of the stream at which the size of the estimator is measured, and of points of
# the curve in a notebook.
_N_SIZES = 10
_N_POINTS = 40


@dataclass(frozen=True, eq=False, repr=False)
class PrequentialResult:
    """Measurements of :func:`~ffnb_sklearn.evaluate_prequential`.

    Samples are tested from the second batch on. `n_tested` is their number.

    Attributes
    ----------
    is_correct : ndarray of shape (n_tested,), dtype=bool
        Whether each tested sample was predicted correctly, in the order of the stream.
    y_true, y_pred : ndarray of shape (n_tested,)
        Labels and predictions of the tested samples.
    batch_size : int
        Number of samples of a batch; the samples of the first batch were not tested.
    window : int
        Number of samples of the windowed accuracy.
    predict_seconds : ndarray of shape (n_batches - 1,)
        Wall time of ``predict`` on each batch from the second on.
    fit_seconds : ndarray of shape (n_batches,)
        Wall time of ``partial_fit`` on each batch.
    state_samples : ndarray of shape (n_sizes,), dtype=int
        Number of samples learned at about ten points of the stream.
    state_bytes : ndarray of shape (n_sizes,)
        Size of the pickled estimator at these points, before it predicts; NaN if it cannot be
        pickled.
    estimator : estimator instance
        The clone that learned the stream.
    """

    is_correct: NDArray[np.bool_]
    y_true: NDArray[Any]
    y_pred: NDArray[Any]
    batch_size: int
    window: int
    predict_seconds: NDArray[np.float64]
    fit_seconds: NDArray[np.float64]
    state_samples: NDArray[np.int64]
    state_bytes: NDArray[np.float64]
    estimator: Any

    def __repr__(self) -> str:
        """Return a line with the stream and its results."""
        return (
            f"PrequentialResult of {type(self.estimator).__name__}, {len(self.is_correct)} samples "
            f"tested in batches of {self.batch_size}: accuracy {self.accuracy:.1%}, "
            f"{self.rows_per_second:.3g} samples per second"
        )

    def _repr_html_(self) -> str:
        """Return curves over the stream and a table of the classes for notebooks.

        The curves are the windowed accuracy and, if the estimator has an `unknown_label_`, the
        share of the samples in the window that got this label.
        """
        parts = [heading(repr(self))]
        parts += self._curve(self.windowed_accuracy, "accuracy")
        unknown_label = unknown_label_of(self.estimator)
        if unknown_label is not None:
            shares = windowed_means(self.y_pred == unknown_label, self.window)
            parts += self._curve(shares, "share of unknown samples")
        classes, first_samples = np.unique(self.y_true, return_index=True)
        if len(classes) <= MOST_ROWS:
            parts.append(self._table_of_classes(classes, first_samples))
        return figure_of(*parts)

    def _curve(self, values, quantity):
        """Return a line of text and the picture of values after each tested sample."""
        name = f"{quantity} over the last {self.window} samples"
        positions = np.linspace(0, len(values) - 1, _N_POINTS).round()
        points = np.unique(positions.astype(int))
        return [heading(name), curve_of(values[points], name)]

    def _table_of_classes(self, classes, first_samples):
        """Return a table with a row for each class."""
        samples_of_classes = [np.flatnonzero(self.y_true == label) for label in classes]

        def shares_of(is_counted):
            return cells_of([is_counted[samples].mean() for samples in samples_of_classes])

        n_before = self.batch_size + first_samples
        columns = {
            "class": text_cells([str(label) for label in classes]),
            "tested": text_cells([str(len(samples)) for samples in samples_of_classes]),
            "first tested after": text_cells([str(number) for number in n_before]),
            "% right": shares_of(self.is_correct),
        }
        unknown_label = unknown_label_of(self.estimator)
        if unknown_label is not None:
            columns["% unknown"] = shares_of(self.y_pred == unknown_label)
        rows = zip(*columns.values(), strict=True)
        return table_of(columns, rows)

    @property
    def accuracy(self) -> float:
        """Share of the tested samples that were predicted correctly."""
        accuracy = self.is_correct.mean()
        return float(accuracy)

    @property
    def running_accuracy(self) -> NDArray[np.float64]:
        """Accuracy over all samples tested so far, after each tested sample."""
        n_tested = len(self.is_correct)
        return windowed_means(self.is_correct, n_tested)

    @property
    def windowed_accuracy(self) -> NDArray[np.float64]:
        """Accuracy over the last `window` tested samples, or over fewer at the beginning."""
        return windowed_means(self.is_correct, self.window)

    @property
    def rows_per_second(self) -> float:
        """Tested samples per second of predicting and learning them."""
        # The first batch was not tested, so its time does not count.
        fit_seconds = self.fit_seconds[1:]
        seconds = self.predict_seconds.sum() + fit_seconds.sum()
        n_tested = len(self.is_correct)
        return float(n_tested / seconds)


@validate_arguments(
    {
        "estimator": [HasMethods(["partial_fit", "predict"])],
        "y": ["array-like"],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "window": [Interval(Integral, 1, None, closed="left")],
        "declare_classes": ["boolean"],
    }
)
def evaluate_prequential(
    estimator: StreamClassifier,
    X: object,
    y: ArrayLike,
    *,
    batch_size: int = 1,
    window: int = 1000,
    declare_classes: bool = False,
) -> PrequentialResult:
    """Let a clone of any estimator with `partial_fit` predict each batch, then learn the batch.

    Every sample is a test sample once, before it is a training sample, so no samples are set aside
    (prequential evaluation, or test-then-train [1]_). The first batch is learned without a test.
    A sample whose label was in no earlier batch counts as wrong, unless the estimator predicts its
    `unknown_label_`. :class:`~ffnb_sklearn.OpenSetClassifier` has this attribute; it is also found
    in the last step of a pipeline, and in the `estimator_` of another estimator.

    If the first call of `partial_fit` requires ``classes=``, as in scikit-learn, it gets every
    label of `y`. Pass ``declare_classes=True`` for an estimator that does not require them and
    still refuses new labels in later calls.

    Parameters
    ----------
    estimator : classifier with `partial_fit` and `predict`
        The estimator is not changed: a clone without its fitted state learns the stream.
    X : {array-like, sparse matrix, dataframe, list} of n_samples samples
        Samples in the order of the stream, in a form that the estimator accepts. Rows are selected,
        not converted.
    y : array-like of shape (n_samples,)
        Labels.
    batch_size : int, default=1
        Number of samples that are predicted, and then learned, at once. The last batch takes the
        remaining samples.
    window : int, default=1000
        Number of samples of the windowed accuracy, which shows changes that the accuracy over all
        samples hides.
    declare_classes : bool, default=False
        Whether the first call of `partial_fit` gets every label of `y` as ``classes=`` in any case.

    Returns
    -------
    result : PrequentialResult
        Accuracy over time, times and sizes.

    Raises
    ------
    ValueError
        If the lengths differ, or `y` has no more samples than the first batch.

    See Also
    --------
    PrequentialAccuracyDisplay : Plot of the windowed accuracy.
    evaluate_stream : Tasks of new classes, with test samples of their own.

    References
    ----------
    .. [1] J. Gama, R. Sebastiao, P. P. Rodrigues. "On evaluating stream learning algorithms".
       Machine Learning 90, 2013.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ffnb_sklearn import IncrementalDiscriminantAnalysis, evaluate_prequential
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = IncrementalDiscriminantAnalysis(random_state=0)
    >>> result = evaluate_prequential(clf, X, y, batch_size=10)
    >>> result.accuracy > 0.8  # the classes come one after another
    True
    >>> result.is_correct.shape
    (140,)
    """
    samples, labels = check_stream(X, y, "X", "y")
    n_samples = len(labels)
    if n_samples <= batch_size:
        raise ValueError(
            f"y must have more samples than the first batch, which is not tested; got {n_samples} "
            f"samples and batch_size={batch_size}."
        )
    starts = np.arange(0, n_samples, batch_size)
    n_batches = len(starts)
    first_batches = _first_batches(labels, batch_size)
    points = np.linspace(0, n_batches - 1, _N_SIZES).round()
    measured_batches = np.unique(points.astype(int))

    is_correct = np.zeros(n_samples, dtype=bool)
    predictions_of_batches = []
    predict_seconds = np.empty(n_batches - 1)
    fit_seconds = np.empty(n_batches)
    state_bytes = []
    learner = StreamLearner(estimator, np.unique(labels), declare_classes, "evaluate_prequential")
    for i, start in enumerate(starts):
        stop = np.minimum(start + batch_size, n_samples)
        batch = np.arange(start, stop)
        X_batch = _safe_indexing(samples, batch)
        y_batch = labels[batch]
        if i > 0:
            predictions, predict_seconds[i - 1] = learner.predict(X_batch)
            predictions_of_batches.append(predictions)
            # A declared label may be guessed before it has been learned.
            was_learned = first_batches[batch] < i
            is_correct[batch] = was_learned & (predictions == y_batch)
            unknown_label = unknown_label_of(learner.estimator)
            if unknown_label is not None:
                is_correct[batch] |= ~was_learned & (predictions == unknown_label)
        name = f"batch {i + 1} of {n_batches}"
        fit_seconds[i] = learner.learn(X_batch, y_batch, name, is_first=i == 0)
        if i in measured_batches:
            state_bytes.append(learner.pickled_size())

    return PrequentialResult(
        is_correct=is_correct[batch_size:],
        y_true=labels[batch_size:],
        y_pred=np.concatenate(predictions_of_batches),
        batch_size=batch_size,
        window=window,
        predict_seconds=predict_seconds,
        fit_seconds=fit_seconds,
        state_samples=np.minimum((measured_batches + 1) * batch_size, n_samples),
        state_bytes=np.array(state_bytes, dtype=float),
        estimator=learner.estimator,
    )


def windowed_means(values, window):
    """Return the mean of the last `window` values at each position, of fewer at the beginning."""
    sums = np.cumsum(values, dtype=float)
    sums_before_window = np.zeros_like(sums)
    sums_before_window[window:] = sums[:-window]
    positions = np.arange(1, len(sums) + 1)
    n_values = np.minimum(positions, window)
    return (sums - sums_before_window) / n_values


def _first_batches(y, batch_size):
    """Return the number of the first batch that has the label of each sample."""
    _, first_samples, codes = np.unique(y, return_index=True, return_inverse=True)
    first_batches = first_samples // batch_size
    return first_batches[codes]
