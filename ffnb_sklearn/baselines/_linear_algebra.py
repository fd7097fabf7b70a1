"""Linear systems and rows of unit length, as the heads of other papers need them."""

import numpy as np
from scipy import linalg

__all__ = ["add_to_diagonal", "inverse_root", "solve_positive", "unit_rows"]

# Eigenvalues below this share of the largest are rounding.
_ROUNDING = 1e-10


def add_to_diagonal(matrix, value):
    """Return a matrix with a value added to its diagonal."""
    result = matrix.copy()
    result[np.diag_indices(len(result))] += value
    return result


def solve_positive(matrix, right_side):
    """Solve with a symmetric positive definite matrix, or its pseudo-inverse if singular."""
    try:
        factor = linalg.cho_factor(matrix, lower=True)
    except linalg.LinAlgError:
        root = inverse_root(matrix)
        return root @ (root.T @ right_side)
    return linalg.cho_solve(factor, right_side)


def inverse_root(matrix):
    """Return R for which R R' is the (pseudo-)inverse of a positive semi-definite matrix."""
    lower, info = linalg.lapack.dpotrf(matrix, lower=True)
    if info == 0:
        least_pivot = np.diag(lower).min() ** 2
        if least_pivot > _ROUNDING * np.diag(matrix).max():
            inverse = linalg.solve_triangular(lower, np.eye(len(matrix)), lower=True)
            return inverse.T
    values, vectors = linalg.eigh(matrix)
    kept = values > _ROUNDING * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])


def unit_rows(rows):
    """Return rows divided by their Euclidean norms; rows of zeros stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1.0)
