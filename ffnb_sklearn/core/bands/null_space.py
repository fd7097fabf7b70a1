"""The axes that the past of a layer leaves to new neurons [Eq. 1]."""

from functools import cached_property

import torch

from ..linalg import SUM_ROUNDING
from .past import PrincipalAxes

__all__ = ["EmptyNullSpaceWarning", "NullSpace", "null_space"]


class EmptyNullSpaceWarning(UserWarning):
    """The samples of a new band have no energy beyond rounding in the residual axes."""


class NullSpace:
    r"""The `n_residual` axes of a layer that are orthogonal to the axes kept for previous tasks.

    A new neuron is a combination of residual axes, :math:`w = \sum_{d>p} \alpha_d \Phi_d` [Eq. 1].
    The first `n_kept` principal axes of the past are kept. Its further axes are residual axes, and
    so is all that is orthogonal to the past, except for `closed` columns, in which the past is
    zero: booleans of shape (d,), None closes none.
    """

    def __init__(
        self, past: PrincipalAxes, n_kept: int, closed: torch.Tensor | None = None
    ) -> None:
        self._past = past
        self._closed = closed
        self.n_kept = n_kept
        self.n_residual = past.width - n_kept
        if closed is not None:
            self.n_residual -= int(closed.sum())
        self._open = past.turn[:, n_kept:]

    @cached_property
    def kept(self) -> torch.Tensor:
        """The kept axes, orthonormal rows of shape (n_kept, d)."""
        return self._past.first(self.n_kept)

    @property
    def energy_of_past(self) -> torch.Tensor:
        """Energy of the past along all axes, of shape ()."""
        return self._past.energies.sum()

    def project(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the part of rows, of shape (..., n, d), in the residual axes."""
        rows = self.without_closed(rows)
        if self._past.basis is None:
            coordinates = rows @ self._open
            return coordinates @ self._open.T
        return _remove_axes(rows, self.kept)

    def coordinates(self, rows: torch.Tensor) -> torch.Tensor:
        """Return coordinates of this part, with the same lengths and products.

        The first are those along the residual axes of the past. The part orthogonal to the past
        follows as a row of shape (d,), if the past does not fill the space.
        """
        rows = self.without_closed(rows)
        basis = self._past.basis
        if basis is None:
            return rows @ self._open
        along, beyond = _split(rows, basis)
        return torch.cat([along @ self._open, beyond], dim=1)

    def rows_of(self, coordinates: torch.Tensor) -> torch.Tensor:
        """Return the rows of some coordinates, of shape (n, d), without a part in kept axes."""
        basis = self._past.basis
        n_open = self._open.shape[1]
        along_past = coordinates[:, :n_open] @ self._open.T
        if basis is None:
            return self.without_closed(along_past)
        beyond_past = _remove_axes(coordinates[:, n_open:], basis)
        return self.without_closed(along_past @ basis + beyond_past)

    def without_closed(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows with zeros in the closed columns."""
        if self._closed is None:
            return rows
        return torch.where(self._closed, 0.0, rows)

    def moment_of_past(self) -> torch.Tensor:
        """Return the second moment of the past along the coordinates, which is diagonal."""
        energies = self._past.energies[self.n_kept :]
        if self._past.basis is None:
            return energies
        zeros = energies.new_zeros(self._past.width)
        return torch.cat([energies, zeros])


def _remove_axes(rows: torch.Tensor, axes: torch.Tensor) -> torch.Tensor:
    """Return rows without their part along some orthonormal axes."""
    if len(axes) == 0:
        return rows
    _, beyond = _split(rows, axes)
    return beyond


def _split(rows: torch.Tensor, axes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the coordinates of rows along some orthonormal axes, and their part beyond these."""
    along = rows @ axes.T
    beyond = rows - along @ axes
    # The second pass removes the rounding of large rows along the axes.
    rounding = beyond @ axes.T
    return along, beyond - rounding @ axes


def null_space(
    past: PrincipalAxes, p: int | float, closed: torch.Tensor | None = None
) -> NullSpace:
    """Return the residual axes of the previous tasks, without those of `closed` columns.

    `p` is the number of kept axes, below d, or a share in (0, 1) of the total energy, which the
    fewest axes keep. At least one axis is left. If the past has fewer than p axes, all of them are
    kept: further axes would be arbitrary, and protect nothing.
    """
    if past.rank == 0:
        return NullSpace(past, 0, closed)
    if isinstance(p, int):
        return NullSpace(past, min(p, past.rank), closed)
    cumulated_energies = past.energies.cumsum(0)
    # Without the slack, rounding of the sum could ask for one axis too many.
    share = p * (1.0 - SUM_ROUNDING)
    least_energy = share * cumulated_energies[-1]
    n_short = int((cumulated_energies < least_energy).sum())
    n_open = past.width
    if closed is not None:
        n_open -= int(closed.sum())
    n_kept = min(n_short + 1, past.rank, n_open - 1)
    return NullSpace(past, n_kept, closed)
