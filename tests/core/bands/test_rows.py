"""Rows of a new band, against explicit formulas and real refits."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.linalg import null_space as scipy_null_space

from ffnb_sklearn.core.bands.null_space import null_space
from ffnb_sklearn.core.bands.rows import (
    code_system,
    random_rows,
    regression_rows,
)
from ffnb_sklearn.core.linalg import IllConditionedWarning, NotPositiveDefiniteError
from tests.core.small_models import past_of, principal_rows


def tensors(*arrays):
    return tuple(torch.as_tensor(np.asarray(array)) for array in arrays)


class Problem:
    """A past, a task and codes, small enough to write the formulas out."""

    def __init__(self, n=9, d=12, n_past=4, gamma=0.3):
        rng = np.random.default_rng(3)
        self.past = rng.normal(size=(n_past, d)) * np.linspace(2.0, 0.5, n_past)[:, None]
        self.Z, self.weights = rng.normal(size=(n, d)), rng.uniform(0.3, 3.0, n)
        self.codes, self.gamma = (rng.random((n, 2)) > 0.5).astype(float), gamma
        self.kept = principal_rows(torch.as_tensor(self.past)).numpy()[:2]

    def fit(self, past):
        arrays = tensors(self.Z, self.codes, self.weights)
        axes = null_space(past_of(torch.as_tensor(self.past)), len(self.kept))
        return regression_rows(*arrays, axes, self.gamma, sees_past=len(past) > 0)

    def explicit(self, past, weights, ridge=None):
        """Eq. 6 and 7 with the residual axes written out."""
        Phi = scipy_null_space(self.kept)
        S = past.T @ past + self.Z.T @ (self.Z * weights[:, None])
        ridge = self.ridge(past) if ridge is None else ridge
        system = ridge * np.eye(Phi.shape[1]) + Phi.T @ S @ Phi
        alpha = np.linalg.solve(system, Phi.T @ self.Z.T @ (self.codes * weights[:, None]))
        return (Phi @ alpha).T

    def typical_length(self):
        open_part = self.Z @ scipy_null_space(self.kept)
        return np.average(np.square(open_part).sum(axis=1), weights=self.weights) ** 0.5

    def ridge(self, past):
        S = past.T @ past + self.Z.T @ (self.Z * self.weights[:, None])
        return self.gamma * np.trace(S) / len(S)


@pytest.mark.parametrize(
    ("n", "d"), [(9, 12), (40, 6), (9, 3)], ids=["few samples", "many samples", "one axis"]
)
@pytest.mark.parametrize("init", ["mono", "multi"])
def test_rows_are_those_of_the_explicit_regression(init, n, d):
    problem = Problem(n, d)
    past = problem.past if init == "multi" else problem.past[:0]

    fitted = problem.fit(past)

    rows = fitted.rows.numpy()
    assert_allclose(fitted.typical_length, problem.typical_length(), rtol=1e-12)
    assert_allclose(rows, problem.explicit(past, problem.weights), rtol=1e-9, atol=1e-12)
    assert_allclose(rows @ problem.kept.T, 0.0, atol=1e-14)


@pytest.mark.parametrize(
    ("n", "d"), [(9, 12), (40, 6), (9, 3)], ids=["few samples", "many samples", "one axis"]
)
@pytest.mark.parametrize("init", ["mono", "multi"])
def test_responses_are_those_of_really_leaving_each_sample_out(init, n, d):
    problem = Problem(n, d)
    past = problem.past if init == "multi" else problem.past[:0]

    responses = problem.fit(past).responses.numpy()

    for i in range(n):
        # Of a sample that weighs more than 1, one repetition is left out.
        weights = problem.weights.copy()
        weights[i] -= min(weights[i], 1.0)
        refit = problem.explicit(past, weights, problem.ridge(past))
        assert_allclose(responses[i], refit @ problem.Z[i], rtol=1e-8, atol=1e-11)


def test_no_sample_is_left_out_of_a_regression_that_fits_the_mean_alone():
    problem = Problem()
    problem.Z += 1e4
    problem.kept = problem.kept[:0]

    fitted = problem.fit(problem.past[:0])

    assert_allclose(fitted.responses.numpy(), problem.Z @ fitted.rows.numpy().T, rtol=1e-12)


def test_a_single_sample_is_left_out_of_its_own_mean():
    problem = Problem(n=1)
    problem.codes[:] = problem.weights[:] = 1.0

    fitted = problem.fit(problem.past[:0])

    assert (fitted.responses == 0.0).all()


def test_features_of_zero_give_rows_of_zero():
    problem = Problem()
    problem.Z[:] = 0.0

    fitted = problem.fit(problem.past[:0])

    assert (fitted.rows == 0).all()
    assert (fitted.responses == 0).all()
    assert fitted.typical_length == 1.0


def test_the_ridge_is_relative_to_the_scale_of_the_features():
    problem = Problem()
    plain = problem.fit(problem.past)
    problem.Z, problem.past = 1e3 * problem.Z, 1e3 * problem.past

    scaled = problem.fit(problem.past)

    assert_allclose(1e3 * scaled.rows, plain.rows, rtol=1e-9)
    assert_allclose(scaled.magnitude, 1e3 * plain.magnitude, rtol=1e-12)
    assert_allclose(scaled.responses, plain.responses, rtol=1e-9)


def test_random_rows_have_unit_energy_outside_the_kept_axes():
    problem = Problem()
    draw, Z, weights = tensors(
        np.random.default_rng(5).normal(size=(3, 12)), problem.Z, problem.weights
    )

    rows, responses, typical_length, magnitude, _ = random_rows(
        draw, Z, weights, null_space(past_of(torch.as_tensor(problem.kept)), 2)
    )

    assert_allclose(np.average(responses.numpy() ** 2, axis=0, weights=problem.weights), 1.0)
    assert_allclose(responses, Z @ rows.T, rtol=1e-12)
    assert_allclose(typical_length, problem.typical_length(), rtol=1e-12)
    squares = np.average(problem.Z**2, axis=0, weights=problem.weights)
    assert_allclose(magnitude, squares.mean() ** 0.5, rtol=1e-12)
    assert_allclose(rows.numpy() @ problem.kept.T, 0.0, atol=1e-14)


@pytest.mark.parametrize("unit", [0.0, 1e-9, 1.0])
def test_random_rows_without_energy_but_rounding_are_zero(unit):
    rng = np.random.default_rng(0)
    kept, draw = (torch.as_tensor(rng.normal(size=(3, 10))) for _ in range(2))
    features = unit * torch.as_tensor(rng.normal(size=(20, 3))) @ kept
    axes = null_space(past_of(kept), 3)
    assert unit == 0.0 or torch.any(axes.project(features))

    fitted = random_rows(draw, features, torch.ones(20, dtype=torch.float64), axes)

    assert not torch.any(fitted.rows)
    length = torch.linalg.vector_norm(features) / 20**0.5
    assert_allclose(fitted.typical_length, length if unit else 1.0, rtol=1e-12)


def test_a_sample_alone_has_taught_all_that_is_known_of_it():
    rng = np.random.default_rng(0)
    for _ in range(20):
        features = torch.as_tensor(rng.normal(size=(1, 9)))
        past = torch.as_tensor(rng.normal(size=(4, 9)))
        one = torch.ones(1, dtype=torch.float64)

        fitted = regression_rows(features, one[:, None], one, null_space(past_of(past), 2), 0.1)

        assert torch.any(fitted.rows)
        assert fitted.responses.item() == 0.0


def test_a_small_gamma_leaves_digits_of_what_is_left_out():
    rng = np.random.default_rng(0)
    features, past = (torch.as_tensor(rng.normal(size=(n, 40))) for n in (12, 3))
    codes = torch.eye(2, dtype=torch.float64).repeat_interleave(6, dim=0)
    weights, order = torch.ones(12, dtype=torch.float64), torch.as_tensor(rng.permutation(12))

    def responses(chosen, gamma):
        axes = null_space(past_of(past), 3)
        one = regression_rows(features[chosen], codes[chosen], weights, axes, gamma)
        return one.responses

    for gamma in (1e-4, 1e-8, 1e-300):
        found = responses(slice(None), gamma)
        assert_allclose(responses(order, gamma), found[order], atol=1e-5)
        # Less than the least counts as it.
        assert_allclose(found, responses(slice(None), 1e-4), rtol=1e-12)


def test_a_moment_that_cannot_be_factored_names_the_parameter_of_the_bands():
    broken = torch.full((2, 3), 1e200, dtype=torch.float64)
    with pytest.raises(NotPositiveDefiniteError, match="NaN or infinite"):
        code_system(broken, torch.ones(3, dtype=torch.float64))
    # Columns that lie close together, with a ridge far below their rounding.
    rows = torch.ones((3, 3), dtype=torch.float64)
    rows[0, 0] += 1e-9
    with pytest.warns(IllConditionedWarning, match="a larger `bands__gamma`"):
        code_system(1e9 * rows, torch.full((3,), 1e-9, dtype=torch.float64))
