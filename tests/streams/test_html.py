"""Results of streams in a notebook."""

import re
from xml.etree import ElementTree

import numpy as np
from numpy.testing import assert_allclose

from ffnb_sklearn.baselines import NearestClassMean
from ffnb_sklearn.streams import StreamSummary, evaluate_stream


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
