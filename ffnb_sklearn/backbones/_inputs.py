"""Validate rows or images, and convert them to the inputs of a network."""

from dataclasses import dataclass
from math import prod
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from ffnb_sklearn._inputs.tables import columns_of
from ffnb_sklearn.backbones._images import as_array, as_source
from ffnb_sklearn.core.device import as_tensor


@dataclass(frozen=True)
class Inputs:
    """Conversion of rows to inputs of a network: shape, scaling, device.

    `shape` is the shape of one input; with None, rows are not reshaped. `mean` and `std` are
    numbers, have one value per channel, or are None.
    """

    shape: Any = None
    mean: Any = None
    std: Any = None

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

    def _scaling(self, n_features):
        """Return the operations that apply `mean` and `std`, with constants of fitting shapes."""
        shape = (n_features,) if self.shape is None else tuple(self.shape)
        steps = []
        for name, operation in (("mean", torch.sub), ("std", torch.div)):
            value = getattr(self, name)
            if value is None:
                continue
            constant = np.asarray(value, dtype=np.float64)
            if constant.shape not in ((), shape[:1]):
                raise ValueError(
                    f"{name} must be a number or hold one value for each of the {shape[0]} "
                    f"channels; got shape {constant.shape}."
                )
            if not np.isfinite(constant).all() or (name == "std" and (constant <= 0).any()):
                kind = "finite and positive" if name == "std" else "finite"
                raise ValueError(f"{name} must be {kind}; got {value!r}.")
            steps.append((operation, constant.reshape(-1, *(1,) * (len(shape) - 1))))
        return steps


def first_samples(extractor, X):
    """Validate the samples given to `fit`.

    Return rows, or images to be read as rows, their conversion to inputs of the network, and the
    fitted attributes that describe them.
    """
    shape, resize = extractor.input_shape, extractor.resize
    if not all(isinstance(n, Integral) and n > 0 for n in shape or ()):
        raise ValueError(f"input_shape must hold positive integers; got {shape!r}.")
    _check_resize(extractor)
    takes_texts = _takes_texts(extractor)
    rows = as_source(X, shape, resize, takes_texts, **_scaling_of(extractor))
    if rows is None:
        X = _as_rows(X)
        rows = check_array(X, estimator=extractor, input_name="X")
        seen = {**columns_of(X), "image_values_": None}
    else:
        shape = rows.input_shape
        seen = {"n_features_in_": rows.shape[1], "image_values_": rows.values}
    inputs = Inputs(shape, extractor.mean, extractor.std)
    inputs.check(rows.shape[1])
    seen["input_shape_"] = None if shape is None else tuple(int(n) for n in shape)
    return rows, inputs, seen


def _check_resize(extractor):
    """Raise unless `resize` is an integer or a pair, and images of `input_shape` fit into it."""
    shape, resize = extractor.input_shape, extractor.resize
    if resize is None:
        return
    sides = (resize, resize) if isinstance(resize, Integral) else tuple(resize)
    if len(sides) != 2 or not all(isinstance(side, Integral) and side > 0 for side in sides):
        raise ValueError(
            "resize must be a positive integer or a pair of them, height and width; got "
            f"{resize!r}."
        )
    if shape is None:
        return
    is_small = len(shape) == 3 and any(side < n for side, n in zip(sides, shape[1:], strict=True))
    if len(shape) != 3 or (is_small and extractor.crop_mode != "border"):
        raise ValueError(
            "resize must be at least the longest side in input_shape=(channels, height, width) "
            f"unless crop_mode='border'; got resize={resize} and input_shape={tuple(shape)}."
        )


def _scaling_of(extractor):
    """Return the arguments of `resized`; borders have the mean, which becomes zero."""
    fill = 0.0
    if extractor.crop_mode == "border" and extractor.mean is not None:
        fill = extractor.mean
    return {
        "crop_mode": extractor.crop_mode,
        "interpolation": extractor.interpolation,
        "fill": fill,
    }


def more_samples(extractor, X):
    """Validate the samples given to `transform`; return rows, or images as rows."""
    takes_texts = _takes_texts(extractor)
    source = as_source(
        X, extractor.input_shape_, extractor.resize, takes_texts, **_scaling_of(extractor)
    )
    if source is None:
        return validate_data(extractor, _as_rows(X), reset=False)
    if extractor.input_shape_ is None:
        raise ValueError(
            f"X must hold rows of {extractor.n_features_in_} values, as in fit; got images of "
            f"shape {source.input_shape}. Fit with input_shape, or with images."
        )
    source.check(extractor.image_values_)
    return source


def _takes_texts(extractor):
    """Return whether texts are paths of images: not in an extractor that `load` has returned."""
    return not hasattr(extractor, "_is_from_file")


def _as_rows(X):
    """Convert a tensor of rows to an array; return other values as they are."""
    return as_array(X, "X") if isinstance(X, torch.Tensor) else X
