r"""A scatter matrix as its longest principal rows and the diagonal of the rest.

A scatter :math:`S = R^\top R` of rows R is approximated by :math:`F^\top F + \mathrm{diag}(v)`. The
rows of F are principal axes, each scaled by the square root of the scatter along it; v is the
diagonal of the part that F leaves out, so the diagonal of S stays exact. The rank "auto" keeps the
principal axes that hold most of the trace.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from .device import Array, as_array, as_tensor
from .linalg import (
    ENERGY_ROUNDING,
    SUM_ROUNDING,
    column_energies,
    is_few,
    longest_rows,
    longest_rows_of_gram,
    random_directions,
)

# Most rows of a factor; None keeps all, "auto" as many as hold a share of the trace.
Rank = int | Literal["auto"] | None

# Columns per row of a factor up to which it is computed exactly; subspace iteration saves no time
# there.
_EXACT_UP_TO = 3

# Share of the trace that the axes of rank "auto" hold, and the least and the most axes. 64 axes for
# all classes lose 0.1 to 0.2 points on real tables; the most axes bound the size of a model.
_AUTO_SHARE = 0.95
FEWEST_AXES, _MOST_AXES = 64, 96

# Least number of spare axes of a class that grows; more of many axes. On texts, whose axes 8 to 16
# have nearly one length, 8 spare axes halve the labels that calls change
# (tests/campaigns/numerics/truncation.py).
_LEAST_SPARE = 8


def check_finite(*sums: float) -> None:
    """Raise ValueError if a sum over the moments is not a finite number."""
    if not np.isfinite(sums).all():
        raise ValueError(
            "the moments of the samples must be finite numbers, and overflow here. Rescale the "
            "features or the sample weights."
        )


def fewest_axes(max_rank: Rank) -> int | None:
    """Return the number of axes up to which a factor keeps all its axes; None keeps all always."""
    return FEWEST_AXES if max_rank == "auto" else max_rank


def n_auto_axes(energies: Array, trace: float) -> int:
    """Return the number of axes of rank "auto", given the energies of the longest ones."""
    n_short = int((energies.cumsum() < _AUTO_SHARE * trace).sum())
    return min(_MOST_AXES, max(FEWEST_AXES, n_short + 1))


def with_spare_axes(count: int | None) -> int | None:
    """Return the most axes of a class that grows call by call.

    A sample may be orthogonal to all axes and shorter than each of them. Without spare axes a call
    with few samples is cut off at once, however often this direction comes again.
    """
    return None if count is None else count + max(count // 4, _LEAST_SPARE)


@dataclass(frozen=True)
class TurningPairs:
    """Pairs of columns that turn in their planes if all samples are multiplied by one factor.

    The first `n_inputs` columns are multiplied by the factor c. The columns of the pairs are
    neighbours from `start` on; each pair turns by the angle omega log c with its frequency omega.
    """

    n_inputs: int
    start: int
    frequencies: Array

    def turned(self, directions: torch.Tensor, energies: torch.Tensor) -> torch.Tensor:
        """Return directions, of shape (d, k), that turn as the pairs do with the inputs' size."""
        size = float(energies[: self.n_inputs].sum()) ** 0.5
        if size == 0.0:
            return directions
        angles = np.log(size) * as_tensor(self.frequencies, device=directions.device)[:, None]
        turned, columns = directions.clone(), slice(self.start, self.start + 2 * len(angles))
        first, second = directions[columns][::2], directions[columns][1::2]
        turned[columns][::2] = first * angles.cos() - second * angles.sin()
        turned[columns][1::2] = first * angles.sin() + second * angles.cos()
        return turned

    def level(self, residual: Array) -> Array:
        """Return a residual that is equal within each pair, so that no turn changes it."""
        residual = residual.copy()
        pairs = residual[self.start : self.start + 2 * len(self.frequencies)].reshape(-1, 2)
        pairs[:] = pairs.mean(axis=1, keepdims=True)
        return residual


@dataclass(frozen=True)
class Scatter:
    """A sum of outer products: a few rows as they are, many rows as their Gram matrix."""

    n_columns: int
    pairs: TurningPairs | None = None
    rows: tuple[torch.Tensor, ...] = ()
    gram: torch.Tensor | None = None

    def plus(self, blocks: Iterable[torch.Tensor]) -> "Scatter":
        """Return the sum with the outer products of further rows, in blocks."""
        rows, gram = list(self.rows), self.gram
        for block in blocks:
            rows.append(block)
            if gram is not None or sum(map(len, rows)) > self.n_columns:
                for one in rows:
                    gram = one.T @ one if gram is None else gram + one.T @ one
                rows = []
        return replace(self, rows=tuple(rows), gram=gram)

    def factor(
        self,
        max_rank: Rank = None,
        rounding: torch.Tensor | None = None,
        elsewhere: float = 0.0,
        *,
        with_spare: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the longest principal rows, and the diagonal of the rest of the sum.

        Both are zero if the trace is at most that of ``rounding``, a diagonal. Principal rows are
        orthogonal mixtures of the rows that were added, so no sample appears among them. The rank
        "auto" counts the trace ``elsewhere``, which is already outside of these rows. A sum that
        grows later is found with spare rows.
        """
        if self.gram is None:
            energies = column_energies(torch.cat(self.rows))
        else:
            energies = self.gram.diagonal()
        energy, left_out = float(energies.sum()), torch.zeros_like(energies)
        check_finite(energy)
        least = torch.zeros_like(energies) if rounding is None else rounding
        if energy <= float(least.sum()):
            return energies.new_empty((0, self.n_columns)), left_out
        # A row of rounding, such as centring leaves, is rounding in every column that varies.
        least = torch.where(energies > least, ENERGY_ROUNDING * energies, torch.inf)
        count = _MOST_AXES if max_rank == "auto" else max_rank
        if with_spare:
            count = with_spare_axes(count)
        directions = None
        few = self.gram is None and is_few(sum(map(len, self.rows)), count)
        if count is not None and not few and self.n_columns > _EXACT_UP_TO * count:
            directions = random_directions(self.n_columns, count, energies.device)
            if self.pairs is not None:
                directions = self.pairs.turned(directions, energies)
        if self.gram is None:
            principal = longest_rows(torch.cat(self.rows), count, directions)
        else:
            principal = longest_rows_of_gram(self.gram, count, directions)
        principal = principal[(principal.square() > least).any(1)]
        if max_rank == "auto":
            count = n_auto_axes(as_array(principal.square().sum(1)), energy + elsewhere)
            if with_spare:
                count = with_spare_axes(count)
        if count is not None and len(principal) >= count:
            principal = principal[:count]
            held = column_energies(principal)
            left_out = (energies - held).clamp_min(0.0)
            # Rounding of the axes, relative to the largest column, may exceed a small column.
            principal *= torch.where(held > energies, (energies / held).sqrt(), 1.0)
        return principal, left_out


def stored(factor: torch.Tensor, max_rank: Rank) -> tuple[Array, torch.Tensor]:
    """Return a factor in single precision, unless it is to be exact or outside of the range.

    The second result is the energy of each column that is lost, because its entries are too small
    beside the largest column.
    """
    largest = float(factor.abs().max()) if factor.numel() else 1.0
    # Entries down to the rounding of the largest are to be normal numbers.
    least = float(np.finfo(np.float32).tiny) / SUM_ROUNDING
    is_single = max_rank is not None and least < largest < 1.0 / least
    if not is_single:
        return as_array(factor), factor.new_zeros(factor.shape[1])
    single = factor.float()
    small = single.abs() < torch.finfo(torch.float32).tiny
    lost = column_energies(torch.where(small, factor, 0.0))
    return single.masked_fill_(small, 0.0).cpu().numpy(), lost
