"""Public cases about masked entries, memory and constant columns."""

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    class_incremental_tasks,
)
from ffnb_sklearn.metrics import forgetting, forward_transfer
from tests.public_cases.flowers import X, Y, exact, small

# ---- extreme values


def test_masked_entries_are_not_learned():
    """scikit-learn #10186."""
    hidden = np.ma.masked_greater(X, 7.0)
    model = small().fit(X, Y)
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="X must have no masked entries; got 12 of 600"):
            call(hidden, Y)
        with pytest.raises(ValueError, match="y must have no masked entries; got 50 of 150"):
            call(X, np.ma.masked_equal(Y, 2))
    with pytest.raises(ValueError, match="X must have no masked entries"):
        model.predict(hidden)
    with pytest.raises(ValueError, match="y must have no masked entries"):
        class_incremental_tasks(np.ma.masked_equal(Y, 2))
    assert_array_equal(model.predict(np.ma.masked_array(X)), model.predict(X))
    # A masked accuracy is unknown, as NaN is.
    matrix = np.ma.masked_array([[0.8, 0.9], [0.5, 0.6]], mask=[[False, True], [False, False]])
    assert_allclose(forgetting(matrix), 0.3)
    with pytest.raises(ValueError, match="forward_transfer needs accuracy_matrix"):
        forward_transfer(matrix)


# ---- memory


def test_the_state_grows_with_classes_and_not_with_samples():
    """river #1512."""
    model = exact().partial_fit(X, Y)
    for _ in range(20):
        model.partial_fit(X, Y)
    # Three classes, 4 inputs and 20 neurons: less than a matrix and two vectors per class.
    most = 3 * 24 * (24 + 2) * 8 + 4096
    assert len(pickle.dumps(model)) < most
    tracemalloc.start()
    try:
        copy = pickle.loads(pickle.dumps(model))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 2 * most
    assert_array_equal(copy.predict_proba(X), model.predict_proba(X))


# ---- constant columns


def halves(load):
    """Return half of a set to learn and the other half to predict, each with labels."""
    rows, labels = load(return_X_y=True)
    # Some of the digits suffice.
    rows, labels = rows[:600], labels[:600]
    return rows[::2], labels[::2], rows[1::2], labels[1::2]


def beside(rows, value):
    """Return rows with a further column of one value."""
    return np.column_stack([rows, np.full(len(rows), value)])


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.parametrize(
    ("load", "value"),
    [(load_iris, 1e12), (load_wine, 1e14), (load_iris, 1.7e15), (load_digits, 1.7e18)],
)
def test_a_large_constant_column_does_not_hide_the_others(load, value):
    """Nanoseconds since 1970 in a column that does not vary: issue 72."""
    rows, labels, new, new_labels = halves(load)
    accuracy = (
        IncrementalDiscriminantAnalysis(random_state=0).fit(rows, labels).score(new, new_labels)
    )
    whole = IncrementalDiscriminantAnalysis(random_state=0).fit(beside(rows, value), labels)
    assert whole.score(beside(new, value), new_labels) >= accuracy - 0.02
    calls = IncrementalDiscriminantAnalysis(random_state=0)
    for part in np.array_split(np.random.default_rng(0).permutation(len(labels)), 7):
        calls.partial_fit(beside(rows[part], value), labels[part])
    # Rounding of the means of the calls separated classes.
    assert calls.score(beside(new, value), new_labels) >= accuracy - 0.02


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])
@pytest.mark.parametrize(("rank", "value"), [(None, 1e12), (3, 1e14), (None, 1.7e18), (3, 1.7e18)])
def test_without_neurons_a_constant_column_of_any_size_counts_like_one_of_zeros(head, rank, value):
    parameters = {"classifier": head, "rank": rank, "shared_band_size": 0, "random_state": 0}
    zeros = IncrementalDiscriminantAnalysis(**parameters).fit(beside(X, 0.0), Y)
    large = IncrementalDiscriminantAnalysis(**parameters).fit(beside(X, value), Y)
    expected = zeros.predict_proba(beside(X, 0.0))
    assert_allclose(large.predict_proba(beside(X, value)), expected, rtol=1e-9, atol=1e-12)
    expected = zeros.score_samples(beside(X, 0.0))
    assert_allclose(large.score_samples(beside(X, value)), expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
def test_neurons_that_a_constant_column_hides_do_not_decide_what_is_new():
    plain = IncrementalDiscriminantAnalysis(shared_band_size=0).fit(X, Y)
    model = IncrementalDiscriminantAnalysis(random_state=0).fit(beside(X, 1.7e18), Y)
    for rows in (X, X + 20.0):
        found = model.score_samples(beside(rows, 1.7e18))
        assert np.corrcoef(found, plain.score_samples(rows))[0, 1] > 0.9


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.parametrize(
    ("value", "p", "n_columns"),
    [(1e3, 0.95, 4), (1e3, 2, 400), (1.7e18, 2, 4), (1.7e18, 0.95, 400)],
)
def test_a_constant_column_takes_no_axis_of_the_past_from_trained_bands(value, p, n_columns):
    """It owned the uncentred past: a share p kept its axis alone, and a warning blamed p."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(90, n_columns)) + 1.0
    labels = np.arange(90) % 3
    rows[:, :3] += 4.0 * np.eye(3)[labels]
    tasks = [labels == 0, labels == 1, labels == 2]
    plain = FFNBClassifier(p=p, scale=False, random_state=0)
    large = FFNBClassifier(p=p, scale=False, random_state=0)
    for is_new in tasks[:2]:
        plain.partial_fit(rows[is_new], labels[is_new])
        large.partial_fit(beside(rows, value)[is_new], labels[is_new])
    assert large.null_space_dims_[1] == plain.null_space_dims_[1]
    band = large._state.model.trained.layers.bands[1]
    assert not band.weights[:, -1].any()
    assert band.weights.any()
    bound = large.forgetting_bound(beside(rows, value)[tasks[0]])
    assert bound.drift <= bound.bound
    if value == 1e3:
        # The column counts as soon as it varies.
        other = beside(rows, 2.0 * value)
        large.partial_fit(other[tasks[2]], labels[tasks[2]])
        assert large._state.model.trained.layers.bands[2].weights[:, -1].any()


def test_a_constant_column_of_wide_sparse_rows_takes_nothing_from_the_others():
    """The moments of wide sparse rows come from an iteration that sees the longest axes alone."""
    rng = np.random.default_rng(0)
    rows = sparse.random_array((400, 2100), density=0.02, rng=rng, format="csr")
    labels = np.arange(400) % 2
    rows = sparse.csr_array(rows + sparse.csr_array(np.outer(labels, np.arange(2100) < 30)))
    models = []
    for value in (0.0, 1e14):
        column = sparse.csr_array(np.full((400, 1), value))
        samples = sparse.csr_array(sparse.hstack([rows, column]))
        model = IncrementalDiscriminantAnalysis(rank=8, shared_band_size=0).fit(samples, labels)
        models.append((model, samples))
    for first, second in zip(*(model._state.model.moments for model, _ in models), strict=True):
        assert_allclose(second.mean[-1], 1e14, rtol=1e-15)
        assert_allclose(np.square(second.factor).sum(1), np.square(first.factor).sum(1), rtol=1e-4)
        assert not second.factor[:, -1].any()
    expected, found = (model.predict_proba(samples) for model, samples in models)
    assert_allclose(found, expected, atol=1e-4)
