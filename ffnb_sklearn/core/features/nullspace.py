"""The past of a layer, and the axes it leaves to new neurons [Eq. 1]."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from ..device import as_tensor
from ..linalg import ENERGY_ROUNDING, SUM_ROUNDING
from ..statistics import Array, ClassMoments, Columns, check_finite

__all__ = [
    "EmptyNullSpaceWarning",
    "NullSpace",
    "Past",
    "PrincipalAxes",
    "null_space",
]


class EmptyNullSpaceWarning(UserWarning):
    """The samples of a new band have no energy beyond rounding in the residual axes."""


@dataclass(frozen=True)
class PrincipalAxes:
    r"""Eigenvectors of the second moment S of the past, by falling eigenvalue [Eq. 1].

    The `axes`, of shape (r, d), are orthonormal rows, and their `energies` the eigenvalues. S has
    nothing but rounding beyond them.
    """

    axes: torch.Tensor
    energies: torch.Tensor

    def rows(self) -> torch.Tensor:
        """Return the principal rows of S, each axis times the root of its energy."""
        return self.energies.sqrt()[:, None] * self.axes


@dataclass(frozen=True)
class Past:
    r"""Second moment of the samples of the first classes in a layer.

    It is the sum over the classes, :math:`S = R^\top R + \mathrm{diag}(v)`. The rows of R are those
    of the factors, and the means times the root of the weight; v, the `residual`, is what the
    factors leave out. Classes are added one by one, so the sum has the same digits however they are
    divided into tasks.

    As long as R has at most d rows, it is held as :math:`R = C Q`: the rows of Q, the `basis`, are
    orthonormal, and C, the `coordinates`, is a lower triangle of blocks. Then v counts along Q
    alone: a wide layer of few samples needs no matrix of d x d. Later Q is None, and C is the
    matrix :math:`R^\top R`.
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
        past = self
        for one in moments[self.n_classes :]:
            rows = np.vstack([one.columns(columns), np.sqrt(one.weight) * one.mean[columns]])
            past = past._with_rows(as_tensor(rows, device=self.device))
            residual = past.residual + one.residual[columns]
            past = replace(past, residual=residual, n_classes=past.n_classes + 1)
        return past

    def _with_rows(self, rows: torch.Tensor) -> "Past":
        """Return the past with further rows of R."""
        if self.basis is None:
            return replace(self, coordinates=torch.addmm(self.coordinates, rows.T, rows))
        if len(self.basis) + len(rows) > rows.shape[1]:
            rows = torch.cat([self.coordinates @ self.basis, rows])
            return replace(self, basis=None, coordinates=rows.T @ rows)
        # Block Gram-Schmidt. The second pass makes the basis orthonormal where rows depend on one
        # another, and leaves the coordinates along such axes at rounding.
        along = rows @ self.basis.T
        found, inner = torch.linalg.qr((rows - along @ self.basis).T)
        again = self.basis @ found
        axes, turn = torch.linalg.qr(found - self.basis.T @ again)
        old = torch.cat([self.coordinates, self.coordinates.new_zeros(len(self.basis), len(rows))], 1)
        new = torch.cat([along + (again @ inner).T, (turn @ inner).T], dim=1)
        basis, coordinates = torch.cat([self.basis, axes.T]), torch.cat([old, new])
        return replace(self, basis=basis, coordinates=coordinates)

    @cached_property
    def principal(self) -> PrincipalAxes:
        """Principal axes of S."""
        is_diagonal_left = bool(self.residual.any())
        residual = as_tensor(self.residual, device=self.device)
        if self.basis is None:
            moment = self.coordinates + residual.diag()
        else:
            moment = self.coordinates.T @ self.coordinates
            if is_diagonal_left:
                moment += (self.basis * residual) @ self.basis.T
        check_finite(float(moment.diagonal().sum()))
        energies, axes = torch.linalg.eigh(moment)
        energies, axes = energies.flip(0).clamp_min(0.0), axes.flip(1)
        rounding = SUM_ROUNDING
        if self.basis is not None and not is_diagonal_left:
            # Rows keep more digits than their products.
            energies, rounding = (self.coordinates @ axes).square().sum(0), ENERGY_ROUNDING
        counted = energies > rounding * energies.sum()
        axes = axes[:, counted].T
        return PrincipalAxes(axes if self.basis is None else axes @ self.basis, energies[counted])


class NullSpace:
    r"""The `n_residual` axes of a layer that are orthogonal to the axes kept for previous tasks.

    A new neuron is a combination of residual axes, :math:`w = \sum_{d>p} \alpha_d \Phi_d` [Eq. 1].
    The first p principal axes of the past are kept. Its further axes, with their `energies`, are
    residual axes, and so is all that is orthogonal to the past.
    """

    def __init__(self, past: PrincipalAxes, p: int) -> None:
        self._past = past.axes
        self.kept, self._open = past.axes[:p], past.axes[p:]
        self.energies = past.energies[p:]
        self.n_residual = past.axes.shape[1] - p
        self.energy_of_past = past.energies.sum()

    @property
    def _is_complete(self) -> bool:
        """Whether nothing is orthogonal to the past."""
        return len(self._past) == self._past.shape[1]

    def project(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the part of rows, of shape (..., n, d), in the residual axes."""
        if self._is_complete:
            return (rows @ self._open.T) @ self._open
        return _without(rows, self.kept)

    def coordinates(self, rows: torch.Tensor) -> torch.Tensor:
        """Return coordinates of this part, with the same lengths and products.

        The first are those along axes of the past; the part orthogonal to the past follows.
        """
        if self._is_complete:
            return rows @ self._open.T
        beyond = _without(rows, self._past)
        return torch.cat([rows @ self._open.T, beyond], dim=1) if len(self._open) else beyond

    def rows_of(self, coordinates: torch.Tensor) -> torch.Tensor:
        """Return the rows of some coordinates, of shape (n, d), without a part in kept axes."""
        n_open = len(self._open)
        rows = coordinates[:, :n_open] @ self._open
        return rows if self._is_complete else rows + _without(coordinates[:, n_open:], self._past)

    def moment_of_past(self) -> torch.Tensor:
        """Return the second moment of the past along the coordinates, which is diagonal."""
        n_beyond = 0 if self._is_complete else self._past.shape[1]
        return torch.cat([self.energies, self.energies.new_zeros(n_beyond)])


def _without(rows: torch.Tensor, axes: torch.Tensor) -> torch.Tensor:
    """Return rows without their part along some orthonormal axes."""
    if len(axes):
        # The second pass removes what rounding left of large rows.
        for _ in range(2):
            rows = rows - (rows @ axes.T) @ axes
    return rows


def null_space(past: PrincipalAxes, p: int | float) -> NullSpace:
    """Return the residual axes of the previous tasks.

    `p` is the number of kept axes, below d, or a share in (0, 1) of the total energy, which the
    fewest axes keep. At least one axis is left. If the past has fewer than p axes, all of them are
    kept: further axes would be arbitrary, and protect nothing.
    """
    n_axes, width = past.axes.shape
    if not n_axes or isinstance(p, int):
        return NullSpace(past, min(int(p), n_axes))
    sums = past.energies.cumsum(0)
    # Without the slack, rounding of the sum could ask for one axis too many.
    n_short = int((sums < p * sums[-1] * (1.0 - SUM_ROUNDING)).sum())
    return NullSpace(past, min(n_short + 1, width - 1))
