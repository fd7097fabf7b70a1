"""Cholesky factors that diagnose, solves against dense ones, and the longest principal rows."""

import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.linalg import (
    DiagonalPlusGram,
    IllConditionedWarning,
    NotPositiveDefiniteError,
    cholesky,
    longest_rows,
    longest_rows_of_gram,
    random_directions,
    solve_in_place,
)


def positive_definite(d, seed=0):
    rows = torch.as_tensor(np.random.default_rng(seed).normal(size=(2 * d, d)))
    return rows.T @ rows


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
            cholesky(matrix, name="the moment", remedy="a larger `bands__gamma`")


@pytest.mark.parametrize(("lowest", "jitter"), [(-1e-13, 1e-12), (-1e-9, 1e-8), (-3e-7, 1e-6)])
def test_the_shift_that_was_needed_is_warned_about_and_used(lowest, jitter):
    matrix = torch.diag(torch.tensor([1.0, 1.0, lowest], dtype=torch.float64))

    message = f"the moment .* {jitter:.0e} of its mean .* The remedy is a larger `bands__gamma`"
    with pytest.warns(IllConditionedWarning, match=message) as caught:
        factor = cholesky(matrix, name="the moment", remedy="a larger `bands__gamma`")
    assert caught[0].filename == __file__

    shifted = matrix + jitter * matrix.diagonal().mean() * torch.eye(3, dtype=torch.float64)
    assert_allclose(factor @ factor.T, shifted, rtol=1e-9)


def test_only_the_matrices_of_a_batch_that_need_it_are_shifted():
    good = positive_definite(3)
    bad = torch.diag(torch.tensor([2.0, 1.0, -1e-9], dtype=torch.float64))

    with pytest.warns(IllConditionedWarning, match="1e-08"):
        # As many matrices as rows would hide the wrong axis.
        factors = cholesky(torch.stack([good, bad]), name="it")

    assert_allclose(factors[0], cholesky(good, name="it"), rtol=1e-15)
    assert factors[1, 2, 2] > 0.0


def test_a_matrix_beyond_help_is_an_error_that_names_it():
    with pytest.raises(
        NotPositiveDefiniteError, match=r"the moment is not positive definite.*a larger `epsilon`"
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
    assert_allclose(system.matrix(), np.diag(diagonal) + rows.T @ rows, rtol=1e-12, atol=1e-12)


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


# ---- the longest principal rows

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(90, 100))


SCATTERED = {
    "of many rows": ROWS,
    "of rank 3": ROWS[:, :3] @ RNG.normal(size=(3, 100)),
    "orthonormal": np.eye(90, 100),
    "zero": np.zeros((90, 100)),
    "repeated": np.kron(np.eye(18), np.ones((5, 5))),
    "of two scales": np.diag(np.r_[np.full(45, 1e6), np.full(45, 1e-6)]),
    "huge": 1e73 * ROWS,
    "tiny": 1e-73 * ROWS,
    "few": ROWS[:5],
    "one": ROWS[:1],
}


def from_rows(rows, count, nearly=True):
    return longest_rows(torch.as_tensor(rows), count, directions(count, nearly)).numpy()


def from_gram(rows, count, nearly=True):
    gram = torch.as_tensor(rows.T @ rows)
    return longest_rows_of_gram(gram, count, directions(count, nearly)).numpy()


def directions(count, nearly):
    return random_directions(100, count, torch.device("cpu")) if nearly and count else None


def assert_scatters_equal(first, second, tolerance):
    scale = max(np.abs(second.T @ second).max(), 1e-300)
    assert_allclose(first.T @ first / scale, second.T @ second / scale, atol=tolerance)


@pytest.mark.parametrize("find", [from_rows, from_gram])
@pytest.mark.parametrize("rows", SCATTERED.values(), ids=SCATTERED)
@pytest.mark.parametrize("count", [1, 12, 45, None])
def test_rows_are_the_longest_ones(find, rows, count):
    lengths = np.linalg.svd(rows, compute_uv=False)[:count]
    scale = max(lengths.max(), 1e-300)

    found = find(rows, count, nearly=False) / scale

    gram = found @ found.T
    assert (np.diff(np.diag(gram)) < 1e-12).all()
    expected = np.zeros(len(found))
    expected[: len(lengths)] = lengths[: len(found)] / scale
    assert_allclose(gram, np.diag(expected**2), atol=1e-12)
    # They are principal if they lie in the scatter: it is an eigenvector's length again.
    assert_allclose(
        (found @ rows.T / scale) @ (rows / scale), expected[:, None] ** 2 * found, atol=1e-11
    )


@pytest.mark.parametrize("find", [from_rows, from_gram])
def test_subspace_iteration_finds_strong_axes_as_they_are(find):
    axes, _ = np.linalg.qr(RNG.normal(size=(100, 3)))
    rows = RNG.normal(size=(90, 3)) @ (100.0 * axes.T) + 0.01 * ROWS

    found = find(rows, 3)

    assert_scatters_equal(found, find(rows, None)[:3], 1e-7)


@pytest.mark.parametrize("find", [from_rows, from_gram])
@pytest.mark.parametrize(("decay", "share"), [(0.0, 0.9), (0.5, 0.96), (2.0, 0.9999)])
def test_rows_found_nearly_hold_next_to_all_that_so_many_can(find, decay, share):
    rows = ROWS * np.arange(1.0, 101.0) ** -decay
    best = np.linalg.svd(rows, compute_uv=False)

    found = find(rows, 12)

    gram = found @ found.T
    left = np.linalg.eigvalsh(rows.T @ rows - found.T @ found)
    assert found.shape == (12, 100)
    assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12 * gram.max())
    assert (np.diff(np.diag(gram)) < 0).all()
    assert left[0] > -1e-13 * left[-1] - 1e-13 * best[0] ** 2
    assert share < gram.trace() / (best[:12] ** 2).sum() <= 1 + 1e-12


@pytest.mark.parametrize("scale", [1e-73, 1.0, 1e73])
def test_such_rows_depend_on_the_scatter_alone_at_any_scale(scale):
    turned = np.linalg.qr(RNG.normal(size=(120, 90)))[0] @ ROWS

    expected = scale * from_rows(ROWS, 12)

    assert_scatters_equal(from_rows(scale * turned, 12), expected, 1e-12)
    assert_scatters_equal(from_gram(scale * ROWS, 12), expected, 1e-12)


@pytest.mark.parametrize("name", ["of rank 3", "zero"])
def test_a_scatter_of_low_rank_is_held_whole(name):
    rows = SCATTERED[name]

    for found in (from_rows(rows, 12), from_gram(rows, 12)):
        assert np.isfinite(found).all()
        assert_scatters_equal(found, rows, 1e-12)


def test_the_same_rows_have_the_same_principal_rows():
    assert_array_equal(from_rows(ROWS, 12), from_rows(ROWS, 12))


@pytest.mark.parametrize("n_rows", [0, 3, 9])
@pytest.mark.parametrize("n_means", [1, 4, 8])
def test_singular_parts_decompose_rows_in_the_metric_of_the_matrix(n_rows, n_means):
    rng = np.random.default_rng(0)
    rows, means = rng.normal(size=(n_rows, 5)), rng.normal(size=(n_means, 5))
    diagonal = rng.uniform(0.5, 2.0, 5)
    matrix = np.diag(diagonal) + 0.3 * rows.T @ rows
    system = DiagonalPlusGram(torch.as_tensor(diagonal), torch.as_tensor(rows), name="A", scale=0.3)

    roots, functions, axes = (
        each.numpy() for each in system.singular_parts(torch.as_tensor(means))
    )

    assert_allclose(functions @ axes.T, np.eye(len(roots)), atol=1e-13)
    assert_allclose(functions @ matrix, axes, atol=1e-12)
    product = means @ np.linalg.inv(matrix) @ means.T
    assert_allclose((roots**2)[::-1], np.linalg.eigvalsh(product)[-len(roots) :], atol=1e-12)
    assert_allclose(means @ functions.T @ axes, means, atol=1e-12)
