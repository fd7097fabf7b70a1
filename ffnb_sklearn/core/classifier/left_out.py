r"""Left-out cross-entropy of the pooled discriminant, in closed form from the classes' moments.

With the regularised pooled covariance :math:`B = \Sigma_{pooled} + v P`, without the sample
:math:`\mu_c + z` the mean of its class moves by :math:`-z / (n - 1)`, and :math:`\Sigma_{pooled}`
loses :math:`k z z^\top` with :math:`k = n / (n - 1) / N`. With :math:`h = z^\top B^{-1} z`,
:math:`u_r = z^\top B^{-1} (\mu_c - \mu_r)` and :math:`g = 1 - k h` the squared distances are then

.. math:: D_c = \Bigl(\frac{n}{n - 1}\Bigr)^2 \frac{h}{g} , \qquad
          D_r = h + 2 u_r + \|\mu_c - \mu_r\|^2_{B^{-1}} + \frac{k (h + u_r)^2}{g} .

As in generalised cross-validation [1]_, h is its mean over the samples of a class. The u of several
opponents are drawn jointly Gaussian.

The shortest rows of a truncated class stand for the axes that it has lost. A row f of the leverage
:math:`l = f^\top B^{-1} f / N` and the response :math:`a = f^\top B^{-1} (\mu_c - \mu_r)` has, at q
times its energy,

.. math:: \frac{q l}{1 - (1 - q) l} \quad \text{and} \quad \frac{\sqrt q \, a}{1 - (1 - q) l} .

All lost axes have the same q, which follows from the residual and their number. With the residual
as a diagonal instead, curved features of truncated classes look far better than they are.

References
----------
.. [1] G. H. Golub, M. Heath and G. Wahba. Generalized cross-validation as a method for choosing a
   good ridge parameter. Technometrics 21(2), 1979.
"""

import torch

from ..linalg import SUM_ROUNDING, DiagonalPlusGram
from .gaussians import ClassGaussians

__all__ = ["LEAST_LEFT", "N_OPPONENTS", "LeftOutSamples"]

# Classes that are judged, and nearest opponents of each.
_N_JUDGED, N_OPPONENTS = 12, 8

# Draws of a left-out sample's outputs, each with its mirror image.
_N_DRAWS = 64

# Temperatures among which the cross-entropy is least, as powers of two times the typical margin,
# and their number per factor of two.
_LOWEST, _HIGHEST, _STEPS = -6, 2, 2

# Least typical margin of logits; classes that coincide have none but rounding.
_LEAST_MARGIN = 0.05

# The shortest quarter of the rows of a truncated class stands for the axes it has lost (the set
# "wide" of docs/benchmarks/ranks.md).
_SHORTEST = 0.25

# Least share of the pooled covariance along a sample, or an axis, that is left without it.
LEAST_LEFT = 1e-3


class LeftOutSamples:
    """Samples of up to twelve classes, each left out of the pooled discriminant.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes; their penalties play no part.

    Attributes
    ----------
    classes : list of int
        The classes that are judged, of two samples or more.
    numbers : Tensor of shape (R,)
        Numbers of their rows.
    means : Tensor of shape (C, d)
        Means of all classes, centred.
    counts : Tensor of shape (C,)
        Numbers of samples of all classes.
    """

    def __init__(self, gaussians: ClassGaussians) -> None:
        self._gaussians, self.counts = gaussians, gaussians.counts
        rows, weights = gaussians.rows, gaussians.weights
        self.means = gaussians.means - weights @ gaussians.means / weights.sum()
        self._n_opponents = min(N_OPPONENTS, len(weights) - 1)
        self.classes = self._choose_classes()
        parts = gaussians.parts()
        self._rows = [parts[c] for c in self.classes]
        numbers = torch.split(torch.arange(len(rows), device=rows.device), list(gaussians.lengths))
        self.numbers = torch.cat([numbers[c] for c in self.classes] or [numbers[0][:0]])
        generator = torch.Generator().manual_seed(0)
        shape = (_N_DRAWS, self._n_opponents)
        draws = torch.randn(shape, generator=generator, dtype=rows.dtype, device="cpu")
        self._draws = torch.cat([draws, -draws]).to(rows.device)

    def split(self, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the values of the rows of each class that is judged."""
        return torch.split(values, [len(rows) for rows in self._rows])

    def cross_entropy(
        self, base: DiagonalPlusGram, planes: torch.Tensor, share: float = 1.0
    ) -> tuple[float, float]:
        """Return the least cross-entropy over temperatures, and its temperature.

        `base` is B times the share of the pooled covariance in it, and `planes` are the centred
        means times its inverse. The result is 0 and 1 without a class to judge and an opponent.
        """
        if not self.classes or not self._n_opponents:
            return 0.0, 1.0
        lengths = self.split(share * base.own_lengths(self._gaussians.rows, self.numbers))
        planes, energies = share * planes, base.diagonal.reciprocal()
        margins = [self._margins(planes, energies, k, one) for k, one in enumerate(lengths)]
        return self.least_cross_entropy(margins)

    def least_cross_entropy(
        self, margins: list[torch.Tensor], steps: int = _STEPS
    ) -> tuple[float, float]:
        """Return the least cross-entropy over temperatures, and its temperature.

        `margins` has the logits of each class that is judged less those of k others, for draws of
        its samples: tensors of shape (n_draws, k). `steps` temperatures are tried per factor of 2.
        """
        logits = torch.nn.functional.pad(-torch.stack(margins), (1, 0))
        weights = self._gaussians.weights[self.classes]
        scale = logits[..., 1:].abs().median().clamp_min(_LEAST_MARGIN)
        powers = torch.arange(_LOWEST * steps, _HIGHEST * steps, device=scale.device) / steps
        scales = scale * 2.0 ** powers.to(scale.dtype)
        entropies = torch.stack([(logits / one).logsumexp(-1).mean(-1) for one in scales])
        entropies = entropies @ weights / weights.sum()
        least = int(entropies.argmin())
        return float(entropies[least]), float(scales[least])

    def _choose_classes(self) -> list[int]:
        """Return classes of two samples or more, at even steps from crowded to remote ones."""
        # Weights may sum up to two but for rounding.
        able = torch.nonzero(self.counts >= 2.0 - 1e-9)[:, 0]
        if len(able) > _N_JUDGED:
            # The means are centred, so a product keeps the digits of their differences.
            gaps = torch.cdist(self.means, self.means, compute_mode="use_mm_for_euclid_dist")
            # Two classes may be nearest to each other; the sum tells them apart.
            crowd = gaps.topk(self._n_opponents + 1, largest=False).values.sum(1)
            steps = torch.linspace(0, len(able) - 1, _N_JUDGED, device=able.device).round().long()
            able = able[crowd[able].argsort()[steps]]
        chosen: list[int] = able.tolist()
        return chosen

    def _margins(
        self, planes: torch.Tensor, energies: torch.Tensor, number: int, lengths: torch.Tensor
    ) -> torch.Tensor:
        """Return (D_r - D_c) / 2 for draws of left-out samples, nearest opponents first."""
        c = self.classes[number]
        n = self.counts[c]
        gaps = torch.linalg.vecdot(self.means[c] - self.means, planes[c] - planes)
        gaps[c] = torch.inf
        apart, nearest = gaps.topk(self._n_opponents, largest=False)
        h, root = self.spread(number, lengths, energies, planes[c] - planes[nearest])
        u = self._draws @ root
        k = n / (n - 1.0) / self.counts.sum()
        # Weights below one make h too large.
        h = h.clamp_max((1.0 - LEAST_LEFT) / k)
        left = 1.0 - k * h
        own = (n / (n - 1.0)).square() * h / left
        margins: torch.Tensor = h + 2.0 * u + apart + k * (h + u).square() / left - own
        return 0.5 * margins

    def spread(
        self, number: int, lengths: torch.Tensor, energies: torch.Tensor, functions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return how the samples of a class deviate from its mean.

        Parameters
        ----------
        number : int
            Number of the class among those that are judged.
        lengths : Tensor of shape (r,)
            Squared lengths of its rows in the inverse of B.
        energies : Tensor of shape (d,)
            Weights of the squared features in that inverse.
        functions : Tensor of shape (k, d)
            Linear functions.

        Returns
        -------
        Tensor of shape ()
            Mean squared length of the deviations in the inverse of B.
        Tensor of shape (k, k)
            Symmetric root of the covariance of their products with the functions.
        """
        rows, c = self._rows[number], self.classes[number]
        lost_lengths, shortest, factors = self._lost_axes(energies, c, rows, lengths)
        products = rows @ functions.T
        products = torch.cat([products, factors[:, None] * products[shortest]])
        weight = self._gaussians.weights[c]
        _, sizes, axes = torch.linalg.svd(products / weight.sqrt(), full_matrices=False)
        return (lengths.sum() + lost_lengths) / weight, (axes.T * sizes) @ axes

    def _lost_axes(
        self, energies: torch.Tensor, c: int, rows: torch.Tensor, lengths: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the squared length of all axes that class c has lost.

        The other results are the numbers of its shortest rows, and the factors by which their
        responses represent those of the lost axes. `energies` weights the square of each feature.
        """
        total = self._gaussians.weights.sum()
        sizes = rows.square() @ energies
        # How many rows of rounding a factor has depends on how its samples came.
        kept = torch.nonzero(sizes > SUM_ROUNDING * sizes.sum())[:, 0]
        shortest = kept[int((1.0 - _SHORTEST) * len(kept)) :]
        energy, lost = float(sizes[shortest].sum()), float(self._gaussians.residuals[c] @ energies)
        leverages = lengths[shortest] / total
        n_lost = min(float(self.counts[c]) - 1.0, rows.shape[1]) - len(kept)
        if not min(energy, lost, n_lost) > 0.0:
            return leverages.new_zeros(()), shortest, torch.zeros_like(leverages)
        # Each of the shortest rows stands for its share of the lost axes.
        times = lost / energy
        q = times * len(shortest) / n_lost
        left = (1.0 - (1.0 - q) * leverages).clamp_min(LEAST_LEFT)
        return total * times * (leverages / left).sum(), shortest, times**0.5 / left
