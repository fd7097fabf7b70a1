"""AnaCP against its formulas."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import sqrtm
from scipy.special import erf

from ffnb_sklearn.baselines import AnaCP
from tests.baselines.small_problem import five_classes, unit


@pytest.mark.parametrize(
    "sizes", [{"n_layers": 100, "n_components": 2}, {"n_layers": 2, "n_components": 100}], ids=str
)
def test_a_solution_takes_the_memory_that_files_count(sizes):
    X, y, X_test, _ = five_classes()
    head = AnaCP(**sizes, n_draws=4000, random_state=0).fit(X, y)
    model = head._state.model
    model.cache.clear()
    n_arrays = sum(array.nbytes for array in vars(model).values() if isinstance(array, np.ndarray))
    tracemalloc.start()
    try:
        head.decision_function(X_test)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < head._n_bytes_to_solve(model) + 4 * n_arrays


def test_anacp_regresses_on_spread_means_and_then_on_draws():
    X, y, X_test, _ = five_classes()
    head = AnaCP(n_components=40, n_layers=2, alpha=3.0, random_state=0)
    head.set_params(n_draws=4000, spread=0.5).fit(X, y)

    def gelu(rows):
        return 0.5 * rows * (1.0 + erf(rows / np.sqrt(2.0)))

    rows = unit(X)
    means = np.array([rows[y == label].mean(axis=0) for label in range(5)])
    covariance = np.cov((rows - means[y]).T, bias=True) + 1e-4 * np.eye(12)
    whitening = np.real(sqrtm(np.linalg.inv(covariance)))
    left, singular, right = np.linalg.svd((means - means.mean(axis=0)) @ whitening, False)
    # The fifth direction of five centred means is undefined.
    moved = left[:, :4] @ np.diag(singular[:4] + 0.5) @ right[:4]
    targets = unit(moved @ whitening + means.mean(axis=0))

    def ridge(neurons, outputs):
        return np.linalg.solve(neurons.T @ neurons + 3.0 * np.eye(40), neurons.T @ outputs)

    maps = [ridge(gelu(rows @ layer), targets[y]) for layer in head.layers_]
    learned_maps, _ = head._solution(head._state.model, head.classes_)
    assert_allclose(learned_maps, maps, rtol=1e-7, atol=1e-10)

    def neurons_of(rows):
        heads = zip(head.layers_, maps, strict=True)
        return gelu(np.mean([unit(gelu(rows @ a) @ b) for a, b in heads], 0) @ head.last_layer_)

    draws = head._draws(head.draw_seed_, means, covariance).reshape(5, 4000, 12)
    assert_allclose(draws.mean(axis=1), means, atol=0.02)
    assert_allclose(np.cov((draws[0] - means[0]).T), covariance, atol=0.02)
    readout = ridge(neurons_of(draws.reshape(-1, 12)), np.repeat(np.eye(5), 4000, axis=0))
    expected = neurons_of(unit(X_test)) @ readout
    assert_allclose(head.decision_function(X_test), expected, rtol=1e-7, atol=1e-10)
