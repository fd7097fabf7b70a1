"""Solved heads as modules of torch, whose arrays are buffers.

`torch.export` and both exporters to ONNX can store them. No number of samples of the example
becomes a constant, and nothing is written into a part of a tensor, which the older exporter loses.
"""

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt
import torch
from torch import nn

__all__ = ["AsinhLogits", "DistanceScores", "LossLogits", "PlaneScores"]


class _Buffers(nn.Module):
    """A module that holds arrays, by name."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().__init__()
        for name, array in arrays.items():
            buffer = torch.tensor(array, device="cpu")
            self.register_buffer(name, buffer)


class PlaneScores(_Buffers):
    """An affine function of the responses of planes, or of their tanh.

    The function multiplies by the `mixing` matrix and adds the `shift`.
    """

    planes: torch.Tensor
    offsets: torch.Tensor
    mixing: torch.Tensor
    shift: torch.Tensor

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], *, has_tanh: bool) -> None:
        super().__init__(arrays)
        self._has_tanh = has_tanh

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores of samples."""
        responses = torch.addmm(self.offsets, features, self.planes.T)
        if self._has_tanh:
            responses = responses.tanh()
        return responses @ self.mixing + self.shift


class DistanceScores(_Buffers):
    """Scores of `GaussianDistances`, see there, plus a `shift` of each class in `columns`.

    A row far from all classes has squared distances beyond single precision, though their ratios,
    which are the scores, are not. All are divided by the square of the row's `size`.
    """

    centre: torch.Tensor
    planes: torch.Tensor
    offsets: torch.Tensor
    rows: torch.Tensor
    shifts: torch.Tensor
    class_of: torch.Tensor
    columns: torch.Tensor
    shift: torch.Tensor

    def __init__(
        self, arrays: Mapping[str, npt.NDArray[Any]], *, temperature: float, own_temperature: float
    ) -> None:
        super().__init__(arrays)
        self._temperature = temperature
        self._own_temperature = own_temperature

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores of samples."""
        n_features = self.centre.shape[0]
        inputs = features[:, :n_features]
        x = inputs - self.centre
        linear = torch.addmm(self.offsets, x, self.planes.T)
        if self.rows.shape[0] == 0:
            return linear[:, self.columns] / self._temperature + self.shift
        responses = torch.addmm(-self.shifts, x, self.rows.T)
        moduli = responses.abs()
        size = moduli.amax(1, keepdim=True)
        size = size.clamp_min(1.0)
        linear = linear / size / size
        scaled_responses = responses / size
        squares = scaled_responses.square()
        # The sum has the shape of the squares, which an expanded index would fix in an export.
        zeros = (squares < 0.0).long()
        classes = zeros + self.class_of
        in_own_axes = torch.zeros_like(linear)
        in_own_axes = in_own_axes.scatter_add(1, classes, squares)
        scores = linear + 0.5 * in_own_axes
        nearest = scores.argmax(1, keepdim=True)
        square_of_nearest = in_own_axes.gather(1, nearest)
        shared_temperature = self._temperature / size / size
        temperatures = shared_temperature + self._own_temperature * square_of_nearest
        # Without a temperature of own axes the scores may leave the range of the numbers.
        sizes_of_scores = scores.abs()
        largest = sizes_of_scores.amax(1, keepdim=True)
        tiny = torch.finfo(scores.dtype).tiny
        temperatures = torch.maximum(temperatures, largest * tiny)
        return scores[:, self.columns] / temperatures + self.shift


class LossLogits(nn.Module):
    """Logits of classes from their expected losses against all others, plus a small number."""

    def __init__(self, n_classes: int, added: float) -> None:
        super().__init__()
        self._n_others = n_classes - 1
        self._added = added

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Return minus the logarithms of the losses."""
        differences = self._n_others - scores
        losses = 0.5 * differences
        logarithms = torch.log(losses + self._added)
        return -logarithms


class AsinhLogits(nn.Module):
    """Logits that are a multiple of asinh, the logarithm of y + sqrt(y^2 + 1), of scaled scores."""

    def __init__(self, scale: float, power: float) -> None:
        super().__init__()
        self._scale = scale
        self._power = power

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the logits; runtimes of ONNX lack asinh, and the square of y may overflow."""
        y = self._scale * scores
        modulus = y.abs()
        size = modulus.clamp_min(1.0)
        scaled = y / size
        scaled_one = size.reciprocal()
        scaled_sum = scaled.square() + scaled_one.square()
        root = size * scaled_sum.sqrt()
        values = torch.log(modulus + root)
        signed_values = torch.where(y < 0.0, -values, values)
        return self._power * signed_values
