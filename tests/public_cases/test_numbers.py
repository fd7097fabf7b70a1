"""Public cases about batches, extreme values, memory and repeatable results."""

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import GridSearchCV, cross_val_score

from ffnb_sklearn import (
    Bands,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    class_incremental_tasks,
)
from ffnb_sklearn.metrics import forgetting, forward_transfer
from tests.public_cases.flowers import WEIGHTS, X, Y, exact, heads, small

# ---- batches


@heads
def test_samples_that_come_one_by_one(head):
    """scikit-learn #19837."""
    model = exact(head)
    for sample, label in zip(X[:20], Y[:20], strict=True):
        model.partial_fit([sample], [label])
        assert np.isfinite(model.predict_proba(X[:2])).all()
    together = exact(head).fit(X[:20], Y[:20])
    assert_allclose(model.predict_proba(X), together.predict_proba(X), rtol=1e-6)


@heads
def test_the_ridge_is_that_of_all_samples_and_not_of_the_last_batch(head):
    """scikit-learn #14054."""
    together = exact(head).fit(X, Y)
    # The last batch alone has almost no variance.
    order = np.argsort(np.abs(X - X.mean(axis=0)).sum(axis=1))[::-1]
    model = exact(head)
    for part in np.array_split(order, 10):
        model.partial_fit(X[part], Y[part])
    assert_allclose(model.predict_proba(X), together.predict_proba(X), rtol=1e-6)
    assert_allclose(model.epsilon_, together.epsilon_, rtol=1e-8)


@heads
def test_the_order_of_the_samples_does_not_matter(head):
    """river #1011."""
    shuffled = np.random.default_rng(5).permutation(150)
    model = exact(head)
    for part in np.array_split(shuffled, 5):
        model.partial_fit(X[part], Y[part])
    expected = exact(head).fit(X, Y).predict_proba(X)
    assert_allclose(model.predict_proba(X), expected, rtol=1e-6)


def test_a_hundred_batches_of_bytes():
    """scikit-learn #14851."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 255, size=(100, 16, 5), dtype=np.uint8)
    labels = np.arange(16) % 2
    rows[:, labels == 1, 0] //= 4
    model = exact()
    for batch in rows:
        model.partial_fit(batch, labels)
    together = exact().fit(rows.reshape(-1, 5).astype(float), np.tile(labels, 100))
    assert_allclose(model.predict_proba(rows[0]), together.predict_proba(rows[0]), rtol=1e-6)


def test_a_column_of_ones_beside_sparse_columns_batch_by_batch():
    """scikit-learn #11758."""
    with_bias = sparse.hstack([np.ones((150, 1)), sparse.coo_array(X)])
    model = exact()
    for part in np.array_split(np.arange(150), 15):
        model.partial_fit(with_bias.tocsr()[part], Y[part])
    dense = exact().fit(with_bias.toarray(), Y)
    assert_allclose(model.predict_proba(with_bias), dense.predict_proba(with_bias), rtol=1e-6)


# ---- extreme values


@heads
@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_large_and_small_numbers_neither_overflow_nor_vanish(head, scale):
    """scikit-learn #34874."""
    model = exact(head).fit(X, Y)
    scaled = exact(head).fit(X * scale, Y)
    assert_array_equal(scaled.predict(X * scale), model.predict(X))
    with pytest.raises(ValueError, match="X must have magnitudes of at most"):
        scaled.partial_fit(np.full((1, 4), 1e200), [0])
    assert_array_equal(scaled.predict(X * scale), model.predict(X))


@heads
@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
def test_means_of_many_single_precision_numbers(head):
    """scikit-learn #12338."""
    rows = np.repeat(X, 40, axis=0).astype(np.float32) + np.float32(1000)
    labels = np.repeat(Y, 40)
    single = exact(head).fit(rows, labels)
    double = exact(head).fit(rows.astype(float), labels)
    assert_allclose(single.predict_proba(rows[::40]), double.predict_proba(rows[::40]), rtol=1e-6)


@heads
def test_samples_without_length(head):
    """river #1997."""
    model = small(head).fit(np.vstack([X, np.zeros((9, 4))]), np.append(Y, np.full(9, 3)))
    zeros = np.zeros((2, 4))
    assert_array_equal(model.predict(zeros), [3, 3])
    assert np.isfinite(model.predict_proba(zeros)).all()


@heads
def test_masked_entries_are_not_learned(head):
    """scikit-learn #10186."""
    hidden = np.ma.masked_greater(X, 7.0)
    model = small(head).fit(X, Y)
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


@heads
def test_samples_far_from_all_classes_have_probabilities(head):
    """river #475."""
    far = np.vstack([X[:5] * -1e6, X[:5] * 1e30])
    model = small(head).fit(X, Y)
    probabilities = model.predict_proba(far)
    assert np.isfinite(model.predict_log_proba(far)).all()
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert_array_equal(model.predict(far), probabilities.argmax(axis=1))


@heads
def test_a_constant_column_that_changes_later_decides_nothing(head):
    """river #132."""
    padded = np.column_stack([X, np.full(150, 5.0)])
    model = small(head).fit(padded, Y)
    later = padded.copy()
    later[:, 4] += 1e-9  # A division by the spread would give values of 1e9 and more.
    assert_array_equal(model.predict(later), model.predict(padded))
    assert_allclose(model.predict_proba(later), model.predict_proba(padded), atol=1e-5)


# ---- memory


@heads
def test_the_state_grows_with_classes_and_not_with_samples(head):
    """river #1512."""
    model = exact(head).partial_fit(X, Y)
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


@heads
def test_arguments_that_cannot_be_written_to(head):
    """scikit-learn #5481, pandas #51082."""
    pd = pytest.importorskip("pandas")
    frame, labels = pd.DataFrame(X), pd.Series(Y)
    arguments = frame.to_numpy(), labels.to_numpy(), WEIGHTS.copy()
    for argument in arguments:
        argument.flags.writeable = False
    rows, own, weights = arguments
    model = small(head, bands__max_epochs=1, band_size=1)
    model.fit(rows, own, sample_weight=weights).partial_fit(rows + 9, own + 3)
    usual = clone(model).fit(X, Y, sample_weight=WEIGHTS).partial_fit(X + 9, Y + 3)
    assert_array_equal(model.predict_proba(rows), usual.predict_proba(X))
    assert_array_equal(frame.to_numpy(), X)


# ---- repeatable results


def test_a_generator_gives_the_same_scores_and_is_not_consumed():
    """scikit-learn #3252."""
    generator = np.random.RandomState(3)
    before = generator.get_state()[1].copy()
    model = small(random_state=generator, bands__init="random", band_size=3, classes_per_task=1)
    first, second = (cross_val_score(model, X, Y, cv=3) for _ in range(2))
    assert_array_equal(first, second)
    assert_array_equal(generator.get_state()[1], before)


def test_a_search_leaves_the_objects_of_its_grid_as_they_were():
    """scikit-learn #26786."""
    bands = Bands(max_epochs=1, batch_size=7)
    grid = {"bands": [bands], "bands__batch_size": [1, 2]}
    search = GridSearchCV(small(), grid, cv=2).fit(X, Y)
    assert bands.batch_size == 7
    assert search.best_estimator_.bands.batch_size in (1, 2)
    assert search.best_estimator_.bands is not bands


def test_a_clone_shares_no_nested_parameter():
    """scikit-learn #5563."""
    model = small(bands=Bands(batch_size=7))
    copy = clone(model).set_params(bands__batch_size=1)
    assert model.bands.batch_size == 7
    assert copy.bands.batch_size == 1


# ---- constant columns

LARGE = [1e12, 1e14, 1.7e15, 1.7e18]


def halves(load):
    """Return half of a set to learn and the other half to predict, each with labels."""
    rows, labels = load(return_X_y=True)
    return rows[::2], labels[::2], rows[1::2], labels[1::2]


def beside(rows, value):
    """Return rows with a further column of one value."""
    return np.column_stack([rows, np.full(len(rows), value)])


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize("load", [load_iris, load_wine, load_digits])
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
@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])
@pytest.mark.parametrize("rank", [None, 3])
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
@pytest.mark.parametrize("value", [1e3, 1.7e18])
@pytest.mark.parametrize("p", [0.95, 2])
@pytest.mark.parametrize("n_columns", [4, 400])
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
