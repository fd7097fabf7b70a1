r"""Pairwise Fisher discriminants of all classes, and their aggregation [Sec. 3.2.3].

For classes t and r, Gaussian with regularised covariances,

.. math:: w_{tr} = (\tilde\Sigma_t + \tilde\Sigma_r + s I)^{-1} (\mu_t - \mu_r), \qquad
          b_{tr} = -\tfrac12 w_{tr} \cdot (\mu_t + \mu_r), \qquad
          \tilde\Sigma_c = (1 - \rho) \Sigma_c + \rho \Sigma_{pooled} .

(The paper prints b without the 1/2, which puts the threshold off the midpoint.) With equal
covariances :math:`w \cdot x + b` is half the log-likelihood ratio, so that its tanh is the
posterior of t minus that of r.

No pair has a d x d system of its own. What is common to all pairs, B, is factored once; a pair
adds only the factors of its two classes, U, and by the Woodbury identity

.. math:: (s B + U^\top U)^{-1} \delta = \tfrac1s \bigl(B^{-1} \delta - B^{-1} U^\top a\bigr),
          \qquad (s I + U B^{-1} U^\top) a = U B^{-1} \delta ,

where all the products needed are blocks of one Gram matrix.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch.nn.functional import pad

from .device import as_array, as_tensor
from .gaussians import ClassGaussians
from .linalg import DiagonalPlusGram, cholesky
from .statistics import Array

__all__ = ["PairwiseFisher", "fit_pairwise", "pair_scores"]

# Samples scored at one time are so many that their pair outputs fill about this many bytes.
_SCORE_BYTES = 64e6

# Pair systems solved at one time fill about this many bytes.
_PAIR_BYTES = 128e6


@dataclass(frozen=True)
class PairwiseFisher:
    """Hyperplanes of all pairs of classes.

    Attributes
    ----------
    planes : ndarray of shape (C (C - 1) / 2, d)
        w of the pairs (t, r), r < t, in the order (1, 0), (2, 0), (2, 1), (3, 0), ...: those
        of a new class come behind all others.
    offsets : ndarray of shape (C (C - 1) / 2,)
        b of the pairs.
    n_classes : int
        C.
    """

    planes: Array
    offsets: Array
    n_classes: int

    @property
    def n_weights(self) -> int:
        """Number of weights and offsets."""
        return int(self.planes.size + self.offsets.size)

    def first(self, n_classes: int) -> "PairwiseFisher":
        """Hyperplanes of the pairs among the first classes."""
        n_pairs = n_classes * (n_classes - 1) // 2
        return PairwiseFisher(self.planes[:n_pairs], self.offsets[:n_pairs], n_classes)

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Sum of each class's pair outputs, of shape (n_samples, C)."""
        planes = as_tensor(self.planes, device=features.device)
        offsets = as_tensor(self.offsets, device=features.device)
        chunk = max(1, int(_SCORE_BYTES / (8 * (len(planes) + 1))))
        return torch.cat(
            [
                pair_scores(torch.addmm(offsets, part, planes.T).tanh_(), self.n_classes)
                for part in torch.split(features, chunk)
            ]
        )


def pair_scores(outputs: torch.Tensor, n_classes: int) -> torch.Tensor:
    """Pool the outputs of all pairs over each class's opponents.

    Parameters
    ----------
    outputs : Tensor of shape (n_samples, C (C - 1) / 2)
        Pair outputs in the order of `PairwiseFisher`; class t receives them as they are and
        class r their negative.
    n_classes : int
        C.

    Returns
    -------
    Tensor of shape (n_samples, C)
        Scores between -(C - 1) and C - 1 that sum to zero.
    """
    scores = outputs.new_zeros((len(outputs), n_classes))
    for t in range(1, n_classes):
        against = outputs[:, t * (t - 1) // 2 : t * (t + 1) // 2]
        scores[:, t] += against.sum(1)
        scores[:, :t] -= against
    return scores


@dataclass(frozen=True)
class _PairSystem:
    """The matrices of all pairs: ``scale[t, r] * B`` plus the Gram matrix of both classes' rows."""

    base: DiagonalPlusGram
    rows: torch.Tensor
    lengths: tuple[int, ...]
    scale: torch.Tensor


def _shrunk_system(gaussians: ClassGaussians, shrinkage: float, epsilon: float) -> _PairSystem:
    """Shrunk covariances: B holds the pooled part, the ridge and the mean of the residuals."""
    owners, weights = gaussians.owners, gaussians.weights
    diagonal = 2.0 * (
        epsilon * gaussians.pooled_variance() * gaussians.penalties
        + shrinkage * gaussians.residuals.sum(0) / weights.sum()
        + (1.0 - shrinkage) * (gaussians.residuals / weights[:, None]).mean(0)
    )
    pooled_rows = gaussians.rows * (2.0 * shrinkage / weights.sum()).sqrt()
    base = DiagonalPlusGram(diagonal, pooled_rows, name="the pooled covariance")
    one = weights.new_ones((len(weights), len(weights)))
    if shrinkage == 1.0:
        return _PairSystem(base, gaussians.rows[:0], (0,) * len(weights), one)
    class_rows = gaussians.rows * ((1.0 - shrinkage) / weights).sqrt()[owners, None]
    return _PairSystem(base, class_rows, gaussians.lengths, one)


def _separate_system(gaussians: ClassGaussians, epsilon: float) -> _PairSystem:
    """Class covariances alone: each pair has its own ridge, so that no other class matters."""
    weights = gaussians.weights
    residual = (gaussians.residuals / gaussians.penalties).mean(1) / weights
    own = epsilon * gaussians.mean_variances() + residual
    # Two classes of one sample each have no spread: the distance between them stands in.
    scaled = gaussians.means / gaussians.penalties.sqrt()
    gap = torch.cdist(scaled, scaled, compute_mode="donot_use_mm_for_euclid_dist").square()
    gap = epsilon * gap / len(gaussians.penalties)
    scale = own[:, None] + own
    scale = torch.where(scale > 1e-12 * gap, scale, gap)
    scale = torch.where(scale > 0.0, scale, torch.ones_like(scale))
    base = DiagonalPlusGram(gaussians.penalties, gaussians.rows[:0], name="the ridge")
    rows = gaussians.rows / weights.sqrt()[gaussians.owners, None]
    return _PairSystem(base, rows, gaussians.lengths, scale)


def _identity_system(gaussians: ClassGaussians, epsilon: float) -> _PairSystem:
    """Every covariance the identity, times the mean variance within classes."""
    variance = 2.0 * (1.0 + epsilon) * gaussians.pooled_variance()
    nothing, n_classes = gaussians.rows[:0], len(gaussians.weights)
    base = DiagonalPlusGram(variance * gaussians.penalties, nothing, name="the mean variance")
    one = gaussians.weights.new_ones((n_classes, n_classes))
    return _PairSystem(base, nothing, (0,) * n_classes, one)


class _PairSolver:
    """Solves the pairs of one class after another from blocks of one Gram matrix."""

    def __init__(self, system: _PairSystem, means: torch.Tensor) -> None:
        self._system, self._means = system, means
        self._solved_means = system.base.solve(means)
        self._solved_rows = system.base.solve(system.rows)
        starts = np.concatenate([[0], np.cumsum(system.lengths)])
        self._slices = [slice(a, b) for a, b in pairwise(starts.tolist())]
        self._width = max(system.lengths)
        # Classes with fewer rows than the longest point at a row of zeros behind the last.
        padded = np.full((len(means), self._width), len(system.rows))
        for index, part in zip(padded, self._slices, strict=True):
            index[: part.stop - part.start] = np.arange(part.start, part.stop)
        self._index = torch.as_tensor(padded, device=means.device)
        self._mean_gram = pad(system.rows @ self._solved_means.T, (0, 0, 0, 1))
        self._own = [system.rows[part] @ self._solved_rows[part].T for part in self._slices]

    def planes(self, first: int) -> torch.Tensor:
        """Hyperplanes of the pairs (t, r), r < t, for all classes t from ``first`` on."""
        n_classes, start = len(self._means), first * (first - 1) // 2
        planes = self._means.new_empty(
            (n_classes * (n_classes - 1) // 2 - start, self._means.shape[1])
        )
        coefficients: list[list[torch.Tensor]] = [[] for _ in range(n_classes)]
        for t in range(max(first, 1), n_classes):
            own, others = self._coefficients(t)
            block = planes[t * (t - 1) // 2 - start : t * (t + 1) // 2 - start]
            torch.sub(self._solved_means[t], self._solved_means[:t], out=block)
            block -= own @ self._solved_rows[self._slices[t]]
            block /= self._system.scale[t, :t, None]
            for r, one in enumerate(others / self._system.scale[t, :t, None]):
                coefficients[r].append(one[: self._system.lengths[r]])
        for r in range(n_classes - 1):
            later = torch.arange(max(first, r + 1), n_classes, device=planes.device)
            part = torch.stack(coefficients[r]) @ self._solved_rows[self._slices[r]]
            planes.index_add_(0, later * (later - 1) // 2 - start + r, part, alpha=-1.0)
        return planes

    def _coefficients(self, t: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Woodbury coefficients of class t's rows, and of its opponents', in each pair."""
        n_own = self._system.lengths[t]
        size = n_own + self._width
        chunk = max(1, int(_PAIR_BYTES / (8 * (size * size + 1))))
        mine = self._slices[t]
        # Only earlier classes are opponents here; behind their rows stands the row of zeros.
        across = pad(self._system.rows[mine] @ self._solved_rows[: mine.start].T, (0, 1))
        solved = []
        for r in torch.split(torch.arange(t, device=self._means.device), chunk):
            index = self._index[r]
            system = self._means.new_zeros((len(r), size, size))
            system[:, :n_own, :n_own] = self._own[t]
            system[:, n_own:, :n_own] = across[:, index.clamp_max(mine.start)].permute(1, 2, 0)
            for one, opponent in zip(system, r.tolist(), strict=True):
                stop = n_own + self._system.lengths[opponent]
                one[n_own:stop, n_own:stop] = self._own[opponent]
            system.diagonal(dim1=1, dim2=2).add_(self._system.scale[t, r, None])
            right = torch.cat(
                [
                    (self._mean_gram[mine, t, None] - self._mean_gram[mine][:, r]).T,
                    self._mean_gram[index, t] - self._mean_gram[index, r[:, None]],
                ],
                dim=1,
            )
            factor = cholesky(system, name=f"the covariance of class {t} against another")
            solved.append(torch.cholesky_solve(right[..., None], factor)[..., 0])
        result = torch.cat(solved)
        return result[:, :n_own], result[:, n_own:]


def fit_pairwise(
    gaussians: ClassGaussians,
    *,
    covariance: str,
    shrinkage: float,
    epsilon: float,
    known: PairwiseFisher | None = None,
) -> PairwiseFisher:
    """Fisher discriminants of all pairs of classes.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    covariance : {"class", "identity"}
        Whether the covariances are used, or the identity times the mean variance in their
        place.
    shrinkage : float
        rho in [0, 1]. With 0 the pairs of two classes depend on these two alone, the ridge
        included; with 1 all pairs share the pooled covariance.
    epsilon : float
        Ridge, relative to the mean variance within classes.
    known : PairwiseFisher or None, default=None
        Discriminants of the first classes, taken over as they are. With ``shrinkage=0`` and
        class covariances they would come out the same again.

    Returns
    -------
    PairwiseFisher
        The hyperplanes of all pairs.
    """
    separate = covariance == "class" and shrinkage == 0.0
    if covariance == "identity":
        system = _identity_system(gaussians, epsilon)
    elif separate:
        system = _separate_system(gaussians, epsilon)
    else:
        system = _shrunk_system(gaussians, shrinkage, epsilon)
    first = known.n_classes if known is not None else 0
    n_classes = len(gaussians.means)
    planes = _PairSolver(system, gaussians.means).planes(first)
    t, r = (index.to(planes.device) for index in torch.tril_indices(n_classes, n_classes, -1))
    new = slice(first * (first - 1) // 2, None)
    middle = 0.5 * (gaussians.means[t[new]] + gaussians.means[r[new]])
    offsets = -torch.einsum("ij,ij->i", planes, middle)
    new_planes, new_offsets = as_array(planes), as_array(offsets)
    if first and known is not None:
        new_planes = np.concatenate([known.planes, new_planes])
        new_offsets = np.concatenate([known.offsets, new_offsets])
    return PairwiseFisher(new_planes, new_offsets, n_classes)
