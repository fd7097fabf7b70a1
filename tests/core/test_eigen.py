"""Longest principal rows, against all eigenvectors."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.eigen import longest_rows, longest_rows_of_gram
from ffnb_sklearn.core.linalg import lower_gram

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(90, 100))


MATRICES = {
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
    return longest_rows(torch.as_tensor(rows), count, nearly=nearly).numpy()


def from_gram(rows, count, nearly=True):
    gram = lower_gram(torch.as_tensor(rows.T))
    return longest_rows_of_gram(gram, count, nearly=nearly).numpy()


def assert_scatters_equal(first, second, tolerance):
    scale = max(np.abs(second.T @ second).max(), 1e-300)
    assert_allclose(first.T @ first / scale, second.T @ second / scale, atol=tolerance)


@pytest.mark.parametrize("find", [from_rows, from_gram])
@pytest.mark.parametrize("rows", MATRICES.values(), ids=MATRICES)
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


@pytest.mark.parametrize("nearly", [False, True])
def test_what_is_above_the_diagonal_of_a_scatter_plays_no_part(nearly):
    gram = torch.as_tensor(ROWS.T @ ROWS)
    lower = torch.where(torch.ones_like(gram).tril() > 0, gram, torch.nan)

    found = longest_rows_of_gram(lower, 12, nearly=nearly)

    assert_allclose(found, longest_rows_of_gram(gram, 12, nearly=nearly), rtol=1e-12)


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
    rows = MATRICES[name]

    for found in (from_rows(rows, 12), from_gram(rows, 12)):
        assert np.isfinite(found).all()
        assert_scatters_equal(found, rows, 1e-12)


def test_the_same_rows_have_the_same_principal_rows():
    first, second = (longest_rows(torch.as_tensor(ROWS), 12, nearly=True) for _ in range(2))

    assert torch.equal(first, second)
