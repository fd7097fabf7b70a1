r"""Leave-one-out error of the pairwise discriminants, in closed form from the classes' moments.

A discriminant of the pair (t, r) solves :math:`A w = \delta` with :math:`\delta = \mu_t - \mu_r`.
Without the sample :math:`\mu_t + z` of class t, its matrix is :math:`A - c z z^\top`, with
:math:`c = (2 \rho / N + (1 - \rho) / n) \, n / (n - 1)`, and the mean of its class moves by
:math:`-z / (n - 1)`. With :math:`u = z \cdot w`, :math:`h = z^\top A^{-1} z`,
:math:`q = \delta \cdot w` and :math:`g = 1 - c h`, the output for that sample is then

.. math:: \tfrac12 \Bigl(q + \frac{c \, u^2}{g}\Bigr) + \frac{u}{g}
          - \Bigl(1 + \frac{1}{2 (n - 1)}\Bigr) \frac{h}{(n - 1) \, g} .

The samples are gone, but u and h need no more than the scatter of their class, which any rotation
of them shares. Rotated at random, all have about the same h, and their u against several opponents
are about jointly Gaussian. (In this way generalised cross-validation comes from the leave-one-out
error of a ridge regression [1]_.) An output is half a log-likelihood ratio, so those against the
nearest opponents add up to the chance of the own class. Ridge and shrinkage make that ratio too
small, and it is doubled: what counts is which class is ahead, and not by how much.

This takes the whole scatter. Of a class with more samples than the rank that is kept, what was cut
off would seem to be no obstacle to a discriminant, and no such class is judged.

References
----------
.. [1] G. H. Golub, M. Heath and G. Wahba. Generalized cross-validation as a method for choosing a
   good ridge parameter. Technometrics 21(2), 1979.
"""

from typing import NamedTuple

import torch

from ..linalg import cholesky, column_energies
from .class_products import ClassProducts, ProductsBetween
from .gaussians import ClassGaussians

__all__ = ["LeaveOneOut"]

# Nearest opponents that a class is judged against.
_N_OPPONENTS = 5

# Classes of more rows are not judged, and as opponents have no more.
_MOST_ROWS = 128

# Classes of fewer samples are not judged: one that is left alone has no scatter. (Weights may sum
# up to three but for rounding.)
_LEAST_WEIGHT = 3.0 - 1e-9

# Rows of all classes that are judged, and how few classes suffice.
_ROWS_JUDGED, _FEWEST_JUDGED = 1024, 8

# A scatter below this share of the factor's is rounding.
_NEGLIGIBLE_SHARE = 1e-12

# Draws of a sample's outputs, each with its mirror image.
_N_DRAWS = 256

# What log-likelihood ratios are multiplied by.
_SHARPNESS = 2.0

# Matrices of classes that are judged at one time fill about this many bytes.
_JUDGED_BYTES = 64e6

# A leverage c h nearer to 1 is rounding.
_LEAST_GAP = 1e-6


class _System(NamedTuple):
    """What the pairs have in common, for one choice of penalties, shrinkage and ridge.

    Attributes
    ----------
    own_share, pooled : float
        Weight of a class's own covariance in its discriminants, and that of any row in B.
    products : ProductsBetween
        Inner products under the inverse of B, of the classes in judged pairs.
    nearest : Tensor of shape (C, n_opponents)
        The nearest classes in that metric.
    """

    own_share: float
    pooled: float
    products: ProductsBetween
    nearest: torch.Tensor


class LeaveOneOut:
    """Judges penalties, shrinkage and ridge by the samples that the moments stand for.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes; their penalties only serve to choose among many classes.

    Attributes
    ----------
    weights : Tensor of shape (n_judged,)
        Weights of the classes that are judged: the numbers of their samples.
    share : float
        Share of all samples that belong to classes that can be judged.
    """

    def __init__(self, gaussians: ClassGaussians) -> None:
        self._gaussians = gaussians
        self._n_opponents = min(_N_OPPONENTS, len(gaussians.weights) - 1)
        beyond = torch.stack([column_energies(one[_MOST_ROWS:]) for one in gaussians.parts()])
        self._energy = (gaussians.energies - beyond).sum(1)
        self._residuals = gaussians.residuals + beyond
        self._products = ClassProducts(gaussians, _MOST_ROWS)
        self._judged = self._choose_classes()
        self.weights = gaussians.weights[self._judged]
        generator = torch.Generator().manual_seed(0)
        shape = (_N_DRAWS, self._n_opponents)
        rows = gaussians.rows
        draws = torch.randn(shape, generator=generator, dtype=rows.dtype, device="cpu")
        draws = draws.to(rows.device)
        self._draws = torch.cat([draws, -draws])

    def errors(self, penalties: torch.Tensor, shrinkage: float, epsilon: float) -> torch.Tensor:
        """Chance of a wrong class for samples left out, by class.

        Parameters
        ----------
        penalties : Tensor of shape (d,)
            Weight of each feature's ridge.
        shrinkage : float
            rho in (0, 1].
        epsilon : float
            Ridge, relative to the mean variance within classes.

        Returns
        -------
        Tensor of shape (n_judged,)
            In [0, 1], the means over each class.
        """
        system = self._system(penalties, shrinkage, epsilon)
        width = 1 + min(max(self._gaussians.lengths), _MOST_ROWS)
        n_numbers = self._n_opponents * width * max(4 * width, len(penalties))
        n_together = max(1, int(_JUDGED_BYTES / (8 * n_numbers)))
        parts = torch.split(self._judged, n_together)
        return torch.cat([self._errors(system, classes) for classes in parts])

    def _choose_classes(self) -> torch.Tensor:
        """Classes to be judged, at even steps from those near to others to those far from them."""
        gaussians = self._gaussians
        whole = self._residuals.sum(1) <= _NEGLIGIBLE_SHARE * self._energy
        fit = whole & (gaussians.weights >= _LEAST_WEIGHT)
        self.share = float(gaussians.weights[fit].sum() / gaussians.weights.sum())
        able = torch.nonzero(fit)[:, 0]
        if not self._n_opponents:
            return able[:0]
        longest = min(max(gaussians.lengths), _MOST_ROWS)
        most = max(_FEWEST_JUDGED, _ROWS_JUDGED // max(1, longest))
        if len(able) > most:
            scaled = gaussians.means / gaussians.penalties.sqrt()
            # Not by products, of which an offset that all share would take the digits.
            gaps = torch.cdist(scaled, scaled, compute_mode="donot_use_mm_for_euclid_dist")
            gaps = gaps.fill_diagonal_(torch.inf)
            # Two classes may be nearest to each other; the sum tells them apart.
            gap = gaps.topk(self._n_opponents, largest=False).values.sum(1)
            steps = torch.linspace(0, len(able) - 1, most, device=able.device).round().long()
            able = able[gap[able].argsort()[steps]]
        return able

    def _system(self, penalties: torch.Tensor, shrinkage: float, epsilon: float) -> _System:
        """What the pairs have in common, solved for once."""
        gaussians = self._gaussians.with_penalties(penalties)
        weights, own_share = gaussians.weights, 1.0 - shrinkage
        ridge = 2.0 * epsilon * gaussians.pooled_variance()
        left_out = 2.0 * (
            shrinkage * gaussians.residuals.sum(0) / weights.sum()
            + own_share * (self._residuals / weights[:, None]).mean(0)
        )
        pooled = float(2.0 * shrinkage / weights.sum())
        products = self._products.under(penalties + left_out / ridge, ridge, pooled)
        energy = products.of_means.diagonal()
        gaps = energy[:, None] + energy - products.of_means - products.of_means.T
        nearest = gaps.fill_diagonal_(torch.inf).topk(self._n_opponents, largest=False).indices
        involved = torch.cat([nearest[self._judged].flatten(), self._judged])
        return _System(own_share, pooled, products.of(torch.unique(involved).tolist()), nearest)

    def _errors(self, system: _System, classes: torch.Tensor) -> torch.Tensor:
        """Mean chance of the other classes for the samples of each of some classes."""
        n = self._gaussians.weights[classes, None]
        responses, separation, leverage = self._planes(system, classes)
        responses, leverage = responses / n.sqrt()[..., None], leverage / n
        c = (system.pooled + system.own_share / n) * n / (n - 1.0)
        left = (1.0 - c * leverage).clamp_min(_LEAST_GAP)
        covariance = responses @ responses.mT
        separation = separation + c * covariance.diagonal(dim1=1, dim2=2) / left
        level = 0.5 * separation - (1.0 + 0.5 / (n - 1.0)) * leverage / left / (n - 1.0)
        values, axes = torch.linalg.eigh(covariance / left[:, :, None] / left[:, None])
        root = (axes * values.clamp_min(0.0).sqrt()[:, None]) @ axes.mT
        ratios = -2.0 * _SHARPNESS * (level[:, None] + self._draws @ root)
        for_others = torch.logsumexp(torch.nn.functional.pad(ratios, (1, 0)), 2)
        return -torch.expm1(-for_others).mean(1)

    def _planes(
        self, system: _System, classes: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The planes w of some classes against their opponents, by what they give.

        Returns
        -------
        responses : Tensor of shape (n, n_opponents, width)
            Those of the rows of each class.
        separation : Tensor of shape (n, n_opponents)
            q.
        leverage : Tensor of shape (n, n_opponents)
            Sum of h over the rows of each class.
        """
        pairs = len(classes), self._n_opponents
        t, r = classes.repeat_interleave(self._n_opponents), system.nearest[classes].flatten()
        own = system.products(classes, classes).repeat_interleave(self._n_opponents, 0)
        cross, other = system.products(t, r), system.products(r, r)
        within = own[:, :-1, :-1]
        responses = own[:, :-1, -1] - cross[:, :-1, -1]
        separation = own[:, -1, -1] - 2.0 * cross[:, -1, -1] + other[:, -1, -1]
        leverage = within.diagonal(dim1=1, dim2=2).sum(1)
        if system.own_share > 0.0:
            weights, width = self._gaussians.weights, within.shape[1]
            upper = torch.cat([within, cross[:, :-1, :-1]], dim=2)
            lower = torch.cat([cross[:, :-1, :-1].mT, other[:, :-1, :-1]], dim=2)
            gram = torch.cat([upper, lower], dim=1)
            ridge = torch.stack([weights[t], weights[r]], dim=1) / system.own_share
            matrix = gram + torch.diag_embed(ridge.repeat_interleave(width, dim=1))
            factor = cholesky(matrix, name="the covariance of a class against another")
            seen = torch.cat([responses, cross[:, -1, :-1] - other[:, -1, :-1]], dim=1)
            # Half of each: their products are what the covariances of the two take away.
            seen_half, half = torch.linalg.solve_triangular(
                factor, torch.cat([seen[..., None], gram[:, :, :width]], dim=2), upper=False
            ).split([1, width], dim=2)
            responses = responses - (half * seen_half).sum(1)
            separation = separation - seen_half.square().sum((1, 2))
            leverage = leverage - half.square().sum((1, 2))
        return (
            responses.reshape(*pairs, -1),
            separation.reshape(pairs),
            leverage.reshape(pairs),
        )
