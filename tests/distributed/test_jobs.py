"""Jobs of the workers: each shard is made once per pass, and few numbers come back."""

import dask
import pytest

from ffnb_sklearn.distributed import partial_fit_shards
from tests.distributed.small_shards import CODES, X, estimator, shards


@pytest.fixture(autouse=True)
def one_thread():
    """Run graphs in the calling thread; test_partial_fit_cluster.py has the processes."""
    with dask.config.set(scheduler="synchronous"):
        yield


def test_each_shard_is_made_once_per_pass():
    made = []
    make = dask.delayed(lambda n: made.append(n) or (X[n::4], CODES[n::4]), pure=False)
    # The scaling of the columns of a first task needs one more pass. The first shard is held from
    # the moment that it has told how wide the inputs are.
    for scale, expected in ((False, [0, 1, 2, 3]), (True, [0, 1, 1, 2, 2, 3, 3])):
        made.clear()
        partial_fit_shards(estimator(scale=scale), [make(n) for n in range(4)])
        assert sorted(made) == expected


def test_only_few_numbers_reach_the_caller(monkeypatch):
    from ffnb_sklearn.distributed import _partial_fit as module

    gathered = []
    map_reduce = module.map_reduce

    def recorded_map_reduce(job, shards):
        gathered.append(map_reduce(job, shards))
        return gathered[-1]

    monkeypatch.setattr(module, "map_reduce", recorded_map_reduce)
    partial_fit_shards(estimator(rank=2, scale=False), shards(X, CODES))
    assert {moments.factor.shape for moments in gathered[-1].model.moments} == {(2, 7 + 10)}
