"""Validate the shards of a task."""

from contextlib import suppress

import numpy as np
from scipy import sparse

from .._inputs.arrays import checked_sparse

__all__ = ["arrays_of_shard", "import_dask", "list_of_shards"]


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
    if isinstance(X, import_dask().array.Array):
        return _row_blocks(X, y, sample_weight)
    if not isinstance(X, (list, tuple)):
        raise _no_shards(type(X).__name__)
    if len(X) == 0:
        raise _no_shards("an empty one")
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(
                f"{name} must be None where X is a list of shards, each of which brings its "
                f"own; got {type(value).__name__}."
            )
    for shard in X:
        if isinstance(shard, (list, tuple)):
            _check_is_no_frame(shard)
    return list(X)


def _no_shards(received):
    """Return the error for an argument that is neither a dask array nor a list of shards."""
    return TypeError(
        f"X must be a dask array or a list of one or more shards; got {received}. For a dask frame "
        "pass X.to_dask_array(lengths=True); for samples in memory there is partial_fit."
    )


def _check_is_no_frame(shard):
    """Raise if a member of a shard is a dask frame."""
    for member in shard:
        # A delayed object has every attribute, but its class does not.
        if hasattr(type(member), "to_dask_array"):
            raise TypeError(
                f"X must hold shards of delayed objects; got a dask {type(member).__name__}, "
                "which has several partitions. Pass a shard for each, from to_delayed()."
            )


def _row_blocks(X, y, sample_weight):
    """Return the corresponding row blocks of dask arrays as a list of shards."""
    if y is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: the labels of X are needed."
        )
    if X.ndim != 2:
        raise ValueError(f"X must have 2 dimensions; got a dask array of {X.ndim}.")
    if sparse.issparse(X._meta):
        # dask joins the columns of sparse blocks without a check of their indices.
        X = X.map_blocks(checked_sparse, "X", dtype=X.dtype, meta=X._meta)
    X = X.rechunk({1: -1})
    sample_blocks = X.to_delayed().ravel()
    blocks = [sample_blocks, _aligned_blocks(X, y, "y")]
    if sample_weight is not None:
        blocks.append(_aligned_blocks(X, sample_weight, "sample_weight"))
    return list(zip(*blocks, strict=True))


def _aligned_blocks(X, array, name):
    """Return the blocks of a one-dimensional dask array, divided like the rows of X."""
    if not isinstance(array, import_dask().array.Array) or array.ndim != 1:
        raise TypeError(
            f"{name} must be a dask array of one dimension where X is a dask array; got "
            f"{type(array).__name__} of shape {np.shape(array)}. For a dask Series pass "
            f"{name}.to_dask_array(lengths=True)."
        )
    try:
        aligned = array.rechunk((X.chunks[0],))
    except ValueError as error:
        raise ValueError(
            f"{name} must have as many samples as X, and as many blocks where sizes are not "
            f"known; got {array.shape[0]} in {len(array.chunks[0])} blocks, and X has {X.shape[0]} "
            f"in {len(X.chunks[0])}."
        ) from error
    return aligned.to_delayed()


def arrays_of_shard(shard):
    """Return the samples, the labels and the weights or None of a computed shard."""
    if not isinstance(shard, (list, tuple)):
        raise _malformed_shard(type(shard).__name__)
    if len(shard) == 2:
        return *shard, None
    if len(shard) == 3:
        return tuple(shard)
    raise _malformed_shard(f"{type(shard).__name__} of {len(shard)}")


def _malformed_shard(received):
    """Return the error for a computed shard that is neither a pair nor a triple."""
    return TypeError(f"a shard must be (X, y) or (X, y, sample_weight); got {received}.")
