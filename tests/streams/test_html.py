"""Results of streams in a notebook."""

import re
from xml.etree import ElementTree

import numpy as np
from numpy.testing import assert_allclose

from ffnb_sklearn import IncrementalDiscriminantAnalysis, OpenSetClassifier, evaluate_prequential
from ffnb_sklearn.baselines import NearestClassMean
from ffnb_sklearn.streams import StreamSummary, evaluate_stream
from ffnb_sklearn.streams._html import cells_of


def cells(html):
    """Return the texts of the table, row by row; the text must be well-formed."""
    rows = ElementTree.fromstring(html).iter("tr")
    return [["".join(cell.itertext()) for cell in row] for row in rows]


def test_notebooks_show_the_curve_and_the_matrix(results):
    result = results[0]
    html = result._repr_html_()
    head, *rows = cells(html)
    assert head == ["after task", "% of all", "% of task 1", "% of task 2", "% of task 3"]
    shown = [[float(text or "nan") for text in row] for row in rows]
    expected = np.column_stack([[1, 2, 3], 100 * result.accuracies, 100 * result.accuracy_matrix])
    assert_allclose(shown, expected, atol=0.05)
    (points,) = re.findall(r'<polyline points="([^"]*)"', html)
    heights = np.array([float(point.split(",")[1]) for point in points.split()])
    # 100 % is 8 pixels below the top, and 0 % at 112.
    assert_allclose(heights, 8 + 104 * (1 - result.accuracies), atol=0.05)
    assert "StreamResult of NearestClassMean" in html


def test_colours_spread_over_the_accuracies_that_occur():
    cells = cells_of([[0.9, np.nan], [0.92, 1.0]])
    opacities = [re.findall(r"rgba\(31,119,180,([\d.]+)\)", cell) for cell in cells.ravel()]
    assert opacities == [["0.05"], [], ["0.14"], ["0.50"]]
    (alone,) = cells_of([0.92])
    assert "0.50" in alone


def test_notebooks_show_no_matrix_of_many_tasks():
    X = np.arange(22.0)[:, np.newaxis]
    result = evaluate_stream(NearestClassMean(), X, np.arange(22), X, np.arange(22))
    html = result._repr_html_()
    assert cells(html) == []
    assert html.count("<circle") == 22


def test_a_task_alone_is_a_point(blobs):
    html = evaluate_stream(NearestClassMean(), *blobs, classes_per_task=6)._repr_html_()
    assert html.count("<circle") == 1


def test_notebooks_show_means_and_deviations(results):
    summary = StreamSummary(results)
    head, row = cells(summary._repr_html_())
    assert head == ["after task", "1", "2", "3"]
    means = summary.accuracies.mean(axis=0)
    deviations = summary.accuracies.std(axis=0, ddof=1)
    assert row[1:] == [f"{m:.1%} ± {d:.1%}" for m, d in zip(means, deviations, strict=True)]


def open_stream():
    """Return the stream of three far classes, of which the last arrives after 80 samples."""
    y = np.array([0, 1] * 40 + [2] * 20)
    centres = np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 99.0, 0.0]])
    X = centres[y] + np.random.default_rng(0).normal(size=(100, 3))
    clf = IncrementalDiscriminantAnalysis(shared_band_size=0, random_state=0)
    return evaluate_prequential(OpenSetClassifier(clf), X, y, batch_size=20, window=30)


def test_notebooks_show_what_became_of_each_class_of_a_stream():
    result = open_stream()
    html = result._repr_html_()
    head, *rows = cells(html)
    assert head == ["class", "tested", "first tested after", "% right", "% unknown"]
    for label, n_tested, n_before, right, unknown in rows:
        is_of_class = result.y_true == int(label)
        assert int(n_tested) == is_of_class.sum()
        assert int(n_before) == {"0": 20, "1": 21, "2": 80}[label]
        assert float(right) == round(100 * result.is_correct[is_of_class].mean(), 1)
        assert float(unknown) == round(100 * np.mean(result.y_pred[is_of_class] == -1), 1)
    assert [row[0] for row in rows] == ["0", "1", "2"]
    # The samples of the class that arrives are unknown, which is right.
    assert set(result.y_pred[60:]) == {-1}
    assert result.is_correct[60:].all()
    assert "accuracy over the last 30 samples" in html


def heights(html, name):
    """Return the heights of the points of a curve, from 0 to 1."""
    (points,) = re.findall(rf'aria-label="{name}".*?<polyline points="([^"]*)"', html)
    pixels = np.array([float(point.split(",")[1]) for point in points.split()])
    return 1.0 - (pixels - 8) / 104


def test_notebooks_show_how_many_samples_were_unknown_over_the_stream():
    result = open_stream()
    html = result._repr_html_()
    is_unknown = result.y_pred == -1
    shares = heights(html, "share of unknown samples over the last 30 samples")
    assert len(shares) == 40
    np.testing.assert_allclose(shares[0], is_unknown[0], atol=0.001)
    # The last batch is the class that arrives.
    np.testing.assert_allclose(shares[-1], is_unknown[-30:].mean(), atol=0.001)
    assert shares[-1] > 0.6 > shares[-20]
    closed = evaluate_prequential(NearestClassMean(), result.y_true[:, np.newaxis], result.y_true)
    assert "unknown" not in closed._repr_html_()


def test_notebooks_show_no_table_of_many_classes():
    y = np.repeat(np.arange(21), 2)
    html = evaluate_prequential(NearestClassMean(), y[:, np.newaxis], y)._repr_html_()
    assert cells(html) == []


def test_labels_are_text_and_no_markup():
    label = "<td onclick='run()'>a & b</td>"
    y = np.array([label, "other"] * 20)
    X = np.where(y == label, 1.0, -1.0)[:, np.newaxis]
    result = evaluate_prequential(NearestClassMean(), X, y, batch_size=4)

    _, *rows = cells(result._repr_html_())

    assert sorted(row[0] for row in rows) == [label, "other"]
