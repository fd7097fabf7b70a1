"""Split labelled data into tasks of new classes."""

import warnings
from collections import Counter
from collections.abc import Sequence
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from ..core.messages import level_of_user
from .arguments import validate_arguments
from .labels import check_labels, check_targets

__all__ = [
    "SPLIT_CONSTRAINTS",
    "class_incremental_tasks",
    "classes_of_tasks",
    "labels_of_samples",
    "samples_of_tasks",
]

SPLIT_CONSTRAINTS: dict[str, list[object]] = {
    "classes_per_task": [Interval(Integral, 1, None, closed="left"), "array-like"],
    "first_task_classes": [Interval(Integral, 1, None, closed="left"), None],
    "class_order": [StrOptions({"sorted", "random"}), "array-like"],
    "random_state": ["random_state"],
}


@validate_arguments({"y": ["array-like"], **SPLIT_CONSTRAINTS})
def class_incremental_tasks(
    y: ArrayLike,
    *,
    classes_per_task: int | Sequence[int] = 1,
    first_task_classes: int | None = None,
    class_order: Literal["sorted", "random"] | ArrayLike = "sorted",
    random_state: int | np.random.RandomState | None = None,
) -> list[NDArray[np.intp]]:
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
    class_order : "sorted", "random" or array-like of shape (n_classes,), default="sorted"
        Order in which the classes arrive. "random" shuffles the sorted classes with
        `random_state`: for 100 classes, the seed 1993 gives the order in which most papers stream
        CIFAR-100. An array holds each label once.
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
    labels = labels_of_samples(y, "y")
    task_classes = classes_of_tasks(
        labels, classes_per_task, first_task_classes, class_order, random_state
    )
    return samples_of_tasks(labels, task_classes, "y")


def labels_of_samples(y, name):
    """Return the labels of one or more samples as an array."""
    labels = check_targets(y, None, name)
    if len(labels) == 0:
        raise ValueError(f"{name} holds no sample; at least one is needed.")
    return labels


def classes_of_tasks(labels, classes_per_task, first_task_classes, class_order, random_state):
    """Return the classes of each task, in order of arrival."""
    classes = np.unique(labels)
    sizes = _sizes_of_tasks(len(classes), classes_per_task, first_task_classes)
    is_random = isinstance(class_order, str) and class_order == "random"
    if random_state is not None and not is_random:
        warnings.warn(
            f"random_state={random_state!r} has no effect, because it only draws "
            f'class_order="random"; got class_order={class_order!r}.',
            UserWarning,
            stacklevel=level_of_user(),
        )
    if is_random:
        classes = check_random_state(random_state).permutation(classes)
    elif not isinstance(class_order, str):
        order = check_labels(class_order, classes, "class_order")
        _check_order(classes.tolist(), order.tolist())
        classes = order
    ends = np.cumsum(sizes)
    return np.split(classes, ends[:-1])


def _check_order(classes, order):
    """Raise unless an order of the classes holds each class once."""
    counts = Counter(order)
    if counts != Counter(classes):
        missing = [label for label in classes if label not in counts]
        unknown = [label for label in counts if label not in classes]
        repeated = [label for label, count in counts.items() if count > 1]
        raise ValueError(
            f"class_order must hold each of the {len(classes)} labels of y once; "
            f"missing: {missing}, not in y: {unknown}, repeated: {repeated}."
        )


def _sizes_of_tasks(n_classes, classes_per_task, first_task_classes):
    """Return the number of classes of each task."""
    sizes = []
    if first_task_classes is not None:
        sizes.append(int(first_task_classes))
    if isinstance(classes_per_task, Integral):
        n_later = n_classes - sum(sizes)
        n_full_tasks, n_last = divmod(n_later, int(classes_per_task))
        sizes += [int(classes_per_task)] * n_full_tasks
        if n_last > 0:
            sizes.append(n_last)
    else:
        sizes += list(classes_per_task)
    are_integers = all(isinstance(size, Integral) for size in sizes)
    if not are_integers or sum(sizes) != n_classes or min(sizes) <= 0:
        raise ValueError(
            f"first_task_classes and classes_per_task must be positive integers that sum to "
            f"{n_classes}, the number of classes of y; got {first_task_classes} and "
            f"{classes_per_task}."
        )
    return sizes


def samples_of_tasks(labels, task_classes, name):
    """Return the sample indices of each task, in increasing order."""
    # The keys are Python values, because NumPy compares 1 and "1" as equal strings.
    task_of_label = {}
    for task, classes in enumerate(task_classes):
        task_of_label.update(dict.fromkeys(classes.tolist(), task))
    classes, codes = np.unique(labels, return_inverse=True)
    unknown = [label for label in classes.tolist() if label not in task_of_label]
    if unknown:
        raise ValueError(f"{name} holds labels that y does not: {unknown}.")
    task_of_class = np.array([task_of_label[label] for label in classes.tolist()])
    task_of_sample = task_of_class[codes]
    return [np.flatnonzero(task_of_sample == task) for task in range(len(task_classes))]
