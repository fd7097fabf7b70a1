"""Metrics that summarise a class-incremental run, each with the definition it follows.

Every function takes the accuracy matrix A of shape (n_tasks, n_tasks): ``A[i, j]`` is the accuracy
on the test samples of task ``j`` after task ``i`` has been learned. Entries with ``j > i`` concern
tasks that have not been learned yet; they may be NaN.
"""

import numpy as np
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


def average_incremental_accuracy(accuracy_matrix, task_sizes=None):
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
    correct = np.tril(np.nan_to_num(matrix)) @ sizes
    return float(np.mean(correct / np.cumsum(sizes)))


def average_accuracy(accuracy_matrix):
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
    return float(np.mean(_check_accuracy_matrix(accuracy_matrix)[-1]))


def forgetting(accuracy_matrix):
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
    return float(np.mean(best - matrix[-1, :-1]))


def backward_transfer(accuracy_matrix):
    r"""Compute the mean change in accuracy of each earlier task since it was learned.

    .. math:: \mathrm{BWT} = \frac{1}{T-1} \sum_{j=1}^{T-1} \left( A_{Tj} - A_{jj} \right)

    Parameters
    ----------
    accuracy_matrix : array-like of shape (n_tasks, n_tasks)
        Accuracies in [0, 1] of at least two tasks. NaN is allowed above the diagonal.

    Returns
    -------
    transfer : float
        A value in [-1, 1]; negative if later tasks harmed earlier ones.

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
    return float(np.mean((matrix[-1] - np.diag(matrix))[:-1]))


def forward_transfer(accuracy_matrix, baseline=0.0):
    r"""Compute the mean gain over an untrained model on each task, just before it is learned.

    .. math:: \mathrm{FWT} = \frac{1}{T-1} \sum_{j=2}^{T} \left( A_{j-1,j} - b_j \right)

    A learner that predicts only labels it has seen is always wrong there, so the metric is
    meaningful only if the labels are shared by the tasks or declared in advance.

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
        A value in [-1, 1]; positive if earlier tasks help later ones.

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
    ahead = np.diag(matrix, k=1)
    if np.isnan(ahead).any():
        raise ValueError(
            "forward_transfer needs accuracy_matrix[j - 1, j] for every task j, but got NaN for "
            f"task {int(np.flatnonzero(np.isnan(ahead))[0]) + 1}. Measure them with "
            "evaluate_stream(..., score_future=True)."
        )
    baseline = np.asarray(baseline, dtype=np.float64)
    if baseline.shape not in ((), (len(matrix),)):
        raise ValueError(
            f"baseline must be one accuracy, or one per task, so {len(matrix)}; got {baseline}."
        )
    _check_fractions(baseline, "baseline")
    return float(np.mean(ahead - np.broadcast_to(baseline, len(matrix))[1:]))


def _check_accuracy_matrix(accuracy_matrix, *, min_tasks=1):
    """Return the matrix as float64, with NaN for masked entries; raise if it is not valid."""
    matrix, name = accuracy_matrix, "accuracy_matrix"
    if isinstance(matrix, np.ma.MaskedArray):
        matrix = matrix.astype(np.float64).filled(np.nan)
    matrix = check_array(
        as_numpy(matrix, name), dtype=np.float64, ensure_all_finite="allow-nan", input_name=name
    )
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            "accuracy_matrix must be square, one row and one column per task; "
            f"got shape {matrix.shape}."
        )
    if len(matrix) < min_tasks:
        raise ValueError(f"At least {min_tasks} tasks are needed; accuracy_matrix has 1.")
    if np.isnan(matrix[np.tril_indices_from(matrix)]).any():
        raise ValueError(
            "accuracy_matrix may hold NaN above the diagonal only: row i needs the accuracy on "
            "every task up to task i."
        )
    _check_fractions(matrix[~np.isnan(matrix)], "accuracy_matrix")
    return matrix


def _check_fractions(values, name):
    """Raise if accuracies are not fractions, such as NaN or values in percent."""
    outside = values[~((values >= 0) & (values <= 1))]
    if outside.size:
        raise ValueError(
            f"{name} must hold accuracies as fractions in [0, 1]; got {float(outside[0])!r}."
        )


def _check_task_sizes(task_sizes, n_tasks):
    """Return one positive weight per task."""
    sizes = np.asarray(np.ones(n_tasks) if task_sizes is None else task_sizes, dtype=np.float64)
    if sizes.shape != (n_tasks,) or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise ValueError(
            f"task_sizes must hold one positive number per task, so {n_tasks}; got {task_sizes!r}."
        )
    return sizes
