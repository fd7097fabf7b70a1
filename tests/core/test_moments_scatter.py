"""Principal rows of a scatter: sorted, orthogonal, and of the right number."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.linalg import longest_rows
from ffnb_sklearn.core.moments import (
    Scatter,
    add_spare_axes,
    pack_factor,
)
from tests.core.small_models import principal_rows, samples


@pytest.mark.parametrize(("n", "d"), [(4, 9), (30, 9)])
def test_principal_rows_have_the_outer_products_and_are_sorted(n, d):
    rows = torch.as_tensor(samples(n, d)[0])

    principal = principal_rows(rows)

    assert len(principal) == min(n, d)
    assert_allclose(principal.T @ principal, rows.T @ rows, rtol=1e-9)
    assert (principal.norm(dim=1).diff() < 0).all()


def test_no_sample_stands_among_the_principal_rows():
    rows = torch.as_tensor(samples(5, 30)[0])

    distance = torch.cdist(principal_rows(rows), rows)

    assert distance.min() > 0.01 * rows.norm(dim=1).min()


def test_rows_of_zeros_have_no_principal_rows():
    assert principal_rows(torch.zeros(3, 4, dtype=torch.float64)).shape == (0, 4)


def test_rounding_of_large_columns_is_no_principal_row_of_a_small_one():
    rng = np.random.default_rng(0)
    # Rank 6, of axes that lie in single columns and differ by up to 1000.
    rows = rng.normal(size=(40, 6)) * np.geomspace(1.0, 1e-3, 6)

    principal = principal_rows(torch.as_tensor(np.hstack([rows, np.zeros((40, 60))])))

    assert len(principal) == 6


@pytest.mark.parametrize("count", [2, 4])
def test_a_truncated_factor_and_its_residual_add_up_to_the_diagonal(count):
    rows = torch.as_tensor(samples(30, 6)[0])

    factor, residual = Scatter(6).add([rows[:11], rows[11:]]).factor(count)

    assert_allclose(factor.abs(), longest_rows(rows, count).abs(), rtol=1e-9)
    assert_allclose(factor.square().sum(0) + residual, rows.square().sum(0), rtol=1e-12)


def test_a_sum_of_rounding_has_no_rows():
    rows = torch.full((3, 4), 1e-9, dtype=torch.float64)

    factor, residual = Scatter(4).add([rows]).factor(rounding=torch.full((4,), 1e-17))

    assert factor.shape == (0, 4)
    assert_array_equal(residual, np.zeros(4))


def test_a_column_of_rounding_decides_for_no_other_column():
    rng = np.random.default_rng(0)
    rows = torch.as_tensor(rng.normal(size=(5, 4)))
    rows[:, 1] *= 100.0
    rounding = torch.tensor([0.0, 1e6, 0.0, 1e-9], dtype=torch.float64)
    expected = rows.clone()
    expected[:, 1] = 0.0

    for count in (None, 2, 96):
        for sum_of_rows in (Scatter(4).add([rows]), Scatter(4).add([rows[:1], rows[1:]])):
            factor, residual = sum_of_rows.factor(count, rounding)
            scatter = factor.T @ factor + residual.diag()
            assert_allclose(scatter.diagonal(), expected.square().sum(0), rtol=1e-12)
            assert (factor[:, 1] == 0.0).all()
            if count != 2:
                assert_allclose(scatter, expected.T @ expected, rtol=1e-12, atol=1e-12)


def test_neurons_are_rounding_together():
    rows = torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=torch.float64)
    scatter = Scatter(4, n_inputs=1).add([rows])
    for rounding, expected in (
        ([2.0, 5.0, 0.0, 0.0], [0, 4, 9, 16]),
        ([0, 30, 0, 0], [1, 0, 0, 0]),
    ):
        factor, residual = scatter.factor(None, torch.tensor(rounding, dtype=torch.float64))
        assert_allclose(factor.square().sum(0) + residual, expected, rtol=1e-12)


def test_a_quarter_of_the_axes_are_spare_and_at_least_eight():
    assert [add_spare_axes(count) for count in (None, 4, 80)] == [None, 12, 100]


def test_single_precision_reports_the_energy_that_it_loses():
    factor = torch.tensor([[1.0, 1e-42], [0.5, 2.0]], dtype=torch.float64)

    packed, lost = pack_factor(factor, 5)

    assert packed.dtype == np.float32
    assert_array_equal(packed, [[1.0, 0.0], [0.5, 2.0]])
    assert_allclose(lost, [0.0, 1e-84])
    assert pack_factor(factor, None)[0].dtype == np.float64
    assert pack_factor(1e30 * factor, 5)[0].dtype == np.float64
