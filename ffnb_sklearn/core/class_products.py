r"""Inner products of class means and scatter rows under the inverse of one matrix.

The matrix is :math:`B = \mathrm{diag}(\delta) + c R^\top R`, where R holds the rows of all
classes. With vectors V, among them R, and :math:`K = V \, \mathrm{diag}(\delta)^{-1} V^\top`, the
Woodbury identity gives

.. math:: R B^{-1} V^\top = (I + c K_{RR})^{-1} K_{RV}, \qquad
          V B^{-1} V^\top = K_{VV} - c K_{VR} (I + c K_{RR})^{-1} K_{RV} ,

so that with fewer rows than columns nothing is as wide as the features once K is known.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from .gaussians import ClassGaussians
from .linalg import DiagonalPlusGram, cholesky, lower_gram, solve_in_place

__all__ = ["ClassProducts", "ProductsBetween", "ProductsUnder"]

_NAME = "the pooled covariance"


class _Table(NamedTuple):
    """All products of some classes, and the places of each class's vectors among them."""

    entries: torch.Tensor
    places: torch.Tensor

    def __call__(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Look products up."""
        rows, columns = self.places[first][:, :, None], self.places[second][:, None]
        return self.entries[rows, columns]


class _Solved(NamedTuple):
    """Vectors of some classes, the same times the inverse, and the place of each class."""

    vectors: torch.Tensor
    solved: torch.Tensor
    places: torch.Tensor

    def __call__(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Multiply vectors out."""
        return self.vectors[self.places[first]] @ self.solved[self.places[second]].mT


class ClassProducts:
    """Means and rows of some classes, for inner products under many inverses.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes; neither their residuals nor their penalties play a part.
    most_rows : int
        Of how many of its rows, at most, a class's products are asked for.
    """

    def __init__(self, gaussians: ClassGaussians, most_rows: int) -> None:
        share = gaussians.weights / gaussians.weights.sum()
        self._rows = gaussians.rows
        # What all means have in common would only take digits from their differences.
        self._means = gaussians.means - share @ gaussians.means
        self._slices = _slices(gaussians.lengths, most_rows)
        self._gram: torch.Tensor | None = None
        self._diagonal = gaussians.penalties

    def under(self, diagonal: torch.Tensor, scale: torch.Tensor, pooled: float) -> "ProductsUnder":
        """Products under the inverse of diag(scale * diagonal) + pooled R'R.

        Parameters
        ----------
        diagonal : Tensor of shape (d,)
            Positive entries. Where they are those of the last call, its work is not done again.
        scale : Tensor of shape ()
            Positive.
        pooled : float
            c.

        Returns
        -------
        ProductsUnder
            For any of the classes.
        """
        if len(self._rows) < self._rows.shape[1]:
            if self._gram is None or not torch.equal(diagonal, self._diagonal):
                lower = lower_gram(torch.cat([self._rows, self._means]) / diagonal.sqrt())
                self._gram, self._diagonal = lower.tril() + lower.tril(-1).T, diagonal
            return _WideInverse(self._gram / scale, self._slices, pooled)
        if self._gram is None:
            self._gram = lower_gram(self._rows.T)
        base = DiagonalPlusGram(
            diagonal * scale, self._rows, name=_NAME, scale=pooled, gram=self._gram
        )
        return _TallInverse(base, self._rows, self._means, self._slices)


class _WideInverse:
    """Where there are fewer rows than columns: by products under the diagonal's inverse.

    Attributes
    ----------
    of_means : Tensor of shape (C, C)
        Products of the means, less their common centre.
    """

    def __init__(self, gram: torch.Tensor, slices: Sequence[slice], pooled: float) -> None:
        self._slices = slices
        n_rows = len(gram) - len(slices)
        self._of_rows, with_means = gram[:n_rows, :n_rows], gram[:n_rows, n_rows:]
        inner = self._of_rows * pooled
        inner.diagonal().add_(1.0)
        self._factor = cholesky(inner, name=_NAME)
        self._with_means = solve_in_place(self._factor, with_means.clone())
        self.of_means = gram[n_rows:, n_rows:] - pooled * with_means.T @ self._with_means

    def of(self, classes: Sequence[int]) -> _Table:
        """Products of the vectors of some classes: the rows of each, and last its mean."""
        device, n_means = self._factor.device, len(self._slices)
        own = [self._slices[label] for label in classes]
        parts = [torch.arange(one.start, one.stop, device="cpu") for one in own]
        rows = torch.cat(parts).to(device)
        table = self._factor.new_zeros((len(rows) + n_means + 1,) * 2)
        # Means behind the rows, and behind them zeros, for the rows that shorter classes lack.
        # They are symmetric, and columns are best contiguous.
        solved = solve_in_place(self._factor, self._of_rows[rows].T)
        table[: len(rows), : len(rows)] = solved[rows]
        table[: len(rows), len(rows) : -1] = self._with_means[rows]
        table[len(rows) : -1, : len(rows)] = self._with_means[rows].T
        table[len(rows) : -1, len(rows) : -1] = self.of_means
        width, start = max(map(len, parts)), 0
        places = torch.full((n_means, width + 1), len(table) - 1, device="cpu")
        for label, part in zip(classes, parts, strict=True):
            places[label, : len(part)] = torch.arange(start, start + len(part), device="cpu")
            places[label, -1] = len(rows) + label
            start += len(part)
        return _Table(table, places.to(device))


class _TallInverse:
    """Where there are no fewer rows than columns: by solving for vectors.

    Attributes
    ----------
    of_means : Tensor of shape (C, C)
        Products of the means, less their common centre.
    """

    def __init__(
        self,
        base: DiagonalPlusGram,
        rows: torch.Tensor,
        means: torch.Tensor,
        slices: Sequence[slice],
    ) -> None:
        self._base, self._rows, self._means, self._slices = base, rows, means, slices
        self.of_means = means @ base.solve(means).T

    def of(self, classes: Sequence[int]) -> _Solved:
        """Products of the vectors of some classes: the rows of each, and last its mean."""
        parts = [self._rows[self._slices[label]] for label in classes]
        shape = (len(parts), max(map(len, parts)) + 1, self._rows.shape[1])
        vectors = self._rows.new_zeros(shape)
        places = torch.zeros(len(self._slices), dtype=torch.long, device="cpu")
        for place, (label, part) in enumerate(zip(classes, parts, strict=True)):
            vectors[place, : len(part)], vectors[place, -1] = part, self._means[label]
            places[label] = place
        solved = self._base.solve(vectors.flatten(0, 1)).reshape(shape)
        return _Solved(vectors, solved, places.to(self._rows.device))


# Called with the numbers of n classes each, or of one beside n, they give products of shape
# (n, width + 1, width + 1): the rows of a class, with zeros up to the width, and last its mean.
ProductsBetween = _Table | _Solved
ProductsUnder = _WideInverse | _TallInverse


def _slices(lengths: Sequence[int], most: int) -> list[slice]:
    """Where the first rows of each class are, at most so many."""
    stops = np.cumsum(lengths).tolist()
    return [
        slice(stop - length, stop - length + min(length, most))
        for stop, length in zip(stops, lengths, strict=True)
    ]
