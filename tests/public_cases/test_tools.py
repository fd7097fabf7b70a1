"""Public cases about arrays of other libraries, pipelines and displays."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import estimator_html_repr

from ffnb_sklearn import (
    AccuracyMatrixDisplay,
    ContinualPipeline,
    class_incremental_tasks,
    evaluate_stream,
)
from ffnb_sklearn.metrics import forgetting
from tests.public_cases.flowers import X, Y, small

# ---- searches


# ---- arrays of other libraries


@pytest.mark.parametrize("convert", [torch.tensor, np.array])
def test_arrays_of_other_libraries_are_scored_where_scikit_learn_dispatches(convert, monkeypatch):
    """scikit-learn #33822, scikit-learn #32837."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    expected = evaluate_stream(small(), X, Y, X, Y)
    matrix = expected.accuracy_matrix
    with config_context(array_api_dispatch=True):
        rows, labels = convert(X), convert(Y)
        accuracy = small().fit(rows, labels).score(rows, labels)
        # scikit-learn averages tensors in float32.
        assert accuracy == pytest.approx(small().fit(X, Y).score(X, Y), abs=1e-6)
        result = evaluate_stream(small(), rows, labels, rows, labels)
        assert_array_equal(result.accuracy_matrix, matrix)
        assert_array_equal(class_incremental_tasks(labels), class_incremental_tasks(Y))
        assert forgetting(convert(matrix)) == forgetting(matrix)
        assert AccuracyMatrixDisplay(convert(matrix)).plot().text_[0, 0].get_text() == "100.0"


# ---- pipelines


def test_an_empty_pipeline_is_displayed_and_refused():
    """scikit-learn #30197, scikit-learn #31723."""
    empty = ContinualPipeline([])
    assert "ContinualPipeline" in estimator_html_repr(empty)
    assert repr(empty) == "ContinualPipeline(steps=[])"
    with pytest.raises(ValueError, match="pipeline is empty"):
        empty.fit(X, Y)
    empty.set_params(steps=[("nb", GaussianNB())]).fit(X, Y)


# ---- displays


def test_numbers_beside_unknown_accuracies_are_legible():
    """scikit-learn #27306."""
    display = AccuracyMatrixDisplay([[1.0, np.nan], [0.1, 0.9]]).plot(cmap="Blues")
    best, worst, good = (display.text_[i, j].get_color() for i, j in [(0, 0), (1, 0), (1, 1)])
    assert best == good == display.im_.cmap(0.0)
    assert worst == display.im_.cmap(1.0)
    assert display.text_[0, 1] is None
