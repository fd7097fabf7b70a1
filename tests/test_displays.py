"""The heat map of task-by-task accuracies, and the curve of the accuracy as classes arrive."""

import sys
from inspect import signature

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.datasets import load_digits
from sklearn.linear_model import Perceptron, SGDClassifier

from ffnb_sklearn.displays import (
    AccuracyMatrixDisplay,
    IncrementalAccuracyDisplay,
    PrequentialAccuracyDisplay,
)
from ffnb_sklearn.streams import evaluate_prequential, evaluate_stream

matplotlib.use("Agg")

HAND = np.array([[0.9, np.nan, np.nan], [0.7, 0.8, np.nan], [0.753, 0.04, 1.0]])
DISPLAYS = {
    "matrix": AccuracyMatrixDisplay([[1.0]]),
    "curve": IncrementalAccuracyDisplay(n_classes=[5], accuracies=[1.0], name="one"),
    "stream": PrequentialAccuracyDisplay(is_correct=[True]),
}


@pytest.fixture(autouse=True)
def _no_figure_stays_open():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1200], y[:1200], X[1200:], y[1200:]


def triangle(n_tasks):
    return np.where(np.tri(n_tasks), 0.5, np.nan)


def shown(display):
    """Return the numbers in the cells, "" where there is none."""
    return [["" if text is None else text.get_text() for text in row] for row in display.text_]


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


# ---- the heat map


def test_cells_hold_percentages():
    display = AccuracyMatrixDisplay(HAND).plot()

    assert shown(display) == [["90.0", "", ""], ["70.0", "80.0", ""], ["75.3", "4.0", "100.0"]]
    assert display.text_[2, 1].get_position() == (1, 2)
    assert ticks(display.ax_.xaxis) == ticks(display.ax_.yaxis) == ["1", "2", "3"]
    assert display.figure_ is display.ax_.figure


def test_colours_span_all_accuracies_and_leave_the_unknown_blank():
    display = AccuracyMatrixDisplay(np.array([[0.5, np.nan], [0.5, 0.6]])).plot()

    assert display.im_.get_clim() == (0.5, 0.6)
    assert AccuracyMatrixDisplay(np.array([[0.5]])).plot().im_.get_clim() == (0.0, 1.0)
    assert display.im_.get_array().mask.tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize(
    ("n_tasks", "names"), [(1, None), (2, None), (5, None), (20, None), (10, "a long name")]
)
def test_numbers_fit_into_their_cells(n_tasks, names):
    matrix = np.where(np.tri(n_tasks), 1.0, np.nan)
    display = AccuracyMatrixDisplay(matrix, task_labels=names and [names] * n_tasks).plot()
    display.figure_.draw_without_rendering()

    text = display.text_[-1, 0]
    cell = display.ax_.get_window_extent().width / n_tasks
    assert text.get_text() == "100.0"
    assert text.get_window_extent().width < cell
    assert text.get_fontsize() >= 6.0


def test_numbers_are_left_out_of_many_tasks_or_on_request():
    assert AccuracyMatrixDisplay(triangle(21)).plot().text_ is None
    assert AccuracyMatrixDisplay(triangle(21)).plot(include_values=True).text_ is not None
    assert AccuracyMatrixDisplay(HAND).plot(include_values=False).text_ is None


def test_many_tasks_share_few_ticks():
    names = [f"c{k}" for k in range(60)]
    display = AccuracyMatrixDisplay(triangle(60), task_labels=names).plot()
    assert ticks(display.ax_.xaxis) == ticks(display.ax_.yaxis) == names[::3]


def test_wide_labels_are_turned():
    for names, rotation in (["a", "b", "c"], 0.0), (["a", "b", "quite a long name"], 90.0):
        display = AccuracyMatrixDisplay(HAND, task_labels=names).plot()
        assert ticks(display.ax_.yaxis) == names
        assert {label.get_rotation() for label in display.ax_.get_xticklabels()} == {rotation}


@pytest.mark.parametrize("task_labels", [None, ["0, 1", "2, 3", "4, 5"], ["a long name"] * 3])
def test_nothing_is_cut_off(task_labels):
    display = AccuracyMatrixDisplay(HAND, task_labels=task_labels).plot()
    display.figure_.draw_without_rendering()

    inner, outer = display.figure_.get_tightbbox(), display.figure_.bbox_inches
    assert (inner.min >= outer.min).all()
    assert (inner.max <= outer.max).all()


def test_plot_arguments():
    figure, ax = plt.subplots()
    options = {"values_format": ".2f", "cmap": "gray", "colorbar": False}
    display = AccuracyMatrixDisplay(HAND).plot(ax=ax, **options)

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


@pytest.mark.parametrize(
    ("matrix", "task_labels", "message"),
    [
        (HAND[:2], None, "must be square"),
        (100 * HAND, None, "fractions"),
        (HAND, ["a", "b"], "one label per task, so 3; got 2"),
    ],
)
def test_refuses_to_draw_a_matrix(matrix, task_labels, message):
    with pytest.raises(ValueError, match=message):
        AccuracyMatrixDisplay(matrix, task_labels=task_labels).plot()
    assert plt.get_fignums() == []


def test_axes_of_a_subfigure_can_be_drawn_on():
    axes = plt.figure().subfigures(1, 2)[0].subplots()
    display = AccuracyMatrixDisplay(np.array([[1.0, np.nan], [0.5, 1.0]])).plot(ax=axes)
    assert display.ax_ is axes
    assert len(axes.texts) == 3


# ---- the curve


def curve(accuracies=(0.9, 0.8), n_classes=(5, 7), name="first"):
    return IncrementalAccuracyDisplay(n_classes=n_classes, accuracies=accuracies, name=name)


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_curves_share_axes_and_legend():
    first = curve().plot()
    second = curve([0.6, 0.5, 0.25], [5, 6, 7]).plot(ax=first.ax_, name="second")

    assert first.line_.get_xydata().tolist() == [[5, 0.9], [7, 0.8]]
    assert second.line_.get_xydata().tolist() == [[5, 0.6], [6, 0.5], [7, 0.25]]
    assert legend(second) == [
        "first (average 85.0%, last 80.0%)",
        "second (average 45.0%, last 25.0%)",
    ]
    assert second.ax_ is first.ax_
    assert second.figure_ is first.ax_.figure
    assert first.ax_.get_xticks().tolist() == [5, 6, 7]


def test_curves_differ_in_colour_and_marker():
    _, ax = plt.subplots()
    lines = [curve().plot(ax=ax).line_ for _ in range(7)]

    assert len({line.get_color() for line in lines}) == 7
    assert len({line.get_marker() for line in lines}) == 7


@pytest.mark.parametrize("lowest", [0.0, 0.5, 0.97, 1.0])
def test_every_point_is_in_view(lowest):
    display = curve([1.0, lowest], [1, 2]).plot()

    # All pictures have one scale.
    assert display.ax_.get_ylim() == (0.0, 1.0)
    assert display.ax_.get_xlim() == (1.0, 2.0)
    display.figure_.draw_without_rendering()
    assert "100%" in ticks(display.ax_.yaxis)


@pytest.mark.parametrize(("n_tasks", "gap"), [(25, 1), (26, 2), (100, 4)])
def test_long_curves_have_few_markers_and_ticks(n_tasks, gap):
    display = curve(np.ones(n_tasks), np.arange(1, n_tasks + 1)).plot()
    assert display.line_.get_markevery() == gap
    assert len(display.ax_.get_xticks()) < 9


def test_line_arguments():
    line = curve().plot(c="red", lw=4).line_

    assert to_hex(line.get_color()) == "#ff0000"
    assert line.get_linewidth() == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accuracies": [0.9]}, r"one number per task; got the shapes \(2,\) and \(1,\)"),
        ({"n_classes": [], "accuracies": []}, "one number per task"),
        ({"accuracies": [0.9, 80.0]}, "fractions"),
        ({"accuracies": [0.9, np.nan]}, "accuracies must hold accuracies as fractions .* got nan"),
    ],
)
def test_refuses_to_draw_a_curve(change, message):
    with pytest.raises(ValueError, match=message):
        curve(**change).plot()
    assert plt.get_fignums() == []


# ---- the curve of a stream


def test_a_point_is_the_accuracy_over_the_window():
    display = PrequentialAccuracyDisplay(
        is_correct=[True, False, False, True, True], window=2, n_untested=3, name="mine"
    ).plot()

    points = [[4, 1.0], [5, 0.5], [6, 0.0], [7, 0.5], [8, 1.0]]
    assert display.line_.get_xydata().tolist() == points
    assert legend(display) == ["mine (60.0%)"]
    assert display.ax_.get_xlabel() == "Samples"
    assert display.ax_.get_ylabel() == "Accuracy over the last 2 samples"
    assert display.ax_.get_ylim() == (0.0, 1.0)
    assert display.ax_.get_xlim() == (4.0, 8.0)
    assert display.figure_ is display.ax_.figure


def test_streams_share_axes_and_keep_their_numbers():
    is_correct = np.arange(5000) % 4 > 0
    first = PrequentialAccuracyDisplay(is_correct=is_correct, name="first").plot()
    second = PrequentialAccuracyDisplay(is_correct=~is_correct, name="second")
    line = second.plot(ax=first.ax_, lw=3).line_

    assert legend(second) == ["first (75.0%)", "second (25.0%)"]
    assert line.get_color() != first.line_.get_color()
    assert line.get_linewidth() == 3
    assert line.get_markevery() == 200
    np.testing.assert_allclose(line.get_ydata()[999:], 0.25)


def test_prequential_results_and_predictions_are_drawn(digits):
    X, y = digits[:2]
    options = {"batch_size": 100, "window": 150}
    model = Perceptron(random_state=0)
    result = evaluate_prequential(model, X, y, **options)
    display = PrequentialAccuracyDisplay.from_stream(result)
    again = PrequentialAccuracyDisplay.from_estimator(
        model, X, y, **options, ax=display.ax_, name="again", lw=3
    )

    np.testing.assert_array_equal(display.line_.get_ydata(), result.windowed_accuracy)
    np.testing.assert_array_equal(display.line_.get_xdata(), np.arange(101, 1201))
    np.testing.assert_array_equal(again.line_.get_ydata(), result.windowed_accuracy)
    assert legend(again) == [f"{name} ({result.accuracy:.1%})" for name in ("Perceptron", "again")]
    assert again.line_.get_linewidth() == 3

    given = PrequentialAccuracyDisplay.from_predictions(
        ["a", "b", "a"], ["a", "a", "a"], window=2, name="other"
    )
    assert given.line_.get_xydata().tolist() == [[1, 1.0], [2, 0.5], [3, 0.5]]
    assert legend(given) == ["other (66.7%)"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"is_correct": []}, r"one boolean per tested sample; got the shape \(0,\)"),
        ({"is_correct": [[True]]}, r"the shape \(1, 1\)"),
        ({"is_correct": [0.9, 0.8]}, "the dtype float64"),
        ({"window": 0}, "window == 0, must be >= 1"),
    ],
)
def test_refuses_to_draw_a_stream(change, message):
    with pytest.raises(ValueError, match=message):
        PrequentialAccuracyDisplay(**{"is_correct": [True], **change}).plot()
    assert plt.get_fignums() == []


def test_predictions_of_another_length_are_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PrequentialAccuracyDisplay.from_predictions([0, 1], [0])


# ---- constructors, and the lack of matplotlib


def test_a_curve_counts_the_classes_seen_in_a_blurry_stream(digits):
    blurry = {"blurry_classes": 1.0, "blurry_samples": 0.5, "random_state": 0}
    result = evaluate_stream(Perceptron(random_state=0), *digits, classes_per_task=4, **blurry)
    display = IncrementalAccuracyDisplay.from_stream(result)
    assert display.line_.get_xdata().tolist() == result.n_classes.tolist() != [4, 8, 10]


def test_from_stream(digits):
    result = evaluate_stream(Perceptron(random_state=0), *digits, classes_per_task=4)
    _, ax = plt.subplots()
    display = IncrementalAccuracyDisplay.from_stream(result, ax=ax)
    named = IncrementalAccuracyDisplay.from_stream(result, ax=ax, name="mine")

    np.testing.assert_array_equal(display.line_.get_ydata(), result.accuracies)
    assert display.line_.get_xdata().tolist() == [4, 8, 10]
    average = f"average {result.average_incremental_accuracy:.1%}"
    assert legend(display)[0] == f"Perceptron ({average}, last {result.final_accuracy:.1%})"
    assert named.line_.get_label().startswith("mine (")


def test_from_estimator_passes_the_stream_and_the_style_on(digits):
    options = {
        "classes_per_task": 4,
        "first_task_classes": 2,
        "class_order": "random",
        "random_state": 3,
        "score_future": True,
    }
    model = SGDClassifier(random_state=0)
    expected = evaluate_stream(model, *digits, **options)
    _, ax = plt.subplots()

    matrix = AccuracyMatrixDisplay.from_estimator(
        model, *digits, **options, task_labels=["a", "b", "c"], include_values=False
    )
    line = IncrementalAccuracyDisplay.from_estimator(
        model, *digits, **options, name="mine", ax=ax, lw=3
    ).line_

    np.testing.assert_array_equal(matrix.accuracy_matrix, expected.accuracy_matrix)
    np.testing.assert_array_equal(matrix.im_.get_array(), expected.accuracy_matrix)
    assert matrix.text_ is None
    assert matrix.task_labels == ["a", "b", "c"]
    np.testing.assert_array_equal(line.get_ydata(), expected.accuracies)
    assert line.get_xdata().tolist() == [2, 6, 10]
    assert line.get_linewidth() == 3
    assert line.get_label().startswith("mine (")
    assert line.axes is ax


def needed_arguments(display):
    """Return None for the estimator and each array that `from_estimator` requires."""
    parameters = signature(type(display).from_estimator).parameters.values()
    positional = [one for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    return [None] * len(positional)


@pytest.mark.parametrize("display", DISPLAYS.values(), ids=DISPLAYS)
def test_says_that_matplotlib_is_missing(monkeypatch, display):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(ImportError, match=rf"{type(display).__name__}\.plot requires matplotlib"):
        display.plot()
    # Before the estimator learns anything.
    with pytest.raises(ImportError, match=r"from_estimator requires matplotlib"):
        type(display).from_estimator(*needed_arguments(display))
