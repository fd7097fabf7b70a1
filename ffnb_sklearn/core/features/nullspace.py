"""The past of a layer, and the axes it leaves to new neurons [Eq. 1]."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..device import as_tensor
from ..linalg import SUM_ROUNDING, longest_rows_of_gram
from ..statistics import Array, ClassMoments, Columns, Scatter

__all__ = [
    "EmptyNullSpaceWarning",
    "NullSpace",
    "Past",
    "above_rounding",
    "null_space",
]


class EmptyNullSpaceWarning(UserWarning):
    """The samples of a new band have no energy beyond rounding in the residual axes."""


@dataclass(frozen=True)
class Past:
    r"""Second moment of the samples of the first classes in a layer.

    It is the sum over the classes, :math:`S = R^\top R + \mathrm{diag}(v)`. The rows of R, with the
    sum of outer products `rows`, are those of the factors, and the means times the root of the
    weight; v, the `residual`, is what the factors leave out. Classes are added one by one, so the
    sum has the same digits however they are divided into tasks.
    """

    rows: Scatter
    residual: Array
    n_classes: int
    device: torch.device

    @classmethod
    def of_no_class(cls, n_columns: int, device: torch.device) -> "Past":
        """Return the past of a layer before the first task."""
        return cls(Scatter(n_columns), np.zeros(n_columns), 0, device)

    def extended(self, moments: Sequence[ClassMoments], columns: Columns) -> "Past":
        """Return the past of all classes, given their moments and the columns of the layer."""
        new, residual = moments[self.n_classes :], self.residual
        for one in new:
            residual = residual + one.residual[columns]
        rows = self.rows.plus(
            as_tensor(
                np.vstack([one.columns(columns), np.sqrt(one.weight) * one.mean[columns]]),
                device=self.device,
            )
            for one in new
        )
        return Past(rows, residual, len(moments), self.device)

    def principal_rows(self) -> torch.Tensor:
        """Return the principal rows of S, the longest first.

        If R has at most d rows, v counts along their span alone: a wide layer of few samples needs
        no matrix of d x d.
        """
        if not self.n_classes:
            return torch.empty((0, len(self.residual)), dtype=torch.float64, device=self.device)
        if not self.residual.any():
            return self.rows.principal_rows()
        residual = as_tensor(self.residual, device=self.device)
        if (gram := self.rows.gram) is not None:
            return replace(self.rows, gram=gram + residual.diag()).principal_rows()
        axes, mixing = torch.linalg.qr(above_rounding(self.rows.principal_rows()).T)
        moment = mixing @ mixing.T + axes.T @ (residual[:, None] * axes)
        principal: torch.Tensor = above_rounding(longest_rows_of_gram(moment)) @ axes.T
        return principal


class NullSpace:
    r"""The `n_residual` axes of a layer that are orthogonal to the axes kept for previous tasks.

    A new neuron is a combination of residual axes, :math:`w = \sum_{d>p} \alpha_d \Phi_d`
    [Eq. 1], so projecting it changes nothing, and the residual axes are formed only if they are
    fewer than twice the kept axes. Rows that span the kept axes need not be orthogonal; the
    attribute `kept`, of shape (p, d), is orthonormal.
    """

    def __init__(self, kept: torch.Tensor) -> None:
        p, self.n_residual = len(kept), kept.shape[1] - len(kept)
        few = self.n_residual < 2 * p
        axes = torch.linalg.qr(kept.T, mode="complete" if few else "reduced").Q.T
        self.kept: torch.Tensor = axes[:p]
        self._residual = axes[p:] if few else None

    def project(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the part of each row in the residual axes, of shape (n, d)."""
        coordinates = self.coordinates(rows)
        return coordinates if self._residual is None else self.rows_of(coordinates)

    def rows_of(self, coordinates: torch.Tensor) -> torch.Tensor:
        """Return the rows of some coordinates, of shape (n, d), without a part in kept axes."""
        if self._residual is None:
            return self.coordinates(coordinates)
        rows: torch.Tensor = coordinates @ self._residual
        return rows

    def coordinates(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the coordinates of this part along the residual axes, if these are formed.

        Else return the part itself, which has the same lengths and products.
        """
        if self._residual is not None:
            rows = rows @ self._residual.T
        elif len(self.kept):
            # The second pass removes what rounding left of large rows.
            for _ in range(2):
                rows = rows - (rows @ self.kept.T) @ self.kept
        return rows


def null_space(past: torch.Tensor, p: int | float) -> NullSpace:
    """Compute the residual axes of the previous tasks.

    `past` holds the principal rows of their second moment, the longest first. `p` is the number of
    kept axes, below d, or a share in (0, 1) of the total energy, which the fewest axes keep. At
    least one axis is left. If the past has fewer than p axes, all of them are kept: further axes
    would be arbitrary, and protect nothing.
    """
    if not len(past):
        return NullSpace(past)
    if isinstance(p, int):
        return NullSpace(past[:p])
    sums = past.square().sum(1).cumsum(0)
    # Without the slack, rounding of the sum could ask for one axis too many.
    n_short = int((sums < p * sums[-1] * (1.0 - SUM_ROUNDING)).sum())
    return NullSpace(past[: min(n_short + 1, past.shape[1] - 1)])


def above_rounding(rows: torch.Tensor) -> torch.Tensor:
    """Return the orthogonal rows whose energy is not rounding."""
    energies = rows.square().sum(1)
    return rows[energies > SUM_ROUNDING * energies.sum()]
