"""Rows of a new band: the closed-form initialisation [Eq. 5-7]."""

from typing import NamedTuple

import torch

from ..linalg import LENGTH_ROUNDING, SUM_ROUNDING, DiagonalPlusGram
from .null_space import NullSpace

__all__ = [
    "FittedRows",
    "code_ridge",
    "code_system",
    "fits_samples",
    "left_out_responses",
    "random_rows",
    "regression_rows",
]

# Ridge floor, relative to the mean energy of a feature; a smaller ridge leaves few digits of the
# response of a left-out sample (tests/core/bands/test_rows.py).
_LEAST_GAMMA = 1e-4


class FittedRows(NamedTuple):
    """Rows of a new band, and the responses of the samples that they were fitted to.

    `typical_length` is the root mean square length of the samples in the residual axes (if that is
    rounding, in all axes; 1 if all samples are zero), and `magnitude` that of a feature.
    `is_rounding` is True if the samples are not all zero, but have only rounding in the residual
    axes.
    """

    rows: torch.Tensor
    responses: torch.Tensor
    typical_length: torch.Tensor
    magnitude: torch.Tensor
    is_rounding: bool


def regression_rows(
    features: torch.Tensor,
    codes: torch.Tensor,
    weights: torch.Tensor,
    null_space: NullSpace,
    gamma: float,
    *,
    sees_past: bool = True,
    units: str = "relative",
    leave_out: bool = True,
) -> FittedRows:
    r"""Regress the codes C of samples Z on their residual coordinates [Eq. 6, Eq. 7].

    With the second moment :math:`S = R^\top R` and the residual axes :math:`\Phi`,

    .. math:: \alpha = (\gamma \tfrac{\mathrm{tr} S}{d} I + \Phi^\top S \Phi)^{-1}
              \Phi^\top Z^\top C, \qquad W = (\Phi \alpha)^\top .

    With `sees_past` ("multi") [Eq. 7], R includes the past, whose codes are zero; else it holds the
    samples alone ("mono") [Eq. 6]. Along principal axes the moment of the past is diagonal.
    Absolute units omit tr S / d. With `leave_out`, the response of each sample is that to rows that
    were fitted without it (`left_out_responses`), unless single samples make no difference
    (`fits_samples`).
    """
    lengths = torch.linalg.vector_norm(features, dim=1)
    energy = weights @ lengths.square()
    past_moment = null_space.moment_of_past()
    if sees_past:
        energy = energy + null_space.energy_of_past
    else:
        past_moment = torch.zeros_like(past_moment)
    mean_energy = energy / features.shape[1]
    ridge = code_ridge(gamma, mean_energy, units)
    coordinates = null_space.coordinates(features)
    weighted_coordinates = coordinates * weights.sqrt()[:, None]
    system = code_system(weighted_coordinates, ridge + past_moment)
    products = (codes * weights[:, None]).T @ coordinates
    alpha = system.solve(products)
    responses = coordinates @ alpha.T
    if leave_out and fits_samples(coordinates, weights, ridge):
        responses = left_out_responses(system, coordinates, responses, codes, weights)
    rows = null_space.rows_of(alpha)
    return _measure(rows, responses, coordinates, lengths, weights)


def code_ridge(gamma: float, mean_energy: torch.Tensor, units: str) -> torch.Tensor:
    r"""Return the ridge of the regression of codes, :math:`\gamma \, \mathrm{tr} S / d`.

    In absolute units it is :math:`\gamma`; `mean_energy` is the energy tr S / d of a feature.
    """
    if units == "absolute":
        return torch.full_like(mean_energy, gamma)
    ridge = max(gamma, _LEAST_GAMMA) * mean_energy
    # Zero features have zero rows under any ridge.
    return torch.where(ridge > 0.0, ridge, torch.ones_like(ridge))


def code_system(rows: torch.Tensor, diagonal: torch.Tensor) -> DiagonalPlusGram:
    """Return the matrix that the regression of codes inverts, along the residual axes.

    `rows` are the samples times the roots of their weights, and `diagonal`, of shape (d,), holds
    the ridge and the past.
    """
    return DiagonalPlusGram(
        diagonal,
        rows,
        name="the moment of a band's initialisation",
        remedy="a larger `bands__gamma`",
    )


def fits_samples(coordinates: torch.Tensor, weights: torch.Tensor, ridge: torch.Tensor) -> bool:
    """Return whether the regression of codes fits single samples, and not their mean alone.

    The leverages of the samples around their mean add up to at most their energy over the ridge. If
    that is below 1, leaving a sample out moves only the mean code, and by more than the classes
    differ. With weights of a sum of at most 1 the mean is a single sample.
    """
    total_weight = weights.sum()
    mean = weights @ coordinates / total_weight
    squared_distances = (coordinates - mean).square().sum(1)
    energy = weights @ squared_distances
    return bool((energy >= ridge) | (total_weight <= 1.0))


def left_out_responses(
    system: DiagonalPlusGram,
    coordinates: torch.Tensor,
    responses: torch.Tensor,
    codes: torch.Tensor,
    weights: torch.Tensor,
) -> torch.Tensor:
    r"""Compute the response of each sample to rows that were fitted without it.

    With the leverage h of a sample of code c it is :math:`(W z - h c) / (1 - h)`. `coordinates`
    hold the samples in the residual axes, and `responses` are W z. A sample of a weight above 1
    leaves out a single repetition.
    """
    products = system.solve(coordinates) * coordinates
    unweighted_leverages = products.sum(1)
    leverages = unweighted_leverages * weights.clamp_max(1.0)
    contributions = leverages[:, None] * codes
    other_contributions = responses - contributions
    # A direction that a single sample has is exactly silent without this sample.
    is_rounding = other_contributions.abs() <= LENGTH_ROUNDING * contributions.abs()
    other_contributions[is_rounding] = 0.0
    remainders = 1.0 - leverages
    return other_contributions / remainders[:, None]


def random_rows(
    draw: torch.Tensor, features: torch.Tensor, weights: torch.Tensor, null_space: NullSpace
) -> FittedRows:
    """Scale the random rows `draw` to unit energy of the task in the residual axes.

    Rows are zero if the task has only rounding along them.
    """
    rows = null_space.project(draw)
    responses = features @ rows.T
    lengths = torch.linalg.vector_norm(features, dim=1)
    energy_roots = _root_mean_square(responses.T, weights)
    rounding = LENGTH_ROUNDING * _root_mean_square(lengths, weights)
    row_lengths = torch.linalg.vector_norm(rows, dim=1)
    responds = energy_roots > rounding * row_lengths
    scaled_rows = rows / energy_roots[:, None]
    rows = torch.where(responds[:, None], scaled_rows, torch.zeros_like(rows))
    coordinates = null_space.coordinates(features)
    return _measure(rows, features @ rows.T, coordinates, lengths, weights)


def _measure(
    rows: torch.Tensor,
    responses: torch.Tensor,
    coordinates: torch.Tensor,
    lengths: torch.Tensor,
    weights: torch.Tensor,
) -> FittedRows:
    """Return rows with the typical length and the magnitude of the samples.

    `coordinates` hold the samples in the residual axes, and `lengths` are the norms of the samples.
    """
    length = _root_mean_square(lengths, weights)
    is_zero = bool(length == 0.0)
    if is_zero:
        length = torch.ones_like(length)
    residual_lengths = torch.linalg.vector_norm(coordinates, dim=1)
    typical_length = _root_mean_square(residual_lengths, weights)
    # The past and the axes that it leaves have errors of this size.
    error_of_past = SUM_ROUNDING**0.5 * length
    is_rounding = not is_zero and bool(typical_length < error_of_past)
    typical_length = torch.where(typical_length > LENGTH_ROUNDING * length, typical_length, length)
    magnitude = length / rows.shape[1] ** 0.5
    return FittedRows(rows, responses, typical_length, magnitude, is_rounding)


def _root_mean_square(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the weighted root mean square over the last dimension."""
    squares = values.square()
    mean_square = squares @ weights / weights.sum()
    return mean_square.sqrt()
