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
    "left_out",
    "random_rows",
    "regression_rows",
]

# Ridge floor, relative to the mean energy of a feature; a smaller ridge leaves few digits of the
# response of a left-out sample (tests/core/bands/test_rows.py).
_LEAST_GAMMA = 1e-4


class FittedRows(NamedTuple):
    """Rows of a new band, and the responses of the samples that they were fitted to.

    `reach` is the root mean square length of the samples in the residual axes (if that is rounding,
    in all axes; 1 if all samples are zero), and `magnitude` that of a feature, or 1 if it is zero.
    `is_rounding` says whether the samples, not all zero, have only rounding in the residual axes.
    """

    rows: torch.Tensor
    responses: torch.Tensor
    reach: torch.Tensor
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

    R includes the past with `sees_past` ("multi") [Eq. 7], whose codes are zero, or the samples
    alone ("mono") [Eq. 6]. Along principal axes the moment of the past is diagonal. Absolute units
    leave out tr S / d. With `leave_out`, each sample responds to a fit without it (`left_out`),
    unless `fits_samples` says that this makes no difference.
    """
    lengths = torch.linalg.vector_norm(features, dim=1)
    energy, past = weights @ lengths.square(), null_space.moment_of_past()
    energy, past = (energy + null_space.energy_of_past, past) if sees_past else (energy, 0.0 * past)
    open_part = null_space.coordinates(features)
    ridge = code_ridge(gamma, energy / features.shape[1], units)
    system = code_system(open_part * weights.sqrt()[:, None], ridge + past)
    alpha = system.solve((codes * weights[:, None]).T @ open_part)
    responses = open_part @ alpha.T
    if leave_out and fits_samples(open_part, weights, ridge):
        responses = left_out(system, open_part, responses, codes, weights)
    return _measured(null_space.rows_of(alpha), responses, open_part, lengths, weights)


def code_ridge(gamma: float, energy: torch.Tensor, units: str) -> torch.Tensor:
    """Return the ridge of the regression of codes: gamma times tr S / d, the `energy`."""
    if units == "absolute":
        return torch.full_like(energy, gamma)
    ridge = max(gamma, _LEAST_GAMMA) * energy
    # Zero features have zero rows under any ridge.
    return torch.where(ridge > 0.0, ridge, torch.ones_like(ridge))


def code_system(rows: torch.Tensor, diagonal: torch.Tensor) -> DiagonalPlusGram:
    """Return the matrix that the regression of codes inverts, along the residual axes.

    `rows` are the samples times the roots of their weights, and `diagonal`, of shape (d,), holds
    the ridge and the past.
    """
    name = "the moment of a band's initialisation"
    remedy = "a larger `bands__gamma`"
    return DiagonalPlusGram(diagonal, rows, name=name, remedy=remedy)


def fits_samples(open_part: torch.Tensor, weights: torch.Tensor, ridge: torch.Tensor) -> bool:
    """Return whether the regression of codes fits single samples, and not their mean alone.

    The leverages of the samples around their mean add up to at most their energy over the ridge. If
    that is below 1, leaving a sample out moves the mean code alone, by more than the classes
    differ. With weights of a sum of at most 1 the mean is a single sample.
    """
    total = weights.sum()
    centred = open_part - weights @ open_part / total
    return bool((weights @ centred.square().sum(1) >= ridge) | (total <= 1.0))


def left_out(
    system: DiagonalPlusGram,
    open_part: torch.Tensor,
    responses: torch.Tensor,
    codes: torch.Tensor,
    weights: torch.Tensor,
) -> torch.Tensor:
    r"""Compute the response of each sample to rows that were fitted without it.

    With the leverage h of a sample of code c it is :math:`(W z - h c) / (1 - h)`. `open_part` holds
    the samples in the residual axes, and `responses` are W z. A sample of a weight above 1 leaves
    out a single repetition.
    """
    leverage = (system.solve(open_part) * open_part).sum(1) * weights.clamp_max(1.0)
    own = leverage[:, None] * codes
    left = responses - own
    # A direction that a single sample has is exactly silent without this sample.
    left[left.abs() <= LENGTH_ROUNDING * own.abs()] = 0.0
    return left / (1.0 - leverage)[:, None]


def random_rows(
    draw: torch.Tensor, features: torch.Tensor, weights: torch.Tensor, null_space: NullSpace
) -> FittedRows:
    """Scale random rows, drawn as `draw`, to unit energy of the task in the residual axes.

    Rows are zero if the task has only rounding along them.
    """
    rows = null_space.project(draw)
    lengths = torch.linalg.vector_norm(features, dim=1)
    response = _root_mean_square((features @ rows.T).T, weights)
    rounding = LENGTH_ROUNDING * _root_mean_square(lengths, weights)
    heard = response > rounding * torch.linalg.vector_norm(rows, dim=1)
    rows = torch.where(heard[:, None], rows / response[:, None], torch.zeros_like(rows))
    return _measured(rows, features @ rows.T, null_space.coordinates(features), lengths, weights)


def _measured(
    rows: torch.Tensor,
    responses: torch.Tensor,
    open_part: torch.Tensor,
    lengths: torch.Tensor,
    weights: torch.Tensor,
) -> FittedRows:
    """Return rows with the reach and the magnitude of the samples."""
    length = _root_mean_square(lengths, weights)
    is_zero = bool(length == 0.0)
    length = torch.ones_like(length) if is_zero else length
    reach = _root_mean_square(torch.linalg.vector_norm(open_part, dim=1), weights)
    # The past itself is known up to this rounding, and so are the axes that it leaves.
    is_rounding = not is_zero and bool(reach < SUM_ROUNDING**0.5 * length)
    reach = torch.where(reach > LENGTH_ROUNDING * length, reach, length)
    return FittedRows(rows, responses, reach, length / rows.shape[1] ** 0.5, is_rounding)


def _root_mean_square(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the weighted root mean square over the last dimension."""
    return (values.square() @ weights / weights.sum()).sqrt()
