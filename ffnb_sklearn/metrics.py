"""Metrics of class-incremental runs and of open sets, each with the definition it follows.

The metrics of a run take the accuracy matrix A of shape (n_tasks, n_tasks): ``A[i, j]`` is the
accuracy on the test samples of task ``j`` after task ``i`` has been learned. Entries with ``j > i``
concern tasks that have not been learned yet; they may be NaN.

The metrics of an open set take labels of test samples, some of which are of unknown classes and
have the label `unknown_label`.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from ._base.new_features import TransferQuality
from ._inputs.arrays import as_numpy
from ._inputs.labels import check_labels, check_unknown_label
from .core.bands.bound import ForgettingBound, LayerBound

__all__ = [
    "ForgettingBound",
    "LayerBound",
    "TransferQuality",
    "average_accuracy",
    "average_incremental_accuracy",
    "backward_transfer",
    "false_alarm_rate",
    "forgetting",
    "forward_transfer",
    "open_set_classification_rate",
    "unknown_recall",
]


def average_incremental_accuracy(
    accuracy_matrix: ArrayLike, task_sizes: ArrayLike | None = None
) -> float:
    r"""Compute the mean over time of the accuracy on all classes learned so far.

    .. math:: \frac{1}{T} \sum_{i=1}^{T} A_i, \qquad
              A_i = \frac{\sum_{j \le i} n_j A_{ij}}{\sum_{j \le i} n_j}

    The mean includes the first task; some papers exclude it, which changes the result.

    Parameters
    ----------
    accuracy_matrix : array-like of shape (n_tasks, n_tasks)
        Accuracies in [0, 1]. Entries above the diagonal are not used and may be NaN.
    task_sizes : array-like of shape (n_tasks,), default=None
        Number :math:`n_j` of test samples of each task. None gives all tasks the same size.

    Returns
    -------
    accuracy : float
        A value in [0, 1].

    Raises
    ------
    ValueError
        If the matrix is not valid, or if the sizes are not one positive number per task.

    References
    ----------
    Rebuffi, Kolesnikov, Sperl and Lampert, "iCaRL: Incremental Classifier and Representation
    Learning", CVPR 2017, section 4.1.

    Examples
    --------
    >>> from ffnb_sklearn.metrics import average_incremental_accuracy
    >>> matrix = [[1.0, float("nan")], [0.8, 0.6]]
    >>> round(average_incremental_accuracy(matrix, [30, 10]), 3)  # mean of 1.0 and 0.75
    0.875
    """
    matrix = _check_accuracy_matrix(accuracy_matrix)
    sizes = _check_task_sizes(task_sizes, len(matrix))
    # Entries above the diagonal concern tasks that have not been learned yet.
    learned = np.tril(np.nan_to_num(matrix))
    n_correct = learned @ sizes
    n_tested = np.cumsum(sizes)
    accuracies = n_correct / n_tested
    return float(accuracies.mean())


def average_accuracy(accuracy_matrix: ArrayLike) -> float:
    r"""Compute the mean over tasks of the accuracy after the last task.

    .. math:: \mathrm{ACC} = \frac{1}{T} \sum_{j=1}^{T} A_{Tj}

    The "last" or "final" accuracy of most tables is the accuracy over all test samples, which is
    the same number only if the tasks have the same number of test samples.

    Parameters
    ----------
    accuracy_matrix : array-like of shape (n_tasks, n_tasks)
        Accuracies in [0, 1]. Entries above the diagonal are not used and may be NaN.

    Returns
    -------
    accuracy : float
        A value in [0, 1].

    Raises
    ------
    ValueError
        If the matrix is not valid.

    References
    ----------
    Lopez-Paz and Ranzato, "Gradient Episodic Memory for Continual Learning", NeurIPS 2017, eq. 2.

    Examples
    --------
    >>> from ffnb_sklearn.metrics import average_accuracy
    >>> round(average_accuracy([[1.0, float("nan")], [0.8, 0.6]]), 3)
    0.7
    """
    matrix = _check_accuracy_matrix(accuracy_matrix)
    last = matrix[-1]
    return float(last.mean())


def forgetting(accuracy_matrix: ArrayLike) -> float:
    r"""Compute the mean drop of each earlier task from its best accuracy to its last accuracy.

    .. math:: F = \frac{1}{T-1} \sum_{j=1}^{T-1}
              \Bigl( \max_{i \in \{1, \dots, T-1\}} A_{ij} - A_{Tj} \Bigr)

    Accuracies of a task before it was learned are excluded from its maximum if they are NaN.

    Parameters
    ----------
    accuracy_matrix : array-like of shape (n_tasks, n_tasks)
        Accuracies in [0, 1] of at least two tasks. NaN is allowed above the diagonal.

    Returns
    -------
    forgetting : float
        A value in [-1, 1]; smaller is better, negative if earlier tasks have improved.

    Raises
    ------
    ValueError
        If the matrix is not valid, or has fewer than two tasks.

    References
    ----------
    Chaudhry, Dokania, Ajanthan and Torr, "Riemannian Walk for Incremental Learning: Understanding
    Forgetting and Intransigence", ECCV 2018, eq. 3 and the mean below it.

    Examples
    --------
    >>> from ffnb_sklearn.metrics import forgetting
    >>> round(forgetting([[1.0, float("nan")], [0.8, 0.6]]), 3)
    0.2
    """
    matrix = _check_accuracy_matrix(accuracy_matrix, min_tasks=2)
    best = np.nanmax(matrix[:-1, :-1], axis=0)
    last = matrix[-1, :-1]
    drops = best - last
    return float(drops.mean())


def backward_transfer(accuracy_matrix: ArrayLike) -> float:
    r"""Compute the mean change in accuracy of each earlier task since it was learned.

    .. math:: \mathrm{BWT} = \frac{1}{T-1} \sum_{j=1}^{T-1} \left( A_{Tj} - A_{jj} \right)

    Parameters
    ----------
    accuracy_matrix : array-like of shape (n_tasks, n_tasks)
        Accuracies in [0, 1] of at least two tasks. NaN is allowed above the diagonal.

    Returns
    -------
    transfer : float
        A value in [-1, 1]; negative if later tasks reduced the accuracy on earlier tasks.

    Raises
    ------
    ValueError
        If the matrix is not valid, or has fewer than two tasks.

    References
    ----------
    Lopez-Paz and Ranzato, "Gradient Episodic Memory for Continual Learning", NeurIPS 2017, eq. 3.

    Examples
    --------
    >>> from ffnb_sklearn.metrics import backward_transfer
    >>> round(backward_transfer([[1.0, float("nan")], [0.8, 0.6]]), 3)
    -0.2
    """
    matrix = _check_accuracy_matrix(accuracy_matrix, min_tasks=2)
    when_learned = np.diag(matrix)
    last = matrix[-1]
    changes = last - when_learned
    # The last task has had no time to change.
    return float(changes[:-1].mean())


def forward_transfer(accuracy_matrix: ArrayLike, baseline: ArrayLike = 0.0) -> float:
    r"""Compute the mean gain over an untrained model on each task, just before it is learned.

    .. math:: \mathrm{FWT} = \frac{1}{T-1} \sum_{j=2}^{T} \left( A_{j-1,j} - b_j \right)

    A learner that only predicts labels it has seen is always wrong on a task of new labels. The
    metric therefore needs labels that the tasks share, or labels that are declared in advance.

    Parameters
    ----------
    accuracy_matrix : array-like of shape (n_tasks, n_tasks)
        Accuracies in [0, 1] of at least two tasks, known on, below and just above the diagonal:
        ``evaluate_stream(..., score_future=True)`` measures them.
    baseline : float or array-like of shape (n_tasks,), default=0.0
        Accuracy :math:`b_j` of the untrained model on each task. It is 0 for a model that has not
        seen any label.

    Returns
    -------
    transfer : float
        A value in [-1, 1]; positive if earlier tasks help later tasks.

    Raises
    ------
    ValueError
        If the matrix is not valid, has fewer than two tasks, or an entry it needs is NaN.

    References
    ----------
    Lopez-Paz and Ranzato, "Gradient Episodic Memory for Continual Learning", NeurIPS 2017, eq. 4.

    Examples
    --------
    >>> from ffnb_sklearn.metrics import forward_transfer
    >>> round(forward_transfer([[1.0, 0.3], [0.8, 0.6]], baseline=0.1), 3)
    0.2
    """
    matrix = _check_accuracy_matrix(accuracy_matrix, min_tasks=2)
    n_tasks = len(matrix)
    before_learned = np.diag(matrix, k=1)
    is_missing = np.isnan(before_learned)
    if is_missing.any():
        task = int(is_missing.argmax()) + 1
        raise ValueError(
            "forward_transfer needs accuracy_matrix[j - 1, j] for every task j, but got NaN for "
            f"task {task}. Measure them with evaluate_stream(..., score_future=True)."
        )
    untrained = np.asarray(baseline, dtype=np.float64)
    if untrained.shape not in ((), (n_tasks,)):
        raise ValueError(
            f"baseline must be one accuracy, or one per task, so {n_tasks}; got {untrained}."
        )
    _check_fractions(untrained, "baseline")
    untrained = np.broadcast_to(untrained, n_tasks)
    gains = before_learned - untrained[1:]
    return float(gains.mean())


def false_alarm_rate(y_true: ArrayLike, y_pred: ArrayLike, *, unknown_label: Any = None) -> float:
    """Compute the share of the samples of known classes that are predicted as unknown.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels, `unknown_label` for samples of unknown classes, which are ignored.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    unknown_label : label, default=None
        Label of the samples of unknown classes, of the kind of the other labels. None is -1, or
        "unknown" if the labels are strings.

    Returns
    -------
    rate : float
        A value in [0, 1]; smaller is better.

    Raises
    ------
    ValueError
        If the labels are not valid, or none is of a known class.

    See Also
    --------
    unknown_recall : Share of the samples of unknown classes that are found.

    Notes
    -----
    This is the false positive rate of a detector of unknown classes; `rate` of
    :class:`~ffnb_sklearn.OpenSetClassifier` asks for it.

    References
    ----------
    Scheirer, de Rezende Rocha, Sapkota and Boult, "Toward Open Set Recognition", IEEE Transactions
    on Pattern Analysis and Machine Intelligence 35(7), 2013.

    Examples
    --------
    >>> from ffnb_sklearn.metrics import false_alarm_rate
    >>> false_alarm_rate([0, 0, 1, 1, -1], [0, -1, 1, 0, -1])
    0.25
    """
    labels, predictions, unknown = _check_open_set(y_true, y_pred, unknown_label)
    is_unknown = labels == unknown
    _check_members(~is_unknown, "a known class", unknown)
    is_rejected = predictions == unknown
    return float(is_rejected[~is_unknown].mean())


def unknown_recall(y_true: ArrayLike, y_pred: ArrayLike, *, unknown_label: Any = None) -> float:
    """Compute the share of the samples of unknown classes that are predicted as unknown.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels, `unknown_label` for samples of unknown classes. Only these play a part.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    unknown_label : label, default=None
        Label of the samples of unknown classes, of the kind of the other labels. None is -1, or
        "unknown" if the labels are strings.

    Returns
    -------
    recall : float
        A value in [0, 1]; larger is better.

    Raises
    ------
    ValueError
        If the labels are not valid, or none is `unknown_label`.

    See Also
    --------
    false_alarm_rate : Share of the samples of known classes that are rejected.

    References
    ----------
    Scheirer, de Rezende Rocha, Sapkota and Boult, "Toward Open Set Recognition", IEEE Transactions
    on Pattern Analysis and Machine Intelligence 35(7), 2013.

    Examples
    --------
    >>> from ffnb_sklearn.metrics import unknown_recall
    >>> unknown_recall([0, 0, 1, -1, -1], [0, -1, 1, 0, -1])
    0.5
    """
    labels, predictions, unknown = _check_open_set(y_true, y_pred, unknown_label)
    is_unknown = labels == unknown
    _check_members(is_unknown, "an unknown class", unknown)
    is_rejected = predictions == unknown
    return float(is_rejected[is_unknown].mean())


def open_set_classification_rate(
    y_true: ArrayLike, y_pred: ArrayLike, y_score: ArrayLike, *, unknown_label: Any = None
) -> float:
    r"""Compute the area under the curve of open-set classification rates (OSCR).

    For a threshold :math:`\theta` of the score s, the curve has the rate of correct
    classifications among samples of known classes, and the rate of accepted samples of unknown
    classes:

    .. math:: \mathrm{CCR}(\theta) = P(\hat y = y, \, s \ge \theta \mid \text{known})

    .. math:: \mathrm{FPR}(\theta) = P(s \ge \theta \mid \text{unknown}) .

    The area under CCR as a function of FPR is the probability that a sample of a known class is
    classified correctly and has a higher score than a sample of an unknown class. Equal scores
    count half.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels, `unknown_label` for samples of unknown classes.
    y_pred : array-like of shape (n_samples,)
        Predicted labels of known classes; no threshold may have replaced them by `unknown_label`.
        :class:`~ffnb_sklearn.OpenSetClassifier` has them as ``clf.estimator_.predict(X)``.
    y_score : array-like of shape (n_samples,)
        Scores, higher for samples that are more like the known classes.
    unknown_label : label, default=None
        Label of the samples of unknown classes, of the kind of the other labels. None is -1, or
        "unknown" if the labels are strings.

    Returns
    -------
    area : float
        A value in [0, 1]; larger is better. It is at most the accuracy on the known classes.

    Raises
    ------
    ValueError
        If labels or scores are not valid, or the samples are all of known or all of unknown
        classes.

    References
    ----------
    Dhamija, Günther and Boult, "Reducing Network Agnostophobia", NeurIPS 2018.

    Examples
    --------
    >>> from ffnb_sklearn.metrics import open_set_classification_rate
    >>> y_true, y_pred = [0, 0, 1, -1, -1], [0, 1, 1, 0, 1]
    >>> round(open_set_classification_rate(y_true, y_pred, [0.9, 0.8, 0.3, 0.5, 0.1]), 3)
    0.5
    """
    labels, predictions, unknown = _check_open_set(y_true, y_pred, unknown_label)
    is_unknown = labels == unknown
    _check_members(~is_unknown, "a known class", unknown)
    _check_members(is_unknown, "an unknown class", unknown)
    scores: NDArray[np.float64] = check_array(
        as_numpy(y_score, "y_score"), dtype=np.float64, ensure_2d=False, input_name="y_score"
    )
    scores = column_or_1d(scores)
    check_consistent_length(labels, scores)
    is_correct = (predictions == labels) & ~is_unknown
    unknown_scores = np.sort(scores[is_unknown])
    correct_scores = scores[is_correct]
    n_lower = np.searchsorted(unknown_scores, correct_scores, side="left")
    n_not_higher = np.searchsorted(unknown_scores, correct_scores, side="right")
    n_won = 0.5 * (n_lower + n_not_higher).sum()
    n_known = len(labels) - len(unknown_scores)
    n_pairs = n_known * len(unknown_scores)
    return float(n_won / n_pairs)


def _check_open_set(
    y_true: ArrayLike, y_pred: ArrayLike, unknown_label: Any
) -> tuple[NDArray[Any], NDArray[Any], Any]:
    """Return the labels, the predicted labels and the label of samples of unknown classes."""
    labels = check_labels(y_true, None, "y_true")
    predictions = check_labels(y_pred, labels, "y_pred")
    check_consistent_length(labels, predictions)
    unknown = check_unknown_label(unknown_label, labels)
    return labels, predictions, unknown.item()


def _check_members(is_member: NDArray[np.bool_], name: str, unknown: Any) -> None:
    """Raise unless some sample is of known, or of unknown, classes."""
    if not is_member.any():
        raise ValueError(
            f"y_true must have a sample of {name}; samples of unknown classes have the label "
            f"unknown_label={unknown!r}."
        )


def _check_accuracy_matrix(
    accuracy_matrix: ArrayLike, *, min_tasks: int = 1
) -> NDArray[np.float64]:
    """Return the matrix as float64, with NaN for masked entries; raise if it is not valid."""
    if isinstance(accuracy_matrix, np.ma.MaskedArray):
        accuracy_matrix = np.ma.filled(accuracy_matrix.astype(np.float64), np.nan)
    matrix: NDArray[np.float64] = check_array(
        as_numpy(accuracy_matrix, "accuracy_matrix"),
        dtype=np.float64,
        ensure_all_finite="allow-nan",
        input_name="accuracy_matrix",
    )
    n_rows, n_columns = matrix.shape
    if n_rows != n_columns:
        raise ValueError(
            "accuracy_matrix must be square, one row and one column per task; "
            f"got shape {matrix.shape}."
        )
    if n_rows < min_tasks:
        raise ValueError(f"At least {min_tasks} tasks are needed; accuracy_matrix has 1.")
    learned = matrix[np.tril_indices_from(matrix)]
    if np.isnan(learned).any():
        raise ValueError(
            "accuracy_matrix may hold NaN above the diagonal only: row i needs the accuracy on "
            "every task up to task i."
        )
    is_measured = ~np.isnan(matrix)
    _check_fractions(matrix[is_measured], "accuracy_matrix")
    return matrix


def _check_fractions(values: NDArray[np.float64], name: str) -> None:
    """Raise if accuracies are not fractions, such as NaN or values in percent."""
    is_fraction = (values >= 0) & (values <= 1)
    if not is_fraction.all():
        first = float(values[~is_fraction][0])
        raise ValueError(f"{name} must hold accuracies as fractions in [0, 1]; got {first!r}.")


def _check_task_sizes(task_sizes: ArrayLike | None, n_tasks: int) -> NDArray[np.float64]:
    """Return one positive weight per task."""
    if task_sizes is None:
        return np.ones(n_tasks)
    sizes = np.asarray(task_sizes, dtype=np.float64)
    is_positive = np.isfinite(sizes) & (sizes > 0)
    if sizes.shape != (n_tasks,) or not is_positive.all():
        raise ValueError(
            f"task_sizes must hold one positive number per task, so {n_tasks}; got {task_sizes!r}."
        )
    return sizes
