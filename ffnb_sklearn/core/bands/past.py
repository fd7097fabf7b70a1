"""The past of a layer: the second moment of all samples so far, and its principal axes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from ..device import Array, as_array, as_tensor
from ..linalg import SUM_ROUNDING
from ..moments import check_finite

__all__ = ["LayerMoments", "Past", "PrincipalAxes"]


class LayerMoments(NamedTuple):
    r"""Weight, mean and scatter :math:`F^\top F + \mathrm{diag}(v)` of a class in a layer."""

    weight: float
    mean: Array
    factor: Array
    residual: Array


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
        if self.basis is None:
            return len(self.turn)
        return self.basis.shape[1]

    def first(self, count: int) -> torch.Tensor:
        """Return the first axes as orthonormal rows of shape (count, d)."""
        axes = self.turn[:, :count].T
        if self.basis is None:
            return axes
        return axes @ self.basis

    def rows(self) -> torch.Tensor:
        """Return the principal rows of S: each axis times the root of its energy."""
        axes = self.first(self.rank)
        energies = self.energies[: self.rank]
        lengths = energies.sqrt()
        return lengths[:, None] * axes


@dataclass(frozen=True)
class Past:
    r"""Second moment of the samples of the first classes in a layer.

    It is the sum over the classes, :math:`S = R^\top R + \mathrm{diag}(v)`. The rows of R are those
    of the factors, and the means times the root of the weight; v, the `residual`, is what the
    factors leave out. Classes are added one by one, so the sum has the same digits for any division
    into tasks.

    As long as R has at most d rows, it is held as :math:`R = C Q`: the rows of Q, the `basis`, are
    orthonormal, and C, the `coordinates`, is a lower triangle of blocks. Only the part of v along Q
    is used: a wide layer of few samples needs no matrix of d x d. Later Q is None, and the
    coordinates are the matrix :math:`R^\top R`.
    """

    basis: torch.Tensor | None
    coordinates: torch.Tensor
    residual: Array
    n_classes: int
    device: torch.device

    @classmethod
    def empty(cls, n_columns: int, device: torch.device) -> "Past":
        """Return the past of a layer before the first task."""
        basis = torch.empty((0, n_columns), dtype=torch.float64, device=device)
        coordinates = basis[:, :0]
        residual = np.zeros(n_columns)
        return cls(basis, coordinates, residual, 0, device)

    def extend(self, moments: Sequence[LayerMoments]) -> "Past":
        """Return the past with further classes, given their moments in the layer."""
        past = self
        for moments_of_class in moments:
            past = past._add_class(moments_of_class)
        return past

    def without_columns(self, columns: torch.Tensor) -> "Past":
        """Return the past as if some columns were zero, given as booleans of shape (d,)."""
        if not bool(columns.any()):
            return self
        kept = (~columns).to(self.coordinates.dtype)
        residual = self.residual * as_array(kept)
        if self.basis is None:
            coordinates = self.coordinates * kept * kept[:, None]
            return replace(self, coordinates=coordinates, residual=residual)
        rows = (self.coordinates @ self.basis) * kept
        no_rows = rows[:0]
        basis, coordinates = _append_rows(no_rows, no_rows[:, :0], rows)
        return replace(self, basis=basis, coordinates=coordinates, residual=residual)

    def _add_class(self, moments: LayerMoments) -> "Past":
        """Return the past with one more class."""
        mean_row = np.sqrt(moments.weight) * moments.mean
        block = np.vstack([moments.factor, mean_row])
        rows = as_tensor(block, device=self.device)
        residual = self.residual + moments.residual
        n_rows = len(self.coordinates) + len(rows)
        basis: torch.Tensor | None = None
        if self.basis is None:
            coordinates = torch.addmm(self.coordinates, rows.T, rows)
        elif n_rows > len(residual):
            old_rows = self.coordinates @ self.basis
            all_rows = torch.cat([old_rows, rows])
            coordinates = all_rows.T @ all_rows
        else:
            basis, coordinates = _append_rows(self.basis, self.coordinates, rows)
        return Past(basis, coordinates, residual, self.n_classes + 1, self.device)

    @cached_property
    def principal(self) -> PrincipalAxes:
        """Principal axes of S."""
        moment = self._moment()
        trace = moment.diagonal().sum()
        check_finite(float(trace))
        rising_energies, rising_axes = torch.linalg.eigh(moment)
        energies = rising_energies.flip(0)
        energies = energies.clamp_min(0.0)
        axes = rising_axes.flip(1)
        rounding = SUM_ROUNDING * energies.sum()
        is_above_rounding = energies > rounding
        rank = int(is_above_rounding.sum())
        return PrincipalAxes(self.basis, axes, energies, rank)

    def _moment(self) -> torch.Tensor:
        """Return S in the coordinates of the basis."""
        residual = as_tensor(self.residual, device=self.device)
        if self.basis is None:
            return self.coordinates + residual.diag()
        moment = self.coordinates.T @ self.coordinates
        if self.residual.any():
            weighted_basis = self.basis * residual
            moment += weighted_basis @ self.basis.T
        return moment


def _append_rows(
    basis: torch.Tensor, coordinates: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Return Q and C with further rows R', by block Gram-Schmidt in two passes.

    With :math:`R' = A Q + B`, B orthogonal to Q, and the factorisation :math:`B^\top = Q'^\top T`,
    the new rows of Q are Q', and those of C are :math:`[A, T^\top]`. The second pass removes the
    rounding of rows along Q (J. W. Daniel et al. Mathematics of Computation 30, 1976).
    """
    along = rows @ basis.T
    beyond = torch.addmm(rows, along, basis, alpha=-1.0)
    axes, triangle = torch.linalg.qr(beyond.T)
    # The rounding errors of rows that depend on each other are not orthogonal to the basis.
    rounding = basis @ axes
    axes, correction = torch.linalg.qr(axes - basis.T @ rounding)
    rounding_of_rows = rounding @ triangle
    along = along + rounding_of_rows.T
    triangle = correction @ triangle
    old_coordinates = torch.nn.functional.pad(coordinates, (0, len(rows)))
    new_coordinates = torch.cat([along, triangle.T], dim=1)
    longer_basis = torch.cat([basis, axes.T])
    all_coordinates = torch.cat([old_coordinates, new_coordinates])
    return longer_basis, all_coordinates
