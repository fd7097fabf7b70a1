"""Learn from samples that are distributed over a dask cluster."""

from ._partial_fit import partial_fit_shards

__all__ = ["partial_fit_shards"]
