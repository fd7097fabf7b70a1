"""Wide sparse rows: moments, scores and memory of sparse products."""

import tracemalloc

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import sparse

from ffnb_sklearn._inputs.sparse_samples import RandomProjection, WideSamples
from ffnb_sklearn.core.moments import moments_of
from ffnb_sklearn.core.sparse import moments_of_inputs
from tests.inputs.test_sparse_samples import CODES, N_WIDE, RNG, WIDE, estimator


@pytest.mark.parametrize(
    ("classifier", "shrinkage"), [("gaussian", "auto"), ("ovo", 0.3), ("ova", "auto")]
)
def test_products_give_the_results_of_dense_rows(classifier, shrinkage):
    parameters = {"classifier": classifier, "shrinkage": shrinkage, "epsilon": 0.5, "rank": None}
    X = sparse.csr_array(WIDE * np.linspace(0.5, 1.5, N_WIDE))
    model = estimator(**parameters).fit(X, CODES, sample_weight=1.0 + CODES)
    model.predict(X)
    parameters |= {"shared_band_size": 0, "shrinkage": model.shrinkage_}
    other = estimator(**parameters).fit(X.toarray(), CODES, sample_weight=1.0 + CODES)
    for method in ("decision_function", "score_samples"):
        expected = getattr(other, method)(X.toarray())
        assert_allclose(getattr(model, method)(X), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("classifier", ["gaussian", "ovo", "ova"])
def test_memory_of_a_prediction_grows_with_the_classes_and_not_with_their_square(classifier):
    n_classes, d = 90, 5000
    X = sparse.random_array((2 * n_classes, d), density=0.01, rng=RNG, format="csr")
    model = estimator(classifier=classifier, epsilon=0.5, shrinkage=0.5)
    model.fit(X, np.arange(2 * n_classes) % n_classes).predict(X[:1])
    tracemalloc.start()
    model.predict(X[:1])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The identity matrix of 4005 pairs alone has 128 MB.
    assert peak < 20e6


def test_moments_of_many_rows_are_those_of_dense_rows():
    weights = torch.from_numpy(1.0 + RNG.random(len(CODES)))
    X = WIDE[:, ::5]
    n_columns = X.shape[1]
    samples = WideSamples(X, RandomProjection(n_columns, 0, n_columns), torch.device("cpu"))
    found = moments_of_inputs(samples, weights, 4)
    expected = moments_of([(torch.from_numpy(X.toarray()), weights)], 4)
    assert_allclose(found.weight, expected.weight)
    assert_allclose(found.mean, expected.mean, atol=1e-12)
    assert_allclose(found.scatter(), expected.scatter(), atol=1e-9)
