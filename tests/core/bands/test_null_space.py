"""The axes kept for the past, and what is left of rows once they are taken out."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.bands.null_space import null_space
from tests.core.small_models import past_of, principal_rows


def rows_of(lengths, d, seed=0):
    """Principal rows with the given lengths along random orthogonal axes."""
    axes, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))
    return torch.as_tensor(np.asarray(lengths, dtype=float)[:, None] * axes[: len(lengths)])


def projector(axes, d):
    return axes.project(torch.eye(d, dtype=torch.float64)).numpy()


@pytest.mark.parametrize(("p", "n_kept"), [(0, 0), (1, 1), (3, 3), (5, 4), (6, 4)])
def test_an_int_is_the_number_of_axes_kept(p, n_kept):
    past = rows_of([4.0, 3.0, 2.0, 1.0], 7)

    axes = null_space(past_of(past), p)

    P, kept = projector(axes, 7), past[:n_kept] / past[:n_kept].norm(dim=1, keepdim=True)
    assert axes.n_residual == 7 - n_kept
    assert_allclose(P, np.eye(7) - kept.numpy().T @ kept.numpy(), atol=1e-14)


@pytest.mark.parametrize(
    ("share", "n_kept"), [(0.1, 1), (0.4, 1), (0.41, 2), (0.7, 2), (0.9, 3), (0.91, 4), (0.999, 4)]
)
def test_a_float_is_the_share_of_energy_kept(share, n_kept):
    past = rows_of(np.sqrt([4.0, 3.0, 2.0, 1.0]), 6)

    assert null_space(past_of(past), share).n_residual == 6 - n_kept


def test_a_share_always_leaves_one_axis():
    past = rows_of([1.0, 1.0, 1.0, 1.0], 4)

    axes = null_space(past_of(past), 0.99)

    assert axes.n_residual == 1
    assert_allclose(np.trace(projector(axes, 4)), 1.0)


@pytest.mark.parametrize("p", [2, 0.95])
def test_without_a_past_all_axes_are_open(p):
    axes = null_space(past_of(torch.empty((0, 5), dtype=torch.float64)), p)

    assert axes.n_residual == 5
    assert_allclose(projector(axes, 5), np.eye(5))


@pytest.mark.parametrize("n_rows", [9, 12])
@pytest.mark.parametrize("smallest", [0.1, 1e-6])
def test_an_ill_conditioned_past_is_silenced_along_each_of_its_axes(n_rows, smallest):
    past = rows_of(np.geomspace(1.0, smallest, n_rows), 12)

    axes = null_space(past_of(past), 9)

    left = axes.project(past[:9]).norm(dim=1)
    P = projector(axes, 12)
    assert left.max() < 1e-14
    assert_allclose(P @ P, P, atol=1e-14)
    assert_allclose(np.trace(P), 3.0, rtol=1e-14)
    assert_allclose(axes.kept @ axes.kept.T, np.eye(9), atol=1e-14)


@pytest.mark.parametrize("n_rows", [5, 8, 9])
@pytest.mark.parametrize("p", [0, 2, 5])
def test_coordinates_have_the_products_of_the_projected_rows(p, n_rows):
    past = rows_of(np.arange(9.0, 9.0 - min(n_rows, 8), -1.0), 8)
    # A row more than columns, and the past is held as a matrix.
    past = torch.cat([past, past[: n_rows - len(past)]])
    axes = null_space(past_of(past), p)
    rows = torch.as_tensor(np.random.default_rng(1).normal(size=(5, 8)))

    coordinates, projected = axes.coordinates(rows), axes.project(rows)

    assert axes.n_residual == 8 - p
    moment = past.T @ past
    assert_allclose(
        coordinates * axes.moment_of_past() @ coordinates.T,
        projected @ moment @ projected.T,
        atol=1e-12,
    )
    assert_allclose(coordinates @ coordinates.T, projected @ projected.T, atol=1e-13)
    assert_allclose(axes.rows_of(coordinates), projected, atol=1e-14)
    assert_allclose(rows @ projected.T, coordinates @ coordinates.T, atol=1e-13)


def test_large_rows_leave_nothing_in_the_kept_axes():
    past = rows_of([3.0, 2.0, 1.0], 8)
    rows = torch.as_tensor(1e8 * np.random.default_rng(1).normal(size=(4, 8)))
    rows += 1e14 * past[:1]  # almost wholly in a kept axis

    projected = null_space(past_of(past), 3).project(rows)

    outside = (projected @ past.T).abs().max() / projected.norm()
    assert outside < 1e-14


def test_computed_axes_too_short_to_be_orthogonal_are_made_so():
    rng = np.random.default_rng(0)
    # The shortest of the computed axes has few digits beside the longest.
    past = principal_rows(torch.as_tensor(rng.normal(size=(12, 12)) * np.geomspace(1.0, 1e-5, 12)))
    assert past.shape == (12, 12)

    axes = null_space(past_of(past), 11)

    assert_allclose(axes.kept @ axes.kept.T, np.eye(11), atol=1e-14)
    P = projector(axes, 12)
    assert_allclose(P @ P, P, atol=1e-14)
    assert_allclose(P @ axes.kept.numpy().T, 0.0, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize(("shortest", "rank"), [(1e-5, 4), (1e-8, 3)])
@pytest.mark.parametrize("n_zeros", [0, 9])
def test_the_rank_leaves_rounding_out(scale, shortest, rank, n_zeros):
    # With more rows than columns, the past is held as a matrix.
    past = scale * rows_of([4.0, 3.0, 2.0, shortest], 6)
    past = torch.cat([past, torch.zeros((n_zeros, 6), dtype=torch.float64)])

    assert past_of(past).rank == rank
