"""Conversion and checks of arrays from users: other libraries, dimensions, masks, times."""

import numpy as np
import torch

__all__ = ["as_numpy", "check_rows", "refuse_masked"]


def as_numpy(array, name):
    """Convert an array of torch, CuPy or the array API to NumPy, and compute collections of dask.

    Tensors of torch may be on any device. Return anything else as it is.
    """
    if hasattr(array, "__dask_graph__"):
        return array.compute()
    if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack_device__"):
        return array
    try:
        if isinstance(array, torch.Tensor):
            array = array.detach().cpu()
            # NumPy lacks bfloat16.
            array = array.float() if array.dtype == torch.bfloat16 else array
        return np.asarray(array)
    except Exception as error:
        kind = f"{type(array).__module__}.{type(array).__name__}"
        sparse = getattr(array, "layout", torch.strided) != torch.strided
        remedy = f"{name}.to_dense() converts it" if sparse else "Copy it to NumPy first"
        raise TypeError(
            f"{name} must be an array that NumPy can read; got a {kind} on device "
            f"{getattr(array, 'device', 'unknown')!s}: {str(error).rstrip('.')}. {remedy}. "
            "`device` says where the estimator computes."
        ) from error


def check_rows(X, estimator):
    """Raise if samples are no rows of numbers.

    Samples of more dimensions, masked entries, dates and durations are refused, with a remedy.
    """
    refuse_masked(X, "X")
    _refuse_times(X)
    shape = getattr(X, "shape", None)
    if shape is None and isinstance(X, (list, tuple)) and len(X):
        shape = (len(X), *getattr(X[0], "shape", ()))
    if shape is not None and len(shape) > 2:
        raise ValueError(
            f"Found array with dim {len(shape)}: X must have the shape (n_samples, n_features) for "
            f"{type(estimator).__name__}; got samples of shape {tuple(shape[1:])}. Put a "
            "transformer before it that makes rows: TorchFeatureExtractor of images, "
            "SkeletonDescriptor of sequences of joints, or X.reshape(len(X), -1) of anything."
        )


def refuse_masked(array, name):
    """Raise if entries of a masked array are masked; scikit-learn would use what they hide."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.count_masked(array):
        raise ValueError(
            f"{name} must have no masked entries; got {np.ma.count_masked(array)} of "
            f"{array.size}. Leave their samples out, or fill them by {name}.filled(...)."
        )


def _refuse_times(X):
    """Raise if X holds dates or durations, whose numbers depend on the unit of their dtype."""
    columns = {"X": getattr(X, "dtype", None)}
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        columns = {f"X[{name!r}]": dtype for name, dtype in zip(X.columns, X.dtypes, strict=True)}
    for name, dtype in columns.items():
        if getattr(dtype, "kind", None) in {"m", "M"}:
            raise ValueError(
                f"X must hold numbers; {name} holds times of dtype {dtype}, whose numbers depend "
                "on this unit. Convert them, such as durations since a fixed date to seconds."
            )
