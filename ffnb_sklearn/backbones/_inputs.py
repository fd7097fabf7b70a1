"""Convert rows to the inputs of a network: shape, scaling, device."""

from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
import torch

from ffnb_sklearn.backbones._checks import scaling_constant
from ffnb_sklearn.core.device import as_tensor


@dataclass(frozen=True)
class Inputs:
    """Conversion of rows to inputs of a network.

    Parameters
    ----------
    shape : sequence of int or None
        Shape of one input; with None, rows are not reshaped.
    mean, std : float, array-like of shape (n_channels,) or None
        Values to subtract from the input, and to divide it by afterwards.
    """

    shape: Any = None
    mean: Any = None
    std: Any = None

    def check_shape(self):
        """Raise unless `shape` is None or holds positive integers."""
        if self.shape is not None and not all(
            isinstance(n, Integral) and n > 0 for n in self.shape
        ):
            raise ValueError(f"input_shape must hold positive integers; got {self.shape!r}.")

    def check(self, n_features):
        """Raise if the shape or the scaling does not fit rows of `n_features` values."""
        if self.shape is not None and prod(self.shape) != n_features:
            raise ValueError(
                f"X has {n_features} features, but input_shape={tuple(self.shape)} "
                f"needs {prod(self.shape)}."
            )
        self._scaling(n_features)

    def prepare(self, rows, device, dtype, change=None):
        """Copy a batch of rows to a device, and give it the shape and scale of inputs.

        The function `change` is applied to the inputs before they are scaled. The inputs have their
        own memory, because a network may write to its input.
        """
        # Transfer bytes as bytes: floating-point values take four or eight times as much memory.
        source = torch.uint8 if rows.dtype == np.uint8 else dtype
        inputs = as_tensor(rows, device=device, dtype=source)
        if self.shape is not None:
            inputs = inputs.reshape(len(rows), *self.shape)
        if change is not None:
            inputs = change(inputs)
        inputs = inputs.to(dtype, copy=True)
        for operation, constant in self._scaling(rows.shape[1]):
            inputs = operation(inputs, as_tensor(constant, device=device, dtype=dtype))
        return inputs

    def settings(self, n_features):
        """Return shape and scaling as plain lists, to compare with a checkpoint."""
        constants = {
            op.__name__: values.ravel().tolist() for op, values in self._scaling(n_features)
        }
        return {
            "input_shape": None if self.shape is None else [int(n) for n in self.shape],
            "mean": constants.get("sub"),
            "std": constants.get("div"),
        }

    def _scaling(self, n_features):
        """Return the operations that apply `mean` and `std`, with their constants."""
        shape = (n_features,) if self.shape is None else tuple(self.shape)
        steps = (("mean", self.mean, torch.sub), ("std", self.std, torch.div))
        return [
            (operation, scaling_constant(name, value, shape))
            for name, value, operation in steps
            if value is not None
        ]
