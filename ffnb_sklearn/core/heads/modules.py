"""Solved heads as modules of torch, whose arrays are buffers.

`torch.export` and both exporters to ONNX can store them. No number of samples of the example
becomes a constant, and nothing is written into a part of a tensor, which the older exporter loses.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy.typing as npt
import torch
from torch import nn

__all__ = [
    "AsinhLogits",
    "DistanceScores",
    "LossLogits",
    "PlaneScores",
    "RelativeScores",
    "sums_by_class",
]


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


class _Judged(NamedTuple):
    """Samples beside the classes, with one row per sample.

    Squared lengths are divided by the square of the row's `size`.

    Attributes
    ----------
    x : Tensor of shape (n_samples, d)
        Centred features.
    scores : Tensor of shape (n_samples, C)
        Scores of the classes for a softmax, for equal priors.
    nearest : Tensor of shape (n_samples, 1)
        Number of the class of the highest score.
    square_of_nearest : Tensor of shape (n_samples, 1)
        Squared length in the own axes of this class.
    size : Tensor of shape (n_samples, 1)
        At least 1, and as large as the responses of the own axes.
    """

    x: torch.Tensor
    scores: torch.Tensor
    nearest: torch.Tensor
    square_of_nearest: torch.Tensor
    size: torch.Tensor


class _Distances(_Buffers):
    """`GaussianDistances`, see there.

    A row far from all classes has squared distances beyond single precision, though their ratios,
    which are the scores, are not. All are divided by the square of the row's `size`.
    """

    centre: torch.Tensor
    planes: torch.Tensor
    offsets: torch.Tensor
    rows: torch.Tensor
    shifts: torch.Tensor
    class_of: torch.Tensor

    def __init__(
        self, arrays: Mapping[str, npt.NDArray[Any]], *, temperature: float, own_temperature: float
    ) -> None:
        super().__init__(arrays)
        self._temperature = temperature
        self._own_temperature = own_temperature

    def judge(self, features: torch.Tensor) -> _Judged:
        """Return the scores of samples, and their nearest classes."""
        n_features = self.centre.shape[0]
        inputs = features[:, :n_features]
        x = inputs - self.centre
        linear = torch.addmm(self.offsets, x, self.planes.T)
        size = torch.ones_like(linear[:, :1])
        in_own_axes = torch.zeros_like(linear)
        if self.rows.shape[0] > 0:
            responses = torch.addmm(-self.shifts, x, self.rows.T)
            moduli = responses.abs()
            size = moduli.amax(1, keepdim=True)
            size = size.clamp_min(1.0)
            scaled_responses = responses / size
            in_own_axes = sums_by_class(in_own_axes, scaled_responses.square(), self.class_of)
        log_ratios = linear / size / size + 0.5 * in_own_axes
        nearest = log_ratios.argmax(1, keepdim=True)
        square_of_nearest = in_own_axes.gather(1, nearest)
        shared_temperature = self._temperature / size / size
        temperatures = shared_temperature + self._own_temperature * square_of_nearest
        # Without a temperature of own axes the scores may leave the range of the numbers.
        moduli_of_ratios = log_ratios.abs()
        largest = moduli_of_ratios.amax(1, keepdim=True)
        tiny = torch.finfo(log_ratios.dtype).tiny
        temperatures = torch.maximum(temperatures, largest * tiny)
        return _Judged(x, log_ratios / temperatures, nearest, square_of_nearest, size)


def sums_by_class(
    zeros: torch.Tensor, values: torch.Tensor, class_of: torch.Tensor
) -> torch.Tensor:
    """Return the sums over the values of each class, given zeros of the shape of the result.

    The values, of shape (n_samples, n_values), are not negative.
    """
    # The index has the shape of the values, which an expanded index would fix in an export.
    zero_indices = (values < 0.0).long()
    return zeros.scatter_add(1, zero_indices + class_of, values)


class DistanceScores(_Distances):
    """Scores of `GaussianDistances`, plus a `shift` of each class in `columns`."""

    columns: torch.Tensor
    shift: torch.Tensor

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores of samples."""
        judged = self.judge(features)
        return judged.scores[:, self.columns] + self.shift


class _Responses(_Buffers):
    """Responses whose squares sum to the squared length of a sample in an inverse covariance."""

    roots: torch.Tensor
    rows: torch.Tensor

    def __init__(self, arrays: Mapping[str, npt.NDArray[Any]], *, sign: float) -> None:
        super().__init__(arrays)
        self._sign = sign

    def largest(self, x: torch.Tensor) -> torch.Tensor:
        """Return the largest modulus of a response to each sample, of shape (n_samples, 1)."""
        responses, _ = self._parts(x)
        return responses.abs().amax(1, keepdim=True)

    def lengths(self, x: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
        """Return the squared lengths of samples, divided by the square of a size of each."""
        responses, explained = self._parts(x)
        lengths = (responses / size).square().sum(1, keepdim=True)
        if explained is None:
            return lengths
        explained_lengths = (explained / size).square().sum(1, keepdim=True)
        return (lengths - explained_lengths).clamp_min(0.0)

    def _parts(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the responses whose squares are added, and those whose squares are subtracted."""
        products = x @ self.rows.T
        if self._sign > 0.0:
            return products, None
        return x * self.roots, products


class RelativeScores(_Distances):
    """Relative distances, minus the likeness of `RelativeDistances`, see there.

    `means` are centred. `shared` and `within` are the inverse covariances.
    """

    means: torch.Tensor
    functions: torch.Tensor
    axes: torch.Tensor
    shrunk: torch.Tensor

    def __init__(
        self,
        arrays: Mapping[str, npt.NDArray[Any]],
        *,
        temperature: float,
        own_temperature: float,
        shared: tuple[Mapping[str, npt.NDArray[Any]], float],
        within: tuple[Mapping[str, npt.NDArray[Any]], float],
        mean_distance: float,
        overlap: float,
    ) -> None:
        super().__init__(arrays, temperature=temperature, own_temperature=own_temperature)
        shared_arrays, shared_sign = shared
        within_arrays, within_sign = within
        self._shared = _Responses(shared_arrays, sign=shared_sign)
        self._within = _Responses(within_arrays, sign=within_sign)
        self._mean_distance = mean_distance
        self._overlap = overlap

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the relative distances of samples, of shape (n_samples, 1)."""
        judged = self.judge(features)
        deviations = judged.x - self.means[judged.nearest[:, 0]]
        coordinates = judged.x @ self.functions.T
        remainders = judged.x - coordinates @ self.axes
        size = torch.maximum(judged.size, self._shared.largest(deviations))
        size = torch.maximum(size, self._within.largest(remainders))
        if self.functions.shape[0] > 0:
            size = torch.maximum(size, coordinates.abs().amax(1, keepdim=True))
        own_share = (judged.size / size).square()
        to_mean = self._shared.lengths(deviations, size)
        to_nearest = to_mean - own_share * judged.square_of_nearest
        along_means = (coordinates / size).square() @ self.shrunk
        from_all = self._within.lengths(remainders, size) + along_means[:, None]
        relative = to_nearest.clamp_min(0.0) / (from_all + self._mean_distance / size / size)
        probabilities = judged.scores.softmax(1)
        certainty = probabilities.square().sum(1, keepdim=True).sqrt()
        return relative / certainty.pow(self._overlap)


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
