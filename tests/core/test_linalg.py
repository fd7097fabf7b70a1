"""Cholesky factors that diagnose, and structured solves against dense ones."""

import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.linalg import (
    DiagonalPlusGram,
    IllConditionedWarning,
    NotPositiveDefiniteError,
    cholesky,
    lower_gram,
    solve_in_place,
)


def positive_definite(d, seed=0):
    rows = torch.as_tensor(np.random.default_rng(seed).normal(size=(2 * d, d)))
    return rows.T @ rows


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (4, 1), (7, 3), (1000, 5), (545, 2)])
@pytest.mark.parametrize("layout", ["rows", "columns", "every other"])
def test_the_lower_triangle_is_that_of_the_gram_matrix(shape, layout):
    rows = torch.as_tensor(np.random.default_rng(0).normal(size=shape))
    if layout == "columns":
        rows = rows.T.contiguous().T
    elif layout == "every other":
        rows = rows.repeat_interleave(2, dim=1)[:, ::2]

    assert_allclose(lower_gram(rows).tril(), (rows @ rows.T).tril(), rtol=1e-12, atol=1e-14)


def test_the_factor_is_lower_and_gives_the_matrix():
    matrix = positive_definite(5)

    factor = cholesky(matrix, name="it")

    assert torch.equal(factor, factor.tril())
    assert_allclose(factor @ factor.T, matrix, rtol=1e-12)


@pytest.mark.parametrize("shift", [0.0, -1e-9])
def test_only_the_lower_triangle_is_read(shift):
    matrix = positive_definite(5)
    if shift:
        matrix = torch.diag(matrix.new_tensor([1.0, 1.0, 1.0, 1.0, shift]))
    half = matrix.tril() + torch.full_like(matrix, np.nan).triu(1)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if shift else "error", IllConditionedWarning)
        expected, found = cholesky(matrix, name="it"), cholesky(half, name="it")

    assert torch.equal(found, expected)


MATRICES = {
    "one": positive_definite(5),
    "three": torch.stack([positive_definite(5, seed) for seed in range(3)]),
}


@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("layout", ["rows", "columns", "every other"])
def test_columns_are_multiplied_by_the_inverse_where_they_stand(matrix, layout):
    right = torch.as_tensor(np.random.default_rng(1).normal(size=(*matrix.shape[:-1], 4)))
    columns = {
        "rows": right.clone(),
        "columns": right.mT.clone().mT,
        "every other": right.repeat_interleave(2, dim=-1)[..., ::2],
    }[layout]

    found = solve_in_place(cholesky(matrix, name="it"), columns)

    assert found is columns
    assert_allclose(matrix @ columns, right, rtol=1e-9, atol=1e-9)


def test_entries_that_are_not_finite_are_named():
    for bad in (np.nan, np.inf):
        matrix = positive_definite(3)
        matrix[1, 1] = bad
        with pytest.raises(NotPositiveDefiniteError, match="the moment has entries that are NaN"):
            cholesky(matrix, name="the moment")


@pytest.mark.parametrize(("lowest", "jitter"), [(-1e-13, 1e-12), (-1e-9, 1e-8), (-3e-7, 1e-6)])
def test_the_shift_that_was_needed_is_warned_about_and_used(lowest, jitter):
    matrix = torch.diag(torch.tensor([1.0, 1.0, lowest], dtype=torch.float64))

    with pytest.warns(IllConditionedWarning, match=f"the moment .* {jitter:.0e} of its mean"):
        factor = cholesky(matrix, name="the moment")

    shifted = matrix + jitter * matrix.diagonal().mean() * torch.eye(3, dtype=torch.float64)
    assert_allclose(factor @ factor.T, shifted, rtol=1e-9)


def test_only_the_matrices_of_a_batch_that_need_it_are_shifted():
    good = positive_definite(3)
    bad = torch.diag(torch.tensor([2.0, 1.0, -1e-9], dtype=torch.float64))

    with pytest.warns(IllConditionedWarning, match="1e-08"):
        factors = cholesky(torch.stack([good, bad, 2.0 * good]), name="it")

    assert_allclose(factors[0], cholesky(good, name="it"), rtol=1e-15)
    assert_allclose(factors[2], cholesky(2.0 * good, name="it"), rtol=1e-15)
    assert factors[1, 2, 2] > 0.0


def test_a_matrix_beyond_help_is_an_error_that_names_it():
    with pytest.raises(
        NotPositiveDefiniteError, match=r"the moment is not positive definite.*ridge"
    ):
        cholesky(-torch.eye(3, dtype=torch.float64), name="the moment")


@pytest.mark.parametrize("n_rows", [0, 3, 8, 30], ids=["none", "wide", "square", "tall"])
def test_solving_is_multiplication_by_the_dense_inverse(n_rows):
    rng = np.random.default_rng(0)
    diagonal, rows = rng.uniform(0.1, 5.0, size=8), rng.normal(size=(n_rows, 8))
    right = rng.normal(size=(4, 8))

    system = DiagonalPlusGram(torch.as_tensor(diagonal), torch.as_tensor(rows), name="it")

    expected = right @ np.linalg.inv(np.diag(diagonal) + rows.T @ rows)
    assert_allclose(system.solve(torch.as_tensor(right)), expected, rtol=1e-10)


@pytest.mark.parametrize("n_rows", [3, 30], ids=["wide", "tall"])
def test_columns_of_very_different_scales_cost_no_digits(n_rows):
    rng = np.random.default_rng(0)
    rows, right = rng.normal(size=(n_rows, 8)), rng.normal(size=(4, 8))
    scale = np.logspace(-80, 80, 8)
    diagonal = torch.as_tensor(scale**2)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        system = DiagonalPlusGram(diagonal, torch.as_tensor(rows * scale), name="it")

    # S (I + R'R) S has the inverse S^-1 (I + R'R)^-1 S^-1.
    expected = right @ np.linalg.inv(np.eye(8) + rows.T @ rows) / scale
    assert_allclose(system.solve(torch.as_tensor(right * scale)), expected, rtol=1e-9)


def test_the_rows_given_are_left_as_they_are():
    rows = torch.ones(3, 4, dtype=torch.float64)

    DiagonalPlusGram(torch.full((4,), 2.0, dtype=torch.float64), rows, name="it").solve(rows)

    assert torch.equal(rows, torch.ones(3, 4, dtype=torch.float64))
