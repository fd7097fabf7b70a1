"""Principal rows of a scatter: sorted, orthogonal, and of the right number."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

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
