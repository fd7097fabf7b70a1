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
from ffnb_sklearn.backbones._images import as_array, image_source
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
        source_dtype = dtype
        if rows.dtype == np.uint8:
            # Transfer bytes as bytes: floating-point values take four or eight times as much
            # memory.
            source_dtype = torch.uint8
        inputs = as_tensor(rows, device=device, dtype=source_dtype)
        if self.shape is not None:
            inputs = inputs.reshape(len(rows), *self.shape)
        if change is not None:
            inputs = change(inputs)
        inputs = inputs.to(dtype, copy=True)
        mean, std = self._scaling(rows.shape[1])
        if mean is not None:
            inputs = inputs - as_tensor(mean, device=device, dtype=dtype)
        if std is not None:
            inputs = inputs / as_tensor(std, device=device, dtype=dtype)
        return inputs

    def _scaling(self, n_features):
        """Return `mean` and `std` as arrays that fit an input; raise if they are invalid."""
        shape = (n_features,)
        if self.shape is not None:
            shape = tuple(self.shape)
        mean = _channel_values("mean", self.mean, shape)
        std = _channel_values("std", self.std, shape)
        if std is not None and (std <= 0).any():
            raise ValueError(f"std must be positive; got {self.std!r}.")
        return mean, std


def _channel_values(name, value, shape):
    """Return a number, or one value per channel, as an array that fits inputs of a shape."""
    if value is None:
        return None
    values = np.asarray(value, dtype=np.float64)
    if values.shape not in ((), shape[:1]):
        raise ValueError(
            f"{name} must be a number or hold one value for each of the {shape[0]} "
            f"channels; got shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError(f"{name} must be finite; got {value!r}.")
    position_axes = (1,) * (len(shape) - 1)
    return values.reshape(-1, *position_axes)


def first_samples(extractor, X):
    """Validate the samples passed to `fit`.

    Return rows, or images to be read as rows, their conversion to inputs of the network, and the
    fitted attributes that describe them.
    """
    _check_input_shape(extractor.input_shape)
    _check_resize(extractor)
    shape = extractor.input_shape
    rows = _image_source(extractor, X, shape)
    if rows is None:
        table = _to_table(X)
        rows = check_array(table, estimator=extractor, input_name="X")
        attributes = columns_of(table)
        attributes["image_values_"] = None
    else:
        shape = rows.input_shape
        attributes = {"n_features_in_": rows.shape[1], "image_values_": rows.values}
    inputs = Inputs(shape, extractor.mean, extractor.std)
    inputs.check(rows.shape[1])
    if shape is not None:
        shape = tuple(int(side) for side in shape)
    attributes["input_shape_"] = shape
    return rows, inputs, attributes


def more_samples(extractor, X):
    """Validate the samples passed to `transform`; return rows, or images as rows."""
    images = _image_source(extractor, X, extractor.input_shape_)
    if images is None:
        return validate_data(extractor, _to_table(X), reset=False)
    if extractor.input_shape_ is None:
        raise ValueError(
            f"X must hold rows of {extractor.n_features_in_} values, as in fit; got images of "
            f"shape {images.input_shape}. Fit with input_shape, or with images."
        )
    images.check(extractor.image_values_)
    return images


def _image_source(extractor, X, shape):
    """Return images as an `ImageSource` with the settings of an extractor, and None for rows."""
    # Borders have the mean, which becomes zero.
    fill = 0.0
    if extractor.crop_mode == "border" and extractor.mean is not None:
        fill = extractor.mean
    return image_source(
        X,
        shape,
        extractor.resize,
        # An extractor that `load` has returned opens no texts as paths.
        takes_texts=not hasattr(extractor, "_is_from_file"),
        crop_mode=extractor.crop_mode,
        interpolation=extractor.interpolation,
        fill=fill,
    )


def _to_table(X):
    """Convert a tensor of rows to an array; return other values as they are."""
    if isinstance(X, torch.Tensor):
        return as_array(X, "X")
    return X


def _are_positive_integers(sides):
    """Return whether all sides are integers above 0."""
    return all(isinstance(side, Integral) and side > 0 for side in sides)


def _check_input_shape(input_shape):
    """Raise unless `input_shape` is None or holds positive integers."""
    if input_shape is not None and not _are_positive_integers(input_shape):
        raise ValueError(f"input_shape must hold positive integers; got {input_shape!r}.")


def _check_resize(extractor):
    """Raise unless `resize` is an integer or a pair, and images of `input_shape` fit into it."""
    resize = extractor.resize
    if resize is None:
        return
    sides = resize
    if isinstance(resize, Integral):
        sides = (resize, resize)
    if len(sides) != 2 or not _are_positive_integers(sides):
        raise ValueError(
            "resize must be a positive integer or a pair of them, height and width; got "
            f"{resize!r}."
        )
    shape = extractor.input_shape
    if shape is None:
        return
    fits = len(shape) == 3
    if fits and extractor.crop_mode != "border":
        _, height, width = shape
        fits = sides[0] >= height and sides[1] >= width
    if not fits:
        raise ValueError(
            "resize must be at least the longest side in input_shape=(channels, height, width) "
            f"unless crop_mode='border'; got resize={resize} and input_shape={tuple(shape)}."
        )
