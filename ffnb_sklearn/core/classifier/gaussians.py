"""Moments of all classes in the features that the classifier sees, stacked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..device import as_tensor
from ..features.feature_map import Blocks, Index, as_slice
from ..linalg import (
    ENERGY_ROUNDING,
    LENGTH_ROUNDING,
    DiagonalPlusGram,
    column_energies,
    lower_gram,
)
from ..statistics import Array, ClassMoments

__all__ = ["ClassGaussians"]


@dataclass(frozen=True)
class RowGrams:
    """Gram matrices of rows R in each block of features, for diagonals that scale whole blocks.

    Attributes
    ----------
    diagonal : Tensor of shape (d,)
        Reference D of the diagonals, positive.
    starts : tuple of int
        First feature of each block.
    grams : tuple of Tensor of shape (R, R)
        Lower triangle of R inv(D) R' in each block.
    """

    diagonal: torch.Tensor
    starts: tuple[int, ...]
    grams: tuple[torch.Tensor, ...]

    @classmethod
    def of(cls, rows: torch.Tensor, diagonal: torch.Tensor, blocks: Blocks) -> "RowGrams":
        """Compute the Gram matrices of the blocks that are not empty."""
        stops = [blocks.n_inputs, blocks.n_fixed, len(diagonal)]
        starts = [0, *stops[:-1]]
        taken = [(start, stop) for start, stop in zip(starts, stops, strict=True) if stop > start]
        root = diagonal.rsqrt()
        grams = tuple(lower_gram(rows[:, a:b] * root[a:b]) for a, b in taken)
        return cls(diagonal, tuple(start for start, _ in taken), grams)

    def first(self, n_features: int) -> "RowGrams | None":
        """Return the Gram matrices of the first features alone, None if they end in a block."""
        if n_features not in self.starts:
            return None
        starts = tuple(start for start in self.starts if start < n_features)
        return RowGrams(self.diagonal[:n_features], starts, self.grams[: len(starts)])

    def scaled(self, diagonal: torch.Tensor) -> torch.Tensor | None:
        """Return the lower triangle of R diag(diagonal)^-1 R'.

        It is None if a block of the diagonal is not a multiple of the reference.
        """
        shares = self.diagonal / diagonal
        first = shares[list(self.starts)]
        for share, start, stop in zip(first, self.starts, [*self.starts[1:], None], strict=True):
            if bool(((shares[start:stop] - share).abs() > LENGTH_ROUNDING * share).any()):
                return None
        scaled = self.grams[0] * first[0]
        for gram, share in zip(self.grams[1:], first[1:], strict=True):
            scaled.addcmul_(gram, share)
        return scaled


@dataclass(frozen=True)
class ClassGaussians:
    """Gaussians of C classes over d features, in order of arrival.

    The covariance of class c is ``factor_c.T @ factor_c + diag(residual_c)`` divided by its weight;
    `rows` holds the factors of all classes, one class under the other.

    Attributes
    ----------
    weights : Tensor of shape (C,)
        Sums of sample weights.
    counts : Tensor of shape (C,)
        Numbers of samples.
    means : Tensor of shape (C, d)
        Class means.
    rows : Tensor of shape (R, d)
        Factors of the scatters.
    lengths : tuple of int
        Number of rows of each class.
    residuals : Tensor of shape (C, d)
        Diagonals of the part of the scatters that the factors leave out.
    penalties : Tensor of shape (d,)
        Weight of each feature's ridge; a larger weight reduces the influence of the feature. A
        penalty of 1 / s^2 has the effect of a feature multiplied by s.
    energies : Tensor of shape (C, d)
        Sums of the squares of each class's rows.
    gram : Tensor of shape (d, d) or None
        Lower triangle of the Gram matrix of the columns of `rows`, where there are no fewer rows
        than columns.
    row_grams : RowGrams or None, default=None
        Gram matrices of the rows, where there are fewer.
    seed : int, default=0
        Seed of the draws of the judge.
    absolute_ridge : bool, default=False
        Whether the unit of the ridge is 1/2 for each class, and so 1 for a pair, or the variance.
    """

    weights: torch.Tensor
    counts: torch.Tensor
    means: torch.Tensor
    rows: torch.Tensor
    lengths: tuple[int, ...]
    residuals: torch.Tensor
    penalties: torch.Tensor
    energies: torch.Tensor
    gram: torch.Tensor | None
    seed: int = 0
    absolute_ridge: bool = False
    row_grams: "RowGrams | None" = None

    @classmethod
    def from_moments(
        cls,
        moments: Sequence[ClassMoments],
        columns: Index,
        penalties: Array | None = None,
        *,
        device: torch.device,
        seed: int = 0,
    ) -> "ClassGaussians":
        """Stack the moments of some features; None sets their penalties to 1."""
        if penalties is None:
            penalties = np.ones(len(columns))
        seen, lengths = as_slice(columns), [one.rank for one in moments]
        # Torch allocates, because NumPy's large pages made the solution 3 % slower.
        shape = sum(lengths), len(columns)
        rows = torch.empty(shape, dtype=torch.float64, device="cpu")
        for one, part in zip(moments, torch.split(rows, lengths), strict=True):
            one.columns(seen, out=part.numpy())
        rows = rows.to(device)
        # Class by class, because the squares of all rows may not fit into memory.
        energies = [column_energies(part) for part in torch.split(rows, lengths)]
        return cls(
            weights=as_tensor([one.weight for one in moments], device=device),
            counts=as_tensor([one.n_samples for one in moments], device=device),
            means=as_tensor(np.stack([one.mean[seen] for one in moments]), device=device),
            rows=rows,
            lengths=tuple(lengths),
            residuals=as_tensor(np.stack([one.residual[seen] for one in moments]), device=device),
            penalties=as_tensor(penalties, device=device),
            energies=torch.stack(energies),
            gram=lower_gram(rows.T) if len(rows) >= len(columns) else None,
            seed=seed,
        )

    def parts(self) -> tuple[torch.Tensor, ...]:
        """Return the rows of each class, of shape (n_rows, d)."""
        return torch.split(self.rows, list(self.lengths))

    def first(self, n_features: int) -> "ClassGaussians":
        """Return the same classes over the first features alone."""
        if n_features == len(self.penalties):
            return self
        row_grams = self.row_grams
        if row_grams is not None:
            row_grams = row_grams.first(n_features) if len(self.rows) < n_features else None
        return replace(
            self,
            means=self.means[:, :n_features],
            rows=self.rows[:, :n_features],
            residuals=self.residuals[:, :n_features],
            penalties=self.penalties[:n_features],
            energies=self.energies[:, :n_features],
            gram=None if self.gram is None else self.gram[:n_features, :n_features],
            row_grams=row_grams,
        )

    def with_row_grams(self, blocks: Blocks) -> "ClassGaussians":
        """Return the same classes with Gram matrices of the rows, in the metric of the penalties.

        They are None if they are no use: with residuals, or no fewer rows than columns.
        """
        if len(self.rows) >= self.rows.shape[1] or bool(self.residuals.any()):
            return self
        grams = RowGrams.of(self.rows, self.pooled_variance() * self.penalties, blocks)
        return replace(self, row_grams=grams)

    def gram_in(self, diagonal: torch.Tensor) -> torch.Tensor | None:
        """Return the Gram matrix for a `DiagonalPlusGram` of the rows, or None."""
        if self.row_grams is not None:
            return self.row_grams.scaled(diagonal)
        return self.gram

    def shared_covariance(
        self, shrinkage: float, epsilon: float, times: float = 1.0
    ) -> DiagonalPlusGram:
        r"""Return B, the part of the regularised covariance that all classes share, factored.

        .. math:: B = \rho \Sigma_{pooled} + \varepsilon v P + (1 - \rho) \bar{D} ,

        with the penalties P of the features, the unit v of the ridge, and the mean variance
        :math:`\bar{D}` outside the kept axes.

        Parameters
        ----------
        shrinkage : float
            rho in [0, 1].
        epsilon : float
            Ridge, relative to its unit.
        times : float, default=1.0
            Factor of the result; 2 for a pair of classes.
        """
        weights = self.weights
        diagonal = times * (
            epsilon * self.ridge_unit() * self.penalties
            + shrinkage * self.residuals.sum(0) / weights.sum()
            + (1.0 - shrinkage) * (self.residuals / weights[:, None]).mean(0)
        )
        return DiagonalPlusGram(
            diagonal,
            self.rows if shrinkage else self.rows[:0],
            name="the pooled covariance",
            scale=times * shrinkage / float(weights.sum()),
            gram=self.gram_in(diagonal) if shrinkage else None,
        )

    def total_covariance(
        self, shares: torch.Tensor, epsilon: float
    ) -> tuple[DiagonalPlusGram, torch.Tensor]:
        """Return the pooled covariance plus that of the class means, with a ridge, and its rows.

        Parameters
        ----------
        shares : Tensor of shape (C,)
            Weights of the class means, of sum one.
        epsilon : float
            Ridge, relative to its unit.
        """
        total = self.weights.sum()
        from_centre = self.means - shares @ self.means
        rows = torch.cat([self.rows / total.sqrt(), from_centre * shares.sqrt()[:, None]])
        diagonal = self.residuals.sum(0) / total + epsilon * self.ridge_unit() * self.penalties
        return DiagonalPlusGram(diagonal, rows, name="the total covariance"), rows

    def relative_square(self) -> float:
        """Return the squared norm of the pooled covariance over its squared trace, or 0.

        The penalties weight the features, and the parts outside the kept axes do not count.
        """
        energy = (self.energies.sum(0) / self.penalties).sum()
        if not energy > 0.0:
            return 0.0
        gram = self.gram_in(self.penalties)
        root = self.penalties.rsqrt()
        if gram is None:
            gram = lower_gram(self.rows * root)
        elif self.row_grams is None:
            gram = gram * root * root[:, None]
        # Energies may be as large as 1e160, and their squares overflow.
        gram = gram / energy
        square = 2.0 * gram.tril(-1).square().sum() + gram.diagonal().square().sum()
        return float(square)

    def with_identity(self) -> "ClassGaussians":
        """Return the same classes with the identity times the mean variance as covariance.

        With an absolute ridge it is the identity itself.
        """
        unit = self.weights.new_ones(()) if self.absolute_ridge else self.pooled_variance()
        return replace(
            self,
            rows=self.rows[:0],
            lengths=(0,) * len(self.lengths),
            residuals=self.weights[:, None] * unit * self.penalties,
            energies=torch.zeros_like(self.energies),
            gram=None,
            row_grams=None,
        )

    def mean_variances(self) -> torch.Tensor:
        """Return the mean variance of the features of each class, of shape (C,).

        The inverse of its penalty weights the variance of a feature, as if it were scaled.
        """
        spreads = (self.energies + self.residuals) / self.penalties
        return spreads.sum(1) / self.weights / len(self.penalties)

    def ridge_unit(self) -> torch.Tensor:
        """Return the unit of a ridge that all classes share, of shape ()."""
        return self.weights.new_tensor(0.5) if self.absolute_ridge else self.pooled_variance()

    def pooled_variance(self) -> torch.Tensor:
        """Return the mean variance of the features within classes, positive and of shape ().

        If no class has any spread, as with one sample per class, the variance between the classes
        replaces it. If that is zero too, the result is the energy of the features, or 1 if all
        features are zero.
        """
        share = self.weights / self.weights.sum()
        within = share @ self.mean_variances()
        if within > 0.0:
            return within
        energy = share @ (self.means.square() / self.penalties).mean(1)
        centre = share @ self.means
        between = share @ ((self.means - centre).square() / self.penalties).mean(1)
        if between > ENERGY_ROUNDING * energy:
            return between
        return energy if energy > 0.0 else torch.ones_like(energy)
