"""Public cases about singular covariances, few samples, single classes, and order."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import KFold, cross_val_predict

from tests.public_cases.flowers import X, Y, exact, heads, plain, small

WINE, KINDS = load_wine(return_X_y=True)


@heads
def test_a_class_on_a_line(head):
    """scikit-learn #14997."""
    rng = np.random.RandomState(0)
    turn = np.array([[0.0, -0.23], [0.83, 0.23]])
    line = np.column_stack([rng.randn(300, 1), np.zeros((300, 1))])
    rows = np.vstack([line @ turn, rng.randn(300, 2) @ turn + 1.0])
    labels = np.repeat([0, 1], 300)
    for model in (small(head), exact(head, shared_band_size=0)):
        model.fit(rows, labels)
        assert np.isfinite(model.predict_log_proba(rows)).all()
        assert model.score(rows, labels) > 0.95


@heads
def test_folds_of_two_samples_per_class(head):
    """scikit-learn #3721."""
    for seed in range(5):
        rng = np.random.RandomState(seed)
        rows = rng.randn(6, 4)
        folds = KFold(3, shuffle=True, random_state=seed)
        scores = cross_val_predict(
            small(head), rows, [0, 0, 0, 1, 1, 1], cv=folds, method="predict_proba"
        )
        assert_allclose(scores.sum(axis=1), 1.0)


@heads
def test_probabilities_of_a_single_class(head):
    """scikit-learn #17401."""
    rows = np.random.RandomState(0).uniform(size=(10, 3))
    model = small(head).fit(rows, np.ones(10))
    assert_array_equal(model.predict_proba(rows), np.ones((10, 1)))
    assert_array_equal(model.predict(rows), np.ones(10))
    assert np.isfinite(model.decision_function(rows)).all()


@heads
def test_collinear_columns_draw_no_warning_and_cost_nothing(head):
    """scikit-learn #14361."""
    more = np.column_stack([X, X[:, 0], X.sum(axis=1), np.full(150, 7.0)])
    assert small(head).fit(more, Y).score(more, Y) >= small(head).fit(X, Y).score(X, Y)


@heads
@pytest.mark.parametrize("units", [1.0, [1e-3, 1.0, 1e3, 1.0] * 125])
def test_more_features_than_samples(head, units):
    """scikit-learn #1649."""
    rng = np.random.default_rng(0)
    means = 0.2 * rng.normal(size=(2, 500))
    labels = np.arange(40) % 2
    learned, new = (means[labels] + rng.normal(size=(40, 500)) for _ in range(2))
    # Units that differ make the scaling of the columns matter.
    model = plain(head, scale=True).fit(learned * units, labels)
    assert model.score(new * units, labels) > 0.85


@heads
def test_predictions_do_not_depend_on_the_order_of_the_rows(head):
    """scikit-learn #18570, neural-trees #39."""
    model = small(head).fit(WINE, KINDS)
    order = np.random.default_rng(1).permutation(len(WINE))
    # The last bits of a product with few neurons may depend on the place of a row.
    assert_allclose(
        model.predict_proba(WINE[order]), model.predict_proba(WINE)[order], rtol=0.0, atol=1e-12
    )
    assert_allclose(model.transform(WINE[::-1]), model.transform(WINE)[::-1], rtol=1e-12)


@heads
def test_fit_transform_equals_transform(head):
    """cuML #2368."""
    model = small(head)
    assert_array_equal(
        model.fit_transform(WINE, KINDS), clone(model).fit(WINE, KINDS).transform(WINE)
    )


@heads
@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e3, 1e6])
def test_all_weights_in_another_unit_leave_the_labels(head, factor):
    """scikit-learn #10352, XGBoost #5915."""
    weighted = small(head).fit(X, Y, sample_weight=np.full(150, factor))
    usual = small(head).fit(X, Y)
    # Weights count samples, so that probabilities may be more or less certain.
    assert (weighted.predict(X) == usual.predict(X)).mean() > 0.95
    assert_allclose(weighted.predict_proba(X).sum(axis=1), 1.0)


@heads
def test_rows_drawn_again_are_rows_of_higher_weight(head):
    """imbalanced-learn #457."""
    drawn = np.random.default_rng(0).integers(150, size=400)
    counts = np.bincount(drawn, minlength=150).astype(float)
    repeated = exact(head).fit(X[drawn], Y[drawn])
    weighted = exact(head).fit(X, Y, sample_weight=counts)
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-6)


def test_columns_that_vary_little_compared_with_their_size():
    """scikit-learn #19898."""
    # Numbers near 1e9 in units that differ, such as times in nanoseconds.
    rows = 1e9 + X * [100.0, 1e-3, 1e-3, 1e-3]
    for method in ("fit", "partial_fit"):
        model = getattr(small(scale=True), method)(rows, Y)
        assert model.score(rows, Y) > 0.9
