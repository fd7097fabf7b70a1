"""Labels are split into tasks of new classes, or of classes that tasks share."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ffnb_sklearn import class_incremental_tasks


def as_lists(arrays):
    return [array.tolist() for array in arrays]


def test_tasks_by_hand():
    y = [3, 1, 2, 1, 0, 3]

    assert as_lists(class_incremental_tasks(y)) == [[4], [1, 3], [2], [0, 5]]
    assert as_lists(class_incremental_tasks(y, classes_per_task=3)) == [[1, 2, 3, 4], [0, 5]]
    assert as_lists(class_incremental_tasks(y, classes_per_task=[1, 3])) == [[4], [0, 1, 2, 3, 5]]
    assert as_lists(class_incremental_tasks(y, classes_per_task=9)) == [[0, 1, 2, 3, 4, 5]]


def test_first_task_then_the_rest():
    y = np.arange(10)

    tasks = class_incremental_tasks(y, first_task_classes=5, classes_per_task=2)
    assert [len(task) for task in tasks] == [5, 2, 2, 1]
    tasks = class_incremental_tasks(y, first_task_classes=5, classes_per_task=(1, 4))
    assert [len(task) for task in tasks] == [5, 1, 4]
    assert as_lists(class_incremental_tasks([0, 1], first_task_classes=2)) == [[0, 1]]


@pytest.mark.parametrize(
    ("y", "class_order"),
    [
        (np.array([2, 0, 1]), [1, 2, 0]),
        (np.array(["cc", "a", "bbb"]), ["bbb", "cc", "a"]),
        (np.array(["cc", "a", "bbb"], dtype=object), np.array(["bbb", "cc", "a"])),
        (np.array([2.0, 0.0, 1.0]), (1, 2, 0)),
        (pd.Series([2, 0, 1], index=[7, 8, 9]), pd.Series([1, 2, 0])),
    ],
)
def test_given_class_order(y, class_order):
    assert as_lists(class_incremental_tasks(y, class_order=class_order)) == [[2], [0], [1]]


def test_boolean_labels():
    tasks = class_incremental_tasks([True, False, True], class_order=[True, False])

    assert as_lists(tasks) == [[0, 2], [1]]


def test_random_order_follows_the_seed():
    y = np.arange(100)
    order = np.concatenate(class_incremental_tasks(y, class_order="random", random_state=1993))

    # The start of the order in which the literature streams CIFAR-100.
    assert order[:10].tolist() == [68, 56, 78, 8, 23, 84, 90, 65, 74, 76]
    other = np.concatenate(class_incremental_tasks(y, class_order="random", random_state=0))
    assert not np.array_equal(order, other)


@given(
    y=st.lists(st.integers(-3, 6), min_size=1, max_size=60),
    per_task=st.integers(1, 5),
    first=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_tasks_partition_samples_and_classes(y, per_task, first, seed):
    labels = np.array(y)
    n_classes = len(set(y))
    first = min(first, n_classes)
    tasks = class_incremental_tasks(
        y,
        classes_per_task=per_task,
        first_task_classes=first,
        class_order="random",
        random_state=seed,
    )

    assert np.sort(np.concatenate(tasks)).tolist() == list(range(len(y)))
    assert all(np.issubdtype(task.dtype, np.integer) for task in tasks)
    assert all((np.diff(task) > 0).all() for task in tasks)
    classes = [set(labels[task].tolist()) for task in tasks]
    assert sum(map(len, classes)) == n_classes == len(set.union(*classes))
    assert [len(c) for c in classes[:-1]] == [first, *[per_task] * (len(tasks) - 2)][
        : len(tasks) - 1
    ]


def home_counts(y, tasks, home):
    """Return the number of samples of each class in the task of the class, and elsewhere."""
    counts = np.array([np.bincount(y[task], minlength=len(home)) for task in tasks])
    at_home = counts[home, np.arange(len(home))]
    return at_home, counts.sum(axis=0) - at_home


def test_blurry_classes_have_samples_in_tasks_of_other_classes():
    y = np.repeat(np.arange(10), 50)
    options = {"classes_per_task": 2, "blurry_classes": 0.4, "blurry_samples": 0.2}
    blurry_sets = set()
    sizes = set()
    for seed in range(5):
        tasks = class_incremental_tasks(y, random_state=seed, **options)

        assert np.sort(np.concatenate(tasks)).tolist() == list(range(500))
        assert all((np.diff(task) > 0).all() for task in tasks)
        at_home, elsewhere = home_counts(y, tasks, np.repeat(np.arange(5), 2))
        blurry = np.flatnonzero(elsewhere)
        assert len(blurry) <= 4
        # A fifth of 50 samples is dealt, and a part of it comes back.
        assert (at_home >= 40).all()
        blurry_sets.add(tuple(blurry))
        sizes.add(tuple(map(len, tasks)))
    assert len(blurry_sets) == len(sizes) == 5


def test_a_seed_draws_the_same_blurry_tasks_and_the_same_class_order():
    y = np.repeat(np.arange(6), 20)
    random = {"class_order": "random", "classes_per_task": 2, "random_state": 3}
    blurry = {"blurry_classes": 0.5, "blurry_samples": 0.3}
    first = class_incremental_tasks(y, **random, **blurry)

    assert as_lists(first) == as_lists(class_incremental_tasks(y, **random, **blurry))
    # Blurry classes and samples do not change the order of the classes.
    for task, plain in zip(first, class_incremental_tasks(y, **random), strict=True):
        main = np.argsort(np.bincount(y[task], minlength=6))[-2:]
        assert set(main) == set(y[plain])


def test_each_class_keeps_a_sample_in_its_task():
    y = np.repeat(np.arange(8), 2)
    for seed in range(20):
        tasks = class_incremental_tasks(
            y, blurry_classes=0.01, blurry_samples=0.99, random_state=seed
        )
        at_home, elsewhere = home_counts(y, tasks, np.arange(8))
        assert at_home.min() >= 1
        # A positive share is one class at least.
        assert elsewhere.sum() <= 1


def test_blurry_labels_may_be_strings():
    y = np.array(["a", "b"] * 10)
    tasks = class_incremental_tasks(y, blurry_classes=1, blurry_samples=0.5, random_state=1)

    assert [set(y[task]) for task in tasks] == [{"a", "b"}, {"a", "b"}]


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([], {}, "y holds no sample"),
        ([0.5, 1.5], {}, "Unknown label type"),
        ([0.0, np.nan], {}, "NaN"),
        ([[0, 1], [1, 0]], {}, "1d array"),
        ([1, "a"], {}, "y must hold .*, all of one kind; got number and str"),
        (["a", None], {}, "Input y contains NaN"),
        (np.array(["a", np.nan], dtype=object), {}, "Input y contains NaN"),
        ([0, 1, 2], {"classes_per_task": 0}, "'classes_per_task' parameter"),
        ([0, 1, 2], {"classes_per_task": 1.5}, "'classes_per_task' parameter"),
        (
            [0, 1, 2],
            {"classes_per_task": [1, 1]},
            "sum to 3, the number of classes of y; got None and",
        ),
        ([0, 1, 2], {"classes_per_task": [3, 0]}, "positive integers"),
        ([0, 1, 2], {"classes_per_task": [1.0, 2.0]}, "positive integers"),
        ([0, 1, 2], {"classes_per_task": [[1, 2]]}, "positive integers"),
        (
            [0, 1, 2],
            {"classes_per_task": [3], "first_task_classes": 1},
            "sum to 3, the number of classes of y; got 1 and",
        ),
        ([0, 1, 2], {"first_task_classes": 0}, "'first_task_classes' parameter"),
        ([0, 1, 2], {"first_task_classes": 4}, "sum to 3, the number of classes of y; got 4 and 1"),
        ([0, 1, 2], {"class_order": "shuffled"}, "'class_order' parameter"),
        ([0, 1, 2], {"class_order": [0, 1]}, r"missing: \[2\]"),
        ([0, 1, 2], {"class_order": [0, 1, 2, 7]}, r"not in y: \[7\]"),
        ([0, 1, 2], {"class_order": [0, 1, 2, 1]}, r"repeated: \[1\]"),
        ([0, 1, 2], {"class_order": ["0", "1", "2"]}, "class_order must hold labels of the kind"),
        ([0, 1, 2], {"class_order": [0, "1", 2]}, "class_order must hold .* got number and str"),
        ([0, 1, 2], {"class_order": [[0, 1, 2]]}, "class_order must be one-dimensional"),
        # The order of a set of strings differs from process to process.
        (["a", "b"], {"class_order": {"a", "b"}}, "class_order must be one-dimensional"),
        ([0, 1, 2], {"class_order": "random", "random_state": "x"}, "'random_state' parameter"),
        ([0, 1, 2], {"blurry_classes": 0.5}, "must both be positive, or both 0; got 0.5 and 0.0"),
        ([0, 1, 2], {"blurry_samples": 0.5}, "must both be positive, or both 0; got 0.0 and 0.5"),
        ([0, 1, 2], {"blurry_classes": 1.5}, "'blurry_classes' parameter"),
        ([0, 1, 2], {"blurry_samples": 1.0}, "'blurry_samples' parameter"),
    ],
)
def test_refuses_to_split(y, options, message):
    with pytest.raises(ValueError, match=message):
        class_incremental_tasks(y, **options)


def test_integers_of_numpy_are_numbers_of_classes():
    labels = np.arange(10)
    tasks = class_incremental_tasks(
        labels, classes_per_task=np.int64(4), first_task_classes=np.int64(2)
    )
    assert as_lists(tasks) == [[0, 1], [2, 3, 4, 5], [6, 7, 8, 9]]
    assert len(class_incremental_tasks(labels, classes_per_task=np.int64(5))) == 2
