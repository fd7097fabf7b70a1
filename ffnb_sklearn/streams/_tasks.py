"""Split labelled data into tasks of new classes."""

import warnings
from collections import Counter
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_params

from .._inputs.labels import check_targets
from ..core.messages import level_of_user

__all__ = [
    "SPLIT_CONSTRAINTS",
    "check_labels",
    "class_incremental_tasks",
    "deal_classes",
    "samples_of_tasks",
]

SPLIT_CONSTRAINTS = {
    "classes_per_task": [Interval(Integral, 1, None, closed="left"), "array-like"],
    "first_task_classes": [Interval(Integral, 1, None, closed="left"), None],
    "class_order": [StrOptions({"random"}), "array-like", None],
    "random_state": ["random_state"],
}


@validate_params({"y": ["array-like"], **SPLIT_CONSTRAINTS}, prefer_skip_nested_validation=True)
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
    labels = check_labels(y, "y")
    groups = deal_classes(labels, classes_per_task, first_task_classes, class_order, random_state)
    return samples_of_tasks(labels, groups, "y")


def check_labels(y, name):
    """Return one or more labels as an array."""
    labels = check_targets(y, None, name)
    if len(labels) == 0:
        raise ValueError(f"{name} holds no sample; at least one is needed.")
    return labels


def deal_classes(labels, classes_per_task, first_task_classes, class_order, random_state):
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


def samples_of_tasks(labels, groups, name):
    """Return the sample indices of each task, in their original order."""
    # The keys are Python values, because NumPy compares 1 and "1" as equal strings.
    task_of_label = {label: t for t, group in enumerate(groups) for label in group.tolist()}
    present, codes = np.unique(labels, return_inverse=True)
    unknown = [label for label in present.tolist() if label not in task_of_label]
    if unknown:
        raise ValueError(f"{name} holds labels that y does not: {unknown}.")
    task_of_sample = np.array([task_of_label[label] for label in present.tolist()])[codes]
    return [np.flatnonzero(task_of_sample == t) for t in range(len(groups))]
