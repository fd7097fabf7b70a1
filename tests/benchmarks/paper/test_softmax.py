"""Softmax outputs on the bands of the paper: trained on the newest task alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits

from benchmarks.lib.published import published_in_absolute_units
from benchmarks.paper.runs import IDLE
from benchmarks.paper.softmax import SoftmaxOneVsAll

# The bands themselves are in closed form, and their rate is that of the outputs.
pytestmark = pytest.mark.filterwarnings(f"ignore:{IDLE}:UserWarning")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:200] / 16.0, y[:200]


def learned(X, y, *tasks, **parameters):
    """A model after some tasks."""
    given = {"p": 20, "epsilon": 0.1, "random_state": 0, **parameters.pop("published", {})}
    bands = published_in_absolute_units(**given)
    model = SoftmaxOneVsAll(bands, **{"max_epochs": 20, **parameters})
    for task in tasks:
        in_task = np.isin(y, task)
        model.partial_fit(X[in_task], y[in_task])
    return model


def test_classes_of_a_task_are_told_apart(digits):
    X, y = digits

    model = learned(X, y, [0, 1, 2, 3])

    assert np.mean(model.predict(X) == y) > 0.95
    assert_array_equal(model.classes_, [0, 1, 2, 3])
    assert model.n_iter_ == 20
    # Three neurons per class of 64 weights, and an output of 12 weights and an offset.
    assert model.n_parameters_ == 12 * 64 + 4 * 13


@pytest.mark.parametrize("tune_bands", [True, False])
def test_outputs_and_rows_of_earlier_tasks_stay(digits, tune_bands):
    X, y = digits
    before = learned(X, y, [2], [0, 1], tune_bands=tune_bands)
    after = learned(X, y, [2], [0, 1], [3], tune_bands=tune_bands)

    assert_allclose(after.decision_function(X)[:, :3], before.decision_function(X), rtol=1e-12)
    assert_array_equal(after.classes_, [2, 0, 1, 3])
    closed_form = after.bands_of_tasks_._state.model.trained.layers.bands
    moved = [
        not np.allclose(band.weights, start.weights)
        for band, start in zip(after.network_.hidden.bands, closed_form, strict=True)
    ]
    # A single class has no loss.
    assert moved == [False, tune_bands, tune_bands]


def test_rows_stay_in_the_null_space(digits):
    X, y = digits

    model = learned(X, y, [0, 1], [2, 3])

    axes = np.linalg.svd(X[y < 2])[2][:20]
    rows = model.network_.hidden.bands[-1].weights
    assert np.abs(rows @ axes.T).max() < 1e-10


def test_two_layers_are_refused(digits):
    X, y = digits

    with pytest.raises(ValueError, match=r"estimator must have n_layers=1, .* got n_layers=2"):
        learned(X, y, [0, 1], published={"n_layers": 2})
