"""Moments of all classes in the features that the classifier sees, stacked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from .device import Array, as_tensor
from .features import Blocks, Index, as_slice
from .linalg import (
    ENERGY_ROUNDING,
    LEAST_ENERGY,
    LENGTH_ROUNDING,
    VALUE_ROUNDING,
    DiagonalPlusGram,
    lower_gram,
)
from .moments import ClassMoments, column_energies, weighted_mean

__all__ = ["LEAST_SHARE", "ClassGaussians"]

# Least share of a covariance that remains along a sample without the sample, and least shrinkage:
# about 1e5 samples determine a class covariance, and a smaller share only loses digits.
LEAST_SHARE = 1e-3


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
        Lower triangle of the Gram matrix of the columns of `rows`; None if there are fewer rows
        than columns.
    rounding : Tensor of shape (d,)
        Variance of the rounding errors of shared neurons, and of columns in which no samples
        differ; else zero.
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
    rounding: torch.Tensor
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
        shared: slice | None = None,
    ) -> "ClassGaussians":
        """Stack the moments of some features; None sets their penalties to 1.

        Features that are constant up to rounding are the same in all classes. `shared` are the
        numbers of the shared neurons among the features.
        """
        if penalties is None:
            penalties = np.ones(len(columns))
        seen = as_slice(columns)
        lengths = tuple(each.rank for each in moments)
        weights = np.empty(len(moments))
        counts = np.empty(len(moments))
        means = np.empty((len(moments), len(columns)))
        residuals = np.empty_like(means)
        # Torch allocates, because NumPy's large pages made the solution 3 % slower.
        shape = sum(lengths), len(columns)
        rows = torch.empty(shape, dtype=torch.float64, device="cpu")
        factors = torch.split(rows, list(lengths))
        for c, (each, factor) in enumerate(zip(moments, factors, strict=True)):
            factor.numpy()[:] = each.factor[:, seen]
            weights[c] = each.weight
            counts[c] = each.n_samples
            means[c] = each.mean[seen]
            residuals[c] = each.residual[seen]
        rows = rows.to(device)
        gram = None
        if len(rows) >= len(columns):
            gram = lower_gram(rows.T)
        # Class by class, because the squares of all rows may not fit into memory.
        energies = map(column_energies, torch.split(rows, list(lengths)))
        gaussians = cls(
            weights=as_tensor(weights, device=device),
            counts=as_tensor(counts, device=device),
            means=as_tensor(means, device=device),
            rows=rows,
            lengths=lengths,
            residuals=as_tensor(residuals, device=device),
            penalties=as_tensor(penalties, device=device),
            energies=torch.stack(list(energies)),
            gram=gram,
            rounding=torch.zeros(len(columns), dtype=torch.float64, device=device),
            seed=seed,
        )
        return gaussians._without_rounding(shared or slice(0, 0))

    def _without_rounding(self, shared: slice) -> "ClassGaussians":
        """Return the classes with their variance due to rounding, which separates no classes.

        Where all samples differ by rounding alone, the classes get one mean and no scatter. The
        rounding errors of an input are relative to its mean. Those of a shared neuron are relative
        to the norm of a sample, and so to that of the outputs of all shared neurons: a large
        constant input hides the other inputs from them.
        """
        centre = self.centre()
        squares = centre.square()
        rounding = VALUE_ROUNDING**2 * squares
        rounding[shared] = ENERGY_ROUNDING * squares[shared].sum()
        total = self.weights.sum()
        shares = self.weights / total
        within = (self.energies.sum(0) + self.residuals.sum(0)) / total
        between = shares @ (self.means - centre).square()
        is_constant = within + between <= rounding
        has_rounding = is_constant.clone()
        has_rounding[shared] = True
        rounding = torch.where(has_rounding, rounding, 0.0)
        gaussians = replace(self, rounding=rounding)
        if not bool(is_constant.any()):
            return gaussians
        varies = (~is_constant).to(self.means.dtype)
        gram = self.gram
        if gram is not None:
            gram = gram * varies * varies[:, None]
        self.rows.mul_(varies)
        return replace(
            gaussians,
            means=torch.where(is_constant, centre, self.means),
            residuals=self.residuals * varies,
            energies=self.energies * varies,
            gram=gram,
        )

    def centre(self) -> torch.Tensor:
        """Return the weighted mean of the class means, of shape (d,)."""
        return weighted_mean(self.means, self.weights)

    @cached_property
    def class_rows(self) -> tuple[torch.Tensor, ...]:
        """Rows of each class, of shape (n_rows, d)."""
        lengths = list(self.lengths)
        return torch.split(self.rows, lengths)

    def first_features(self, n_features: int) -> "ClassGaussians":
        """Return the same classes over the first features alone."""
        if n_features == len(self.penalties):
            return self
        gram = self.gram
        if gram is not None:
            gram = gram[:n_features, :n_features]
        return replace(
            self,
            means=self.means[:, :n_features],
            rows=self.rows[:, :n_features],
            residuals=self.residuals[:, :n_features],
            penalties=self.penalties[:n_features],
            energies=self.energies[:, :n_features],
            gram=gram,
            rounding=self.rounding[:n_features],
        )

    @cached_property
    def spreads(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Scatter of each feature within classes and between means, and its energy.

        The energy is the weighted sum of the squared class means. Scatter between means that is
        only rounding is zero.
        """
        weights = self.weights
        means = self.means
        deviations = means - self.centre()
        within = self.energies.sum(0) + self.residuals.sum(0)
        between = weights @ deviations.square_()
        energy = weights @ means.square()
        between = torch.where(between > ENERGY_ROUNDING * energy, between, 0.0)
        return within, between, energy

    def separation(self, block: slice, penalties: torch.Tensor) -> float:
        """Return the scatter of features between the classes over that within the classes.

        Both are in units of the penalties. The quotient is the Calinski-Harabasz index of the block
        up to a factor that all blocks share, and zero if the index is undefined or only rounding.
        """
        within, between, _ = self.spreads
        relative_within = within[block] / penalties[block]
        relative_between = between[block] / penalties[block]
        total_within = float(relative_within.sum())
        if total_within > 0.0:
            return float(relative_between.sum()) / total_within
        return 0.0

    def weigh_blocks(self, blocks: Blocks, input_energy: float | None) -> "ClassGaussians":
        """Return the classes with the penalties of the inputs, the shared and the trained bands.

        The inputs have `input_energy` times the weight of the shared band. None sets the penalties
        of both to 1, so that a pair depends on its two classes alone.
        """
        within, between, energy = self.spreads
        penalties = torch.ones_like(within)
        if input_energy is not None:
            inputs = slice(0, blocks.n_inputs)
            shared = slice(blocks.n_inputs, blocks.n_fixed)
            rounding = ENERGY_ROUNDING * energy[inputs]
            least_energy = LEAST_ENERGY * self.weights.sum()
            rounding.clamp_min_(least_energy)
            penalties[inputs] = _input_penalties(within[inputs], rounding)
            penalties[shared] = input_energy
        sizes = energy / penalties
        spreads = (within + between) / penalties
        n_samples = self.counts.sum()
        n_beyond_first = n_samples - len(self.counts)
        fixed = slice(0, blocks.n_fixed)
        trained = slice(blocks.n_fixed, None)
        penalties[trained] = _trained_penalty(
            spread=spreads[trained].sum(),
            fixed_spread=spreads[fixed].sum(),
            fixed_size=sizes[fixed].sum(),
            share_beyond_first=n_beyond_first / n_samples,
        )
        return replace(self, penalties=penalties)

    def shared_covariance(
        self, shrinkage: float, epsilon: float, times: float = 1.0
    ) -> DiagonalPlusGram:
        r"""Return B, the part of the regularised covariance that all classes share, factored.

        .. math:: B = \rho \Sigma_{pooled} + \varepsilon v P + (1 - \rho) \bar{D} ,

        with the shrinkage :math:`\rho`, the penalties P, the unit v of the ridge, and the mean
        variance :math:`\bar{D}` outside the kept axes. The result is multiplied by `times`.
        """
        total = self.weights.sum()
        ridge = self.ridge(epsilon)
        pooled_outside = self.residuals.sum(0) / total
        mean_outside = (self.residuals / self.weights[:, None]).mean(0)
        diagonal = ridge + shrinkage * pooled_outside + (1.0 - shrinkage) * mean_outside
        rows = self.rows
        gram = self.gram
        if shrinkage == 0.0:
            rows = rows[:0]
            gram = None
        return DiagonalPlusGram(
            times * diagonal,
            rows,
            name="the pooled covariance",
            scale=times * shrinkage / float(total),
            gram=gram,
        )

    def relative_square(self) -> float:
        """Return the squared norm of the pooled covariance over its squared trace, or 0.

        The penalties weight the features, and the parts outside the kept axes do not count.
        """
        variances = self.energies.sum(0) / self.penalties
        trace = variances.sum()
        if not trace > 0.0:
            return 0.0
        root = self.penalties.rsqrt()
        if self.gram is None:
            gram = lower_gram(self.rows * root)
        else:
            gram = self.gram * root * root[:, None]
        # Traces may be as large as 1e160, and their squares overflow.
        relative_gram = gram / trace
        lower = relative_gram.tril()
        diagonal = lower.diagonal()
        squares = lower.square().sum()
        squares_on_diagonal = diagonal.square().sum()
        return float(2.0 * squares - squares_on_diagonal)

    def replace_by_identity(self) -> "ClassGaussians":
        """Return the classes with the identity, times the mean variance, as covariance."""
        unit = self.pooled_variance
        if self.absolute_ridge:
            unit = torch.ones_like(unit)
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
        inverse_penalties = 1.0 / self.penalties
        # Products take no memory, and sums of quotients several times that of the classes.
        spreads = self.energies @ inverse_penalties + self.residuals @ inverse_penalties
        return spreads / self.weights / len(inverse_penalties)

    def ridge(self, epsilon: float) -> torch.Tensor:
        """Return the ridge of each feature that all classes share, of shape (d,).

        It contains the variance of their rounding errors, which counts nothing on ordinary data.
        """
        return epsilon * self.ridge_unit() * self.penalties + self.rounding

    def ridge_unit(self) -> torch.Tensor:
        """Return the unit of a ridge that all classes share, of shape ()."""
        if self.absolute_ridge:
            return self.weights.new_tensor(0.5)
        return self.pooled_variance

    @cached_property
    def pooled_variance(self) -> torch.Tensor:
        """Mean of variances within classes over penalties, positive and of shape ().

        If no class has any spread, the variance between the classes replaces it. If that is zero
        too, it is the energy of the features, or 1 if all features are zero.
        """
        shares = self.weights / self.weights.sum()
        within = shares @ self.mean_variances()
        if within > LEAST_ENERGY:
            return within
        energies = shares @ self.means.square()
        energy = (energies / self.penalties).mean()
        deviations = self.means - self.centre()
        spreads = shares @ deviations.square()
        # Columns have unlike units, so the rounding of each is compared with its own spread.
        spreads = torch.where(spreads > ENERGY_ROUNDING * energies, spreads, 0.0)
        between = (spreads / self.penalties).mean()
        if between > LEAST_ENERGY:
            return between
        if energy > LEAST_ENERGY:
            return energy
        return torch.ones_like(energy)


def _input_penalties(within: torch.Tensor, rounding: torch.Tensor) -> torch.Tensor:
    r"""Return the penalties of the inputs, given their scatters within the classes.

    .. math:: P_j \propto w_j + \mathrm{median}(w) , \qquad \sum_j w_j / P_j = \sum_j w_j ,

    with the lower median of the scatters w above their rounding errors, so the unit of an input has
    little influence.
    """
    varying = within[within > rounding]
    if not len(varying):
        return torch.ones_like(within)
    penalties = within + varying.median()
    relative = within / penalties
    scale = relative.sum() / within.sum()
    return penalties * scale


def _trained_penalty(
    spread: torch.Tensor,
    fixed_spread: torch.Tensor,
    fixed_size: torch.Tensor,
    share_beyond_first: torch.Tensor,
) -> torch.Tensor:
    r"""Return the penalty of all trained neurons.

    .. math:: P = \frac{t}{f \, (1 - C / n)} .

    Their spread t then equals the spread f of all other features times the share of the samples
    beyond the first of each class: a neuron that was fitted to a single sample has no information
    about other samples.
    """
    rounding = ENERGY_ROUNDING * (fixed_spread + fixed_size)
    if not (spread > rounding and fixed_spread > 0.0):
        return torch.ones_like(spread)
    share = share_beyond_first.clamp_min(LENGTH_ROUNDING)
    return spread / fixed_spread / share
