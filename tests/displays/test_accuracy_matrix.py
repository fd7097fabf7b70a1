"""The heat map of task-by-task accuracies."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

from ffnb_sklearn.displays import AccuracyMatrixDisplay, IncrementalAccuracyDisplay
from ffnb_sklearn.streams import StreamResult, evaluate_stream

HAND = np.array([[0.9, np.nan, np.nan], [0.7, 0.8, np.nan], [0.753, 0.04, 1.0]])


def triangle(n_tasks):
    return np.where(np.tri(n_tasks), 0.5, np.nan)


def shown(display):
    """Return the numbers in the cells, "" where there is none."""
    return [["" if text is None else text.get_text() for text in row] for row in display.text_]


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_cells_hold_percentages():
    display = AccuracyMatrixDisplay(HAND).plot()

    assert shown(display) == [["90.0", "", ""], ["70.0", "80.0", ""], ["75.3", "4.0", "100.0"]]
    assert display.text_[2, 1].get_position() == (1, 2)
    assert ticks(display.ax_.xaxis) == ticks(display.ax_.yaxis) == ["1", "2", "3"]
    assert display.figure_ is display.ax_.figure


def test_colours_span_all_accuracies_and_leave_the_unknown_blank():
    display = AccuracyMatrixDisplay(np.array([[0.5, np.nan], [0.5, 0.6]])).plot()

    assert display.im_.get_clim() == (0.0, 1.0)
    assert display.im_.get_array().mask.tolist() == [[False, True], [False, False]]


def test_numbers_contrast_with_their_cells():
    display = AccuracyMatrixDisplay([[0.0, np.nan], [0.0, 1.0]]).plot()

    assert display.text_[1, 0].get_color() == "0.15"
    assert display.text_[1, 1].get_color() == "white"


@pytest.mark.parametrize("n_tasks", [1, 2, 5, 20])
def test_numbers_fit_into_their_cells(n_tasks):
    matrix = np.where(np.tri(n_tasks), 1.0, np.nan)
    display = AccuracyMatrixDisplay(matrix).plot()
    display.figure_.draw_without_rendering()

    text = display.text_[-1, 0]
    cell = display.ax_.get_window_extent().width / n_tasks
    assert text.get_text() == "100.0"
    assert text.get_window_extent().width < cell
    assert text.get_fontsize() >= 6.0


def test_small_cells_drop_the_decimal_place_then_the_number():
    _, ax = plt.subplots(figsize=(4, 4))
    assert shown(AccuracyMatrixDisplay(triangle(12)).plot(ax=ax, colorbar=False))[0][0] == "50"
    assert AccuracyMatrixDisplay(triangle(100)).plot().text_ is None


def test_more_than_twenty_tasks_have_no_numbers():
    _, ax = plt.subplots(figsize=(20, 20))
    assert AccuracyMatrixDisplay(triangle(21)).plot(ax=ax).text_ is None


def test_tasks_of_a_single_class_have_its_name(digits):
    single = evaluate_stream(SGDClassifier(random_state=0), *digits)
    display = AccuracyMatrixDisplay.from_stream(single)
    assert ticks(display.ax_.xaxis) == [str(digit) for digit in range(10)]
    pairs = evaluate_stream(SGDClassifier(random_state=0), *digits, classes_per_task=2)
    assert ticks(AccuracyMatrixDisplay.from_stream(pairs).ax_.xaxis) == ["1", "2", "3", "4", "5"]


def run_of(matrix, labels):
    """A finished run of one task per label."""
    n_tasks = len(labels)
    tasks = [np.array([label]) for label in labels]
    return StreamResult(
        np.asarray(matrix), np.ones(n_tasks), tasks, *np.ones((4, n_tasks)), estimator=None
    )


def test_several_runs_give_their_mean():
    first = run_of([[1.0, np.nan], [0.6, 0.9]], ["a", "b"])
    second = run_of([[0.8, 0.4], [0.5, 1.0]], ["a", "b"])
    display = AccuracyMatrixDisplay.from_stream([first, second])

    np.testing.assert_allclose(display.accuracy_matrix, [[0.9, np.nan], [0.55, 0.95]])
    assert ticks(display.ax_.xaxis) == ["a", "b"]
    display = AccuracyMatrixDisplay.from_stream(run for run in (first, second))
    np.testing.assert_allclose(display.accuracy_matrix[1], [0.55, 0.95])
    shuffled = run_of([[0.8, 0.4], [0.5, 1.0]], ["b", "a"])
    display = AccuracyMatrixDisplay.from_stream([first, shuffled])
    assert ticks(display.ax_.xaxis) == ["1", "2"]


@pytest.mark.parametrize("display", [AccuracyMatrixDisplay, IncrementalAccuracyDisplay])
@pytest.mark.parametrize("result", ["x", 5, [1.0]])
def test_what_is_no_result_is_refused(display, result):
    with pytest.raises(TypeError, match="must be a StreamResult or a list of these"):
        display.from_stream(result)


def test_runs_have_the_same_number_of_tasks():
    one, two = run_of([[1.0]], ["a"]), run_of(np.ones((2, 2)), ["a", "b"])
    with pytest.raises(ValueError, match=r"same number of tasks; got \[1, 2\] tasks"):
        AccuracyMatrixDisplay.from_stream([one, two])
    with pytest.raises(ValueError, match="result must hold one run at least; got none"):
        AccuracyMatrixDisplay.from_stream([])


def test_names_of_many_tasks_start_with_the_first():
    names = [f"c{k}" for k in range(60)]
    display = AccuracyMatrixDisplay(triangle(60), task_labels=names).plot()
    assert ticks(display.ax_.xaxis) == names[::5]


def test_include_values():
    assert AccuracyMatrixDisplay(HAND).plot(include_values=False).text_ is None
    for shown in (True, np.True_):
        display = AccuracyMatrixDisplay(triangle(70)).plot(include_values=shown)
        assert display.text_.shape == (70, 70)


@pytest.mark.parametrize("value", ["yes", None, 2])
def test_include_values_is_a_bool_or_auto(value):
    with pytest.raises(ValueError, match=f"include_values must be a bool or 'auto'; got {value!r}"):
        AccuracyMatrixDisplay(HAND).plot(include_values=value)
    assert plt.get_fignums() == []


def test_many_tasks_share_few_ticks():
    display = AccuracyMatrixDisplay(triangle(60)).plot()

    assert ticks(display.ax_.xaxis) == [str(t) for t in range(5, 61, 5)]


def test_wide_labels_are_tilted():
    narrow = AccuracyMatrixDisplay(HAND, task_labels=["a", "b", "c"]).plot()
    wide = AccuracyMatrixDisplay(HAND, task_labels=["a", "b", "quite a long name"]).plot()

    assert ticks(wide.ax_.yaxis) == ["a", "b", "quite a long name"]
    assert {label.get_rotation() for label in narrow.ax_.get_xticklabels()} == {0.0}
    assert {label.get_rotation() for label in wide.ax_.get_xticklabels()} == {45.0}


@pytest.mark.parametrize("task_labels", [None, ["0, 1", "2, 3", "4, 5"], ["a long name"] * 3])
def test_nothing_is_cut_off(task_labels):
    display = AccuracyMatrixDisplay(HAND, task_labels=task_labels).plot()
    display.figure_.draw_without_rendering()

    inner, outer = display.figure_.get_tightbbox(), display.figure_.bbox_inches
    assert (inner.min >= outer.min).all()
    assert (inner.max <= outer.max).all()


def test_plot_arguments():
    figure, ax = plt.subplots()
    display = AccuracyMatrixDisplay(HAND).plot(
        ax=ax,
        values_format=".2f",
        cmap="gray",
        colorbar=False,
    )

    assert display.ax_ is ax
    assert figure.axes == [ax]
    assert shown(display)[2][0] == "75.30"
    assert display.im_.get_cmap().name == "gray"


def test_colorbar_is_in_percent():
    display = AccuracyMatrixDisplay(HAND).plot()
    display.figure_.draw_without_rendering()

    bar = display.im_.colorbar
    assert bar.ax.get_ylabel() == "Accuracy"
    assert ticks(bar.ax.yaxis)[-1] == "100%"


def test_from_stream_draws_on_given_axes(digits):
    model = SGDClassifier(random_state=0)
    result = evaluate_stream(model, *digits, classes_per_task=5, score_future=True)
    _, ax = plt.subplots()
    display = AccuracyMatrixDisplay.from_stream(result, task_labels=["low", "high"], ax=ax)

    np.testing.assert_array_equal(display.im_.get_array(), result.accuracy_matrix)
    assert ticks(display.ax_.xaxis) == ["low", "high"]
    assert display.ax_ is ax


@pytest.mark.parametrize(
    ("matrix", "task_labels", "message"),
    [
        (HAND[:2], None, "must be square"),
        (100 * HAND, None, "fractions"),
        (HAND, ["a", "b"], "one label per task, so 3; got 2"),
    ],
)
def test_refuses_to_draw(matrix, task_labels, message):
    with pytest.raises(ValueError, match=message):
        AccuracyMatrixDisplay(matrix, task_labels=task_labels).plot()


def test_axes_of_a_subfigure_can_be_drawn_on():
    figure = plt.figure()
    axes = figure.subfigures(1, 2)[0].subplots()
    display = AccuracyMatrixDisplay(np.array([[1.0, np.nan], [0.5, 1.0]])).plot(ax=axes)
    assert display.ax_ is axes
    assert len(axes.texts) == 3
    plt.close(figure)


@pytest.mark.parametrize("length", [1, 20, 30])
def test_numbers_fit_the_cells_beside_tilted_names(length):
    display = AccuracyMatrixDisplay(np.eye(10), task_labels=[f"{k}" * length for k in range(10)])
    display.plot(include_values=True)
    display.figure_.draw_without_rendering()

    cell = display.ax_.get_window_extent().width / 10
    widest = max(text.get_window_extent().width for text in display.text_.ravel() if text)

    assert widest < cell
