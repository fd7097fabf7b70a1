r"""Moments of a class: its weight, its mean, and its scatter as a factor.

The scatter of a class, :math:`S = \sum_i w_i (x_i - \mu)(x_i - \mu)^\top`, is stored as
:math:`S = F^\top F + \mathrm{diag}(v)`. The rows of F are principal axes, each scaled by the
square root of the scatter along it; v is the diagonal of the part that F leaves out, so the
diagonal of S stays exact. The rank "auto" keeps the principal axes that hold most of the trace.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from .device import as_array, as_tensor
from .linalg import (
    LEAST_ENERGY,
    LENGTH_ROUNDING,
    SUM_ROUNDING,
    column_energies,
    is_few,
    longest_rows,
    longest_rows_of_gram,
    random_directions,
)

Array = npt.NDArray[np.float64]
Columns = npt.NDArray[np.intp] | slice

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


@dataclass(frozen=True)
class ClassMoments:
    """Moments of the samples of one class: the sum of their weights, and their mean.

    `weight_norm` is the root of the sum of the squared weights, which neither overflows nor
    underflows where the weights do not.

    `factor` holds the first columns of F, of shape (r, d), in single precision unless the rank is
    None, and `inferred` the further columns in a few blocks: new neurons leave the first columns
    where they are in memory. `residual` is v, of shape (d,) and never negative.
    """

    weight: float
    weight_norm: float
    mean: Array
    factor: Array
    residual: Array
    inferred: tuple[Array, ...] = ()

    @property
    def rank(self) -> int:
        """Number of rows of the factor."""
        return len(self.factor)

    @property
    def n_samples(self) -> float:
        """Effective number of samples: the weight, or Kish's number if that is larger.

        With the weight W and the sum Q of the squared weights, Kish's number is W^2 / Q. Whole
        weights are repetitions, and Q is at least W; a common factor below one makes the samples
        no fewer.
        """
        return max(self.weight, (self.weight / self.weight_norm) ** 2)

    def columns(self, columns: Columns, out: Array | None = None) -> Array:
        """Return some columns of F, as a view if they are in one block, or in `out`."""
        whole, stop = self.factor, columns.stop if isinstance(columns, slice) else None
        if self.inferred and (stop is None or not 0 <= stop <= whole.shape[1]):
            whole = np.concatenate([self.factor, *self.inferred], axis=1)
        found: Array = whole[:, columns]
        if out is None:
            return found
        out[:] = found
        return out

    def scatter(self) -> Array:
        """Return the scatter matrix."""
        factor = self.columns(slice(None)).astype(np.float64)
        dense: Array = factor.T @ factor + np.diag(self.residual)
        return dense

    def along_axes(
        self, samples: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Return the parts of samples along the axes of F, and their leverages in these axes.

        The samples are among those that were added up. A sample x of weight w, less than the weight
        n of the class, adds :math:`w' z z^\top` with :math:`z = x - \mu` and
        :math:`w' = w n / (n - w)` to the scatter. The first result is the part of z along the axes.
        The leverage, :math:`w' |(F^+)^\top z|^2`, is at most 1, and 1 if no other sample has a part
        along the sample.
        """
        factor = as_tensor(self.columns(slice(None)), device=samples.device)
        deviations = samples - as_tensor(self.mean, device=samples.device)
        # The rows of F are orthogonal.
        energies = factor.square().sum(1).clamp_min(LEAST_ENERGY)
        coordinates = deviations @ factor.T / energies
        added = weights * (self.weight / (self.weight - weights))
        return coordinates @ factor, added * coordinates.square().sum(1)

    def equals(self, other: "ClassMoments", n_columns: int) -> bool:
        """Return whether the moments of the first columns equal those of other samples exactly."""
        columns = slice(n_columns)
        return (
            self.weight == other.weight
            and np.array_equal(self.mean[columns], other.mean[columns])
            and np.array_equal(self.residual[columns], other.residual[columns])
            and np.array_equal(self.columns(columns), other.columns(columns))
        )

    def take(self, columns: Columns) -> "ClassMoments":
        """Return the moments of some features, or of all features in another order."""
        factor = np.ascontiguousarray(self.columns(columns))
        return replace(
            self,
            mean=self.mean[columns],
            factor=factor,
            residual=self.residual[columns],
            inferred=(),
        )

    def weighted(self, share: float) -> "ClassMoments":
        """Return the moments of the same samples, their weights times a positive share."""
        return ClassMoments(
            self.weight * share,
            self.weight_norm * share,
            self.mean,
            self.columns(slice(None)) * share**0.5,
            self.residual * share,
        )

    def append(self, mean: Array, factor: Array, residual: Array) -> "ClassMoments":
        """Return the moments with further features behind the present ones."""
        blocks = [*self.inferred, factor.astype(self.factor.dtype)]
        # Each column is copied at most once per doubling of the width behind it.
        while len(blocks) > 1 and blocks[-2].shape[1] <= blocks[-1].shape[1]:
            blocks[-2:] = [np.concatenate(blocks[-2:], axis=1)]
        mean = np.concatenate([self.mean, mean])
        residual = np.concatenate([self.residual, residual])
        return replace(self, mean=mean, residual=residual, inferred=tuple(blocks))


def check_finite(*sums: float) -> None:
    """Raise ValueError if a sum over the moments is not a finite number."""
    if not np.isfinite(sums).all():
        raise ValueError(
            "the moments of the samples must be finite numbers, and overflow here. Rescale the "
            "features or the sample weights."
        )


def check_weight(weight: float) -> None:
    """Raise ValueError if the weight of a class has no inverse."""
    least = np.finfo(np.float64).tiny
    if weight < least:
        raise ValueError(
            f"the sample weights of a class must add up to at least {least:.1e}; their sum is "
            f"{weight:.1e}."
        )


def check_size(moments: Iterable[ClassMoments]) -> None:
    """Raise ValueError if the features of all classes are so small that their squares are lost."""
    size, least = 0.0, LEAST_ENERGY**0.5
    for one in moments:
        size = max(size, float(np.abs(one.mean).max(initial=0.0)))
        # The mean of the first class suffices in nearly every model.
        if size >= least:
            return
        size = max(size, float(np.abs(one.factor).max(initial=0.0)) / one.weight**0.5)
        if size >= least:
            return
    if size > 0.0:
        raise ValueError(
            f"the samples must have values of at least {least:.0e}, or squares are lost; the "
            f"largest moment is {size:.0e}. Rescale the features."
        )


def _n_auto_axes(energies: Array, trace: float) -> int:
    """Return the number of axes of rank "auto", given the energies of the longest ones."""
    n_short = int((energies.cumsum() < _AUTO_SHARE * trace).sum())
    return min(_MOST_AXES, max(FEWEST_AXES, n_short + 1))


def with_spare_axes(count: int | None) -> int | None:
    """Return the most axes of a class that grows call by call.

    A sample may be orthogonal to all axes and shorter than each of them. Without spare axes a call
    with few samples is cut off at once, however often this direction comes again.
    """
    return None if count is None else count + max(count // 4, _LEAST_SPARE)


def without_spare_axes(moments: ClassMoments, max_rank: Rank) -> ClassMoments:
    """Return moments with as many axes as one fit keeps; the residual has the spare axes."""
    least = FEWEST_AXES if max_rank == "auto" else max_rank
    if least is None or moments.rank <= least:
        return moments
    count = least
    if max_rank == "auto":
        # Neurons that came later play no part in the number of axes.
        first = moments.factor
        energies = np.einsum("ij,ij->i", first, first, dtype=np.float64)
        trace = float(energies.sum() + moments.residual[: first.shape[1]].sum())
        count = _n_auto_axes(energies, trace)
    factor = moments.columns(slice(None))
    spare = np.square(factor[count:], dtype=np.float64).sum(axis=0)
    return replace(moments, factor=factor[:count], residual=moments.residual + spare, inferred=())


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

    def levelled(self, moments: "ClassMoments") -> "ClassMoments":
        """Return moments whose residual is equal within each pair, so that no turn changes it."""
        residual = moments.residual.copy()
        pairs = residual[self.start : self.start + 2 * len(self.frequencies)].reshape(-1, 2)
        pairs[:] = pairs.mean(axis=1, keepdims=True)
        return replace(moments, residual=residual)


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
        # A row of rounding is rounding in every column that varies: centring leaves such rows, and
        # so do equal samples that a backbone in single precision tells apart.
        least = torch.where(energies > least, SUM_ROUNDING * energies, torch.inf)
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
            count = _n_auto_axes(as_array(principal.square().sum(1)), energy + elsewhere)
            if with_spare:
                count = with_spare_axes(count)
        if count is not None and len(principal) >= count:
            principal = principal[:count]
            held = column_energies(principal)
            left_out = (energies - held).clamp_min(0.0)
            # Rounding of the axes, relative to the largest column, may exceed a small column.
            principal *= torch.where(held > energies, (energies / held).sqrt(), 1.0)
        return principal, left_out


def moments_of(
    chunks: Iterable[tuple[torch.Tensor, torch.Tensor]],
    max_rank: Rank = None,
    *,
    pairs: TurningPairs | None = None,
    with_spare: bool = False,
) -> ClassMoments:
    """Compute the moments of the samples of one class from at least one chunk.

    Chunks are features of shape (n_samples, d) and positive weights. The factor has at most
    `max_rank` rows, or a quarter more with spare axes; None stores the scatter exactly. The order
    of the samples and the chunks changes the result by rounding alone. Raise `ValueError` if the
    moments are not finite.
    """
    return _moments_of_union(map(_centred, chunks), max_rank, pairs, with_spare=with_spare)


def merge(
    parts: Sequence[ClassMoments],
    max_rank: Rank = None,
    *,
    device: torch.device,
    pairs: TurningPairs | None = None,
    with_spare: bool = False,
) -> ClassMoments:
    r"""Compute the moments of the union of disjoint sets of samples, as `moments_of` would.

    The scatters add up, and each further mean adds one row to the factor: the union of weights
    :math:`n_1, n_2` gains :math:`\sqrt{n_1 n_2 / (n_1 + n_2)} \, (\mu_2 - \mu_1)` (Chan, Golub and
    LeVeque: Algorithms for computing the sample variance. The American Statistician 37(3), 1983).
    Only the union is truncated, so exact parts may be cut in any way. With spare axes, the result
    has up to a quarter more.
    """
    place = partial(as_tensor, device=device)
    tensors = (
        _Part(one.weight, one.weight_norm, place(one.mean), place(one.columns(slice(None))))
        for one in parts
    )
    elsewhere = float(sum(one.residual.sum() for one in parts))
    whole = _moments_of_union(tensors, max_rank, pairs, elsewhere, with_spare=with_spare)
    residual: Array = np.sum([whole.residual, *(one.residual for one in parts)], axis=0)
    return replace(whole, residual=residual)


def merge_classes(
    known: Sequence[ClassMoments],
    new: Iterable[tuple[int, ClassMoments]],
    max_rank: Rank,
    *,
    device: torch.device,
    pairs: TurningPairs | None = None,
) -> tuple[ClassMoments, ...]:
    """Add the moments of new samples to those of all classes; the known classes stay first.

    `new` has ascending class numbers; those of new classes continue those of the known classes.
    """
    moments = list(known)
    for label, one in new:
        if label < len(known):
            moments[label] = merge(
                [known[label], one], max_rank, device=device, pairs=pairs, with_spare=True
            )
        else:
            moments.append(one)
    return tuple(moments)


class _Part(NamedTuple):
    """Some samples of a class: sum and norm of the weights, mean, and rows of the scatter."""

    weight: float
    weight_norm: float
    mean: torch.Tensor
    rows: torch.Tensor


def _centred(chunk: tuple[torch.Tensor, torch.Tensor]) -> _Part:
    """Return the moments of some samples before any truncation."""
    features, weights = chunk
    total = weights.sum()
    mean = weights @ features / total
    rows = (features - mean).mul_(weights.sqrt()[:, None])
    return _Part(float(total), norm_of_weights(weights), mean, rows)


def norm_of_weights(weights: torch.Tensor) -> float:
    """Return the root of the sum of squared positive weights, whatever their size."""
    largest = weights.max()
    return float(largest * torch.linalg.vector_norm(weights / largest))


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


def _moments_of_union(
    parts: Iterable[_Part],
    max_rank: Rank,
    pairs: TurningPairs | None,
    elsewhere: float = 0.0,
    *,
    with_spare: bool = False,
) -> ClassMoments:
    """Add up sets of samples."""
    parts = iter(parts)
    weight, weight_norm, mean, rows = next(parts)
    scatter = Scatter(len(mean), pairs).plus([rows])
    for part in parts:
        gap = part.mean - mean
        total = weight + part.weight
        # The product of two weights may leave the range of double precision.
        between = weight * (part.weight / total)
        scatter = scatter.plus([between**0.5 * gap[None], part.rows])
        weight = total
        weight_norm = math.hypot(weight_norm, part.weight_norm)
        mean = mean + part.weight / total * gap
    check_finite(weight)
    check_weight(weight)
    # The mean of equal samples is not quite the sample; their spread is only rounding.
    rounding = weight * (LENGTH_ROUNDING * mean).square()
    factor, left_out = scatter.factor(max_rank, rounding, elsewhere, with_spare=with_spare)
    kept, lost = stored(factor, max_rank)
    return ClassMoments(weight, weight_norm, as_array(mean), kept, as_array(left_out + lost))
