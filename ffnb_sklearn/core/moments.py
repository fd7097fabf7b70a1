r"""Moments of a class: its weight, its mean, and its scatter as a factor and a residual.

The scatter of a class, :math:`S = \sum_i w_i (x_i - \mu)(x_i - \mu)^\top`, is approximated by
:math:`F^\top F + \mathrm{diag}(v)`. The rows of F are principal axes, each scaled by the square
root of the scatter along it; v is the diagonal of the part that F leaves out, so the diagonal of S
stays exact.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from .device import Array, as_array, as_tensor
from .linalg import (
    LEAST_ENERGY,
    LENGTH_ROUNDING,
    SUM_ROUNDING,
    VALUE_ROUNDING,
    is_few,
    longest_rows,
    longest_rows_of_gram,
    random_directions,
)

# Most principal axes of rank "auto", which bound the size of a model. On held-out rows of CIFAR-100
# 64 axes lose 0.3 points.
_AUTO_AXES = 96

# Columns per row of a factor up to which it is computed exactly; subspace iteration saves no time
# there.
_EXACT_UP_TO = 3

# Least number of spare axes of a class that grows; a class of many axes has more. On texts, whose
# axes 8 to 16 have nearly one length, 8 spare axes halve the labels that calls change
# (tests/campaigns/numerics/truncation.py).
_LEAST_SPARE = 8


# Energy and weight, relative to those of a class, that count as rounding if samples are subtracted:
# a factor lacks axes of up to 1e-13 of the energy, and there are hundreds of axes.
SUBTRACTION_ROUNDING = 1e-10

# Relative error of the energy of a column of a truncated factor, which has single precision.
_SINGLE_ROUNDING = 1e-5


class LostDigitsError(ArithmeticError):
    """Only rounding errors of the remaining samples would be left after a subtraction."""


def weighted_mean(rows: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the weighted mean of rows, of shape (d,).

    A column of equal values has exactly this value, and not the value with its rounding.
    """
    mean = weights @ rows / weights.sum()
    is_constant = (rows == rows[0]).all(0)
    return torch.where(is_constant, rows[0], mean)


def column_energies(rows: torch.Tensor) -> torch.Tensor:
    """Return the sum of the squares in each column, of shape (d,)."""
    # Torch takes several times as long to sum columns as to multiply by ones.
    ones = rows.new_ones(len(rows))
    squares = rows.square()
    return ones @ squares


def check_finite(*sums: float) -> None:
    """Raise ValueError if a sum over the moments is not a finite number."""
    if not np.isfinite(sums).all():
        raise ValueError(
            "the moments of the samples must be finite numbers, and overflow here. Rescale the "
            "features or the sample weights."
        )


def most_axes(rank: int | Literal["auto"] | None) -> int | None:
    """Return the most principal axes of a class for a rank; None keeps all."""
    if rank == "auto":
        return _AUTO_AXES
    return rank


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
class Scatter:
    """A sum of outer products: a few rows as they are, many rows as their Gram matrix.

    The first `n_inputs` columns are inputs, and the others are neurons; None: all are inputs.
    """

    n_columns: int
    n_inputs: int | None = None
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
        max_rank: int | None = None,
        rounding: torch.Tensor | None = None,
        *,
        with_spare: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Return the longest principal rows F of the sum S, and the diagonal of the residual.

        The residual is :math:`S - F^\top F`. Principal rows are orthogonal mixtures of the rows
        that were added, so no sample appears among them.

        The steps are: set columns of S that are only rounding to zero, and return no row if no
        column is left; compute the longest rows; drop rows that are rounding; truncate.

        Parameters
        ----------
        max_rank : int or None
            Most rows of F; None keeps all.
        rounding : Tensor of shape (d,) or None
            Diagonal of the rounding in S; None is zero. F and the residual are zero in each column
            whose entry on the diagonal of S is at most its rounding. Inputs may have unlike units,
            so no input decides for another; neurons have one unit, the norm of a sample, and are
            rounding together.
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
        count = add_spare_axes(max_rank) if with_spare else max_rank
        principal = scatter._longest_rows(count, energies)
        principal = _drop_rounding(principal, energies, rounding)
        if count is None or len(principal) < count:
            return principal, no_residual
        return _truncate(principal, count, energies)

    def _varying(self, energies: torch.Tensor, rounding: torch.Tensor) -> torch.Tensor:
        """Return which columns are more than rounding: each input, and all neurons together."""
        varies = energies > rounding
        if self.n_inputs is not None:
            neurons = slice(self.n_inputs, None)
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
        if self.gram is not None:
            return longest_rows_of_gram(self.gram, count, directions)
        rows = torch.cat(self.rows)
        return longest_rows(rows, count, directions)

    def _is_large(self, count: int) -> bool:
        """Return whether subspace iteration saves time for the longest rows."""
        if self.n_columns <= _EXACT_UP_TO * count:
            return False
        if self.gram is not None:
            return True
        n_rows = sum(map(len, self.rows))
        return not is_few(n_rows, count)


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


def pack_factor(factor: torch.Tensor, max_rank: int | None) -> tuple[Array, torch.Tensor]:
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


@dataclass(frozen=True)
class ClassMoments:
    """Moments of the samples of one class: the sum of their weights, and their mean.

    `weight_norm` is the root of the sum of the squared weights, which neither overflows nor
    underflows where the weights do not.

    `factor` is F, of shape (r, d), in single precision unless the rank is None. `truncated` is v,
    of shape (d,) and never negative, or None if F is the whole scatter.

    `errors` bounds the energies of the errors that subtractions have left in the columns of the
    scatter, of shape (d,); None if no samples were subtracted. Each subtraction adds to it.
    """

    weight: float
    weight_norm: float
    mean: Array
    factor: Array
    truncated: Array | None
    errors: Array | None = None

    @property
    def error_energies(self) -> Array:
        """The bound on the errors of subtractions, of shape (d,)."""
        if self.errors is None:
            return np.zeros(len(self.mean))
        return self.errors

    @property
    def residual(self) -> Array:
        """The residual v, of shape (d,)."""
        if self.truncated is None:
            return np.zeros(len(self.mean))
        return self.truncated

    @property
    def rank(self) -> int:
        """Number of rows of the factor."""
        return len(self.factor)

    @property
    def n_samples(self) -> float:
        """Effective number of samples."""
        return effective_number(self.weight, self.weight_norm)

    def scatter(self) -> Array:
        """Return the scatter matrix."""
        factor = self.factor.astype(np.float64)
        residual = np.diag(self.residual)
        scatter: Array = factor.T @ factor + residual
        return scatter

    def along_axes(
        self, samples: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        r"""Return the parts of samples along the axes of F, and their leverages in these axes.

        The moments include these samples. A sample x of weight w, less than the weight n of the
        class, adds :math:`w' z z^\top` with :math:`z = x - \mu` and :math:`w' = w n / (n - w)` to
        the scatter. The first result is the part of z along the axes. The leverage, :math:`w'
        |(F^+)^\top z|^2`, is at most 1, and 1 if no other sample has a part along the sample.
        """
        factor = as_tensor(self.factor, device=samples.device)
        mean = as_tensor(self.mean, device=samples.device)
        deviations = samples - mean
        # The rows of F are orthogonal.
        energies = factor.square().sum(1)
        energies = energies.clamp_min(LEAST_ENERGY)
        products = deviations @ factor.T
        coordinates = products / energies
        remaining_weights = self.weight - weights
        scatter_weights = weights * (self.weight / remaining_weights)
        squared_lengths = coordinates.square().sum(1)
        leverages = scatter_weights * squared_lengths
        return coordinates @ factor, leverages

    def equals(self, other: "ClassMoments") -> bool:
        """Return whether the moments equal those of other samples exactly."""
        return (
            self.weight == other.weight
            and np.array_equal(self.mean, other.mean)
            and np.array_equal(self.residual, other.residual)
            and np.array_equal(self.factor, other.factor)
        )

    def scale_weights(self, share: float) -> "ClassMoments":
        """Return the moments of the same samples, their weights times a positive share."""
        return ClassMoments(
            self.weight * share,
            self.weight_norm * share,
            self.mean,
            self.factor * share**0.5,
            none_if_zero(self.residual * share),
            errors=none_if_zero(self.error_energies * share),
        )


def none_if_zero(residual: Array) -> Array | None:
    """Return a residual in the form that is stored: None if it is zero in every column."""
    return residual if residual.any() else None


def check_weight(weight: float) -> None:
    """Raise ValueError if the weight of a class has no inverse."""
    least = np.finfo(np.float64).tiny
    if weight < least:
        raise ValueError(
            f"the sample weights of a class must add up to at least {least:.1e}; their sum is "
            f"{weight:.1e}."
        )


def check_size(moments: Sequence[ClassMoments]) -> None:
    """Raise ValueError if the features of all classes are so small that their squares are lost.

    Columns that are constant in all classes do not count, however large they are, unless no column
    varies.
    """
    least = LEAST_ENERGY**0.5
    first_mean = moments[0].mean
    size = 0.0
    for each in moments:
        # The factor of the first class suffices in nearly every model.
        longest = float(np.abs(each.factor).max(initial=0.0))
        size = max(size, longest / each.weight**0.5)
        if size >= least:
            return
        gaps = np.abs(each.mean - first_mean)
        varies = gaps > LENGTH_ROUNDING * np.abs(first_mean)
        size = max(size, float(gaps[varies].max(initial=0.0)))
        if size >= least:
            return
    if size == 0.0:
        size = float(np.abs(first_mean).max(initial=0.0))
    check_least(size)


def check_least(size: float) -> None:
    """Raise ValueError if the largest of some values is so small that its square is lost."""
    least = LEAST_ENERGY**0.5
    if 0.0 < size < least:
        raise ValueError(
            f"the samples must have values of at least {least:.0e}, or squares are lost; the "
            f"largest is {size:.0e}. Rescale the features."
        )


def keep_axes(moments: ClassMoments, rank: int | Literal["auto"] | None) -> ClassMoments:
    """Return moments with the first axes alone; the residual gets the energies of the others."""
    count = most_axes(rank)
    if count is None or moments.rank <= count:
        return moments
    factor = moments.factor
    other_energies = np.square(factor[count:], dtype=np.float64).sum(axis=0)
    residual = moments.residual + other_energies
    return replace(moments, factor=factor[:count], truncated=none_if_zero(residual))


class Union(NamedTuple):
    """The union of two disjoint sets of samples: its weight, its mean, and what its scatter gains.

    `between` is the weight of the outer product of the `gap` of the means.
    """

    weight: Any
    mean: Any
    gap: Any
    between: Any


def unite(weight: Any, mean: Any, added_weight: Any, added_mean: Any) -> Union:
    r"""Return the union of two disjoint sets of samples, given their weights and means.

    With the weights :math:`n_1, n_2` and the means :math:`\mu_1, \mu_2`, the scatters add up, and
    the scatter between the means is added (Chan, Golub and LeVeque: Algorithms for computing the
    sample variance. The American Statistician 37(3), 1983):

    .. math::
       \mu = \mu_1 + \frac{n_2}{n_1 + n_2} (\mu_2 - \mu_1) , \quad
       S = S_1 + S_2 + \frac{n_1 n_2}{n_1 + n_2} (\mu_2 - \mu_1) (\mu_2 - \mu_1)^\top .

    Weights and means are numbers, arrays or tensors, which broadcast.
    """
    total = weight + added_weight
    share = added_weight / total
    gap = added_mean - mean
    # The product of two weights may leave the range of double precision.
    between = weight * share
    return Union(total, mean + share * gap, gap, between)


def moments_of(
    chunks: Iterable[tuple[torch.Tensor, torch.Tensor]],
    max_rank: int | None = None,
    *,
    with_spare: bool = False,
) -> ClassMoments:
    """Compute the moments of the samples of one class from at least one chunk.

    Chunks are features of shape (n_samples, d) and positive weights. The factor has at most
    `max_rank` rows, and more with spare axes (`add_spare_axes`); None keeps all rows. The order
    of the samples and the chunks changes the result by rounding alone. Raise `ValueError` if the
    moments are not finite.
    """
    sums = MomentSums()
    for features, weights in chunks:
        sums.add(features, weights)
    return sums.moments(max_rank, with_spare=with_spare)


def merge(
    parts: Sequence[ClassMoments],
    max_rank: int | None = None,
    *,
    device: torch.device,
    n_inputs: int | None = None,
    with_spare: bool = False,
) -> ClassMoments:
    r"""Compute the moments of the union of disjoint sets of samples, as `moments_of` would.

    The scatters add up, and each further mean adds one row to the factor, by `unite`. Only the
    union is truncated, so exact sets may be divided in any way. With spare axes, the result has up
    to a quarter more, or 8 more if that is more.
    """
    sums = MomentSums(n_inputs)
    for each in parts:
        sums.add_set(_place(each, device))
    truncated = np.zeros(len(parts[0].mean))
    errors = np.zeros(len(parts[0].mean))
    for each in parts:
        truncated += each.residual
        errors += each.error_energies
    union = sums.moments(max_rank, with_spare=with_spare)
    residual = union.residual + truncated
    return replace(union, truncated=none_if_zero(residual), errors=none_if_zero(errors))


def subtract(
    moments: ClassMoments, removed: ClassMoments, *, device: torch.device
) -> ClassMoments | None:
    r"""Return the moments of a class without some of its samples; None if none remain.

    Both have exact scatters. The rows of V are the axes of F, and B has the rows of
    the removed samples (their factor, and the row of their mean as in `merge`). Along the axes,

    .. math:: V (F^\top F - B^\top B) V^\top

    remains. It is diagonal after a turn of the axes.

    The errors of the result are relative to the energies before, which may be far larger: a bound
    on them is stored, and grows from call to call. Columns within the bound are constant.

    Raise `ValueError` if samples of the class cannot have these moments, whatever the errors are,
    and `LostDigitsError` if the weights of the other samples are rounding beside those of the
    samples.
    """
    weight = moments.weight - removed.weight
    whole = _place(moments, device)
    gone = _place(removed, device)
    least_weight = SUBTRACTION_ROUNDING * moments.weight
    if weight < -least_weight:
        raise ValueError(
            f"the weight of the samples, {removed.weight:.6g}, is larger than that of the class, "
            f"{moments.weight:.6g}"
        )
    blocks = [gone.rows]
    gap = whole.mean - gone.mean
    is_empty = weight <= least_weight
    if is_empty and moments.errors is None and weight > SUM_ROUNDING * moments.weight:
        # Without earlier subtractions, this weight is no rounding, but that of other samples.
        raise LostDigitsError
    if is_empty:
        # If all samples go, this row must be zero.
        blocks.append(moments.weight**0.5 * gap[None])
    else:
        # The row of `merge`: the gap to the remaining mean is `gap` times moments.weight / weight.
        between = moments.weight * (removed.weight / weight)
        blocks.append(between**0.5 * gap[None])
    rows = torch.cat(blocks)
    # The scatter of a column in which the class is constant is rounding, and so is what rows have
    # there. Scaled by its own size it would count as much as a true column.
    spreads = torch.linalg.vector_norm(whole.rows, dim=0)
    errors = as_tensor(moments.error_energies, device=device)
    errors_of_mean = moments.weight * (LENGTH_ROUNDING * whole.mean).square()
    noise = (errors + errors_of_mean).sqrt()
    varies = spreads > noise
    if bool((torch.linalg.vector_norm(rows, dim=0) > noise)[~varies].any()):
        raise ValueError("the samples differ in a column in which the class is constant")
    inverse_spreads = torch.where(varies, 1.0 / spreads, 0.0)
    # The shortest rows of a factor are rounding, and so not orthogonal.
    _, lengths, axes = torch.linalg.svd(whole.rows * inverse_spreads, full_matrices=False)
    rows = rows * inverse_spreads
    coordinates = rows @ axes.T
    outside = rows - coordinates @ axes
    trace = lengths.square().sum()
    relative_noise = noise * inverse_spreads
    rounding = SUBTRACTION_ROUNDING * trace + relative_noise.square().sum()
    if bool(outside.square().sum() > rounding):
        raise ValueError("the samples lie outside the subspace of the samples of the class")
    # Axes too short to be stored have some energy e. Without the parts of the samples along them,
    # products with the other parts would be lost, an error of the root of e.
    directions_outside = torch.linalg.qr(outside.T).Q.T
    axes = torch.cat([axes, directions_outside])
    coordinates = torch.cat([coordinates, outside @ directions_outside.T], dim=1)
    before = torch.zeros_like(axes[:, 0])
    before[: len(lengths)] = lengths.square()
    scatter = before.diag() - coordinates.T @ coordinates
    energies, directions = torch.linalg.eigh(scatter)
    if bool((energies < -rounding).any()):
        raise ValueError("the class would have a negative variance")
    if is_empty:
        return None
    norm_share = removed.weight_norm / moments.weight_norm
    remaining_norm_share = 1.0 - norm_share**2
    if remaining_norm_share < -SUBTRACTION_ROUNDING:
        raise ValueError("the squared weights of the samples are larger than those of the class")
    if remaining_norm_share <= SUM_ROUNDING:
        raise LostDigitsError
    is_kept = energies > SUM_ROUNDING * trace
    kept_rows = (energies[is_kept].sqrt() * directions[:, is_kept]).T @ axes * spreads
    # A column in which no other sample differs would keep rounding.
    errors = errors + SUBTRACTION_ROUNDING * spreads.square()
    is_constant = kept_rows.square().sum(0) <= errors
    kept_rows[:, is_constant] = 0.0
    mean = whole.mean + removed.weight / weight * gap
    # So would the mean of a column in which all other samples are zero.
    size = (spreads.square() / moments.weight + whole.mean.square()).sqrt()
    is_zero = is_constant & (mean.abs() <= LENGTH_ROUNDING * size)
    mean = torch.where(is_zero, 0.0, mean)
    weight_norm = moments.weight_norm * remaining_norm_share**0.5
    sums = MomentSums()
    sums.add_set(_Set(weight, weight_norm, mean, kept_rows))
    return replace(sums.moments(), errors=none_if_zero(as_array(errors)))


def subtract_truncated(
    moments: ClassMoments, removed: ClassMoments, *, device: torch.device
) -> ClassMoments | None:
    r"""Return the moments of a truncated class without some samples; None if none remain.

    `removed` has an exact scatter. The weight, the mean and the diagonal of the scatter are exact.
    Along the axes V that the class keeps, with the rows B of `subtract`,

    .. math:: V (F^\top F - B^\top B) V^\top

    remains; negative energies, which samples along other axes can leave, become 0. The residual is
    what remains of the diagonal.

    Raise `ValueError` if the weight of the samples is larger than that of the class, or a column
    would have a negative variance.
    """
    whole = _place(moments, device)
    gone = _place(removed, device)
    weight = moments.weight - removed.weight
    least_weight = SUBTRACTION_ROUNDING * moments.weight
    norm_share = removed.weight_norm / moments.weight_norm
    remaining_norm_share = 1.0 - norm_share**2
    if weight < -least_weight or remaining_norm_share < -SUBTRACTION_ROUNDING:
        raise ValueError(
            f"the weight of the samples, {removed.weight:.6g}, is larger than that of the class, "
            f"{moments.weight:.6g}"
        )
    if weight <= least_weight or remaining_norm_share <= SUM_ROUNDING:
        return None
    gap = whole.mean - gone.mean
    between = moments.weight * (removed.weight / weight)
    rows = torch.cat([gone.rows, between**0.5 * gap[None]])
    residual = as_tensor(moments.residual, device=device)
    before = whole.rows.square().sum(0) + residual
    after = before - rows.square().sum(0)
    # The factor has single precision, and the mean has digits of its own size.
    noise = _SINGLE_ROUNDING * before + moments.weight * (LENGTH_ROUNDING * whole.mean).square()
    if bool((after < -noise).any()):
        raise ValueError("a column of the class would have a negative variance")
    after = after.clamp_min(0.0)
    _, lengths, axes = torch.linalg.svd(whole.rows, full_matrices=False)
    coordinates = rows @ axes.T
    scatter = lengths.square().diag() - coordinates.T @ coordinates
    energies, directions = torch.linalg.eigh(scatter)
    remaining_lengths = energies.clamp_min(0.0).sqrt()
    kept_rows = (remaining_lengths * directions).T @ axes
    # No column may have more energy along the axes than in all.
    along_axes = kept_rows.square().sum(0)
    excess = torch.where(along_axes > after, after / along_axes, 1.0)
    kept_rows = kept_rows * excess.sqrt()
    remainder = after - kept_rows.square().sum(0)
    return replace(
        moments,
        weight=weight,
        weight_norm=moments.weight_norm * remaining_norm_share**0.5,
        mean=as_array(whole.mean + removed.weight / weight * gap),
        factor=as_array(kept_rows).astype(moments.factor.dtype),
        truncated=none_if_zero(as_array(remainder.clamp_min(0.0))),
    )


def merge_classes(
    known: Sequence[ClassMoments],
    new: Iterable[tuple[int, ClassMoments]],
    max_rank: int | None,
    *,
    device: torch.device,
    n_inputs: int | None = None,
) -> tuple[ClassMoments, ...]:
    """Add the moments of new samples to those of all classes; the known classes stay first.

    `new` has ascending class numbers; those of new classes continue those of the known classes.
    """
    moments = list(known)
    for number, added in new:
        add_to_class(moments, number, added, max_rank, device=device, n_inputs=n_inputs)
    return tuple(moments)


def add_to_class(
    moments: list[ClassMoments],
    number: int,
    added: ClassMoments,
    max_rank: int | None,
    *,
    device: torch.device,
    n_inputs: int | None = None,
) -> None:
    """Add the moments of new samples of a class to those of all classes, a new class at the end.

    Calls have ascending class numbers. A known class gets spare axes, because it grows.
    """
    if number < len(moments):
        summands = [moments[number], added]
        moments[number] = merge(
            summands, max_rank, device=device, n_inputs=n_inputs, with_spare=True
        )
    else:
        moments.append(added)


class _Set(NamedTuple):
    """Some samples of a class: sum and norm of the weights, mean, and rows of the scatter."""

    weight: float
    weight_norm: float
    mean: torch.Tensor
    rows: torch.Tensor


def _centre(features: torch.Tensor, weights: torch.Tensor) -> _Set:
    r"""Return the moments of some samples before any truncation.

    The rows are :math:`\sqrt{w_i} \, (x_i - \mu)`.
    """
    weight = float(weights.sum())
    mean = weighted_mean(features, weights)
    rows = features - mean
    rows.mul_(weights.sqrt()[:, None])
    return _Set(weight, norm_of_weights(weights), mean, rows)


def _place(moments: ClassMoments, device: torch.device) -> _Set:
    """Return the weights, the mean and the factor of moments as tensors on a device."""
    mean = as_tensor(moments.mean, device=device)
    factor = as_tensor(moments.factor, device=device)
    return _Set(moments.weight, moments.weight_norm, mean, factor)


def effective_number(weight: float, weight_norm: float) -> float:
    """Return the effective number of samples: the weight, or Kish's number if that is larger.

    With the weight W and the sum Q of the squared weights, Kish's number is W^2 / Q. Whole weights
    are repetitions, and Q is at least W; a common factor below one makes the samples no fewer.
    """
    kish_number = (weight / weight_norm) ** 2
    n_equal = float(round(kish_number))
    # Rounding of equal weights must not decide whether a class has enough samples.
    if math.isclose(kish_number, n_equal, rel_tol=SUBTRACTION_ROUNDING):
        kish_number = n_equal
    return max(weight, kish_number)


def norm_of_weights(weights: torch.Tensor) -> float:
    """Return the root of the sum of squared positive weights of any size."""
    largest = weights.max()
    # Squares of the weights themselves may leave the range of double precision.
    relative_norm = torch.linalg.vector_norm(weights / largest)
    return float(largest * relative_norm)


class MomentSums:
    """Sums over disjoint sets of samples of one class, which come one after the other."""

    def __init__(self, n_inputs: int | None = None) -> None:
        self._n_inputs = n_inputs
        self._weight = 0.0
        self._weight_norm = 0.0
        # A tensor without dimensions combines with tensors on any device.
        self._mean: torch.Tensor = torch.zeros((), dtype=torch.float64, device="cpu")
        self._scatter: Scatter | None = None

    def add(self, features: torch.Tensor, weights: torch.Tensor) -> None:
        """Add samples: features of shape (n_samples, d), and positive weights."""
        self.add_set(_centre(features, weights))

    def add_set(self, samples: _Set) -> None:
        """Add samples of known moments, by `unite`."""
        union = unite(self._weight, self._mean, samples.weight, samples.mean)
        if self._scatter is None:
            scatter = Scatter(len(samples.mean), self._n_inputs)
            self._scatter = scatter.add([samples.rows])
        else:
            row_between = union.between**0.5 * union.gap[None]
            self._scatter = self._scatter.add([row_between, samples.rows])
        self._weight = union.weight
        self._weight_norm = math.hypot(self._weight_norm, samples.weight_norm)
        self._mean = union.mean

    def moments(
        self,
        max_rank: int | None = None,
        *,
        with_spare: bool = False,
    ) -> ClassMoments:
        """Return the moments of all samples added, at least one, by `Scatter.factor`."""
        weight = self._weight
        mean = self._mean
        check_finite(weight)
        check_weight(weight)
        assert self._scatter is not None
        rounding = weight * self._lengths_of_rounding().square()
        factor, residual = self._scatter.factor(max_rank, rounding, with_spare=with_spare)
        packed_factor, lost_energies = pack_factor(factor, max_rank)
        residual_or_none = none_if_zero(as_array(residual + lost_energies))
        return ClassMoments(
            weight, self._weight_norm, as_array(mean), packed_factor, residual_or_none
        )

    def _lengths_of_rounding(self) -> torch.Tensor:
        """Return the lengths of the rounding of each column, of shape (d,).

        Inputs are data, of which only the last digits are rounding. The outputs of neurons for
        equal samples are not quite equal, because they are sums of many products.
        """
        lengths = VALUE_ROUNDING * self._mean.abs()
        if self._n_inputs is not None:
            neurons = slice(self._n_inputs, None)
            lengths[neurons] = LENGTH_ROUNDING * self._mean[neurons].abs()
        return lengths
