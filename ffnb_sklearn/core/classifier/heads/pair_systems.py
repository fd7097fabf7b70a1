r"""The linear systems of the pairwise Fisher discriminants, and their solution [Sec. 3.2.3].

No pair needs a d x d system of its own. The part B that all pairs share is factored once. A pair
adds only the factors U of its two classes, and by the Woodbury identity

.. math:: (s B + U^\top U)^{-1} \delta = \tfrac1s \bigl(B^{-1} \delta - B^{-1} U^\top a\bigr),
          \qquad (s I + U B^{-1} U^\top) a = U B^{-1} \delta ,

where all products are blocks of one Gram matrix.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ...linalg import (
    ENERGY_ROUNDING,
    LENGTH_ROUNDING,
    DiagonalPlusGram,
    cholesky,
    solve_in_place,
)
from ..gaussians import ClassGaussians
from .products import ROWS_TOGETHER

__all__ = ["PairSolver", "PairSystem", "pair_system"]


@dataclass(frozen=True)
class PairSystem:
    """The matrices of all pairs: ``scale[t, r] * B`` plus the Gram matrices of both classes.

    Attributes
    ----------
    base : DiagonalPlusGram
        B.
    rows : Tensor of shape (R, d)
        Rows of all classes, one class under the other, each up to its factor.
    lengths : tuple of int
        Number of rows of each class.
    factors : Tensor of shape (C,)
        Factor of the rows of each class; a scaled copy of many rows would take time.
    scale : Tensor of shape (C, C)
        s of each pair.
    """

    base: DiagonalPlusGram
    rows: torch.Tensor
    lengths: tuple[int, ...]
    factors: torch.Tensor
    scale: torch.Tensor


def _shrunk_system(gaussians: ClassGaussians, shrinkage: float, epsilon: float) -> PairSystem:
    """Return the systems with shrinkage: B is the pooled part, the ridge and the mean residual."""
    weights = gaussians.weights
    rows, base = gaussians.rows, gaussians.shared_covariance(shrinkage, epsilon, times=2.0)
    one = weights.new_ones((len(weights), len(weights)))
    if shrinkage == 1.0:
        return PairSystem(base, rows[:0], (0,) * len(weights), one[0], one)
    factors = ((1.0 - shrinkage) / weights).sqrt()
    return PairSystem(base, rows, gaussians.lengths, factors, one)


def _separate_system(gaussians: ClassGaussians, epsilon: float) -> PairSystem:
    """Return the systems of class covariances alone, with a ridge of its own for each pair."""
    weights = gaussians.weights
    residual = (gaussians.residuals / gaussians.penalties).mean(1) / weights
    base = DiagonalPlusGram(gaussians.penalties, gaussians.rows[:0], name="the ridge")
    if gaussians.absolute_ridge:
        scale = epsilon + residual[:, None] + residual
        return PairSystem(base, gaussians.rows, gaussians.lengths, weights.rsqrt(), scale)
    own = epsilon * gaussians.mean_variances() + residual
    # Two classes of one sample each have no spread. Their distance replaces it, or their size if
    # the distance is rounding.
    scaled = gaussians.means / gaussians.penalties.sqrt()
    gap = torch.cdist(scaled, scaled, compute_mode="donot_use_mm_for_euclid_dist").square()
    gap = epsilon * gap / len(gaussians.penalties)
    size = epsilon * scaled.square().mean(1)
    size = size[:, None] + size
    scale = own[:, None] + own
    scale = torch.where(scale > LENGTH_ROUNDING * gap, scale, gap)
    scale = torch.where(scale > ENERGY_ROUNDING * size, scale, size)
    scale = torch.where(scale > 0.0, scale, torch.ones_like(scale))
    return PairSystem(base, gaussians.rows, gaussians.lengths, weights.rsqrt(), scale)


def pair_system(
    gaussians: ClassGaussians, *, covariance: str, shrinkage: float, epsilon: float
) -> PairSystem:
    """Return the matrices of all pairs of classes, with B factored.

    The options are those of `ffnb_sklearn.core.classifier.heads.pairs.fit_pairwise`.
    """
    if covariance == "identity":
        return _separate_system(gaussians.with_identity(), epsilon)
    if shrinkage == 0.0:
        return _separate_system(gaussians, epsilon)
    return _shrunk_system(gaussians, shrinkage, epsilon)


class PairSolver:
    r"""Solver of all pairs, class by class, from blocks of one Gram matrix.

    With the diagonal blocks :math:`D_c = s I + U_c B^{-1} U_c^\top` and
    :math:`D_c^{-1} = R_c^\top R_c`, the system of a pair becomes, in :math:`V_c = R_c U_c`,

    .. math:: \begin{pmatrix} I & X \\ X^\top & I \end{pmatrix}
              \begin{pmatrix} a_t \\ a_r \end{pmatrix} =
              \begin{pmatrix} V_t B^{-1} \delta \\ V_r B^{-1} \delta \end{pmatrix} , \qquad
              X = V_t B^{-1} V_r^\top ,

    and eliminating the coefficients of class r leaves :math:`I - X X^\top`, of half the size. If
    s = 1 for all pairs, R is the inverse of the Cholesky factor of D. Otherwise the rows of a class
    are rotated so that its D is diagonal for every s, and scaled for each pair.
    """

    def __init__(self, system: PairSystem, means: torch.Tensor) -> None:
        self._scale, self._means = system.scale, means
        self._rows = _padded(system.rows, system.lengths)
        solved_rows = _padded(system.base.solve(system.rows), system.lengths)
        factors = system.factors[:, None, None]
        grams = self._rows @ solved_rows.mT * factors.square()
        # Energies of the rotated rows of each class; None if s is 1 for all pairs.
        self._own: torch.Tensor | None = None
        if bool((system.scale == 1.0).all()):
            grams.diagonal(dim1=1, dim2=2).add_(1.0)
            lower = cholesky(grams, name="the covariance of a class")
            identity = torch.eye(grams.shape[1], dtype=grams.dtype, device=grams.device)
            self._turns = torch.linalg.solve_triangular(lower, identity * factors, upper=False)
        else:
            values, axes = torch.linalg.eigh(grams)
            self._own, self._turns = values.clamp_min(0.0), (axes * factors).mT
        self._solved_rows = self._turns @ solved_rows
        self._solved_means = system.base.solve(means)
        self._mean_gram = self._turns @ (self._rows @ self._solved_means.T)

    def planes(self) -> torch.Tensor:
        """Return w of the pairs (1, 0), (2, 0), (2, 1), ..., of shape (C (C - 1) / 2, d)."""
        (n_classes, d), width = self._means.shape, self._rows.shape[1]
        n_pairs = n_classes * (n_classes - 1) // 2
        planes = self._means.new_empty((n_pairs, d))
        against = self._means.new_empty((n_pairs, width))
        for t, own, others in self._coefficients():
            pairs = slice(t * (t - 1) // 2, t * (t + 1) // 2)
            block, against[pairs] = planes[pairs], others
            torch.sub(self._solved_means[t], self._solved_means[:t], out=block)
            if self._own is not None:
                block /= self._scale[t, :t, None]
            block.addmm_(own, self._solved_rows[t], alpha=-1.0)
        for r in range(n_classes - 1):
            later = torch.arange(r + 1, n_classes, device=planes.device)
            pairs_of_r = later * (later - 1) // 2 + r
            part = against[pairs_of_r] @ self._solved_rows[r]
            planes.index_add_(0, pairs_of_r, part, alpha=-1.0)
        return planes

    def _coefficients(self) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """Yield each class t with the coefficients a / s of its pairs (t, r), r < t.

        The first tensor multiplies the rows of class t and the second the rows of class r, each of
        shape (t, width).
        """
        width, d = self._rows.shape[1:]
        # Several classes share a product, because a product of few rows is slow.
        n_together = max(1, ROWS_TOGETHER // max(1, width))
        for start in range(1, len(self._means), n_together):
            block = range(start, min(start + n_together, len(self._means)))
            left = (self._turns[start : block.stop] @ self._rows[start : block.stop]).reshape(-1, d)
            right = self._solved_rows[: block[-1]].reshape(-1, d)
            # The products of a pair are adjacent in memory.
            cross = (right @ left.T).reshape(block[-1], width, len(block), width)
            for t, products in zip(block, cross.unbind(2), strict=True):
                yield t, *self._solved(t, products[:t].mT)

    def _solved(self, t: int, products: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Solve the pairs of class t from their X, of shape (t, width, width)."""
        width = products.shape[1]
        identity = torch.eye(width, dtype=products.dtype, device=products.device)
        n_together = max(1, ROWS_TOGETHER**2 // (width * width + 1))
        solved = []
        for start in range(0, t, n_together):
            r = slice(start, min(start + n_together, t))
            mine = (self._mean_gram[t, :, t, None] - self._mean_gram[t][:, r]).T
            theirs = self._mean_gram[r, :, t] - self._mean_gram[r].diagonal(start, 0, 2).T
            x, scale = products[r], self._scale[t, r, None]
            if self._own is not None:
                root, their_root = (self._own[t] + scale).rsqrt(), (self._own[r] + scale).rsqrt()
                x = x * root[:, :, None] * their_root[:, None]
                mine, theirs = mine * root, theirs * their_root
            system = torch.baddbmm(identity, x, x.mT, alpha=-1.0)
            factor = cholesky(system, name=f"the covariance of class {t} against another")
            own = solve_in_place(factor, mine[..., None] - x @ theirs[..., None])
            others = theirs - (x.mT @ own)[..., 0]
            own = own[..., 0]
            if self._own is not None:
                own, others = own * root / scale, others * their_root / scale
            solved.append(torch.stack([own, others]))
        own, others = torch.cat(solved, dim=1)
        return own, others


def _padded(rows: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
    """Return the rows of each class with zeros behind, of shape (C, max(lengths), d)."""
    # Equal lengths need no copy.
    if min(lengths) == max(lengths):
        return rows.reshape(len(lengths), lengths[0], rows.shape[1])
    padded = rows.new_zeros((len(lengths), max(lengths), rows.shape[1]))
    for block, part in zip(padded, torch.split(rows, list(lengths)), strict=True):
        block[: len(part)] = part
    return padded
