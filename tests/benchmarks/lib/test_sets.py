"""Feature files of every layout, generated sets, and the order of the classes."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.lib.data import Split, read_features
from benchmarks.lib.sets import GROUPS, Problem, hold_out, load_group
from ffnb_sklearn import class_incremental_tasks

GENERATED = ["generated", "classification", "surrounding", "unequal-sizes"]


@pytest.mark.parametrize("layout", ["train", "split", "fold", "named"])
def test_feature_files_of_every_layout(layout, tmp_path):
    random = np.random.default_rng(0)
    X, y, is_test = random.normal(size=(30, 4)), np.arange(30) % 3, np.arange(30) >= 20
    arrays = {
        "train": {"X": X, "y": y, "train": ~is_test},
        "split": {"X": X, "y": y, "split": is_test.astype(int)},
        "fold": {"X": X, "y": y, "fold": is_test.astype(int)},
        "named": {"x_train": X[:20], "y_train": y[:20], "x_test": X[20:], "y_test": y[20:]},
    }[layout]
    np.savez(tmp_path / "rows.npz", **arrays)
    splits = read_features(tmp_path / "rows.npz")
    assert len(splits) == (2 if layout == "fold" else 1)
    assert_array_equal(splits[-1].X, X[:20])
    assert_array_equal(splits[-1].y_test, y[20:])


def test_feature_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        read_features(tmp_path / "none.npz")
    np.savez(tmp_path / "bare.npz", X=np.zeros((2, 2)), y=np.zeros(2))
    with pytest.raises(ValueError, match="one of train, split and fold"):
        read_features(tmp_path / "bare.npz")
    np.savez(tmp_path / "empty.npz", X=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="needs X and y"):
        read_features(tmp_path / "empty.npz")


def test_tables_are_standardised_by_their_training_rows(tmp_path):
    rng = np.random.default_rng(0)
    X, y, train = rng.normal(3.0, 2.0, (30, 4)), np.arange(30) % 3, np.arange(30) < 20
    np.savez(tmp_path / "tables.npz", segment_X=X, segment_y=y, segment_train=train)
    np.savez(tmp_path / "more.npz", own_X=X, own_y=y)
    (split,) = load_group("features", tmp_path, tmp_path)["segment"].splits(0)
    assert_allclose(split.X, (X[train] - X[train].mean(0)) / X[train].std(0))
    (split,) = load_group("more", tmp_path, tmp_path)["own"].splits(4)
    assert_allclose(split.X.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(split.X.std(axis=0), 1.0)


@pytest.mark.parametrize("group", GENERATED)
def test_generated_sets_repeat_by_seed_and_have_all_classes(group):
    assert group in GROUPS
    for problem in list(load_group(group, Path(), Path()).values())[:3]:
        (first,), (again,), (other,) = (problem.splits(seed) for seed in (0, 0, 1))
        assert_array_equal(first.X, again.X)
        assert not np.array_equal(first.X[:5], other.X[:5])
        assert_array_equal(np.unique(first.y), np.unique(first.y_test))


def test_class_orders_keep_the_classes_of_a_pretrained_network():
    problem = load_group("features", Path(), Path())["cifar"]
    y = np.repeat(np.arange(100), 2)
    assert_array_equal(problem.class_order(y, "sorted", 3), np.arange(100))
    order = problem.class_order(y, "random", 3)
    assert_array_equal(order[:50], np.arange(50))
    assert not np.array_equal(order, np.arange(100))
    assert_array_equal(np.sort(order), np.arange(100))
    assert_array_equal(order, problem.class_order(y, 3, 0))
    assert not np.array_equal(order, problem.class_order(y, "random", 0))


def test_random_orders_are_those_of_class_incremental_tasks():
    problem = Problem("own", "", None, first_task_classes=50)
    y = np.arange(100)
    tasks = class_incremental_tasks(y, class_order="random", random_state=1993)
    assert_array_equal(problem.class_order(y, 1993, 0), np.concatenate(tasks))


def test_a_hold_out_scores_training_rows_that_it_does_not_learn():
    rows = np.arange(80.0)[:, None]
    split = Split("all", rows, np.arange(80) % 4, -rows - 1.0, np.arange(80) % 4)
    part = hold_out(split, 1)
    both = np.concatenate([part.X, part.X_test]).ravel()
    assert_array_equal(np.sort(both), rows.ravel())
    assert_array_equal(np.bincount(part.y_test), [5] * 4)
