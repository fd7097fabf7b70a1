"""Gram matrices and largest eigenpairs, against the plain product and all eigenvectors."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core import eigen
from ffnb_sklearn.core.eigen import largest_eigenpairs, lower_gram

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(90, 100))


@pytest.mark.parametrize("shape", [(0, 4), (1, 4), (4, 1), (7, 3)])
@pytest.mark.parametrize("layout", ["rows", "columns", "every other"])
def test_the_lower_triangle_is_that_of_the_gram_matrix(shape, layout):
    rows = torch.as_tensor(RNG.normal(size=shape))
    if layout == "columns":
        rows = rows.T.contiguous().T
    elif layout == "every other":
        rows = rows.repeat_interleave(2, dim=1)[:, ::2]

    assert_allclose(lower_gram(rows).tril(), (rows @ rows.T).tril(), rtol=1e-12)


MATRICES = {
    "of many rows": ROWS @ ROWS.T,
    "of rank 3": ROWS[:, :3] @ ROWS[:, :3].T,
    "the identity": np.eye(90),
    "zero": np.zeros((90, 90)),
    "of blocks": np.kron(np.eye(18), np.ones((5, 5))),
    "of two scales": np.diag(np.r_[np.full(45, 1e12), np.full(45, 1e-12)]),
    "huge": 1e146 * ROWS @ ROWS.T,
    "tiny": 1e-146 * ROWS @ ROWS.T,
    "small": ROWS[:5] @ ROWS[:5].T,
}


@pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("count", [1, 12, 45, 46, None])
def test_eigenpairs_are_the_largest_ones(matrix, count):
    expected = np.linalg.eigvalsh(matrix)[::-1][:count]
    scale = max(np.abs(expected).max(), 1e-300)

    values, vectors = largest_eigenpairs(torch.as_tensor(matrix).tril(), count)

    assert_allclose(values / scale, expected / scale, atol=1e-12)
    assert_allclose(vectors.T @ vectors, np.eye(len(expected)), atol=1e-12)
    residual = (matrix / scale) @ vectors.numpy() - vectors.numpy() * (values.numpy() / scale)
    assert_allclose(residual, 0.0, atol=1e-12)


def test_all_eigenvectors_are_there_where_few_cannot_be_found(monkeypatch):
    monkeypatch.setattr(eigen, "_few_eigenpairs", lambda lower, count: None)
    matrix = MATRICES["of many rows"]

    values, vectors = largest_eigenpairs(torch.as_tensor(matrix), 12)

    assert_allclose(values, np.linalg.eigvalsh(matrix)[:-13:-1], rtol=1e-10)
    assert_allclose(matrix @ vectors.numpy(), vectors.numpy() * values.numpy(), atol=1e-9)


def test_the_same_matrix_has_the_same_eigenvectors():
    first, second = (largest_eigenpairs(lower_gram(torch.as_tensor(ROWS)), 12) for _ in range(2))

    assert all(map(torch.equal, first, second))
