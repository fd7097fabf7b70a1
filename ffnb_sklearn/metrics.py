"""Metrics that summarise a class-incremental run, each with the definition it follows.

Every function takes the accuracy matrix A of shape (n_tasks, n_tasks): ``A[i, j]`` is the accuracy
on the test samples of task ``j`` after task ``i`` has been learned. Entries with ``j > i`` concern
tasks that have not been learned yet; they may be NaN.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from ._inputs.arrays import as_numpy
from .core.bands.bound import ForgettingBound, LayerBound

__all__ = [
    "ForgettingBound",
    "LayerBound",
    "average_accuracy",
    "average_incremental_accuracy",
    "backward_transfer",
    "forgetting",
    "forward_transfer",
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
