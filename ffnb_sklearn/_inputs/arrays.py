"""Conversion and checks of arrays from users: other libraries, dimensions, column targets."""

import warnings

import numpy as np
import torch
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import column_or_1d

from ..core.messages import level_of_user

__all__ = ["as_numpy", "as_targets", "check_rows", "level_of_user", "refuse_masked"]


def as_numpy(array, name):
    """Convert an array of torch, CuPy or the array API to NumPy, and compute collections of dask.

    Return anything else as it is.
    """
    if hasattr(array, "__dask_graph__"):
        return array.compute()
    if isinstance(array, np.ndarray) or not hasattr(array, "__dlpack_device__"):
        return array
    try:
        return np.asarray(array)
    except Exception as error:
        kind = f"{type(array).__module__}.{type(array).__name__}"
        reason, steps = str(error).rstrip("."), _steps_to_numpy(array)
        raise TypeError(
            f"{name} must be an array that NumPy can read; got a {kind} on device "
            f"{getattr(array, 'device', 'unknown')!s}: {reason}. Copy it to NumPy first"
            f"{f', by {name}{steps}' if steps else ''}. `device` says where the estimator computes."
        ) from error


def _steps_to_numpy(array):
    """Return the calls that convert a torch tensor to NumPy; no calls for other arrays."""
    if not isinstance(array, torch.Tensor):
        return ""
    steps = ".detach().cpu()" if array.layout == torch.strided else ".detach().cpu().to_dense()"
    try:
        torch.empty(0, dtype=array.dtype).numpy()
    except TypeError:
        # NumPy lacks some types of torch, such as bfloat16.
        steps += ".float()"
    return f"{steps}.numpy()"


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
    dtypes = getattr(X, "dtypes", None)
    columns = {"X": getattr(X, "dtype", None)}
    if dtypes is not None:
        columns = {f"X[{name!r}]": dtype for name, dtype in zip(X.columns, dtypes, strict=True)}
    for name, dtype in columns.items():
        if getattr(dtype, "kind", None) in {"m", "M"}:
            raise ValueError(
                f"X must hold numbers; {name} holds times of dtype {dtype}, whose numbers depend "
                "on this unit. Convert them, such as durations since a fixed date to seconds."
            )


def as_targets(y):
    """Return one-dimensional targets; warn at the user's line if they were a column."""
    refuse_masked(y, "y")
    y = y if hasattr(y, "shape") else np.asarray(y)
    targets = column_or_1d(y)
    if len(y.shape) > 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Pass one column, such as "
            'y["label"] of a data frame or y.ravel() of an array.',
            DataConversionWarning,
            stacklevel=level_of_user(),
        )
    return targets
