"""Results of streams in a notebook, as tables, and as means over several streams."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.baselines import NearestClassMean
from ffnb_sklearn.streams import StreamSummary, evaluate_stream


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
