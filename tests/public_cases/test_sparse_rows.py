"""Public cases about the form of sparse rows: repeated entries, rows behind the end, tensors."""

import dask
import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

from ffnb_sklearn import make_continual_pipeline, partial_fit_shards
from tests.public_cases.flowers import X, Y, exact, plain, small

ROWS = sparse.csr_array(X)
WIDE = sparse.random_array((150, 2100), density=0.02, rng=np.random.default_rng(0), format="csr")


def in_halves(rows):
    """Return the same rows with two entries of half the value at each place."""
    entries = np.repeat(rows.data / 2, 2), np.repeat(rows.indices, 2), rows.indptr * 2
    return sparse.csr_array(entries, shape=rows.shape)


@pytest.mark.parametrize("scale", [True, False])
def test_repeated_entries_are_added(scale):
    """SciPy #5807."""
    check_repeated_entries(ROWS, small(scale=scale))


@pytest.mark.parametrize("make", [small, plain])
@pytest.mark.parametrize("shared_band_size", [0, 20])
def test_repeated_entries_of_wide_rows_are_added(shared_band_size, make):
    """SciPy #5807."""
    check_repeated_entries(WIDE, make(shared_band_size=shared_band_size, rank=5))


def check_repeated_entries(rows, estimator):
    halves = in_halves(rows)
    expected = clone(estimator).fit(rows, Y)
    for method in ("fit", "partial_fit"):
        model = getattr(clone(estimator), method)(halves, Y)
        assert_array_equal(model.predict_proba(halves), expected.predict_proba(rows))
        assert_array_equal(model.predict_proba(rows), expected.predict_proba(rows))
    # The matrix belongs to the caller.
    assert halves.nnz == 2 * rows.nnz


def test_repeated_entries_are_added_in_pipelines_and_shards():
    """SciPy #5807."""
    halves = in_halves(ROWS)
    # scikit-learn's own scalers read the entries alone, so that a step without arithmetic is used.
    pipe = make_continual_pipeline(FunctionTransformer(accept_sparse=True), small())
    expected = clone(pipe).fit(ROWS, Y).predict_proba(ROWS)
    assert_array_equal(pipe.fit(halves, Y).predict_proba(halves), expected)
    model, expected = exact(), exact()
    with dask.config.set(scheduler="synchronous"):
        partial_fit_shards(model, [(halves[:70], Y[:70]), (halves[70:], Y[70:])])
        partial_fit_shards(expected, [(ROWS[:70], Y[:70]), (ROWS[70:], Y[70:])])
    assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


def test_entries_behind_the_last_row_are_not_read():
    """SciPy #23784."""
    longer = ROWS.copy()
    longer.data = np.append(longer.data, np.full(7, 1e60))
    longer.indices = np.append(longer.indices, np.full(7, 3, longer.indices.dtype))
    model = small().fit(longer, Y)
    expected = small().fit(ROWS, Y).predict_proba(ROWS)
    assert_array_equal(model.predict_proba(longer), expected)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta:UserWarning")
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_tensors_are_refused_with_the_remedy(layout):
    """detectron2 #1180."""
    tensor = getattr(torch.tensor(X), layout)()
    model = small().fit(X, Y)
    for call in (lambda: model.fit(tensor, Y), lambda: model.predict(tensor)):
        with pytest.raises(TypeError, match=r"X must be a dense tensor.*X\.to_dense\(\)"):
            call()
    assert_array_equal(model.predict(tensor.to_dense()), model.predict(X))
