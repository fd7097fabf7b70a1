"""Sparse arrays whose indices SciPy can follow; its conversions and products do not check them."""

from copy import copy

from scipy import sparse

__all__ = ["checked_sparse"]


def checked_sparse(X, name):
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


def _checked(X):
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


def _check_rows(X):
    """Raise if a row of a list of lists has more or fewer indices than values."""
    for indices, values in zip(X.rows, X.data, strict=True):
        if len(indices) != len(values):
            raise ValueError(f"a row has {len(indices)} indices and {len(values)} values")


def _check_pointers(X):
    """Raise for faults that `check_format` passes: pointers that end at zero or wrap around."""
    for indices in (X.indptr, X.indices):
        if indices.dtype.kind not in "iu":
            raise ValueError(f"indices must be integers; got {indices.dtype}")
    steps_back = X.indptr[1:] < X.indptr[:-1]
    if steps_back.any():
        raise ValueError("index pointers must not decrease")
