"""Results of streams in a notebook, as tables, and as means over several streams."""

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs

from ffnb_sklearn.baselines import NearestClassMean
from ffnb_sklearn.streams import StreamSummary, evaluate_stream


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(300, n_features=3, centers=6, cluster_std=4.0, random_state=0)
    return X[:150], y[:150], X[150:], y[150:]


@pytest.fixture(scope="module")
def results(blobs):
    return [
        evaluate_stream(
            NearestClassMean(), *blobs, classes_per_task=2, class_order="random", random_state=seed
        )
        for seed in range(4)
    ]


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


def test_table_of_a_stream(results):
    pytest.importorskip("pandas")
    result = results[0]
    frame = result.to_frame()
    assert frame.index.tolist() == [1, 2, 3]
    assert frame["n_classes"].tolist() == [2, 4, 6]
    assert_array_equal(frame["accuracy"], result.accuracies)
    assert_array_equal(frame["fit_seconds"], result.fit_seconds)
    assert_array_equal(frame["state_bytes"], result.state_bytes)
    names = ["accuracy_task_1", "accuracy_task_2", "accuracy_task_3"]
    assert_array_equal(frame[names], result.accuracy_matrix)


def test_tables_need_pandas(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"StreamResult\.to_frame requires pandas"):
        results[0].to_frame()
    with pytest.raises(ImportError, match=r"StreamSummary\.to_frame requires pandas"):
        StreamSummary(results).to_frame()


def test_summary_is_the_mean_and_the_deviation(results):
    summary = StreamSummary(results)
    finals = [result.final_accuracy for result in results]
    averages = [result.average_incremental_accuracy for result in results]
    assert_array_equal(summary.final_accuracies, finals)
    assert_array_equal(summary.average_incremental_accuracies, averages)
    assert_array_equal(summary.accuracies, [result.accuracies for result in results])
    assert np.std(averages) > 0
    assert repr(summary) == (
        "StreamSummary of NearestClassMean, 4 streams of 3 tasks: accuracy "
        f"{np.mean(finals):.1%} ± {np.std(finals, ddof=1):.1%} at the end and "
        f"{np.mean(averages):.1%} ± {np.std(averages, ddof=1):.1%} on average"
    )
    assert repr(StreamSummary(results[:1])).endswith(f"{averages[0]:.1%} ± 0.0% on average")


def test_table_of_a_summary(results):
    pytest.importorskip("pandas")
    summary = StreamSummary(results)
    frame = summary.to_frame()
    assert frame.index.tolist() == [1, 2, 3]
    assert_allclose(frame["accuracy"], np.mean(summary.accuracies, axis=0))
    assert_allclose(frame["deviation"], np.std(summary.accuracies, axis=0, ddof=1))
    assert (frame["fit_seconds"] > 0).all()


def test_notebooks_show_means_and_deviations(results):
    summary = StreamSummary(results)
    head, row = cells(summary._repr_html_())
    assert head == ["after task", "1", "2", "3"]
    means = summary.accuracies.mean(axis=0)
    deviations = summary.accuracies.std(axis=0, ddof=1)
    assert row[1:] == [f"{m:.1%} ± {d:.1%}" for m, d in zip(means, deviations, strict=True)]


@pytest.mark.parametrize("n_tasks", [[], [3, 1]])
def test_results_without_a_mean_are_refused(blobs, results, n_tasks):
    other = evaluate_stream(NearestClassMean(), *blobs, classes_per_task=6)
    chosen = [results[0] if n == 3 else other for n in n_tasks]
    with pytest.raises(ValueError, match=r"same number of tasks; got results with \["):
        StreamSummary(chosen)


def test_results_of_any_iterable_are_kept_and_other_objects_are_refused(results):
    summary = StreamSummary(result for result in results)
    assert_array_equal(summary.accuracies, StreamSummary(results).accuracies)
    with pytest.raises(TypeError, match="results must hold objects of StreamResult; got float"):
        StreamSummary([0.5])
