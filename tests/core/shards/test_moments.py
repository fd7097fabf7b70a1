"""Moments of shards, their exact union, and its cut to a rank."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.shards.moments import limited, union
from ffnb_sklearn.core.statistics import moments_of

CPU = torch.device("cpu")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 6)) * np.arange(1.0, 7.0) + 3.0
WEIGHTS = RNG.uniform(0.5, 2.0, 40)


def moments(rows, max_rank=None):
    return moments_of([(torch.as_tensor(X[rows]), torch.as_tensor(WEIGHTS[rows]))], max_rank)


def assert_same(one, other):
    assert_allclose(one.weight, other.weight)
    assert_allclose(one.mean, other.mean)
    assert_allclose(one.scatter(), other.scatter(), atol=1e-9)


@pytest.mark.parametrize("cuts", [[], [20], [1, 2, 3], [3, 17, 30, 39], list(range(1, 40))])
def test_union_is_that_of_all_samples(cuts):
    parts = [moments(rows) for rows in np.split(np.arange(40), cuts)]
    whole = union(parts, device=CPU)
    assert_same(whole, moments(slice(None)))
    assert len(whole.factor) <= 6
    # In steps, and in another order.
    steps = union([union(parts[1::2] or parts, device=CPU), *parts[::2]], device=CPU)
    if len(parts) > 1:
        assert_same(steps, whole)


def test_few_rows_are_not_worked_on():
    parts = [moments([0, 1]), moments([2, 3])]
    factor = union(parts, device=CPU).factor
    assert_array_equal(factor[:1], parts[0].factor)
    assert_array_equal(factor[1:2], parts[1].factor)


@pytest.mark.parametrize("max_rank", [1, 3, 6, 50, None])
def test_limited_is_what_one_machine_keeps(max_rank):
    parts = [moments(rows) for rows in np.split(np.arange(40), [5, 20])]
    cut = limited(union(parts, device=CPU), max_rank, device=CPU)
    alone = moments(slice(None), max_rank)
    assert_same(cut, alone)
    assert cut.factor.shape == alone.factor.shape
    assert_allclose(cut.residual, alone.residual, atol=1e-9)
    assert_allclose(np.diag(cut.scatter()), np.diag(moments(slice(None)).scatter()))


def test_single_sample():
    cut = limited(moments([7]), 3, device=CPU)
    assert cut.factor.shape == (0, 6)
    assert_array_equal(cut.mean, X[7])
