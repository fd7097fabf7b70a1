r"""Inner products of class means and scatter rows under the inverse of one matrix.

The matrix is :math:`B = \mathrm{diag}(\delta) + c R^\top R`, where R holds the rows of all
classes. With vectors V, among them R, and :math:`K = V \, \mathrm{diag}(\delta)^{-1} V^\top`, the
Woodbury identity gives

.. math:: R B^{-1} V^\top = (I + c K_{RR})^{-1} K_{RV}, \qquad
          V B^{-1} V^\top = K_{VV} - c K_{VR} (I + c K_{RR})^{-1} K_{RV} ,

so that with fewer rows than columns nothing is as wide as the features once K is known; among the
rows themselves the products are :math:`(I - (I + c K_{RR})^{-1}) / c`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..linalg import DiagonalPlusGram, cholesky, lower_gram
from .gaussians import ClassGaussians

__all__ = ["ClassProducts", "ProductsBetween", "ProductsUnder"]

_NAME = "the pooled covariance"


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
        self._places = _places(self._slices, len(self._rows)).to(self._rows.device)
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
            return _WideInverse(self._gram / scale, self._places, pooled)
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

    def __init__(self, gram: torch.Tensor, places: torch.Tensor, pooled: float) -> None:
        n_rows = len(gram) - len(places)
        of_rows, with_means = gram[:n_rows, :n_rows], gram[:n_rows, n_rows:]
        inverse = _inverse(of_rows, pooled)
        solved = inverse @ with_means
        self.of_means = gram[n_rows:, n_rows:] - pooled * with_means.T @ solved
        # Rows, means behind them, and last zeros, for the rows that shorter classes lack.
        self._table = gram.new_zeros((len(gram) + 1,) * 2)
        torch.mul(inverse, -1.0 / pooled, out=self._table[:n_rows, :n_rows])
        self._table[:n_rows, :n_rows].diagonal().add_(1.0 / pooled)
        self._table[:n_rows, n_rows:-1] = solved
        self._table[n_rows:-1, :n_rows] = solved.T
        self._table[n_rows:-1, n_rows:-1] = self.of_means
        self._places = places

    def of(self, classes: Sequence[int]) -> "_WideInverse":
        """Products of the vectors of some classes: all are there."""
        return self

    def __call__(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Look products up."""
        rows, columns = self._places[first][:, :, None], self._places[second][:, None]
        return self._table[rows, columns]


def _inverse(of_rows: torch.Tensor, pooled: float) -> torch.Tensor:
    """The inverse of I + c K_RR."""
    inner = of_rows * pooled
    inner.diagonal().add_(1.0)
    return torch.cholesky_inverse(cholesky(inner, name=_NAME))


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
ProductsBetween = _WideInverse | _Solved
ProductsUnder = _WideInverse | _TallInverse


def _slices(lengths: Sequence[int], most: int) -> list[slice]:
    """Where the first rows of each class are, at most so many."""
    stops = np.cumsum(lengths).tolist()
    return [
        slice(stop - length, stop - length + min(length, most))
        for stop, length in zip(stops, lengths, strict=True)
    ]


def _places(slices: Sequence[slice], n_rows: int) -> torch.Tensor:
    """Where the rows and the mean of each class are among rows, means, and zeros last."""
    width, n_classes = max(one.stop - one.start for one in slices), len(slices)
    places = torch.full((n_classes, width + 1), n_rows + n_classes, device="cpu")
    for label, (one, own) in enumerate(zip(slices, places, strict=True)):
        own[: one.stop - one.start] = torch.arange(one.start, one.stop, device="cpu")
        own[-1] = n_rows + label
    return places
