"""Split labelled data into tasks of new classes, or of classes that tasks share."""

import warnings
from collections import Counter
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from ..core.messages import level_of_user
from .arguments import validate_arguments
from .arrays import UserArray
from .labels import Label, Labels, check_labels, check_targets
from .seeds import RandomState

__all__ = [
    "SPLIT_CONSTRAINTS",
    "class_incremental_tasks",
    "labels_of_samples",
    "samples_of_tasks",
    "split_into_tasks",
]

# Sample numbers of a task.
SampleNumbers: TypeAlias = NDArray[np.intp]

SPLIT_CONSTRAINTS: dict[str, list[object]] = {
    "classes_per_task": [Interval(Integral, 1, None, closed="left"), "array-like"],
    "first_task_classes": [Interval(Integral, 1, None, closed="left"), None],
    "class_order": [StrOptions({"sorted", "random"}), "array-like"],
    "blurry_classes": [Interval(Real, 0, 1, closed="both")],
    "blurry_samples": [Interval(Real, 0, 1, closed="left")],
    "random_state": ["random_state"],
}


@validate_arguments({"y": ["array-like"], **SPLIT_CONSTRAINTS})
def class_incremental_tasks(
    y: ArrayLike,
    *,
    classes_per_task: int | Sequence[int] = 1,
    first_task_classes: int | None = None,
    class_order: Literal["sorted", "random"] | ArrayLike = "sorted",
    blurry_classes: float = 0.0,
    blurry_samples: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
) -> list[NDArray[np.intp]]:
    """Split the samples of `y` into tasks with disjoint classes, or with classes that they share.

    With `blurry_classes` and `blurry_samples`, the tasks are those of a blurry stream [1]_, [2]_:
    some samples of some classes leave the task of their class and come in any task.

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
    blurry_classes : float, default=0.0
        Share of the classes, in [0, 1], that are blurry; at least one class if the share is
        positive. They are drawn with `random_state`. All other classes come in one task only.
    blurry_samples : float, default=0.0
        Share of the samples of each blurry class, in [0, 1), that are dealt to all tasks in random
        order, in parts of random size. At least one sample of the class stays in its task.
    random_state : int, RandomState instance or None, default=None
        Seed of the "random" class order, and of what is blurry.

    Returns
    -------
    tasks : list of ndarray of int
        The sample indices of each task, in increasing order. Every sample is in one task.

    Raises
    ------
    ValueError
        If `y` does not contain class labels, the classes cannot be divided as requested, or only
        one of `blurry_classes` and `blurry_samples` is positive.

    Warns
    -----
    UserWarning
        If `random_state` is given and has no effect, because nothing is drawn.

    See Also
    --------
    evaluate_stream : Learn and score the tasks one after another.

    References
    ----------
    .. [1] H. Koh, D. Kim, J.-W. Ha and J. Choi. Online Continual Learning on Class Incremental
       Blurry Task Configuration with Anytime Inference. ICLR 2022: shares of classes and samples.
    .. [2] J.-Y. Moon, K.-H. Park, J. U. Kim and G.-M. Park. Online Class Incremental Learning on
       Stochastic Blurry Task Boundary via Mask and Visual Prompt Tuning. ICCV 2023 (Si-Blurry):
       parts of random size. It also draws the number of classes of each task, which
       `classes_per_task` sets here.

    Examples
    --------
    >>> from ffnb_sklearn.streams import class_incremental_tasks
    >>> y = ["dog", "cat", "cow", "cat", "owl"]
    >>> [task.tolist() for task in class_incremental_tasks(y, classes_per_task=2)]
    [[1, 2, 3], [0, 4]]

    In a blurry stream, tasks share classes:

    >>> y = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    >>> for task in class_incremental_tasks(
    ...     y, blurry_classes=1.0, blurry_samples=0.5, random_state=2
    ... ):
    ...     print([y[sample] for sample in task])
    [0, 0, 0, 0, 2]
    [1, 1, 1, 2]
    [1, 2, 2]
    """
    labels = labels_of_samples(y, "y")
    tasks, _ = split_into_tasks(
        labels,
        classes_per_task,
        first_task_classes,
        class_order,
        blurry_classes,
        blurry_samples,
        random_state,
    )
    return tasks


def labels_of_samples(y: UserArray, name: str) -> Labels:
    """Return the labels of one or more samples as an array."""
    labels = check_targets(y, None, name)
    if len(labels) == 0:
        raise ValueError(f"{name} holds no sample; at least one is needed.")
    return labels


def split_into_tasks(
    labels: Labels,
    classes_per_task: int | Sequence[int],
    first_task_classes: int | None,
    class_order: str | ArrayLike,
    blurry_classes: float,
    blurry_samples: float,
    random_state: RandomState,
) -> tuple[list[SampleNumbers], list[Labels]]:
    """Return the sample indices of each task, and its classes in order of arrival.

    A blurry class is one of the classes of a single task, although its samples come in others too.
    """
    is_blurry = blurry_classes > 0
    if is_blurry != (blurry_samples > 0):
        raise ValueError(
            "blurry_classes and blurry_samples must both be positive, or both 0; got "
            f"{blurry_classes} and {blurry_samples}."
        )
    classes = np.unique(labels)
    sizes = _sizes_of_tasks(len(classes), classes_per_task, first_task_classes)
    is_random = isinstance(class_order, str) and class_order == "random"
    if random_state is not None and not is_random and not is_blurry:
        warnings.warn(
            f"random_state={random_state!r} has no effect, because it only draws "
            f'class_order="random" and blurry classes; got class_order={class_order!r} and '
            f"blurry_classes={blurry_classes}.",
            UserWarning,
            stacklevel=level_of_user(),
        )
    generator = check_random_state(random_state)
    order = generator.permutation(classes) if is_random else _given_order(classes, class_order)
    ends = np.cumsum(sizes)
    task_classes = np.split(order, ends[:-1])
    tasks = samples_of_tasks(labels, task_classes, "y")
    if is_blurry:
        tasks = _blurred(tasks, labels, blurry_classes, blurry_samples, generator)
    return tasks, task_classes


def _given_order(classes: Labels, class_order: str | ArrayLike) -> Labels:
    """Return the classes in sorted order, or in the order of an array."""
    if isinstance(class_order, str):
        return classes
    order = check_labels(class_order, classes, "class_order")
    _check_order(classes.tolist(), order.tolist())
    return order


def _blurred(
    tasks: Sequence[SampleNumbers],
    labels: Labels,
    blurry_classes: float,
    blurry_samples: float,
    generator: np.random.RandomState,
) -> list[SampleNumbers]:
    """Return tasks with a share of the samples of some classes dealt to all of them."""
    classes, codes = np.unique(labels, return_inverse=True)
    n_blurry = max(round(blurry_classes * len(classes)), 1)
    pool = []
    for code in generator.permutation(len(classes))[:n_blurry]:
        samples = np.flatnonzero(codes == code)
        # The task of the class keeps a sample, so that no task is empty.
        n_moved = min(round(blurry_samples * len(samples)), len(samples) - 1)
        pool.append(generator.permutation(samples)[:n_moved])
    moved = generator.permutation(np.concatenate(pool))
    cuts = generator.randint(0, len(moved) + 1, size=len(tasks) - 1)
    parts = np.split(moved, np.sort(cuts))
    blurred = []
    for task, part in zip(tasks, parts, strict=True):
        kept = np.setdiff1d(task, moved, assume_unique=True)
        blurred.append(np.sort(np.concatenate([kept, part])))
    return blurred


def _check_order(classes: Sequence[Label], order: Sequence[Label]) -> None:
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


def _sizes_of_tasks(
    n_classes: int, classes_per_task: int | Sequence[int], first_task_classes: int | None
) -> list[int]:
    """Return the number of classes of each task."""
    sizes = []
    if first_task_classes is not None:
        sizes.append(int(first_task_classes))
    if isinstance(classes_per_task, int | np.integer):
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


def samples_of_tasks(
    labels: Labels, task_classes: Sequence[Labels], name: str
) -> list[SampleNumbers]:
    """Return the sample indices of each task, in increasing order."""
    # The keys are Python values, because NumPy compares 1 and "1" as equal strings.
    task_of_label: dict[Label, int] = {}
    for task, classes in enumerate(task_classes):
        task_of_label.update(dict.fromkeys(classes.tolist(), task))
    classes, codes = np.unique(labels, return_inverse=True)
    unknown = [label for label in classes.tolist() if label not in task_of_label]
    if unknown:
        raise ValueError(f"{name} holds labels that y does not: {unknown}.")
    task_of_class = np.array([task_of_label[label] for label in classes.tolist()])
    task_of_sample = task_of_class[codes]
    return [np.flatnonzero(task_of_sample == task) for task in range(len(task_classes))]
