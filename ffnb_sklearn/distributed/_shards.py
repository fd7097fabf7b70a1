"""Validate the shards of a task that the caller passes."""

from contextlib import suppress

import numpy as np
from scipy import sparse

from .._inputs.sparse_format import checked_sparse

__all__ = ["import_dask", "list_of_shards"]


def import_dask():
    """Return the module dask, or raise an error that explains how to install it."""
    try:
        import dask
        import dask.array
    except ImportError as error:
        raise ImportError(
            "partial_fit_shards needs dask. It comes with the extra [distributed]: "
            "pip install 'ffnb_sklearn[distributed]'."
        ) from error
    # Import `distributed` now: dask imports it at the first computation, and if another thread
    # leaves a `dask.config.set` block in the meantime, all defaults of `distributed` are lost.
    with suppress(ImportError):
        import distributed  # noqa: F401
    return dask


def list_of_shards(X, y, sample_weight):
    """Return the arguments of `partial_fit_shards` as a list of one or more shards."""
    per_sample = {"y": y, "sample_weight": sample_weight}
    if isinstance(X, import_dask().array.Array):
        return _blocks(X, per_sample)
    if not isinstance(X, (list, tuple)) or not len(X):
        got = "an empty one" if isinstance(X, (list, tuple)) else type(X).__name__
        raise TypeError(
            f"X must be a dask array or a list of one or more shards; got {got}. For a dask frame "
            "pass X.to_dask_array(lengths=True); for samples in memory there is partial_fit."
        )
    for name, value in per_sample.items():
        if value is not None:
            raise ValueError(
                f"{name} must be None where X is a list of shards, each of which brings its "
                f"own; got {type(value).__name__}."
            )
    for shard in X:
        for part in shard if isinstance(shard, (list, tuple)) else ():
            # Delayed objects have every attribute.
            if hasattr(type(part), "to_dask_array"):
                raise TypeError(
                    f"X must hold shards of delayed objects; got a dask {type(part).__name__}, "
                    "which has several partitions. Pass a shard for each, from to_delayed()."
                )
    return list(X)


def _blocks(X, per_sample):
    """Return the corresponding row blocks of dask arrays."""
    if per_sample["y"] is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: the labels of X are needed."
        )
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions; got a dask array of {X.ndim}.")
    if sparse.issparse(X._meta):
        # Blocks of columns are joined without a check of their indices.
        X = X.map_blocks(checked_sparse, "X", dtype=X.dtype, meta=X._meta)
    X = X.rechunk({1: -1})
    columns = [_aligned(X, array, name) for name, array in per_sample.items() if array is not None]
    return list(zip(X.to_delayed().ravel(), *(c.to_delayed() for c in columns), strict=True))


def _aligned(X, array, name):
    """Return a one-dimensional dask array with the row blocks of X."""
    if not isinstance(array, import_dask().array.Array) or array.ndim != 1:
        raise TypeError(
            f"{name} must be a dask array of one dimension where X is a dask array; got "
            f"{type(array).__name__} of shape {np.shape(array)}. For a dask Series pass "
            f"{name}.to_dask_array(lengths=True)."
        )
    try:
        return array.rechunk((X.chunks[0],))
    except ValueError as error:
        raise ValueError(
            f"{name} must have as many samples as X, and as many blocks where sizes are not "
            f"known; got {array.shape[0]} in {len(array.chunks[0])} blocks, and X has {X.shape[0]} "
            f"in {len(X.chunks[0])}."
        ) from error
