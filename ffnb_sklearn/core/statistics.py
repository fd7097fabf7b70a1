r"""What is kept of a class: its weight, its mean and its scatter, as a factor.

The scatter of a class, :math:`S = \sum_i w_i (x_i - \mu)(x_i - \mu)^\top`, is held as
:math:`S = F^\top F + \mathrm{diag}(v)`: the rows of F are principal axes of the class, each
as long as the square root of the scatter along it, and v is the diagonal of whatever F leaves
out. With no limit on the rank, v is zero and the pair is the scatter itself; with a limit, the
diagonal of S stays exact, and its trace with it.

Moments of disjoint samples merge into those of their union, and can be subtracted again.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import torch

from .device import as_array, as_tensor
from .linalg import (
    NotPositiveDefiniteError,
    column_energies,
    longest_rows,
    longest_rows_of_gram,
    lower_gram,
)

__all__ = [
    "Array",
    "ClassMoments",
    "check_finite",
    "merge",
    "moments_of",
    "principal_factor",
    "principal_rows",
    "rounding_of",
    "subtract",
]

Array = npt.NDArray[np.float64]
Columns = npt.NDArray[np.intp] | slice

# Principal rows below this share of the scatter are rounding: centring always leaves one.
_NEGLIGIBLE_SHARE = 1e-28

# A spread below this share of the root mean square of the samples is rounding of their mean.
_ROUNDING_SHARE = 1e-13

# Of up to so many times as many columns, principal rows are found exactly: it costs no more.
_EXACT_UP_TO = 4


@dataclass(frozen=True)
class ClassMoments:
    """Moments of the samples of one class.

    Attributes
    ----------
    weight : float
        Sum of the sample weights: the number of samples where none were given.
    mean : ndarray of shape (d,)
        Weighted mean.
    blocks : tuple of ndarray of shape (r, d_k)
        F, side by side; the scatter is ``factor.T @ factor + diag(residual)``.
    residual : ndarray of shape (d,)
        Diagonal of the part of the scatter that the factor leaves out, never negative.
    """

    weight: float
    mean: Array
    blocks: tuple[Array, ...]
    residual: Array

    @property
    def rank(self) -> int:
        """Number of rows of the factor."""
        return len(self.blocks[0])

    @property
    def factor(self) -> Array:
        """F, of shape (r, d); a copy where it has several blocks."""
        return self.columns(slice(0, len(self.mean)))

    def columns(self, columns: Columns, out: Array | None = None) -> Array:
        """Some columns of the factor.

        Parameters
        ----------
        columns : ndarray of shape (n,) or slice
            Which; a slice has a start and a stop, and no step.
        out : ndarray of shape (r, n) or None, default=None
            Where to put them; None for a new array, or a view where one block has them all.

        Returns
        -------
        ndarray of shape (r, n)
            Not to be changed if ``out=None``.
        """
        starts = accumulate((block.shape[1] for block in self.blocks), initial=0)
        placed = list(zip(starts, self.blocks, strict=False))
        if not isinstance(columns, slice):
            picked = np.empty((self.rank, len(columns))) if out is None else out
            for start, block in placed:
                here = (columns >= start) & (columns < start + block.shape[1])
                picked[:, here] = block[:, columns[here] - start]
            return picked
        parts = [
            block[:, max(0, columns.start - start) : columns.stop - start]
            for start, block in placed
            if columns.start < start + block.shape[1] and start < columns.stop
        ]
        if out is None and len(parts) == 1:
            return parts[0]
        together: Array = np.concatenate(parts or [self.blocks[0][:, :0]], axis=1, out=out)
        return together

    def scatter(self, columns: Columns | None = None) -> Array:
        """Scatter matrix of all features, or of the given ones."""
        seen = slice(0, len(self.mean)) if columns is None else columns
        factor = self.columns(seen)
        dense: Array = factor.T @ factor
        dense.flat[:: len(dense) + 1] += self.residual[seen]
        return dense

    def second_moment(self, columns: Columns | None = None) -> Array:
        """Weighted sum of the outer products of these features with themselves."""
        mean = self.mean if columns is None else self.mean[columns]
        return self.scatter(columns) + self.weight * np.outer(mean, mean)

    def take(self, columns: Columns) -> "ClassMoments":
        """Moments of some of the features, or of all of them in another order."""
        factor = np.ascontiguousarray(self.columns(columns))
        return ClassMoments(self.weight, self.mean[columns], (factor,), self.residual[columns])

    def append(self, mean: Array, factor: Array, residual: Array) -> "ClassMoments":
        """Moments with further features behind the present ones."""
        blocks = [*self.blocks, factor]
        # No column is copied more often than there are doublings of the width behind it.
        while len(blocks) > 1 and blocks[-2].shape[1] <= blocks[-1].shape[1]:
            blocks[-2:] = [np.concatenate(blocks[-2:], axis=1)]
        return ClassMoments(
            self.weight,
            np.concatenate([self.mean, mean]),
            tuple(blocks),
            np.concatenate([self.residual, residual]),
        )


def check_finite(*sums: float) -> None:
    """Refuse moments that have left the range of numbers.

    Parameters
    ----------
    *sums : float
        Finite only if all that they add up is.

    Raises
    ------
    ValueError
        If one is not finite.
    """
    if not np.isfinite(sums).all():
        raise ValueError(
            "the moments of the samples must be finite numbers, and overflow here. Rescale the "
            "features or the sample weights."
        )


class _Scatter:
    """A sum of outer products: rows while there are few of them, else a square matrix."""

    def __init__(self, n_columns: int) -> None:
        self._rows: list[torch.Tensor] = []
        self._gram: torch.Tensor | None = None
        self._n_columns = n_columns

    def add(self, rows: torch.Tensor) -> None:
        self._rows.append(rows)
        if self._gram is None and sum(map(len, self._rows)) <= self._n_columns:
            return
        for block in self._rows:
            product = lower_gram(block.T)
            self._gram = product if self._gram is None else self._gram + product
        self._rows = []

    def principal_rows(self, max_rows: int | None = None) -> torch.Tensor:
        """Principal axes times the root of the scatter along each, the longest first.

        They are an orthogonal mixture of the rows that were added, so that no sample
        stands among them as it came.
        """
        return self._longest(max_rows, self._energies())

    def factor(self, max_rank: int | None, rounding: float = 0.0) -> tuple[Array, Array]:
        """Factor of at most ``max_rank`` principal rows, and the diagonal of what they leave.

        Both are zero if the trace is no more than what is given as rounding.
        """
        energies = self._energies()
        rows = self._longest(max_rank, energies)
        if float(energies.sum()) <= rounding:
            return as_array(rows[:0]), np.zeros(self._n_columns)
        left_out = torch.zeros_like(energies)
        if len(rows) == max_rank:
            left_out = (energies - column_energies(rows)).clamp_min(0.0)
        return as_array(rows), as_array(left_out)

    def _longest(self, max_rows: int | None, energies: torch.Tensor) -> torch.Tensor:
        """The longest principal rows, without those of rounding."""
        energy = float(energies.sum())
        check_finite(energy)
        # Not by the number of rows: the same sum may come in many or in few.
        nearly = max_rows is not None and self._n_columns > _EXACT_UP_TO * max_rows
        if self._gram is None:
            rows = self._rows[0] if len(self._rows) == 1 else torch.cat(self._rows)
            principal = longest_rows(rows, max_rows, nearly=nearly)
        else:
            principal = longest_rows_of_gram(self._gram, max_rows, nearly=nearly)
        lengths = torch.linalg.vector_norm(principal, dim=1)
        return principal[lengths.square() > _NEGLIGIBLE_SHARE * energy]

    def _energies(self) -> torch.Tensor:
        """Sum of the squares in each column."""
        if self._gram is not None:
            return self._gram.diagonal()
        return torch.stack([column_energies(block) for block in self._rows]).sum(0)


def principal_rows(*rows: torch.Tensor) -> torch.Tensor:
    """Orthogonal rows of the same sum of outer products, the longest first.

    Parameters
    ----------
    *rows : Tensor of shape (n, d)
        R, in one block or in several of the same width.

    Returns
    -------
    Tensor of shape (r, d)
        Eigenvectors of R'R times the roots of their eigenvalues, without those of rounding.
    """
    scatter = _Scatter(rows[0].shape[1])
    for block in rows:
        scatter.add(block)
    return scatter.principal_rows()


def rounding_of(weight: float, mean: Array) -> float:
    """Trace of a scatter that is no more than rounding.

    The mean of equal samples is not quite the sample, so that a class of nothing else would have
    a spread, of a size and a shape that say nothing of the samples.
    """
    length = _ROUNDING_SHARE * mean
    return weight * float(length @ length)


def principal_factor(
    rows: torch.Tensor, max_rank: int | None, rounding: float = 0.0
) -> tuple[Array, Array]:
    """A factor of the sum of the outer products of some rows.

    Parameters
    ----------
    rows : Tensor of shape (n, d)
        R.
    max_rank : int or None
        Most rows of the factor; None keeps the sum exactly.
    rounding : float, default=0.0
        Trace up to which the sum counts as zero.

    Returns
    -------
    factor : ndarray of shape (r, d)
        Principal rows, the longest first.
    left_out : ndarray of shape (d,)
        Diagonal of what they leave of R'R.
    """
    scatter = _Scatter(rows.shape[1])
    scatter.add(rows)
    return scatter.factor(max_rank, rounding)


def moments_of(
    chunks: Iterable[tuple[torch.Tensor, torch.Tensor]], max_rank: int | None = None
) -> ClassMoments:
    """Moments of the samples of one class.

    Parameters
    ----------
    chunks : iterable of (features, weights)
        Features of shape (n_samples, d) and positive weights of shape (n_samples,), some of
        the samples at a time; at least one.
    max_rank : int or None, default=None
        Most rows of the factor; None keeps the scatter exactly.

    Returns
    -------
    ClassMoments
        They depend on the order of the samples and on the cut into chunks by rounding alone.

    Raises
    ------
    ValueError
        If they are not finite.
    """
    weight, mean, scatter = 0.0, None, None
    for features, weights in chunks:
        chunk_weight = float(weights.sum())
        chunk_mean = weights @ features / chunk_weight
        if mean is None or scatter is None:
            weight, mean, scatter = 0.0, chunk_mean, _Scatter(features.shape[1])
        rows = features - chunk_mean
        scatter.add(rows.mul_(weights.sqrt()[:, None]))
        if weight:
            shift = (weight * chunk_weight / (weight + chunk_weight)) ** 0.5
            scatter.add((chunk_mean - mean)[None] * shift)
        weight += chunk_weight
        mean = mean + (chunk_mean - mean) * (chunk_weight / weight)
    if mean is None or scatter is None:
        raise ValueError("moments_of needs at least one chunk of samples; got none.")
    check_finite(weight)
    centre = as_array(mean)
    factor, residual = scatter.factor(max_rank, rounding_of(weight, centre))
    return ClassMoments(weight, centre, (factor,), residual)


def merge(
    first: ClassMoments,
    second: ClassMoments,
    max_rank: int | None = None,
    *,
    device: torch.device,
) -> ClassMoments:
    """Moments of the union of two disjoint sets of samples.

    The scatters add up, together with that of the two means about the common one (Chan,
    Golub and LeVeque, 1983).

    Parameters
    ----------
    first, second : ClassMoments
        Moments of the same d features.
    max_rank : int or None, default=None
        Most rows of the factor; None keeps the scatter exactly.
    device : torch.device
        Where to compute.

    Returns
    -------
    ClassMoments
        Moments of all the samples.

    References
    ----------
    T. F. Chan, G. H. Golub and R. J. LeVeque. Algorithms for computing the sample variance:
    analysis and recommendations. The American Statistician 37(3), 1983.
    """
    weight = first.weight + second.weight
    check_finite(weight)
    gap = second.mean - first.mean
    shift = gap * np.sqrt(first.weight * second.weight / weight)
    mean = first.mean + gap * (second.weight / weight)
    rows = np.concatenate([first.factor, second.factor, shift[None]])
    rounding = rounding_of(weight, mean)
    factor, left_out = principal_factor(as_tensor(rows, device=device), max_rank, rounding)
    return ClassMoments(weight, mean, (factor,), first.residual + second.residual + left_out)


def subtract(
    whole: ClassMoments, part: ClassMoments, max_rank: int | None = None, *, device: torch.device
) -> ClassMoments:
    """Moments of what is left of a set of samples when some of them are taken away.

    Parameters
    ----------
    whole, part : ClassMoments
        Moments of all the samples and of those to take away.
    max_rank : int or None, default=None
        Most rows of the factor; None keeps the scatter exactly.
    device : torch.device
        Where to compute.

    Returns
    -------
    ClassMoments
        Such that `merge` with ``part`` gives ``whole`` again, up to rounding.

    Raises
    ------
    ValueError
        If ``part`` weighs as much as ``whole`` or more.
    NotPositiveDefiniteError
        If the scatter left over has a clearly negative eigenvalue: ``part`` was not contained
        in ``whole``, or a limit on the rank had cut them differently.
    """
    weight = whole.weight - part.weight
    if weight <= 0.0:
        raise ValueError(
            "part must weigh less than whole to be taken away; "
            f"got {part.weight} of {whole.weight}."
        )
    mean = (whole.weight * whole.mean - part.weight * part.mean) / weight
    gap = part.mean - mean
    between = (weight * part.weight / whole.weight) * np.outer(gap, gap)
    left = as_tensor(whole.scatter() - part.scatter() - between, device=device)
    values, basis = torch.linalg.eigh(left)
    if values[0] < -1e-8 * np.trace(whole.scatter()):
        raise NotPositiveDefiniteError(
            "the scatter left after subtraction has the eigenvalue "
            f"{float(values[0]):.3g}: part was not contained in whole."
        )
    rows = values.clamp_min(0.0).sqrt()[:, None] * basis.T
    factor, residual = principal_factor(rows, max_rank)
    return ClassMoments(weight, mean, (factor,), residual)
