"""The learned state: its labels after tasks, after forgetting and after a merge."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn._base.state import State


def state_of(*tasks):
    """Return a state without a model after tasks with some labels."""
    state = State(2)
    for labels in tasks:
        state = state.after_task(None, np.array([*state.arrived.tolist(), *labels]))
    return state


def labels_of(state):
    return [labels.tolist() for labels in state.task_classes]


def test_a_task_without_new_labels_adds_none():
    state = state_of([3, 5], [], [1])
    assert labels_of(state) == [[3, 5], [1]]
    assert state.n_arrived == 3
    assert_array_equal(state.arrived, [3, 5, 1])
    assert_array_equal(state.classes, [1, 3, 5])


def test_a_declared_label_has_a_column_of_missing_values():
    state = state_of([3, 1]).declaring(np.array([2]))
    columns = state.by_class(np.array([[0.3, 0.1]]), state.arrived, -1.0)
    assert_array_equal(columns, [[0.1, -1.0, 0.3]])


def test_a_declared_label_has_a_row_of_zeros():
    state = state_of([3, 1]).declaring(np.array([2]))
    rows = state.rows_by_class(np.array([[0.3, 0.4], [0.1, 0.2]]))
    assert_array_equal(rows, [[0.1, 0.2], [0.0, 0.0], [0.3, 0.4]])


def test_a_task_that_loses_all_labels_is_gone():
    state = state_of([3, 5], [1]).without(np.array([1, 3]), None)
    assert labels_of(state) == [[5]]
    assert_array_equal(state.classes, [5])


@pytest.mark.parametrize("first", [[[1, 2]], [[2], [1]]])
def test_a_merge_adds_the_labels_that_are_new(first):
    merged = state_of(*first).merged(state_of([2, 3], [1]))
    assert labels_of(merged) == [*first, [3]]
    assert_array_equal(merged.classes, [1, 2, 3])


def test_new_labels_keep_the_order_of_the_tasks_and_joined_labels_their_first_task():
    state = state_of([3, 5], [1], [4, 2]).declaring(np.array([8, 9]))
    renamed = state.renamed({5: 7, 4: 7, 1: 3, 3: 1, 9: 7})
    assert labels_of(renamed) == [[1, 7], [3], [2]]
    assert_array_equal(renamed.arrived, [1, 7, 3, 2])
    assert_array_equal(renamed.classes, [1, 2, 3, 7, 8])


def test_a_task_whose_labels_have_all_joined_earlier_classes_is_gone():
    renamed = state_of([3, 5], [1]).renamed({1: 5, 5: 5})
    assert labels_of(renamed) == [[3, 5]]


def test_new_labels_of_the_samples_that_decided_the_columns():
    state = replace(state_of([3, 5], [1]), scaling_labels=np.array([3, 5]))
    assert_array_equal(state.renamed({5: 0, 3: 0}).scaling_labels, [0])
    names = state_of(["b", "a"]).renamed({"a": "a much longer name"})
    assert_array_equal(names.classes, ["a much longer name", "b"])


def test_a_pickle_holds_no_values_that_follow_from_the_fields():
    state = IncrementalDiscriminantAnalysis().fit(np.eye(3), [5, 5, 7])._state
    before = pickle.dumps(state)
    assert_array_equal(state.class_counts, [2.0, 1.0])
    assert state.n_samples == 3.0
    assert pickle.dumps(state) == before
