"""The past of a layer: the second moment of all samples so far, and its principal axes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from .device import as_tensor
from .linalg import SUM_ROUNDING
from .statistics import Array, ClassMoments, Columns, check_finite

__all__ = ["LEAST_PART", "Past", "PrincipalAxes"]

# Part of a row outside of a basis, relative to the row, below which one pass of Gram-Schmidt leaves
# more than a digit of rounding along the basis (J. W. Daniel et al. Mathematics of Computation 30,
# 1976).
LEAST_PART = 0.1


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
    if bool((inner.diagonal().abs() < LEAST_PART * lengths).any()):
        # Rounding of rows that depend on one another is not orthogonal to the basis.
        again = basis @ axes
        axes, turn = torch.linalg.qr(axes - basis.T @ again)
        along, inner = along + (again @ inner).T, turn @ inner
    padded = torch.nn.functional.pad(coordinates, (0, len(rows)))
    further = torch.cat([along, inner.T], dim=1)
    return torch.cat([basis, axes.T]), torch.cat([padded, further])
