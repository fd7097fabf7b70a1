"""Rows drawn from moments, and the affine map between two feature spaces."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from ffnb_sklearn.core.moments import moments_of
from ffnb_sklearn.core.transfer import (
    _RIDGES,
    covariance_of_inputs,
    draw_deviations,
    draw_white_rows,
    fit_affine_map,
    with_covariance,
)

COVARIANCE = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.5], [0.0, 0.5, 1.0]])


def class_moments(rank):
    rng = np.random.default_rng(0)
    rows = rng.multivariate_normal(np.zeros(3), COVARIANCE, 500)
    weights = rng.uniform(0.5, 2.0, 500)
    chunks = [(torch.from_numpy(rows), torch.from_numpy(weights))]
    return moments_of(chunks, rank), np.cov(rows.T, aweights=weights, bias=True)


@pytest.mark.parametrize("rank", [None, 1])
def test_deviations_have_the_covariance_of_the_class(rank):
    moments, covariance = class_moments(rank)
    deviations = draw_deviations(moments, 3, 100_000, np.random.default_rng(1))
    if rank is not None:
        # Beyond the kept axis the variances alone are known.
        covariance = moments.scatter() / moments.weight
    assert_allclose(deviations.mean(axis=0), 0.0, atol=0.03)
    assert_allclose(np.cov(deviations.T), covariance, atol=0.06)
    assert draw_deviations(moments, 2, 5, np.random.default_rng(1)).shape == (5, 2)


def test_the_map_is_the_ridge_regression_of_least_generalised_cross_validation():
    rng = np.random.default_rng(0)
    old = rng.standard_normal((60, 8)) * np.arange(1, 9) + 5.0
    new = old @ rng.standard_normal((8, 5)) + 3.0 * rng.standard_normal((60, 5)) - 2.0
    affine_map = fit_affine_map(old, new)
    centred = old - old.mean(axis=0)
    mean_square = np.mean(np.linalg.svd(centred, compute_uv=False) ** 2)
    criteria, coefficients, residuals, remaining = [], [], [], []
    for ridge in _RIDGES * mean_square:
        model = Ridge(alpha=ridge).fit(old, new)
        hat = centred @ np.linalg.solve(centred.T @ centred + ridge * np.eye(8), centred.T)
        n_remaining = 60 - 1 - np.trace(hat)
        errors = new - model.predict(old)
        criteria.append(np.sum(errors**2) / n_remaining**2)
        coefficients.append(model.coef_.T)
        residuals.append(errors)
        remaining.append(n_remaining)
    best = int(np.argmin(criteria))
    assert 0 < best < len(criteria) - 1
    assert_allclose(affine_map.weights, coefficients[best], atol=1e-8)
    scaled = residuals[best] / np.sqrt(remaining[best])
    assert_allclose(affine_map.errors, scaled, atol=1e-8)
    variance = np.sum((new - new.mean(axis=0)) ** 2) / 59**2
    assert affine_map.explained_variance == pytest.approx(1.0 - criteria[best] / variance)


def test_an_exact_map_is_found_and_has_no_errors():
    rng = np.random.default_rng(0)
    old = rng.standard_normal((40, 6))
    weights = rng.standard_normal((6, 9))
    affine_map = fit_affine_map(old, old @ weights + 7.0)
    rows = rng.standard_normal((10, 6))
    assert_allclose(affine_map.map_mean(rows), rows @ weights + 7.0, atol=1e-4)
    covariance = affine_map.map_covariance(np.eye(6))
    assert_allclose(covariance, weights.T @ weights, atol=1e-3)
    assert affine_map.explained_variance == pytest.approx(1.0, abs=1e-6)


def test_errors_of_the_map_are_added_to_covariances():
    rng = np.random.default_rng(0)
    old = rng.standard_normal((2000, 3))
    noise = rng.multivariate_normal(np.zeros(3), COVARIANCE, 2000)
    affine_map = fit_affine_map(old, noise)
    assert_allclose(affine_map.map_covariance(np.zeros((3, 3))), COVARIANCE, atol=0.3)
    assert affine_map.explained_variance < 0.05


@pytest.mark.parametrize("vector", [None, [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
def test_rows_of_a_covariance_have_exactly_this_covariance(vector):
    covariance = COVARIANCE if vector is None else np.outer(vector, vector)
    white_rows = draw_white_rows(7, 3, np.random.default_rng(0))
    rows = with_covariance(white_rows, covariance)
    assert_allclose(rows.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(rows.T @ rows / 7, covariance, atol=1e-11)


@pytest.mark.parametrize("rank", [None, 1])
def test_the_covariance_of_the_inputs_is_that_of_the_class(rank):
    moments, _ = class_moments(rank)
    expected = moments.scatter() / moments.weight
    assert_allclose(covariance_of_inputs(moments, 3), expected, atol=1e-12)
    assert_allclose(covariance_of_inputs(moments, 2), expected[:2, :2], atol=1e-12)


@pytest.mark.parametrize("constant", ["old", "new"])
def test_rows_that_are_all_equal(constant):
    rng = np.random.default_rng(0)
    rows = {"old": rng.standard_normal((9, 2)), "new": rng.standard_normal((9, 2))}
    rows[constant] = np.full((9, 2), 3.0)
    affine_map = fit_affine_map(**rows)
    assert_allclose(affine_map.map_mean(rows["old"][0]), rows["new"].mean(axis=0), atol=1.0)
    assert affine_map.explained_variance == pytest.approx(0.0, abs=0.2)
