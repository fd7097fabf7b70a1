"""Moments of all classes in the features that the classifier sees, stacked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..class_moments import ClassMoments
from ..device import Array, as_tensor
from ..features.feature_map import Blocks, Index, as_slice
from ..linalg import (
    ENERGY_ROUNDING,
    LEAST_ENERGY,
    LENGTH_ROUNDING,
    DiagonalPlusGram,
    column_energies,
    lower_gram,
)

__all__ = ["ClassGaussians"]


@dataclass(frozen=True)
class ClassGaussians:
    """Gaussians of C classes over d features, in order of arrival.

    The covariance of class c is ``factor_c.T @ factor_c + diag(residual_c)`` divided by its weight.

    Attributes
    ----------
    weights : Tensor of shape (C,)
        Sums of sample weights.
    counts : Tensor of shape (C,)
        Numbers of samples.
    means : Tensor of shape (C, d)
        Class means.
    rows : Tensor of shape (R, d)
        Factors of the scatters, one class under the other.
    lengths : tuple of int
        Number of rows of each class.
    residuals : Tensor of shape (C, d)
        Diagonals of the part of the scatters that the factors leave out.
    penalties : Tensor of shape (d,)
        Weight of each feature's ridge: 1 / s^2 has the effect of a feature multiplied by s.
    energies : Tensor of shape (C, d)
        Sums of the squares of each class's rows.
    gram : Tensor of shape (d, d) or None
        Lower triangle of the Gram matrix of the columns of `rows`, unless there are fewer rows.
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
        return replace(
            self,
            means=self.means[:, :n_features],
            rows=self.rows[:, :n_features],
            residuals=self.residuals[:, :n_features],
            penalties=self.penalties[:n_features],
            energies=self.energies[:, :n_features],
            gram=None if self.gram is None else self.gram[:n_features, :n_features],
        )

    def spreads(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the scatter of each feature within classes and between means, and its energy."""
        centre = self.weights @ self.means / self.weights.sum()
        within = self.energies.sum(0) + self.residuals.sum(0)
        between = self.weights @ (self.means - centre).square()
        return within, between, self.weights @ self.means.square()

    def with_penalties(self, blocks: Blocks, energy: float | None) -> "ClassGaussians":
        """Return the classes with penalties by an energy of the inputs.

        The penalty of an input is its variance within the classes plus the median variance of all
        inputs, so the unit of an input has little influence. The inputs have `energy` times the
        weight of the shared band; None sets the penalties of both to 1, so that a pair depends on
        its two classes alone. All trained neurons together weigh as much as all other features,
        times the share of samples beyond the first of each class.
        """
        within, between, sizes = self.spreads()
        penalties, fixed = torch.ones_like(within), slice(0, blocks.n_fixed)
        if energy is not None:
            inputs = within[: blocks.n_inputs]
            least = ENERGY_ROUNDING * sizes[: blocks.n_inputs]
            varying = inputs[inputs > least.clamp_min(LEAST_ENERGY * self.weights.sum())]
            if len(varying):
                own = inputs + varying.median()
                # The sum of the spreads stays as it is.
                penalties[: blocks.n_inputs] = own * ((inputs / own).sum() / inputs.sum())
            penalties[blocks.n_inputs : blocks.n_fixed] = energy
        spread = (within + between) / penalties
        trained, rest = spread[blocks.n_fixed :].sum(), spread[fixed].sum()
        rounding = ENERGY_ROUNDING * (rest + (sizes / penalties)[fixed].sum())
        if trained > rounding and rest > 0.0:
            # A neuron that was fitted to a single sample says nothing of other samples.
            known = 1.0 - len(self.counts) / self.counts.sum()
            penalties[blocks.n_fixed :] = trained / rest / known.clamp_min(LENGTH_ROUNDING)
        return replace(self, penalties=penalties)

    def shared_covariance(
        self, shrinkage: float, epsilon: float, times: float = 1.0
    ) -> DiagonalPlusGram:
        r"""Return B, the part of the regularised covariance that all classes share, factored.

        .. math:: B = \rho \Sigma_{pooled} + \varepsilon v P + (1 - \rho) \bar{D} ,

        with the shrinkage :math:`\rho`, the penalties P, the unit v of the ridge, and the mean
        variance :math:`\bar{D}` outside the kept axes. The result is multiplied by `times`.
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
            gram=self.gram if shrinkage else None,
        )

    def relative_square(self) -> float:
        """Return the squared norm of the pooled covariance over its squared trace, or 0.

        The penalties weight the features, and the parts outside the kept axes do not count.
        """
        energy = (self.energies.sum(0) / self.penalties).sum()
        if not energy > 0.0:
            return 0.0
        root = self.penalties.rsqrt()
        if self.gram is None:
            gram = lower_gram(self.rows * root)
        else:
            gram = self.gram * root * root[:, None]
        # Energies may be as large as 1e160, and their squares overflow.
        lower = (gram / energy).tril()
        return float(2.0 * lower.square().sum() - lower.diagonal().square().sum())

    def with_identity(self) -> "ClassGaussians":
        """Return the classes with the identity, times the mean variance, as covariance."""
        unit = self.weights.new_ones(()) if self.absolute_ridge else self.pooled_variance()
        return replace(
            self,
            rows=self.rows[:0],
            lengths=(0,) * len(self.lengths),
            residuals=self.weights[:, None] * unit * self.penalties,
            energies=torch.zeros_like(self.energies),
            gram=None,
        )

    def mean_variances(self) -> torch.Tensor:
        """Return the mean of variances over penalties of each class, of shape (C,)."""
        spreads = (self.energies + self.residuals) / self.penalties
        return spreads.sum(1) / self.weights / len(self.penalties)

    def ridge_unit(self) -> torch.Tensor:
        """Return the unit of a ridge that all classes share, of shape ()."""
        return self.weights.new_tensor(0.5) if self.absolute_ridge else self.pooled_variance()

    def pooled_variance(self) -> torch.Tensor:
        """Return the mean of variances within classes over penalties, positive and of shape ().

        If no class has any spread, the variance between the classes replaces it. If that is zero
        too, the result is the energy of the features, or 1 if all features are zero.
        """
        share = self.weights / self.weights.sum()
        within = share @ self.mean_variances()
        if within > LEAST_ENERGY:
            return within
        energy = share @ (self.means.square() / self.penalties).mean(1)
        centre = share @ self.means
        between = share @ ((self.means - centre).square() / self.penalties).mean(1)
        if between > (ENERGY_ROUNDING * energy).clamp_min(LEAST_ENERGY):
            return between
        return energy if energy > LEAST_ENERGY else torch.ones_like(energy)
