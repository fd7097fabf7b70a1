"""The curves of the accuracy as classes arrive."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.linear_model import Perceptron, SGDClassifier

from ffnb_sklearn.displays import IncrementalAccuracyDisplay
from ffnb_sklearn.streams import StreamResult, evaluate_stream


@pytest.fixture(scope="module")
def results(digits):
    return {
        "one": evaluate_stream(SGDClassifier(random_state=0), *digits, classes_per_task=4),
        "two": evaluate_stream(Perceptron(random_state=0), *digits, classes_per_task=5),
    }


def two_curves():
    return IncrementalAccuracyDisplay(
        n_classes=[[5, 7], [5, 6, 7]],
        accuracies=[[0.9, 0.8], [0.6, 0.5, 0.25]],
        names=["first", "second"],
    )


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_curves_and_legend():
    display = two_curves().plot()

    assert display.lines_[0].get_xydata().tolist() == [[5, 0.9], [7, 0.8]]
    assert display.lines_[1].get_xydata().tolist() == [[5, 0.6], [6, 0.5], [7, 0.25]]
    assert legend(display) == [
        "first (average 85.0%, last 80.0%)",
        "second (average 45.0%, last 25.0%)",
    ]
    assert display.ax_.get_xticks().tolist() == [5, 6, 7]
    assert display.figure_ is display.ax_.figure


def test_curves_differ_in_colour_and_marker():
    n_curves = 7
    display = IncrementalAccuracyDisplay(
        n_classes=[[1, 2]] * n_curves, accuracies=[[1, 0.5]] * n_curves, names=["x"] * n_curves
    ).plot()

    assert len({line.get_color() for line in display.lines_}) == n_curves
    assert len({line.get_marker() for line in display.lines_}) == n_curves


@pytest.mark.parametrize("lowest", [0.0, 0.5, 0.97, 1.0])
def test_every_point_is_in_view(lowest):
    display = IncrementalAccuracyDisplay(
        n_classes=[[1, 2]], accuracies=[[1.0, lowest]], names=["x"]
    ).plot()

    # All pictures have one scale.
    assert display.ax_.get_ylim() == (0.0, 1.0)
    assert display.ax_.get_xlim() == (1.0, 2.0)
    display.figure_.draw_without_rendering()
    assert "100%" in [one.get_text() for one in display.ax_.get_yticklabels()]


def runs_of(*curves):
    """Finished runs of the same two tasks."""
    return [
        StreamResult(
            np.array([[first, np.nan], [last, last]]),
            np.array([first, last]),
            [np.array([0, 1]), np.array([2])],
            np.array([20, 10]),
            *np.ones((3, 2)),
            estimator=None,
        )
        for first, last in curves
    ]


def test_several_runs_give_their_mean_and_a_band():
    runs = runs_of((1.0, 0.8), (0.9, 0.4))
    display = IncrementalAccuracyDisplay.from_stream({"mine": runs, "other": runs[0]})

    np.testing.assert_allclose(display.lines_[0].get_ydata(), [0.95, 0.6])
    (band,) = display.bands_
    edges = band.get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([edges.min(), edges.max()], [0.4, 1.0])
    assert to_hex(band.get_facecolor()[0]) == to_hex(display.lines_[0].get_color())
    assert legend(display) == [
        "mine (average 77.5%, last 60.0 ± 20.0%)",
        "other (average 90.0%, last 80.0%)",
    ]


def test_a_list_of_runs_is_one_curve_named_after_the_estimator():
    display = IncrementalAccuracyDisplay.from_stream(runs_of((1.0, 0.8), (0.9, 0.4)))
    assert len(display.lines_) == 1
    assert legend(display)[0].startswith("NoneType (average")


def test_runs_of_a_curve_have_the_same_tasks():
    longer = StreamResult(*np.ones((2, 1)), [np.arange(4)], *np.ones((4, 1)), estimator=None)
    with pytest.raises(ValueError, match=r"runs of curve 'x' must have as many classes.*\[4\]"):
        IncrementalAccuracyDisplay.from_stream({"x": [*runs_of((1.0, 0.8)), longer]})
    with pytest.raises(ValueError, match="curve 'x' must hold one run at least; got none"):
        IncrementalAccuracyDisplay.from_stream({"x": []})
    with pytest.raises(ValueError, match="results must hold one run at least; got none"):
        IncrementalAccuracyDisplay.from_stream([])


@pytest.mark.parametrize("spread", [[0.1], [0.1, -0.1], [0.1, np.nan]])
def test_spreads_are_standard_deviations(spread):
    display = IncrementalAccuracyDisplay(
        n_classes=[[1, 2]], accuracies=[[1.0, 0.5]], names=["x"], spreads=[spread]
    )
    with pytest.raises(ValueError, match="a standard deviation per task, 2 for curve 'x'"):
        display.plot()


def ticks(display):
    return [label.get_text() for label in display.ax_.get_xticklabels()]


def test_many_tasks_share_few_ticks():
    n_classes = np.arange(1, 101)
    display = IncrementalAccuracyDisplay(
        n_classes=[n_classes], accuracies=[np.linspace(1, 0.5, 100)], names=["x"]
    ).plot()

    assert ticks(display) == ["1", *(str(tick) for tick in range(10, 101, 10))]


def test_a_round_number_beside_the_first_task_makes_room_for_it():
    n_classes = np.arange(50, 101)
    display = IncrementalAccuracyDisplay(
        n_classes=[n_classes - 1], accuracies=[np.linspace(1, 0.5, 51)], names=["x"]
    ).plot()

    assert display.ax_.get_xticks()[0] == 49
    assert 50 not in display.ax_.get_xticks()


@pytest.mark.parametrize(("n_tasks", "gap"), [(25, 1), (26, 2), (100, 4)])
def test_long_curves_have_few_markers(n_tasks, gap):
    display = IncrementalAccuracyDisplay(
        n_classes=[np.arange(1, n_tasks + 1)], accuracies=[np.ones(n_tasks)], names=["x"]
    ).plot()
    assert display.lines_[0].get_markevery() == gap


def test_a_second_display_joins_the_first():
    first = IncrementalAccuracyDisplay(n_classes=[[5]], accuracies=[[0.9]], names=["a"]).plot()
    first.ax_.axhline(0.95, label="joint")
    second = IncrementalAccuracyDisplay(
        n_classes=[[4, 6]], accuracies=[[0.7, 0.3]], names=["b"]
    ).plot(ax=first.ax_)

    assert second.ax_ is first.ax_
    assert first.lines_[0].get_color() != second.lines_[0].get_color()
    # The level line takes no colour of the curves and no tick.
    assert second.lines_[0].get_color() == two_curves().plot().lines_[1].get_color()
    assert first.ax_.get_xticks().tolist() == [4, 5, 6]
    assert first.ax_.get_ylim()[0] < 0.3
    assert len(legend(second)) == 3


def test_line_arguments():
    display = two_curves().plot(c="red", lw=4)

    assert [to_hex(line.get_color()) for line in display.lines_] == ["#ff0000"] * 2
    assert display.lines_[0].get_linewidth() == 4


def test_from_stream(results):
    display = IncrementalAccuracyDisplay.from_stream(results)

    assert [text.split(" (")[0] for text in legend(display)] == ["one", "two"]
    assert display.lines_[0].get_xdata().tolist() == [4, 8, 10]
    assert display.lines_[1].get_xdata().tolist() == [5, 10]
    for line, result in zip(display.lines_, results.values(), strict=True):
        np.testing.assert_array_equal(line.get_ydata(), result.accuracies)
        average = f"average {100 * result.average_incremental_accuracy:.1f}%"
        assert f"{average}, last {100 * result.final_accuracy:.1f}%" in line.get_label()


def test_from_stream_names_a_single_run(results):
    display = IncrementalAccuracyDisplay.from_stream(results["one"])
    assert legend(display)[0].startswith("SGDClassifier (")
    display = IncrementalAccuracyDisplay.from_stream(results["one"], name="mine", ax=display.ax_)
    assert legend(display)[1].startswith("mine (")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ["a"]}, "one entry per curve; got 2, 2, 1, 1"),
        (
            {"accuracies": [[0.9], [0.6, 0.5, 0.4]]},
            r"'first' needs .* got shapes \(2,\) and \(1,\)",
        ),
        ({"accuracies": [[0.9, 80.0], [0.6, 0.5, 0.4]]}, "fractions"),
        (
            {"accuracies": [[0.9, np.nan], [0.6, 0.5, 0.4]]},
            "accuracies must be known .* got NaN in curve 'first', after task 1",
        ),
        ({"n_classes": [[], [5, 6, 7]], "accuracies": [[], [0.6, 0.5, 0.4]]}, "one accuracy per"),
    ],
)
def test_refuses_to_draw(change, message):
    display = two_curves()
    for name, value in change.items():
        setattr(display, name, value)

    with pytest.raises(ValueError, match=message):
        display.plot()


def test_refuses_to_draw_no_curve():
    with pytest.raises(ValueError, match="name of one curve at least; got none"):
        IncrementalAccuracyDisplay.from_stream({})
    assert plt.get_fignums() == []
