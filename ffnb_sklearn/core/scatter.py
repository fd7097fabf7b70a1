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
    SUM_ROUNDING,
    column_energies,
    is_few,
    longest_rows,
    longest_rows_of_gram,
    random_directions,
)

# Most rows of a factor; None keeps all rows, "auto" the rows that hold a share of the trace.
Rank = int | Literal["auto"] | None

# Columns per row of a factor up to which it is computed exactly; subspace iteration saves no time
# there.
_EXACT_UP_TO = 3

# Share of the trace that the axes of rank "auto" hold.
_AUTO_SHARE = 0.95

# Fewest axes of rank "auto": 64 for all classes lose 0.1 to 0.2 points on real tables.
FEWEST_AXES = 64

# Most axes of rank "auto", which bound the size of a model.
_MOST_AXES = 96

# Least number of spare axes of a class that grows; a class of many axes has more. On texts, whose
# axes 8 to 16 have nearly one length, 8 spare axes halve the labels that calls change
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
    """Return the number of axes up to which a factor keeps all axes; None always keeps all."""
    if max_rank == "auto":
        return FEWEST_AXES
    return max_rank


def n_auto_axes(energies: Array, trace: float) -> int:
    """Return the number of axes of rank "auto", given the energies of the longest axes."""
    least = _AUTO_SHARE * trace
    is_short = energies.cumsum() < least
    n_short = int(is_short.sum())
    n_axes = max(FEWEST_AXES, n_short + 1)
    return min(_MOST_AXES, n_axes)


def add_spare_axes(count: int | None) -> int | None:
    """Return the most axes of a class that grows call by call.

    A sample may be orthogonal to all axes and shorter than each of them. Without spare axes a
    direction of a call with few samples is lost at once, even if later calls repeat the direction.
    """
    if count is None:
        return None
    n_spare = max(count // 4, _LEAST_SPARE)
    return count + n_spare


@dataclass(frozen=True)
class TurningPairs:
    """Pairs of columns that turn in their planes if all samples are multiplied by one factor.

    The first `n_inputs` columns are multiplied by the factor c; all further columns are neurons.
    The columns of the pairs are neighbours from `start` on; each pair turns by the angle
    omega log c with its frequency omega. There may be no pair.
    """

    n_inputs: int
    start: int
    frequencies: Array

    @property
    def columns(self) -> slice:
        """Columns of the pairs."""
        n_columns = 2 * len(self.frequencies)
        return slice(self.start, self.start + n_columns)

    def turn(self, directions: torch.Tensor, energies: torch.Tensor) -> torch.Tensor:
        r"""Return directions, of shape (d, k), with each pair turned by the size of the inputs.

        The size s is the root of the energy of the inputs. A pair turns by the angle
        :math:`\alpha = \omega \log s`:

        .. math:: u' = u \cos \alpha - v \sin \alpha , \quad v' = u \sin \alpha + v \cos \alpha .
        """
        size = float(energies[: self.n_inputs].sum()) ** 0.5
        if size == 0.0 or not len(self.frequencies):
            return directions
        frequencies = as_tensor(self.frequencies, device=directions.device)
        angles = np.log(size) * frequencies[:, None]
        cosines = angles.cos()
        sines = angles.sin()
        pairs = directions[self.columns]
        first = pairs[::2]
        second = pairs[1::2]
        turned = directions.clone()
        turned_pairs = turned[self.columns]
        turned_pairs[::2] = first * cosines - second * sines
        turned_pairs[1::2] = first * sines + second * cosines
        return turned

    def level(self, residual: Array) -> Array:
        """Return a residual that is equal within each pair, so that no turn changes it."""
        residual = residual.copy()
        residual_of_pairs = residual[self.columns]
        pairs = residual_of_pairs.reshape(-1, 2)
        pairs[:] = pairs.mean(axis=1, keepdims=True)
        return residual


@dataclass(frozen=True)
class Scatter:
    """A sum of outer products: a few rows as they are, many rows as their Gram matrix."""

    n_columns: int
    pairs: TurningPairs | None = None
    rows: tuple[torch.Tensor, ...] = ()
    gram: torch.Tensor | None = None

    def add(self, blocks: Iterable[torch.Tensor]) -> "Scatter":
        """Return the sum with the outer products of further rows, in blocks."""
        rows = list(self.rows)
        gram = self.gram
        for block in blocks:
            rows.append(block)
            is_many = sum(map(len, rows)) > self.n_columns
            if gram is None and not is_many:
                continue
            for summand in rows:
                product = summand.T @ summand
                gram = product if gram is None else gram + product
            rows = []
        return replace(self, rows=tuple(rows), gram=gram)

    def energies(self) -> torch.Tensor:
        """Return the diagonal of the sum, of shape (d,)."""
        if self.gram is not None:
            return self.gram.diagonal()
        rows = torch.cat(self.rows)
        return column_energies(rows)

    def factor(
        self,
        max_rank: Rank = None,
        rounding: torch.Tensor | None = None,
        truncated_trace: float = 0.0,
        *,
        with_spare: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Return the longest principal rows F of the sum S, and the diagonal of the residual.

        The residual is :math:`S - F^\top F`. Principal rows are orthogonal mixtures of the rows
        that were added, so no sample appears among them.

        The steps are: set columns of S that are only rounding to zero, and return no row if no
        column is left; compute the longest rows; drop rows that are rounding; choose the rank if it
        is "auto"; truncate.

        Parameters
        ----------
        max_rank : int, "auto" or None
            Most rows of F.
        rounding : Tensor of shape (d,) or None
            Diagonal of the rounding in S; None is zero. F and the residual are zero in each column
            whose entry on the diagonal of S is at most its rounding. Inputs may have unlike units,
            so no input decides for another; neurons have one unit, the norm of a sample, and are
            rounding together.
        truncated_trace : float
            Trace that earlier truncations removed; "auto" adds it to the trace of S.
        with_spare : bool
            Whether the sum grows later, so that F gets spare rows.
        """
        energies = self.energies()
        no_residual = torch.zeros_like(energies)
        check_finite(float(energies.sum()))
        if rounding is None:
            rounding = no_residual
        varies = self._varying(energies, rounding)
        if not bool(varies.any()):
            return energies.new_empty((0, self.n_columns)), no_residual
        scatter = self._keep_columns(varies, energies)
        energies = torch.where(varies, energies, 0.0)
        trace = float(energies.sum())
        count = _MOST_AXES if max_rank == "auto" else max_rank
        if with_spare:
            count = add_spare_axes(count)
        principal = scatter._longest_rows(count, energies)
        principal = _drop_rounding(principal, energies, rounding)
        if max_rank == "auto":
            row_energies = as_array(principal.square().sum(1))
            count = n_auto_axes(row_energies, trace + truncated_trace)
            if with_spare:
                count = add_spare_axes(count)
        if count is None or len(principal) < count:
            return principal, no_residual
        return _truncate(principal, count, energies)

    def _varying(self, energies: torch.Tensor, rounding: torch.Tensor) -> torch.Tensor:
        """Return which columns are more than rounding: each input, and all neurons together."""
        varies = energies > rounding
        if self.pairs is not None:
            neurons = slice(self.pairs.n_inputs, None)
            varies[neurons] = energies[neurons].sum() > rounding[neurons].sum()
        return varies

    def _keep_columns(self, kept: torch.Tensor, energies: torch.Tensor) -> "Scatter":
        """Return the sum with zeros in all columns that are not kept."""
        is_changed = energies > 0.0
        if not bool((is_changed & ~kept).any()):
            return self
        factors = kept.to(energies.dtype)
        rows = tuple(block * factors for block in self.rows)
        gram = self.gram
        if gram is not None:
            gram = gram * factors * factors[:, None]
        return replace(self, rows=rows, gram=gram)

    def _longest_rows(self, count: int | None, energies: torch.Tensor) -> torch.Tensor:
        """Return the longest principal rows, by subspace iteration if that saves time."""
        directions = None
        if count is not None and self._is_large(count):
            directions = random_directions(self.n_columns, count, energies.device)
            if self.pairs is not None:
                directions = self.pairs.turn(directions, energies)
        if self.gram is not None:
            return longest_rows_of_gram(self.gram, count, directions)
        rows = torch.cat(self.rows)
        return longest_rows(rows, count, directions)

    def _is_large(self, count: int) -> bool:
        """Return whether subspace iteration saves time for the longest rows."""
        n_rows = sum(map(len, self.rows))
        if self.gram is None and is_few(n_rows, count):
            return False
        return self.n_columns > _EXACT_UP_TO * count


def _drop_rounding(
    principal: torch.Tensor, energies: torch.Tensor, rounding: torch.Tensor
) -> torch.Tensor:
    """Return the principal rows that exceed rounding in some column.

    A row of rounding is rounding in every column that varies: centring leaves such rows, and so do
    equal samples to which a backbone in single precision gives different features.
    """
    varies = energies > rounding
    rounding_of_axes = SUM_ROUNDING * energies
    least = torch.where(varies, rounding_of_axes, torch.inf)
    is_above = principal.square() > least
    is_axis = is_above.any(1)
    return principal[is_axis]


def _truncate(
    principal: torch.Tensor, count: int, energies: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Return the first rows F, and the residual of the energies e, :math:`e - \sum_k F_k^2`.

    F may be overwritten.
    """
    factor = principal[:count]
    factor_energies = column_energies(factor)
    residual = (energies - factor_energies).clamp_min(0.0)
    # Rounding of the axes, relative to the largest column, may exceed a small column.
    shares = (energies / factor_energies).sqrt()
    factor *= torch.where(factor_energies > energies, shares, 1.0)
    return factor, residual


def pack_factor(factor: torch.Tensor, max_rank: Rank) -> tuple[Array, torch.Tensor]:
    """Return a factor in the form that files store, and the energy that each column loses.

    The factor is in single precision, unless it is exact (rank None) or beyond the range of single
    precision. Entries that are too small beside the largest column become zero.
    """
    no_loss = factor.new_zeros(factor.shape[1])
    if max_rank is None or not _fits_single_precision(factor):
        return as_array(factor), no_loss
    single = factor.float()
    tiny = torch.finfo(torch.float32).tiny
    is_lost = single.abs() < tiny
    lost_entries = torch.where(is_lost, factor, 0.0)
    single.masked_fill_(is_lost, 0.0)
    packed: Array = single.cpu().numpy()
    return packed, column_energies(lost_entries)


def _fits_single_precision(factor: torch.Tensor) -> bool:
    """Return whether entries down to the rounding of the largest are normal float32 numbers."""
    if not factor.numel():
        return True
    moduli = factor.abs()
    largest = float(moduli.max())
    tiny = float(np.finfo(np.float32).tiny)
    least = tiny / SUM_ROUNDING
    return least < largest < 1.0 / least
