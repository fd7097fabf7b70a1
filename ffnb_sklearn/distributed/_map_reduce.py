"""Compute a job on all shards with dask, and merge the results in a tree.

dask runs the graph on a `dask.distributed` cluster if a client is active, and otherwise in the
threads of this process. dask is imported only when it is used.
"""

from sklearn.utils.validation import _num_samples

from ._shards import arrays_of_shard, import_dask

__all__ = ["map_reduce"]

# Number of results that one step of the reduction merges.
_FAN_IN = 4

# Seconds between two checks of a cluster that has not finished. Lost workers are often replaced, so
# the call only gives up if two checks in succession find no workers.
_PATIENCE = 30.0


def map_reduce(job, shards):
    """Return the result of a job for all shards together, None if no shard has a result."""
    dask = import_dask()
    compute = dask.delayed(_compute, pure=False)
    merge = dask.delayed(_merge, pure=False)
    finish = dask.delayed(_finish, pure=False)
    # The shared band is part of the graph, so that it cannot be lost with a worker.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 GiB"}):
        job = dask.delayed(job, pure=False, traverse=False)
        results = [compute(job, shard) for shard in shards]
        # Keep these results until the end, so that a lost worker only costs its own shards.
        leaves = dask.persist(*results)
        level = list(leaves)
        while len(level) > _FAN_IN:
            level = [merge(job, group) for group in _groups(level)]
        return _wait_for(finish(job, merge(job, level)))


def _groups(results):
    """Yield lists of as many successive results as one step merges."""
    for start in range(0, len(results), _FAN_IN):
        yield results[start : start + _FAN_IN]


def _wait_for(delayed):
    """Compute a delayed object; raise if the cluster has no workers for a while."""
    scheduler = import_dask().base.get_scheduler(collections=[delayed])
    # The scheduler is a function, or a method of the client of a cluster.
    client = getattr(scheduler, "__self__", None)
    if not hasattr(client, "scheduler_info"):
        return delayed.compute()
    from distributed import wait

    future = client.compute(delayed)
    n_checks_without_workers = 0
    while n_checks_without_workers < 2:
        try:
            wait(future, timeout=_PATIENCE)
            return future.result()
        except TimeoutError:
            n_checks_without_workers += 1
            if client.scheduler_info()["workers"]:
                n_checks_without_workers = 0
    future.cancel()
    raise RuntimeError(
        f"The dask cluster has no workers: the scheduler {client.scheduler.address} has had none "
        f"for at least {_PATIENCE:g} seconds, so the shards cannot be learned. Start workers, "
        "wait for them with client.wait_for_workers(1), and repeat the call."
    )


# ---- the tasks of the workers


def _compute(job, shard):
    """Return the result of a job for a shard, None if the shard has no sample."""
    X, y, sample_weight = arrays_of_shard(shard)
    if _num_samples(X) == 0:
        return None
    return job.compute(X, y, sample_weight)


def _merge(job, results):
    """Merge the results that are not None; return None if there are none."""
    results = [result for result in results if result is not None]
    if not results:
        return None
    return job.merge(results)


def _finish(job, result):
    """Return the result for the caller."""
    if result is None:
        return None
    return job.finish(result)
