r"""Pairwise Fisher discriminants of all classes, and the sum of their outputs [Sec. 3.2.3].

For classes t and r, Gaussian with regularised covariances,

.. math:: w_{tr} = (\tilde\Sigma_t + \tilde\Sigma_r + s I)^{-1} (\mu_t - \mu_r), \qquad
          b_{tr} = -\tfrac12 w_{tr} \cdot (\mu_t + \mu_r), \qquad
          \tilde\Sigma_c = (1 - \rho) \Sigma_c + \rho \Sigma_{pooled} .

(The paper prints b without the 1/2, which puts the threshold off the midpoint.) With equal
covariances :math:`w \cdot x + b` is half the log-likelihood ratio, so its tanh is the posterior of
t minus the posterior of r.

B is the part that all pairs share, and a pair adds the rows U of its two classes. With shrinkage s
is 1 and B contains the ridge; without, B holds the penalties and s is the ridge of the pair. If the
rows are at least as many as the columns, the system of each pair, :math:`s B + U^\top U`, is
factored as it is.
Fewer rows need smaller systems by the Woodbury identity, with B factored once:

.. math:: (s B + U^\top U)^{-1} \delta = \tfrac1s \bigl(B^{-1} \delta - B^{-1} U^\top a\bigr),
          \qquad (s I + U B^{-1} U^\top) a = U B^{-1} \delta .
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ..choice.pooled import SolvedMeans
from ..device import Array, as_array, as_tensor
from ..gaussians import ClassGaussians
from ..linalg import DiagonalPlusGram, cholesky, solve_in_place
from ..settings import Choice, Settings
from .interface import NUMBERS_TOGETHER, Head, Rows
from .modules import LossLogits, PlaneScores

__all__ = ["PairwiseFisher", "fit_pairwise"]

# Losses added to the losses of each class, which keeps probabilities away from 0 and 1.
_SURE = 0.01


@dataclass(frozen=True)
class PairwiseFisher(Head):
    """Hyperplanes of all pairs of classes.

    Attributes
    ----------
    planes : ndarray of shape (C (C - 1) / 2, d)
        w of the pairs (t, r), r < t, in the order (1, 0), (2, 0), (2, 1), (3, 0), ..., so a new
        class appends its pairs.
    offsets : ndarray of shape (C (C - 1) / 2,)
        b of the pairs.
    n_classes : int
        C.
    """

    planes: Array
    offsets: Array
    n_classes: int

    tuned_as = "ovo"

    @classmethod
    def from_gaussians(
        cls,
        gaussians: ClassGaussians,
        solved_means: SolvedMeans | None,
        choice: Choice,
        settings: Settings,
    ) -> "PairwiseFisher":
        """Solve the hyperplanes."""
        return fit_pairwise(
            gaussians,
            covariance=settings.covariance,
            shrinkage=choice.shrinkage,
            epsilon=choice.epsilon,
            half_bias=settings.half_bias,
        )

    @staticmethod
    def n_weights(n_features: int, n_classes: int, n_axes: int) -> int:
        """Return the number of planes and offsets."""
        return _n_pairs(n_classes) * (n_features + 1)

    def scores(self, x: Rows) -> torch.Tensor:
        """Return the sum of the pair outputs of each class, of shape (n_samples, C).

        The output of the pair (t, r) counts positive for t and negative for r, so the scores of a
        sample lie between -(C - 1) and C - 1 and sum to zero.
        """
        planes = as_tensor(self.planes, device=x.device)
        offsets = as_tensor(self.offsets, device=x.device)
        totals = planes.new_zeros((len(x), self.n_classes))
        for first, stop in _blocks(self.n_classes, len(x)):
            # Class t has t pairs (t, r), r < t.
            pairs = slice(_n_pairs(first), _n_pairs(stop))
            planes_of_block = planes[pairs]
            margins = x @ planes_of_block.T
            margins += offsets[pairs]
            n_classes = stop - first
            t, r = torch.tril_indices(n_classes, stop, first - 1, device=x.device)
            outputs = totals.new_zeros((len(x), n_classes, stop))
            outputs[:, t, r] = margins.tanh_()
            totals[:, first:stop] += outputs.sum(2)
            totals[:, :stop] -= outputs.sum(1)
        return totals

    def logits_module(self) -> nn.Module:
        r"""Return the logarithms of probabilities as a function of the scores.

        A pair output is the posterior of one class minus that of the other, so
        :math:`L_t = (C - 1 - s_t) / 2` is the expected number of opponents to which class t loses,
        and :math:`p_t \propto 1 / L_t`. For two classes :math:`p_t` is the pair's posterior itself.
        """
        return LossLogits(self.n_classes, _SURE)

    def apply_priors(self, scores: Array, priors: Array) -> Array:
        """Divide the expected losses by the priors, relative to equal priors."""
        largest_loss = self.n_classes - 1 + 2.0 * _SURE
        is_possible = priors > 0.0
        losses = largest_loss - scores.compress(is_possible, axis=1)
        return largest_loss - losses / (self.n_classes * priors[is_possible])

    def scores_module(self, priors: Array) -> nn.Module:
        """Return the pairs as a module; pooling and the adjustment for priors are affine."""
        shift = self.apply_priors(np.zeros((1, self.n_classes)), priors)
        mixing = self.apply_priors(self.pooling(), priors) - shift
        arrays = {
            "planes": self.planes,
            "offsets": self.offsets,
            "mixing": mixing,
            "shift": shift,
        }
        return PlaneScores(arrays, has_tanh=True)

    def pooling(self) -> Array:
        """Return the matrix that adds up the pair outputs."""
        t, r = np.tril_indices(self.n_classes, -1)
        identity = np.eye(self.n_classes)
        return identity[t] - identity[r]


def _n_pairs(n_classes: int) -> int:
    """Return the number of pairs of some classes."""
    return n_classes * (n_classes - 1) // 2


def _blocks(n_classes: int, n_samples: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of classes, one at least, whose pairs have few enough outputs together."""
    first = 0
    while first < n_classes:
        stop = first + 1
        while stop < n_classes:
            n_outputs = n_samples * (stop + 1) * (stop + 1 - first)
            if n_outputs > NUMBERS_TOGETHER:
                break
            stop += 1
        yield first, stop
        first = stop


def fit_pairwise(
    gaussians: ClassGaussians,
    *,
    covariance: str,
    shrinkage: float,
    epsilon: float,
    half_bias: bool = True,
) -> PairwiseFisher:
    """Solve the Fisher discriminants of all pairs of classes.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    covariance : {"class", "identity"}
        Class covariances, or in their place the identity times the unit of the variance.
    shrinkage : float
        rho in [0, 1]. With 0 a pair depends on its two classes alone, the ridge included; with 1
        all pairs share the pooled covariance.
    epsilon : float
        Ridge, relative to the mean variance within classes or, if the classes say so, absolute.
    half_bias : bool, default=True
        Whether b has its factor 1/2, which the paper omits.

    Returns
    -------
    PairwiseFisher
        The hyperplanes of all pairs.
    """
    if covariance == "identity":
        gaussians = gaussians.replace_by_identity()
        shrinkage = 0.0
    means = gaussians.means
    if shrinkage == 0.0:
        base = DiagonalPlusGram(gaussians.penalties, gaussians.rows[:0], name="the ridge")
        ridges = _separate_ridges(gaussians, epsilon)
    else:
        base = gaussians.shared_covariance(shrinkage, epsilon, times=2.0)
        ridges = means.new_ones((len(means), len(means)))
    rows = _own_rows(gaussians, shrinkage)
    _, width, n_features = rows.shape
    if 2 * width < n_features:
        planes = _planes_by_rows(rows, means, base, ridges)
    else:
        planes = _planes_by_columns(rows, means, base, ridges)
    t, r = np.tril_indices(len(means), -1)
    offsets = -torch.linalg.vecdot(planes, means[t] + means[r])
    if half_bias:
        offsets *= 0.5
    return PairwiseFisher(as_array(planes), as_array(offsets), len(means))


def _own_rows(gaussians: ClassGaussians, shrinkage: float) -> torch.Tensor:
    r"""Return the rows U of each class, of shape (C, w, d); short classes end in rows of zeros.

    :math:`U^\top U = (1 - \rho) \Sigma_c` with the shrinkage :math:`\rho`, residuals apart.
    """
    n_classes, n_features = gaussians.means.shape
    if shrinkage == 1.0:
        return gaussians.means.new_zeros((n_classes, 0, n_features))
    most_rows = max(gaussians.lengths)
    rows = gaussians.means.new_zeros((n_classes, most_rows, n_features))
    shares = (1.0 - shrinkage) / gaussians.weights
    roots = shares.sqrt()
    for padded, factor, root in zip(rows, gaussians.class_rows, roots, strict=True):
        padded[: len(factor)] = factor * root
    return rows


def _planes_by_columns(
    rows: torch.Tensor, means: torch.Tensor, base: DiagonalPlusGram, ridges: torch.Tensor
) -> torch.Tensor:
    r"""Solve a system of d columns for each pair, :math:`s B + U_t^\top U_t + U_r^\top U_r`.

    `rows` holds the U of all classes, of shape (C, w, d), `base` is B, and `ridges` is s, of
    shape (C, C).
    """
    shared = base.matrix()
    covariances = rows.mT @ rows
    planes = [means[:0]]
    for t in range(1, len(rows)):
        system = ridges[t, :t, None, None] * shared
        system += covariances[:t]
        system += covariances[t]
        factor = cholesky(system, name=f"the covariance of class {t} against another")
        gaps = means[t] - means[:t]
        solution = solve_in_place(factor, gaps[:, :, None])
        planes.append(solution[:, :, 0])
    return torch.cat(planes)


def _planes_by_rows(
    rows: torch.Tensor, means: torch.Tensor, base: DiagonalPlusGram, ridges: torch.Tensor
) -> torch.Tensor:
    r"""Solve a system of 2 w rows for each pair, by the Woodbury identity.

    With the rows U of both classes of a pair, one below the other, its plane is

    .. math:: (s B + U^\top U)^{-1} g = \tfrac{1}{s} \bigl(B^{-1} g
              - B^{-1} U^\top (s I + U B^{-1} U^\top)^{-1} U B^{-1} g\bigr) ,
              \qquad g = \mu_t - \mu_r .
    """
    n_classes, width, _ = rows.shape
    solve_rows = base.solve(rows.flatten(0, 1)).reshape(rows.shape)
    solved_means = base.solve(means)
    grams = rows @ solve_rows.mT
    # Entry (c, i, k) is the product of row i of class c with B^-1 mu_k.
    at_means = rows @ solved_means.T
    at_own_mean = at_means.diagonal(dim1=0, dim2=2).T
    planes = [means[:0]]
    for t in range(1, n_classes):
        products = solve_rows[:t].flatten(0, 1) @ rows[t].T
        cross = products.reshape(t, width, width)
        upper = torch.cat([grams[t].expand_as(cross), cross.mT], dim=2)
        lower = torch.cat([cross, grams[:t]], dim=2)
        system = torch.cat([upper, lower], dim=1)
        system.diagonal(dim1=1, dim2=2).add_(ridges[t, :t, None])
        factor = cholesky(system, name=f"the covariance of class {t} against another")
        products_of_t = at_means[t, :, t] - at_means[t, :, :t].T
        products_of_r = at_means[:t, :, t] - at_own_mean[:t]
        sides = torch.cat([products_of_t, products_of_r], dim=1)
        coefficients = solve_in_place(factor, sides[:, :, None])
        coefficients_of_t = coefficients[:, :width, 0]
        coefficients_of_r = coefficients[:, None, width:, 0]
        block = solved_means[t] - solved_means[:t]
        block -= coefficients_of_t @ solve_rows[t]
        block -= (coefficients_of_r @ solve_rows[:t])[:, 0]
        block /= ridges[t, :t, None]
        planes.append(block)
    return torch.cat(planes)


def _separate_ridges(gaussians: ClassGaussians, epsilon: float) -> torch.Tensor:
    """Return the ridge s of each pair without shrinkage, over the penalties, of shape (C, C).

    The mean residual of a class, outside its kept axes, is added to its ridge.
    """
    relative_residuals = gaussians.residuals / gaussians.penalties
    mean_residuals = relative_residuals.mean(1)
    residuals = mean_residuals / gaussians.weights
    if gaussians.absolute_ridge:
        return epsilon + residuals[:, None] + residuals
    ridges = epsilon * gaussians.mean_variances() + residuals
    ridges_of_pairs = ridges[:, None] + ridges
    # Two classes of one sample each have no spread.
    ridge_without_spread = epsilon * gaussians.pooled_variance
    return torch.where(ridges_of_pairs > 0.0, ridges_of_pairs, ridge_without_spread)
