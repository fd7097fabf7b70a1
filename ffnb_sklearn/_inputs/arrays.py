"""Conversion of arrays from users to NumPy, and of results to the library of the user.

SciPy does not check the indices of sparse arrays in its conversions and products, so they are
checked here.
"""

import sys
from copy import copy
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from scipy.sparse import issparse
from sklearn.utils._array_api import get_namespace, get_namespace_and_device, move_to

__all__ = ["Matrix", "UserArray", "as_numpy", "checked_sparse", "in_library_of", "in_memory"]

# An array or table of any library, or a list, as users pass it.
UserArray: TypeAlias = Any

# Validated samples, in C order or in CSR form.
Matrix: TypeAlias = npt.NDArray[np.floating] | sparse.csr_array

_Array = TypeVar("_Array", bound=npt.NDArray[np.generic])

# Beginnings of the names of dtypes of times, in NumPy, pandas, polars and pyarrow.
_TIMES = ("date", "time", "duration")


def in_memory(array: UserArray, name: str) -> UserArray:
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


def in_library_of(array: UserArray, result: _Array) -> _Array:
    """Return a result as an array of the library, and on the device, of an array of the user.

    It stays a NumPy array unless ``array_api_dispatch`` is set in scikit-learn's configuration, and
    so do labels that are strings, which other libraries lack. Sparse arrays stay as they are.
    """
    if not _has_array_api(array) or issparse(result) or result.dtype.kind == "U":
        return result
    library, is_dispatched, device = get_namespace_and_device(array)
    if not is_dispatched:
        return result
    moved: _Array = move_to(result, xp=library, device=device)
    return moved


def _has_array_api(array: UserArray) -> bool:
    """Return whether an array belongs to another library that follows the array API standard."""
    if isinstance(array, np.ndarray):
        return False
    return isinstance(array, torch.Tensor) or hasattr(array, "__array_namespace__")


def as_numpy(array: UserArray, name: str) -> UserArray:
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


def _check_masks(array: UserArray, name: str) -> None:
    """Raise if an array has masked entries."""
    if not isinstance(array, np.ma.MaskedArray):
        return
    n_masked = np.ma.getmaskarray(array).sum()
    if n_masked:
        raise ValueError(
            f"{name} must have no masked entries; got {n_masked} of {array.size}. "
            f"Leave their samples out, or fill them by {name}.filled(...)."
        )


def _dtypes(array: UserArray) -> list[object]:
    """Return the dtypes of the columns of a table, or of an array."""
    if hasattr(array, "schema") and hasattr(array, "column_names"):
        return list(array.schema.types)
    if hasattr(array, "columns"):
        return list(array.dtypes)
    # Arrays of pyarrow have a type.
    return [getattr(array, "dtype", getattr(array, "type", None))]


def checked_sparse(X: UserArray, name: str) -> UserArray:
    """Return a sparse array whose indices lie within its shape; return anything else as it is.

    A wrong index makes SciPy read or write memory of other objects. The result shares the arrays
    of X, which does not change.
    """
    if not sparse.issparse(X):
        return X
    try:
        return _checked(X)
    except ValueError as error:
        raise ValueError(
            f"{name} must have indices within its shape, {X.shape}; got a sparse array of format "
            f"{X.format!r} with a fault: {error}."
        ) from error


def _checked(X: sparse.sparray) -> sparse.sparray:
    """Return a sparse array of the same content; raise if its indices do not fit."""
    # These constructors check all indices.
    sparse_class = type(X)
    if X.format == "coo":
        return sparse_class((X.data, X.coords), shape=X.shape)
    if X.format == "dia":
        return sparse_class((X.data, X.offsets), shape=X.shape)
    if X.format == "lil":
        _check_rows(X)
    if X.format not in ("csr", "csc", "bsr"):
        X = X.tocsr()
    # The check replaces attributes.
    X = copy(X)
    _check_pointers(X)
    X.check_format(full_check=True)
    return X


def _check_rows(X: sparse.lil_array) -> None:
    """Raise if a row of a list of lists has more or fewer indices than values."""
    for indices, values in zip(X.rows, X.data, strict=True):
        if len(indices) != len(values):
            raise ValueError(f"a row has {len(indices)} indices and {len(values)} values")


def _check_pointers(X: sparse.csr_array) -> None:
    """Raise for faults that `check_format` passes: pointers that end at zero or wrap around."""
    for indices in (X.indptr, X.indices):
        if indices.dtype.kind not in "iu":
            raise ValueError(f"indices must be integers; got {indices.dtype}")
    steps_back = X.indptr[1:] < X.indptr[:-1]
    if steps_back.any():
        raise ValueError("index pointers must not decrease")
