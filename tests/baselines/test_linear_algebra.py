"""Linear systems of matrices that may be singular."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.baselines._linear_algebra import (
    add_to_diagonal,
    inverse_root,
    solve_positive,
    unit_rows,
)


def test_inverse_root_of_a_singular_matrix_is_the_pseudo_inverse():
    factor = np.random.default_rng(0).standard_normal((6, 3))
    matrix = factor @ factor.T
    root = inverse_root(matrix)
    expected = np.linalg.pinv(matrix, hermitian=True)
    assert_allclose(root @ root.T, expected, rtol=1e-6, atol=1e-9)


def test_systems_are_solved_and_singular_systems_by_least_norm():
    factor = np.random.default_rng(0).standard_normal((6, 3))
    regular = add_to_diagonal(factor @ factor.T, 0.5)
    right_side = factor[:, :2]
    assert_allclose(regular @ solve_positive(regular, right_side), right_side, atol=1e-12)
    zeros = np.zeros((2, 2))
    assert_array_equal(solve_positive(zeros, np.zeros((2, 1))), np.zeros((2, 1)))


def test_rows_of_zeros_stay():
    assert_array_equal(unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])), [[0.6, 0.8], [0.0, 0.0]])
