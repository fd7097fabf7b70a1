"""The metrics: hand-computed values, properties, refused input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ffnb_sklearn.metrics import (
    average_accuracy,
    average_incremental_accuracy,
    backward_transfer,
    false_alarm_rate,
    forgetting,
    forward_transfer,
    open_set_classification_rate,
    unknown_recall,
)

NAN = np.nan
HAND = np.array([[0.9, NAN, NAN], [0.7, 0.8, NAN], [0.75, 0.5, 1.0]])
FROM_MATRIX = [
    average_accuracy,
    average_incremental_accuracy,
    backward_transfer,
    forgetting,
    forward_transfer,
]

fractions = st.floats(0, 1, allow_nan=False, width=32)
sizes = st.integers(2, 7)


@st.composite
def matrices(draw):
    n_tasks = draw(sizes)
    return draw(arrays(np.float64, (n_tasks, n_tasks), elements=fractions))


def lower(matrix):
    """Return the matrix with NaN above the diagonal."""
    return np.where(np.tri(len(matrix)), matrix, NAN)


def test_average_incremental_accuracy_by_hand():
    # After each task: 0.9; (0.7 + 0.8) / 2 = 0.75; (0.75 + 0.5 + 1.0) / 3 = 0.75.
    assert average_incremental_accuracy(HAND) == pytest.approx(0.8)
    # With 10, 30 and 60 samples: 0.9; (7 + 24) / 40 = 0.775; (7.5 + 15 + 60) / 100 = 0.825.
    assert average_incremental_accuracy(HAND, [10, 30, 60]) == pytest.approx(2.5 / 3)


def test_other_metrics_by_hand():
    assert average_accuracy(HAND) == pytest.approx(0.75)
    assert forgetting(HAND) == pytest.approx(((0.9 - 0.75) + (0.8 - 0.5)) / 2)
    assert backward_transfer(HAND) == pytest.approx(((0.75 - 0.9) + (0.5 - 0.8)) / 2)


def test_forgetting_uses_the_best_moment_backward_transfer_the_first():
    matrix = [[0.6, NAN, NAN], [0.9, 0.5, NAN], [0.7, 0.5, 1.0]]

    assert forgetting(matrix) == pytest.approx(0.1)  # 0.9 - 0.7 and 0
    assert backward_transfer(matrix) == pytest.approx(0.05)  # 0.7 - 0.6 and 0


def test_forgetting_is_negative_where_earlier_tasks_improve():
    assert forgetting([[0.5, NAN], [0.9, 1.0]]) == pytest.approx(-0.4)


def test_forgetting_counts_known_accuracies_before_a_task_was_learned():
    assert forgetting([[0.5, 0.9, 0.0], [0.5, 0.4, 0.0], [0.5, 0.4, 1.0]]) == pytest.approx(0.25)


def test_forward_transfer_by_hand():
    matrix = [[0.9, 0.3, NAN], [0.7, 0.8, 0.5], [0.75, 0.5, 1.0]]

    assert forward_transfer(matrix) == pytest.approx(0.4)
    assert forward_transfer(matrix, baseline=0.1) == pytest.approx(0.3)
    # The first task's baseline does not matter.
    assert forward_transfer(matrix, baseline=[1.0, 0.2, 0.1]) == pytest.approx(0.25)


def test_one_task_has_averages_and_no_transfer():
    assert average_accuracy([[0.5]]) == average_incremental_accuracy([[0.5]]) == 0.5
    for metric in (backward_transfer, forgetting, forward_transfer):
        with pytest.raises(ValueError, match="At least 2 tasks"):
            metric([[0.5]])


@given(matrices(), st.data())
def test_average_incremental_accuracy_counts_samples(matrix, data):
    """It is the mean of plain accuracies over pooled samples."""
    n = data.draw(arrays(np.int64, len(matrix), elements=st.integers(1, 20)))
    n_right = np.floor(matrix * n)
    pooled = [n_right[i, : i + 1].sum() / n[: i + 1].sum() for i in range(len(n))]

    assert average_incremental_accuracy(n_right / n, n) == pytest.approx(np.mean(pooled))


@given(matrices(), st.integers(1, 1000))
def test_only_the_ratio_of_task_sizes_counts(matrix, size):
    equal = average_incremental_accuracy(matrix, np.full(len(matrix), size))

    assert equal == pytest.approx(average_incremental_accuracy(matrix))


@given(matrices())
def test_ranges_and_order(matrix):
    matrix = lower(matrix)
    known = matrix[~np.isnan(matrix)]

    for average in (average_accuracy, average_incremental_accuracy):
        assert known.min() - 1e-12 <= average(matrix) <= known.max() + 1e-12
    assert -1 <= -backward_transfer(matrix) <= forgetting(matrix) + 1e-12 <= 1 + 1e-12


@given(matrices())
def test_what_was_not_learned_yet_does_not_count(matrix):
    for metric in (average_accuracy, average_incremental_accuracy, backward_transfer):
        assert metric(matrix) == metric(lower(matrix))


@given(st.lists(fractions, min_size=2, max_size=7))
def test_a_learner_that_never_changes_forgets_nothing(accuracies):
    matrix = lower(np.tile(accuracies, (len(accuracies), 1)))

    assert forgetting(matrix) == backward_transfer(matrix) == 0


@pytest.mark.parametrize("metric", FROM_MATRIX)
@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]], "must be square"),
        ([0.5, 0.5], "2D array"),
        (np.empty((0, 0)), "0 sample"),
        ([[0.5, NAN], [NAN, 0.5]], "NaN above the diagonal only"),
        ([[NAN, 0.5], [0.5, 0.5]], "NaN above the diagonal only"),
        ([[0.5, NAN], [95.0, 0.5]], r"fractions in \[0, 1\]; got 95.0"),
        ([[0.5, NAN], [-0.1, 0.5]], r"fractions in \[0, 1\]; got -0.1"),
        ([[0.5, 2.0], [0.5, 0.5]], r"fractions in \[0, 1\]; got 2.0"),
        ([[0.5, np.inf], [0.5, 0.5]], "infinity"),
    ],
)
def test_refuses_what_is_no_accuracy_matrix(metric, matrix, message):
    with pytest.raises(ValueError, match=message):
        metric(matrix)


@pytest.mark.parametrize(
    "task_sizes", [[1, 2], [1, 2, 0], [1, 2, -3], [[1, 2, 3]], 3.0, [1, 2, NAN], [1, 2, np.inf]]
)
def test_refuses_task_sizes(task_sizes):
    with pytest.raises(ValueError, match="task_sizes"):
        average_incremental_accuracy(HAND, task_sizes)


@pytest.mark.parametrize("baseline", [[0.1], [0.1, NAN, 0.1], 20.0, [0.1, -0.1, 0.1]])
def test_refuses_baseline(baseline):
    with pytest.raises(ValueError, match="baseline"):
        forward_transfer(np.full((3, 3), 0.5), baseline)


def test_forward_transfer_says_what_to_measure():
    with pytest.raises(ValueError, match=r"NaN for task 1.*score_future=True"):
        forward_transfer(HAND)


# ---- open sets


def curve_area(y_true, y_pred, y_score):
    """Area under the curve of the rates at all thresholds, by the trapezoidal rule."""
    known = y_true != -1
    thresholds = [np.inf, *np.unique(y_score)[::-1]]
    correct = [np.mean((y_pred == y_true)[known] & (y_score >= t)[known]) for t in thresholds]
    accepted = [np.mean((y_score >= t)[~known]) for t in thresholds]
    return np.trapezoid(correct, accepted)


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 12))
def test_open_set_classification_rate_is_the_area_under_its_curve(seed, n_samples, n_scores):
    rng = np.random.default_rng(seed)
    y_true = rng.integers(-1, 3, size=n_samples)
    y_true[:2] = 0, -1
    y_pred = rng.integers(0, 3, size=n_samples)
    # Few different scores, so that many are equal.
    y_score = rng.integers(n_scores, size=n_samples) / 7.0
    area = open_set_classification_rate(y_true, y_pred, y_score)
    assert area == pytest.approx(curve_area(y_true, y_pred, y_score))


def test_open_set_classification_rate_of_perfect_and_of_random_scores():
    y_true = np.repeat([0, 1, -1], 200)
    y_pred = np.where(np.arange(600) % 4 == 0, 1 - np.abs(y_true), np.abs(y_true))
    accuracy = np.mean(y_pred[:400] == y_true[:400])
    assert accuracy == 0.75
    separate = np.where(y_true == -1, 0.0, 1.0)
    assert open_set_classification_rate(y_true, y_pred, separate) == accuracy
    assert open_set_classification_rate(y_true, y_pred, -separate) == 0.0
    assert open_set_classification_rate(y_true, y_pred, np.ones(600)) == accuracy / 2


def test_rates_of_an_open_set():
    y_true = ["cat", "cat", "dog", "?", "?", "?"]
    y_pred = ["cat", "?", "cat", "dog", "?", "?"]
    assert false_alarm_rate(y_true, y_pred, unknown_label="?") == pytest.approx(1 / 3)
    assert unknown_recall(y_true, y_pred, unknown_label="?") == pytest.approx(2 / 3)
    assert false_alarm_rate([True, True], [True, False], unknown_label=False) == 0.5


@pytest.mark.parametrize(
    ("metric", "arguments", "message"),
    [
        (false_alarm_rate, ([-1, -1], [0, -1]), "sample of a known class; .*unknown_label=-1"),
        (unknown_recall, ([0, 1], [0, -1]), "sample of an unknown class"),
        (false_alarm_rate, ([0, 1, -1], [0, -1]), "inconsistent numbers of samples"),
        (false_alarm_rate, (["unknown"], ["a"]), "of a known class; .*unknown_label='unknown'"),
        (false_alarm_rate, ([True], [True]), "unknown_label must be True or False"),
        (unknown_recall, ([0, -1], ["a", "b"]), "y_pred must hold labels of the kind"),
        (open_set_classification_rate, ([0, -1], [0, 0], [1.0]), "inconsistent numbers"),
        (open_set_classification_rate, ([0, -1], [0, 0], [1.0, NAN]), "y_score contains NaN"),
        (open_set_classification_rate, ([0, 1], [0, 0], [1.0, 2.0]), "an unknown class"),
    ],
)
def test_labels_of_an_open_set_are_checked(metric, arguments, message):
    with pytest.raises(ValueError, match=message):
        metric(*arguments)
