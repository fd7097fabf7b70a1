"""Conversion of arrays from users to NumPy, and of results to the library of the user."""

import sys

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils._array_api import get_namespace, get_namespace_and_device, move_to

from .sparse_format import checked_sparse

__all__ = ["as_numpy", "in_library_of", "in_memory"]

# Beginnings of the names of dtypes of times, in NumPy, pandas, polars and pyarrow.
_TIMES = ("date", "time", "duration")


def in_memory(array, name):
    """Return what scikit-learn can read: a dask collection computed, a record batch as a table.

    Return a sparse array after `checked_sparse`, and anything else as it is.
    """
    # Delayed objects have every other attribute.
    if hasattr(type(array), "__dask_graph__"):
        array = array.compute()
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow and isinstance(array, pyarrow.RecordBatch):
        # scikit-learn reads the names of columns from tables alone.
        array = pyarrow.Table.from_batches([array])
    return checked_sparse(array, name)


def in_library_of(array, result):
    """Return a result as an array of the library, and on the device, of an array of the user.

    It stays a NumPy array unless ``array_api_dispatch`` is set in scikit-learn's configuration, and
    so do labels that are strings, which other libraries lack. Sparse arrays stay as they are.
    """
    if not _has_array_api(array) or issparse(result) or result.dtype.kind == "U":
        return result
    library, is_dispatched, device = get_namespace_and_device(array)
    if not is_dispatched:
        return result
    return move_to(result, xp=library, device=device)


def _has_array_api(array):
    """Return whether an array belongs to a library that follows the array API standard."""
    return isinstance(array, torch.Tensor) or hasattr(array, "__array_namespace__")


def as_numpy(array, name):
    """Convert a tensor of torch, on any device, to NumPy; return anything else `in_memory`.

    Arrays of other libraries are converted too, where scikit-learn dispatches by the array API.

    Raise for sparse tensors, and for arrays that scikit-learn would misread: it uses the entries
    that a mask hides, and the numbers behind dates and durations, which depend on the unit of their
    dtype.
    """
    array = in_memory(array, name)
    if isinstance(array, torch.Tensor):
        if array.layout != torch.strided:
            raise TypeError(
                f"{name} must be a dense tensor, or a sparse array of SciPy; got a tensor of "
                f"layout {array.layout}. Pass {name}.to_dense() instead."
            )
        array = array.detach().cpu()
        if array.dtype == torch.bfloat16:
            # NumPy lacks bfloat16.
            array = array.float()
        return array.numpy()
    if _has_array_api(array):
        _, is_dispatched = get_namespace(array)
        if is_dispatched:
            array = move_to(array, xp=np, device="cpu")
    _check_masks(array, name)
    for dtype in _dtypes(array):
        if str(dtype).lower().startswith(_TIMES):
            raise ValueError(
                f"{name} must not hold times; got dtype {dtype}. Convert them to numbers, such as "
                "seconds since a fixed date."
            )
    return array


def _check_masks(array, name):
    """Raise if an array has masked entries."""
    if not isinstance(array, np.ma.MaskedArray):
        return
    n_masked = np.ma.count_masked(array)
    if n_masked:
        raise ValueError(
            f"{name} must have no masked entries; got {n_masked} of {array.size}. "
            f"Leave their samples out, or fill them by {name}.filled(...)."
        )


def _dtypes(array):
    """Return the dtypes of the columns of a table, or of an array."""
    if hasattr(array, "schema") and hasattr(array, "column_names"):
        return array.schema.types
    if hasattr(array, "columns"):
        return array.dtypes
    # Arrays of pyarrow have a type.
    return [getattr(array, "dtype", getattr(array, "type", None))]
