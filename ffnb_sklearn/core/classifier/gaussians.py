"""The classes as the classifier sees them: stacked moments of the last feature map."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..device import as_tensor
from ..features.feature_map import Index, as_slice
from ..linalg import column_energies, lower_gram
from ..statistics import Array, ClassMoments

__all__ = ["ClassGaussians"]

# A spread of the means below this share of their energy is rounding.
_NEGLIGIBLE_SHARE = 1e-24


@dataclass(frozen=True)
class ClassGaussians:
    """Gaussians of C classes over d features, in order of the classes' arrival.

    The covariance of class c is ``factor_c.T @ factor_c + diag(residual_c)`` divided by its
    weight, where the factors of all classes lie under one another in `rows`.

    Attributes
    ----------
    weights : Tensor of shape (C,)
        Sums of sample weights.
    means : Tensor of shape (C, d)
        Class means.
    rows : Tensor of shape (R, d)
        Factors of the scatters.
    lengths : tuple of int
        Number of rows of each class.
    residuals : Tensor of shape (C, d)
        Diagonals of the scatters that the factors leave out.
    penalties : Tensor of shape (d,)
        Weight of each feature's ridge: 1 for a feature at full scale, more for one to be
        trusted less. A feature multiplied by s has the effect of a penalty of 1 / s^2.
    energies : Tensor of shape (C, d)
        Sums of the squares of each class's rows.
    gram : Tensor of shape (d, d) or None
        Lower triangle of the Gram matrix of the columns of `rows`, where there are no fewer rows
        than columns.
    """

    weights: torch.Tensor
    means: torch.Tensor
    rows: torch.Tensor
    lengths: tuple[int, ...]
    residuals: torch.Tensor
    penalties: torch.Tensor
    energies: torch.Tensor
    gram: torch.Tensor | None

    @classmethod
    def from_moments(
        cls,
        moments: Sequence[ClassMoments],
        columns: Index,
        penalties: Array | None = None,
        *,
        device: torch.device,
    ) -> "ClassGaussians":
        """Stack the moments of the given features, whose penalties are 1 if none are given."""
        if penalties is None:
            penalties = np.ones(len(columns))
        seen, lengths = as_slice(columns), [one.rank for one in moments]
        # Of Torch's memory: NumPy asks for large pages, with which the solution took 3 % longer.
        shape = sum(lengths), len(columns)
        rows = torch.empty(shape, dtype=torch.float64, device="cpu")
        for one, part in zip(moments, torch.split(rows, lengths), strict=True):
            one.columns(seen, out=part.numpy())
        rows = rows.to(device)
        # One class at a time: all rows once more, squared, may not fit into memory.
        energies = [column_energies(part) for part in torch.split(rows, lengths)]
        return cls(
            weights=as_tensor([one.weight for one in moments], device=device),
            means=as_tensor(np.stack([one.mean[seen] for one in moments]), device=device),
            rows=rows,
            lengths=tuple(lengths),
            residuals=as_tensor(np.stack([one.residual[seen] for one in moments]), device=device),
            penalties=as_tensor(penalties, device=device),
            energies=torch.stack(energies),
            gram=lower_gram(rows.T) if len(rows) >= len(columns) else None,
        )

    def parts(self) -> tuple[torch.Tensor, ...]:
        """Rows of each class, of shape (n_rows, d)."""
        return torch.split(self.rows, list(self.lengths))

    def with_penalties(self, penalties: torch.Tensor) -> "ClassGaussians":
        """The same classes with other penalties, of shape (d,)."""
        return replace(self, penalties=penalties)

    def first(self, n_features: int) -> "ClassGaussians":
        """Return the same classes over the first features alone."""
        if n_features == len(self.penalties):
            return self
        return replace(
            self,
            means=self.means[:, :n_features],
            rows=self.rows[:, :n_features],
            residuals=self.residuals[:, :n_features],
            penalties=self.penalties[:n_features],
            energies=self.energies[:, :n_features],
            gram=None if self.gram is None else self.gram[:n_features, :n_features],
        )

    def without_rows(self) -> "ClassGaussians":
        """Return the same classes with the scatter of their factors as diagonal."""
        return replace(
            self,
            rows=self.rows[:0],
            lengths=(0,) * len(self.lengths),
            residuals=self.residuals + self.energies,
            energies=torch.zeros_like(self.energies),
            gram=None,
        )

    def mean_variances(self) -> torch.Tensor:
        """Mean variance of the features of each class, of shape (C,), after scaling.

        A feature's variance counts by the inverse of its penalty, as if it had been scaled.
        """
        spreads = (self.energies + self.residuals) / self.penalties
        return spreads.sum(1) / self.weights / len(self.penalties)

    def pooled_variance(self) -> torch.Tensor:
        """Mean variance of the features within classes, a positive number of shape ().

        Where there is no spread within any class, as with one sample per class, the spread
        between the classes takes its place, where there is none of that either the energy of
        the features, and 1 where all of them are zero.
        """
        share = self.weights / self.weights.sum()
        within = share @ self.mean_variances()
        if within > 0.0:
            return within
        energy = share @ (self.means.square() / self.penalties).mean(1)
        centre = share @ self.means
        between = share @ ((self.means - centre).square() / self.penalties).mean(1)
        if between > _NEGLIGIBLE_SHARE * energy:
            return between
        return energy if energy > 0.0 else torch.ones_like(energy)
