"""The past of a layer, and the axes it leaves to new neurons [Eq. 1]."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from ..device import as_tensor
from ..linalg import SUM_ROUNDING
from ..statistics import Array, ClassMoments, Columns, check_finite

__all__ = [
    "EmptyNullSpaceWarning",
    "NullSpace",
    "Past",
    "PrincipalAxes",
    "null_space",
]


# Part of a row outside of a basis, relative to the row, below which one pass of Gram-Schmidt leaves
# more than a digit of rounding along the basis (J. W. Daniel et al. Mathematics of Computation 30,
# 1976).
_LEAST_PART = 0.1


class EmptyNullSpaceWarning(UserWarning):
    """The samples of a new band have no energy beyond rounding in the residual axes."""


@dataclass(frozen=True)
class PrincipalAxes:
    r"""Eigenvectors of the second moment S of the past, by falling eigenvalue [Eq. 1].

    They are the columns of `turn`, in the coordinates of the orthonormal rows of `basis`, of shape
    (r, d); None is the identity. S is zero beyond the basis. The `energies` are the eigenvalues, of
    which the first `rank` are more than rounding.
    """

    basis: torch.Tensor | None
    turn: torch.Tensor
    energies: torch.Tensor
    rank: int

    @property
    def width(self) -> int:
        """Number d of columns."""
        return len(self.turn) if self.basis is None else self.basis.shape[1]

    def first(self, count: int) -> torch.Tensor:
        """Return the first axes as orthonormal rows of shape (count, d)."""
        axes = self.turn[:, :count].T
        return axes if self.basis is None else axes @ self.basis

    def rows(self) -> torch.Tensor:
        """Return the principal rows of S: each axis times the root of its energy."""
        return self.energies[: self.rank].sqrt()[:, None] * self.first(self.rank)


@dataclass(frozen=True)
class Past:
    r"""Second moment of the samples of the first classes in a layer.

    It is the sum over the classes, :math:`S = R^\top R + \mathrm{diag}(v)`. The rows of R are those
    of the factors, and the means times the root of the weight; v, the `residual`, is what the
    factors leave out. Classes are added one by one, so the sum has the same digits however they are
    divided into tasks.

    As long as R has at most d rows, it is held as :math:`R = C Q`: the rows of Q, the `basis`, are
    orthonormal, and C, the `coordinates`, is a lower triangle of blocks. Then v counts along Q
    alone: a wide layer of few samples needs no matrix of d x d. Later Q is None, and the
    coordinates are the matrix :math:`R^\top R`.
    """

    basis: torch.Tensor | None
    coordinates: torch.Tensor
    residual: Array
    n_classes: int
    device: torch.device

    @classmethod
    def of_no_class(cls, n_columns: int, device: torch.device) -> "Past":
        """Return the past of a layer before the first task."""
        basis = torch.empty((0, n_columns), dtype=torch.float64, device=device)
        return cls(basis, basis[:, :0], np.zeros(n_columns), 0, device)

    def extended(self, moments: Sequence[ClassMoments], columns: Columns) -> "Past":
        """Return the past of all classes, given their moments and the columns of the layer."""
        basis, coordinates, residual = self.basis, self.coordinates.clone(), self.residual
        for one in moments[self.n_classes :]:
            block = np.vstack([one.columns(columns), np.sqrt(one.weight) * one.mean[columns]])
            rows = as_tensor(block, device=self.device)
            if basis is None:
                coordinates.addmm_(rows.T, rows)
            elif len(basis) + len(rows) > len(residual):
                rows = torch.cat([coordinates @ basis, rows])
                basis, coordinates = None, rows.T @ rows
            else:
                basis, coordinates = _factored(basis, coordinates, rows)
            residual = residual + one.residual[columns]
        return Past(basis, coordinates, residual, len(moments), self.device)

    @cached_property
    def principal(self) -> PrincipalAxes:
        """Principal axes of S."""
        residual = as_tensor(self.residual, device=self.device)
        if self.basis is None:
            moment = self.coordinates + residual.diag()
        else:
            moment = self.coordinates.T @ self.coordinates
            if self.residual.any():
                moment += (self.basis * residual) @ self.basis.T
        check_finite(float(moment.diagonal().sum()))
        energies, axes = torch.linalg.eigh(moment)
        energies, axes = energies.flip(0).clamp_min(0.0), axes.flip(1)
        rank = int((energies > SUM_ROUNDING * energies.sum()).sum())
        return PrincipalAxes(self.basis, axes, energies, rank)


def _factored(
    basis: torch.Tensor, coordinates: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return Q and C with further rows, by block Gram-Schmidt."""
    along = rows @ basis.T
    beyond = torch.addmm(rows, along, basis, alpha=-1.0)
    axes, inner = torch.linalg.qr(beyond.T)
    lengths = torch.linalg.vector_norm(rows, dim=1)
    if bool((inner.diagonal().abs() < _LEAST_PART * lengths).any()):
        # Rounding of rows that depend on one another is not orthogonal to the basis.
        again = basis @ axes
        axes, turn = torch.linalg.qr(axes - basis.T @ again)
        along, inner = along + (again @ inner).T, turn @ inner
    padded = torch.nn.functional.pad(coordinates, (0, len(rows)))
    further = torch.cat([along, inner.T], dim=1)
    return torch.cat([basis, axes.T]), torch.cat([padded, further])


class NullSpace:
    r"""The `n_residual` axes of a layer that are orthogonal to the axes kept for previous tasks.

    A new neuron is a combination of residual axes, :math:`w = \sum_{d>p} \alpha_d \Phi_d` [Eq. 1].
    The first `n_kept` principal axes of the past are kept. Its further axes are residual axes, and
    so is all that is orthogonal to the past.
    """

    def __init__(self, past: PrincipalAxes, n_kept: int) -> None:
        self._past, self.n_kept = past, n_kept
        self.n_residual = past.width - n_kept
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
        if self._past.basis is None:
            return (rows @ self._open) @ self._open.T
        return _without(rows, self.kept)

    def coordinates(self, rows: torch.Tensor) -> torch.Tensor:
        """Return coordinates of this part, with the same lengths and products.

        The first are those along axes of the past; the part orthogonal to the past follows.
        """
        basis = self._past.basis
        if basis is None:
            return rows @ self._open
        along, beyond = _split(rows, basis)
        return torch.cat([along @ self._open, beyond], dim=1)

    def rows_of(self, coordinates: torch.Tensor) -> torch.Tensor:
        """Return the rows of some coordinates, of shape (n, d), without a part in kept axes."""
        basis, n_open = self._past.basis, self._open.shape[1]
        along = coordinates[:, :n_open] @ self._open.T
        if basis is None:
            return along
        return along @ basis + _without(coordinates[:, n_open:], basis)

    def moment_of_past(self) -> torch.Tensor:
        """Return the second moment of the past along the coordinates, which is diagonal."""
        energies = self._past.energies
        n_beyond = 0 if self._past.basis is None else self._past.width
        return torch.cat([energies[self.n_kept :], energies.new_zeros(n_beyond)])


def _without(rows: torch.Tensor, axes: torch.Tensor) -> torch.Tensor:
    """Return rows without their part along some orthonormal axes."""
    return _split(rows, axes)[1] if len(axes) else rows


def _split(rows: torch.Tensor, axes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the coordinates of rows along some orthonormal axes, and their part beyond these."""
    along = rows @ axes.T
    beyond = rows - along @ axes
    lengths, parts = (torch.linalg.vector_norm(one, dim=-1) for one in (rows, beyond))
    if bool((parts < _LEAST_PART * lengths).any()):
        # The second pass removes what rounding left of large rows.
        beyond = beyond - (beyond @ axes.T) @ axes
    return along, beyond


def null_space(past: PrincipalAxes, p: int | float) -> NullSpace:
    """Return the residual axes of the previous tasks.

    `p` is the number of kept axes, below d, or a share in (0, 1) of the total energy, which the
    fewest axes keep. At least one axis is left. If the past has fewer than p axes, all of them are
    kept: further axes would be arbitrary, and protect nothing.
    """
    if not past.rank or isinstance(p, int):
        return NullSpace(past, min(int(p), past.rank))
    sums = past.energies.cumsum(0)
    # Without the slack, rounding of the sum could ask for one axis too many.
    n_short = int((sums < p * sums[-1] * (1.0 - SUM_ROUNDING)).sum())
    return NullSpace(past, min(n_short + 1, past.rank, past.width - 1))
