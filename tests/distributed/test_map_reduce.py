"""A job is computed on all shards, and its results are merged in a tree."""

import dask
import numpy as np
import pytest

from ffnb_sklearn.distributed._map_reduce import map_reduce


class TotalJob:
    """Sum all values of the shards, and count the merged results."""

    def compute(self, X, y, sample_weight):
        if y[0] < 0:
            return None
        return X.sum(), []

    def merge(self, results):
        merged_total = 0.0
        merged_counts = [len(results)]
        for total, counts in results:
            merged_total += total
            merged_counts += counts
        return merged_total, merged_counts

    def finish(self, result):
        return {"total": result[0], "counts": result[1]}


def shard(value, label=0, n_samples=2):
    return np.full((n_samples, 1), value), np.full(n_samples, label)


def result_of(shards):
    with dask.config.set(scheduler="synchronous"):
        return map_reduce(TotalJob(), shards)


@pytest.mark.parametrize(
    ("n_shards", "counts"),
    [(1, [1]), (4, [4]), (5, [4, 1, 2]), (17, [4, 4, 4, 4, 4, 1, 1, 2])],
)
def test_a_step_merges_at_most_four_results(n_shards, counts):
    result = result_of([shard(value) for value in range(n_shards)])
    assert result["total"] == n_shards * (n_shards - 1)
    assert sorted(result["counts"]) == sorted(counts)


def test_shards_without_samples_or_results_do_not_count():
    shards = [shard(1.0, n_samples=0), shard(2.0, label=-1), shard(3.0)]
    assert result_of(shards) == {"total": 6.0, "counts": [1]}
    assert result_of(shards[:2]) is None


def test_delayed_shards_are_computed():
    assert result_of([dask.delayed(shard)(1.0), shard(2.0)])["total"] == 6.0
