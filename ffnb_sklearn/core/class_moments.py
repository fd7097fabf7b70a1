r"""Moments of a class: its weight, its mean, and its scatter as a factor and a residual.

The scatter of a class, :math:`S = \sum_i w_i (x_i - \mu)(x_i - \mu)^\top`, is stored as
:math:`S = F^\top F + \mathrm{diag}(v)` (`ffnb_sklearn.core.scatter`).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from .device import Array, as_array, as_tensor
from .linalg import (
    LEAST_ENERGY,
    LENGTH_ROUNDING,
    SUM_ROUNDING,
    VALUE_ROUNDING,
    weighted_mean,
)
from .scatter import (
    Rank,
    Scatter,
    TurningPairs,
    check_finite,
    fewest_axes,
    n_auto_axes,
    pack_factor,
)

# Energy and weight, relative to those of a class, that count as rounding if samples are subtracted:
# a factor lacks axes of up to 1e-13 of the energy, and there are hundreds of axes.
SUBTRACTION_ROUNDING = 1e-10

Columns = npt.NDArray[np.intp] | slice


@dataclass(frozen=True)
class ClassMoments:
    """Moments of the samples of one class: the sum of their weights, and their mean.

    `weight_norm` is the root of the sum of the squared weights, which neither overflows nor
    underflows where the weights do not.

    `factor` holds the first columns of F, of shape (r, d), in single precision unless the rank is
    None, and `inferred` the further columns in a few blocks: new neurons leave the first columns
    where they are in memory. `truncated` is v, of shape (d,) and never negative, or None if F is
    the whole scatter.

    `errors` bounds the energies of the errors that subtractions have left in the columns of the
    scatter, of shape (d,); None if no samples were subtracted. Each subtraction adds to it.
    """

    weight: float
    weight_norm: float
    mean: Array
    factor: Array
    truncated: Array | None
    inferred: tuple[Array, ...] = ()
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
        """Effective number of samples: the weight, or Kish's number if that is larger.

        With the weight W and the sum Q of the squared weights, Kish's number is W^2 / Q. Whole
        weights are repetitions, and Q is at least W; a common factor below one makes the samples
        no fewer.
        """
        kish_number = (self.weight / self.weight_norm) ** 2
        n_equal = float(round(kish_number))
        # Rounding of equal weights must not decide whether a class has enough samples.
        if math.isclose(kish_number, n_equal, rel_tol=SUBTRACTION_ROUNDING):
            kish_number = n_equal
        return max(self.weight, kish_number)

    def columns(self, columns: Columns, out: Array | None = None) -> Array:
        """Return some columns of F, as a view if they are in one block, or in `out`."""
        factor = self.factor
        if self.inferred and not _lies_within(columns, factor.shape[1]):
            factor = np.concatenate([factor, *self.inferred], axis=1)
        values: Array = factor[:, columns]
        if out is None:
            return values
        out[:] = values
        return out

    def scatter(self) -> Array:
        """Return the scatter matrix."""
        factor = self.columns(slice(None))
        factor = factor.astype(np.float64)
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
        factor = as_tensor(self.columns(slice(None)), device=samples.device)
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
            truncated=none_if_zero(self.residual[columns]),
            inferred=(),
            errors=none_if_zero(self.error_energies[columns]),
        )

    def scale_weights(self, share: float) -> "ClassMoments":
        """Return the moments of the same samples, their weights times a positive share."""
        return ClassMoments(
            self.weight * share,
            self.weight_norm * share,
            self.mean,
            self.columns(slice(None)) * share**0.5,
            none_if_zero(self.residual * share),
            errors=none_if_zero(self.error_energies * share),
        )

    def append(self, mean: Array, factor: Array, residual: Array) -> "ClassMoments":
        """Return the moments with further features after the present features."""
        blocks = list(self.inferred)
        last = factor.astype(self.factor.dtype)
        # Each column is copied at most once per doubling of the width behind it.
        while blocks and blocks[-1].shape[1] <= last.shape[1]:
            last = np.concatenate([blocks.pop(), last], axis=1)
        blocks.append(last)
        no_errors = np.zeros_like(mean)
        mean = np.concatenate([self.mean, mean])
        residual = np.concatenate([self.residual, residual])
        truncated = none_if_zero(residual)
        errors = none_if_zero(np.concatenate([self.error_energies, no_errors]))
        return replace(self, mean=mean, truncated=truncated, inferred=tuple(blocks), errors=errors)


def none_if_zero(residual: Array) -> Array | None:
    """Return a residual in the form that is stored: None if it is zero in every column."""
    return residual if residual.any() else None


def _lies_within(columns: Columns, width: int) -> bool:
    """Return whether columns are a slice that ends within the first `width` columns."""
    if not isinstance(columns, slice) or columns.stop is None:
        return False
    return bool(0 <= columns.stop <= width)


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
    if 0.0 < size < least:
        raise ValueError(
            f"the samples must have values of at least {least:.0e}, or squares are lost; the "
            f"largest moment is {size:.0e}. Rescale the features."
        )


def remove_spare_axes(moments: ClassMoments, max_rank: Rank) -> ClassMoments:
    """Return moments with as many axes as one fit keeps; the residual gets the spare axes."""
    count = fewest_axes(max_rank)
    if count is None or moments.rank <= count:
        return moments
    if max_rank == "auto":
        count = _n_axes_of_one_fit(moments)
    factor = moments.columns(slice(None))
    spare_energies = np.square(factor[count:], dtype=np.float64).sum(axis=0)
    residual = moments.residual + spare_energies
    return replace(moments, factor=factor[:count], truncated=none_if_zero(residual), inferred=())


def _n_axes_of_one_fit(moments: ClassMoments) -> int:
    """Return the number of axes that one fit keeps with rank "auto".

    Neurons that came later play no part in it.
    """
    factor = moments.factor
    residual = moments.residual[: factor.shape[1]]
    energies = np.einsum("ij,ij->i", factor, factor, dtype=np.float64)
    trace = float(energies.sum() + residual.sum())
    return n_auto_axes(energies, trace)


def moments_of(
    chunks: Iterable[tuple[torch.Tensor, torch.Tensor]],
    max_rank: Rank = None,
    *,
    pairs: TurningPairs | None = None,
    with_spare: bool = False,
) -> ClassMoments:
    """Compute the moments of the samples of one class from at least one chunk.

    Chunks are features of shape (n_samples, d) and positive weights. The factor has at most
    `max_rank` rows, and more with spare axes (`add_spare_axes`); None keeps all rows. The order
    of the samples and the chunks changes the result by rounding alone. Raise `ValueError` if the
    moments are not finite.
    """
    sums = MomentSums(pairs)
    for features, weights in chunks:
        sums.add(features, weights)
    return sums.moments(max_rank, with_spare=with_spare)


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
    Only the union is truncated, so exact sets may be divided in any way. With spare axes, the
    result has up to a quarter more, or 8 more if that is more.
    """
    sums = MomentSums(pairs)
    for each in parts:
        sums.add_set(_place(each, device))
    truncated_trace = float(sum(each.residual.sum() for each in parts))
    union = sums.moments(max_rank, truncated_trace, with_spare=with_spare)
    residual = union.residual
    errors = union.error_energies
    for each in parts:
        residual = residual + each.residual
        errors = errors + each.error_energies
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

    Raise `ValueError` if samples of the class cannot have these moments, whatever the errors are.
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
    if remaining_norm_share <= 0.0:
        raise ValueError("the squared weights of the samples are larger than those of the class")
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
    for number, added in new:
        add_to_class(moments, number, added, max_rank, device=device, pairs=pairs)
    return tuple(moments)


def add_to_class(
    moments: list[ClassMoments],
    number: int,
    added: ClassMoments,
    max_rank: Rank,
    *,
    device: torch.device,
    pairs: TurningPairs | None = None,
) -> None:
    """Add the moments of new samples of a class to those of all classes, a new class at the end.

    Calls have ascending class numbers. A known class gets spare axes, because it grows.
    """
    if number < len(moments):
        summands = [moments[number], added]
        moments[number] = merge(summands, max_rank, device=device, pairs=pairs, with_spare=True)
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
    factor = as_tensor(moments.columns(slice(None)), device=device)
    return _Set(moments.weight, moments.weight_norm, mean, factor)


def norm_of_weights(weights: torch.Tensor) -> float:
    """Return the root of the sum of squared positive weights of any size."""
    largest = weights.max()
    # Squares of the weights themselves may leave the range of double precision.
    relative_norm = torch.linalg.vector_norm(weights / largest)
    return float(largest * relative_norm)


class MomentSums:
    """Sums over disjoint sets of samples of one class, which come one after the other."""

    def __init__(self, pairs: TurningPairs | None = None) -> None:
        self._pairs = pairs
        self._weight = 0.0
        self._weight_norm = 0.0
        # A tensor without dimensions combines with tensors on any device.
        self._mean: torch.Tensor = torch.zeros((), dtype=torch.float64, device="cpu")
        self._scatter: Scatter | None = None

    def add(self, features: torch.Tensor, weights: torch.Tensor) -> None:
        """Add samples: features of shape (n_samples, d), and positive weights."""
        self.add_set(_centre(features, weights))

    def add_set(self, samples: _Set) -> None:
        """Add samples of known moments, by the formula of `merge`."""
        gap = samples.mean - self._mean
        total = self._weight + samples.weight
        share = samples.weight / total
        if self._scatter is None:
            scatter = Scatter(len(samples.mean), self._pairs)
            self._scatter = scatter.add([samples.rows])
        else:
            # The product of two weights may leave the range of double precision.
            between = self._weight * share
            row_between = between**0.5 * gap[None]
            self._scatter = self._scatter.add([row_between, samples.rows])
        self._weight = total
        self._weight_norm = math.hypot(self._weight_norm, samples.weight_norm)
        self._mean = self._mean + share * gap

    def moments(
        self, max_rank: Rank = None, truncated_trace: float = 0.0, *, with_spare: bool = False
    ) -> ClassMoments:
        """Return the moments of all samples added, at least one, by `Scatter.factor`."""
        weight = self._weight
        mean = self._mean
        check_finite(weight)
        check_weight(weight)
        assert self._scatter is not None
        rounding = weight * self._lengths_of_rounding().square()
        factor, residual = self._scatter.factor(
            max_rank, rounding, truncated_trace, with_spare=with_spare
        )
        packed_factor, lost_energies = pack_factor(factor, max_rank)
        truncated = none_if_zero(as_array(residual + lost_energies))
        return ClassMoments(weight, self._weight_norm, as_array(mean), packed_factor, truncated)

    def _lengths_of_rounding(self) -> torch.Tensor:
        """Return the lengths of the rounding of each column, of shape (d,).

        Inputs are data, of which only the last digits are rounding. The outputs of neurons for
        equal samples are not quite equal, because they are sums of many products.
        """
        lengths = VALUE_ROUNDING * self._mean.abs()
        if self._pairs is not None:
            neurons = slice(self._pairs.n_inputs, None)
            lengths[neurons] = LENGTH_ROUNDING * self._mean[neurons].abs()
        return lengths
