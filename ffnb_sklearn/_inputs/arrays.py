"""Conversion of arrays from users to NumPy."""

import numpy as np
import torch

__all__ = ["as_numpy"]


def as_numpy(array, name):
    """Convert a tensor of torch, on any device, to NumPy; return anything else as it is.

    Raise for sparse tensors, and for arrays that scikit-learn would misread: it uses the entries
    that a mask hides, and the numbers behind dates and durations, which depend on the unit of their
    dtype.
    """
    if isinstance(array, torch.Tensor):
        if array.layout != torch.strided:
            raise TypeError(
                f"{name} must be a dense tensor, or a sparse array of SciPy; got a tensor of "
                f"layout {array.layout}. Pass {name}.to_dense() instead."
            )
        array = array.detach().cpu()
        # NumPy lacks bfloat16.
        return (array.float() if array.dtype == torch.bfloat16 else array).numpy()
    if isinstance(array, np.ma.MaskedArray) and np.ma.count_masked(array):
        raise ValueError(
            f"{name} must have no masked entries; got {np.ma.count_masked(array)} of {array.size}. "
            f"Leave their samples out, or fill them by {name}.filled(...)."
        )
    dtypes = array.dtypes if hasattr(array, "columns") else [getattr(array, "dtype", None)]
    times = [dtype for dtype in dtypes if getattr(dtype, "kind", None) in ("M", "m")]
    if times:
        raise ValueError(
            f"{name} must not hold times; got dtype {times[0]}. Convert them to numbers, such as "
            "seconds since a fixed date."
        )
    return array
