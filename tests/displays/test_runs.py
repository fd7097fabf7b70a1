"""What the displays share: drawing from an estimator, and the lack of matplotlib."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier

from ffnb_sklearn.displays import AccuracyMatrixDisplay, IncrementalAccuracyDisplay
from ffnb_sklearn.streams import evaluate_stream

DISPLAYS = {
    "matrix": AccuracyMatrixDisplay([[1.0]]),
    "curve": IncrementalAccuracyDisplay(n_classes=[[5]], accuracies=[[1.0]], names=["one"]),
}


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
    curve = IncrementalAccuracyDisplay.from_estimator(
        model, *digits, **options, name="mine", ax=ax, lw=3
    )

    np.testing.assert_array_equal(matrix.accuracy_matrix, expected.accuracy_matrix)
    assert matrix.text_ is None
    assert matrix.task_labels == ["a", "b", "c"]
    np.testing.assert_array_equal(curve.lines_[0].get_ydata(), expected.accuracies)
    assert curve.lines_[0].get_xdata().tolist() == [2, 6, 10]
    assert curve.lines_[0].get_linewidth() == 3
    assert curve.lines_[0].get_label().startswith("mine (")
    assert curve.ax_ is ax


@pytest.mark.parametrize("display", DISPLAYS.values(), ids=DISPLAYS)
def test_says_that_matplotlib_is_missing(monkeypatch, display):
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    with pytest.raises(ImportError, match=rf"{type(display).__name__}\.plot requires matplotlib"):
        display.plot()
    with pytest.raises(ImportError, match=r"from_stream requires matplotlib"):
        display.from_stream(None)
    # Before the estimator learns anything.
    with pytest.raises(ImportError, match=r"from_estimator requires matplotlib"):
        display.from_estimator(None, None, None, None, None)


def test_importing_the_displays_does_not_import_matplotlib():
    code = "import sys, ffnb_sklearn.displays; sys.exit('matplotlib' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
