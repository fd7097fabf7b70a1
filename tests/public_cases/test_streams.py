"""Public cases about streams of tasks and metrics of forgetting."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import confusion_matrix

from ffnb_sklearn import class_incremental_tasks, evaluate_stream
from ffnb_sklearn.metrics import (
    average_accuracy,
    average_incremental_accuracy,
    backward_transfer,
    forgetting,
)
from tests.public_cases.flowers import NAMES, X, Y, heads, small

LABELS = np.repeat(np.arange(10, 20), 3)


def stream(**parameters):
    return evaluate_stream(small(), X, Y, X, Y, **parameters)


# ---- tasks


def test_classes_that_do_not_divide_evenly_make_a_smaller_last_task():
    """Avalanche #1532."""
    tasks = class_incremental_tasks(LABELS, classes_per_task=4)
    assert [np.unique(LABELS[task]).tolist() for task in tasks] == [
        [10, 11, 12, 13],
        [14, 15, 16, 17],
        [18, 19],
    ]


def test_tasks_of_several_sizes_in_any_order():
    """Avalanche #829."""
    order = [17, 12, 10, 11, 13, 14, 15, 16, 18, 19]
    tasks = class_incremental_tasks(LABELS, classes_per_task=[1, 6, 3], class_order=order)
    assert [set(LABELS[task]) for task in tasks] == [
        {17},
        {12, 10, 11, 13, 14, 15},
        {16, 18, 19},
    ]
    result = stream(classes_per_task=[1, 2], class_order=[2, 0, 1])
    assert [labels.tolist() for labels in result.task_classes] == [[2], [0, 1]]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([*range(10, 19), 99], r"missing: \[19\], not in y: \[99\]"),
        (range(10, 15), r"missing: \[15, 16, 17, 18, 19\]"),
        ([*range(10, 20), 10], r"repeated: \[10\]"),
    ],
)
def test_an_order_of_other_classes_is_refused(order, message):
    """Avalanche #98."""
    with pytest.raises(ValueError, match=message):
        class_incremental_tasks(LABELS, class_order=list(order))


def test_the_classes_so_far_are_those_of_the_first_tasks():
    """Avalanche #642."""
    result = stream(class_order=[1, 2, 0])
    assert np.concatenate(result.task_classes[:2]).tolist() == [1, 2]
    assert [labels.tolist() for labels in result.task_classes] == [[1], [2], [0]]


def test_test_labels_must_be_those_of_the_tasks():
    """Avalanche #593."""
    with pytest.raises(ValueError, match=r"y_test holds labels that y does not: \[3\]"):
        evaluate_stream(small(), X, Y, X, Y + 1)
    with pytest.raises(ValueError, match=r"y_test holds no sample .* classes \[2\]"):
        evaluate_stream(small(), X, Y, X[Y < 2], Y[Y < 2])


@heads
def test_many_small_batches_of_a_class_are_one_task(head):
    """Avalanche #1343."""
    model, matrix = small(head), np.full((3, 3), np.nan)
    for task in range(3):
        rows = np.flatnonzero(task == Y)
        for part in np.array_split(rows, 10):
            model.partial_fit(X[part], Y[part])
        matrix[task, : task + 1] = [model.score(X[k == Y], Y[k == Y]) for k in range(task + 1)]
    assert model.n_tasks_ == 3
    assert [labels.tolist() for labels in model.task_classes_] == [[0], [1], [2]]
    assert forgetting(matrix) < 0.2


def test_a_stream_is_the_loop_that_a_user_would_write():
    """Avalanche #1073."""
    result, model = stream(), small()
    for task in class_incremental_tasks(Y):
        model.partial_fit(X[task], Y[task])
    assert_array_equal(result.estimator.predict_proba(X), model.predict_proba(X))
    assert result.final_accuracy == model.score(X, Y)


@heads
def test_each_sample_is_predicted_before_it_is_learned(head):
    """river #1443."""
    model, predicted = small(head), []
    with pytest.raises(NotFittedError):
        model.predict(X[:1])
    for row in range(20):
        if row:
            predicted.append(model.predict(X[[row]])[0])
        model.partial_fit(X[[row]], NAMES[[row]])
    counts = confusion_matrix(NAMES[1:20], predicted, labels=model.classes_)
    assert counts.sum() == 19
    assert np.trace(counts) > 10


# ---- metrics


def test_means_count_samples_or_tasks_as_their_definitions_say():
    """Avalanche #1137."""
    few = np.flatnonzero((Y > 0) | (np.cumsum(Y == 0) <= 5))
    result = evaluate_stream(SGDClassifier(random_state=0), X, Y, X[few], Y[few])
    last = result.accuracy_matrix[-1]
    assert result.n_test_per_task.tolist() == [5, 50, 50]
    assert_allclose(result.final_accuracy, (5 * last[0] + 50 * last[1] + 50 * last[2]) / 105)
    assert_allclose(result.final_accuracy, result.estimator.score(X[few], Y[few]))
    assert_allclose(average_accuracy(result.accuracy_matrix), last.mean())
    assert_allclose(
        average_incremental_accuracy(result.accuracy_matrix, result.n_test_per_task),
        result.accuracies.mean(),
    )
    assert result.final_accuracy != average_accuracy(result.accuracy_matrix)


@pytest.mark.parametrize("metric", [forgetting, backward_transfer])
def test_there_is_no_forgetting_after_one_task(metric):
    """Avalanche #1093."""
    with pytest.raises(ValueError, match="At least 2 tasks are needed"):
        metric([[0.9]])
    with pytest.raises(ValueError, match="At least 2 tasks are needed"):
        _ = stream(classes_per_task=3).forgetting


def test_forgetting_excludes_the_last_task():
    """Avalanche #471."""
    matrix = [[1.0, np.nan, np.nan], [0.5, 0.8, np.nan], [0.4, 0.9, 0.0]]
    assert_allclose(forgetting(matrix), (0.6 + (0.8 - 0.9)) / 2)
    assert_allclose(backward_transfer(matrix), (-0.6 + 0.1) / 2)


def test_sizes_are_those_of_the_pickled_models():
    """river #1521."""
    result, model = stream(), small()
    for task, size in zip(class_incremental_tasks(Y), result.state_bytes, strict=True):
        model.partial_fit(X[task], Y[task])
        assert len(pickle.dumps(model, protocol=pickle.HIGHEST_PROTOCOL)) == size
