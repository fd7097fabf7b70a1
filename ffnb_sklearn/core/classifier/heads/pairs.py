r"""Pairwise Fisher discriminants of all classes, and the sum of their outputs [Sec. 3.2.3].

For classes t and r, Gaussian with regularised covariances,

.. math:: w_{tr} = (\tilde\Sigma_t + \tilde\Sigma_r + s I)^{-1} (\mu_t - \mu_r), \qquad
          b_{tr} = -\tfrac12 w_{tr} \cdot (\mu_t + \mu_r), \qquad
          \tilde\Sigma_c = (1 - \rho) \Sigma_c + \rho \Sigma_{pooled} .

(The paper prints b without the 1/2, which puts the threshold off the midpoint.) With equal
covariances :math:`w \cdot x + b` is half the log-likelihood ratio, so its tanh is the posterior of
t minus the posterior of r.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from ...device import as_array, as_tensor
from ...statistics import Array
from ..gaussians import ClassGaussians
from .pair_systems import PairSolver, pair_system

__all__ = ["PairwiseFisher", "fit_pairwise"]

# Samples per product, and bytes of its outputs: products stay efficient, and their outputs stay in
# the cache.
_SAMPLES_TOGETHER = 2048
_SCORE_BYTES = 16e6


@dataclass(frozen=True)
class PairwiseFisher:
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

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the sum of the pair outputs of each class, of shape (n_samples, C).

        The output of the pair (t, r) counts positive for t and negative for r, so the scores of a
        sample lie between -(C - 1) and C - 1 and sum to zero.
        """
        planes = as_tensor(self.planes, device=features.device)
        parts = torch.split(features, _SAMPLES_TOGETHER)
        groups = self.groups(max(1, int(_SCORE_BYTES / (8 * len(parts[0]) + 1))))
        most = max((_n_pairs(stop) - _n_pairs(first) for first, stop in groups), default=0)
        # Every product reuses this memory; allocating it afresh takes an eighth of the time.
        room = features.new_empty(most * len(parts[0]))
        scores = features.new_empty((len(features), self.n_classes))
        for part, found in zip(parts, torch.split(scores, _SAMPLES_TOGETHER), strict=True):

            def responses(pairs: slice, part: torch.Tensor = part) -> torch.Tensor:
                rows = planes[pairs]
                outputs = room[: len(rows) * len(part)].view(len(rows), len(part))
                return torch.mm(rows, part.T, out=outputs)

            self.add_up(found, groups, responses)
        return scores

    def add_up(
        self,
        scores: torch.Tensor,
        groups: Sequence[tuple[int, int]],
        responses: Callable[[slice], torch.Tensor],
    ) -> torch.Tensor:
        """Fill and return the scores, of shape (n_samples, C), from the responses of planes.

        `responses` returns w . x of consecutive pairs, of shape (n_pairs, n_samples), for each
        group in turn; it is overwritten.
        """
        offsets = as_tensor(self.offsets, device=scores.device)
        pooled = scores.new_zeros((self.n_classes, len(scores)))
        for first, stop in groups:
            pairs = slice(_n_pairs(first), _n_pairs(stop))
            outputs = responses(pairs).add_(offsets[pairs, None]).tanh_()
            _pool(outputs, first, stop, pooled)
        scores[:] = pooled.T
        return scores

    def groups(self, most: int) -> list[tuple[int, int]]:
        """Return groups (first, stop) of classes with up to `most` pairs, or of a single class."""
        groups, first = [], 1
        for t in range(1, self.n_classes):
            if t > first and _n_pairs(t + 1) - _n_pairs(first) > most:
                groups.append((first, t))
                first = t
        return [*groups, (first, self.n_classes)] if self.n_classes > 1 else []


def _n_pairs(n_classes: int) -> int:
    """Return the number of pairs among the first classes."""
    return n_classes * (n_classes - 1) // 2


def _pool(outputs: torch.Tensor, first: int, stop: int, pooled: torch.Tensor) -> None:
    """Add the outputs of the pairs (t, r), r < t, with t in a range, to the scores of t and r."""
    ones = outputs.new_ones(stop)
    for t, against in zip(
        range(first, stop), torch.split(outputs, [*range(first, stop)]), strict=True
    ):
        # Torch takes several times as long to sum columns as to multiply by ones.
        pooled[t].addmv_(against.T, ones[:t])
        pooled[:t] -= against


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
    system = pair_system(gaussians, covariance=covariance, shrinkage=shrinkage, epsilon=epsilon)
    planes = PairSolver(system, gaussians.means).planes()
    offsets = _offsets(planes, gaussians.means, -0.5 if half_bias else -1.0)
    return PairwiseFisher(as_array(planes), as_array(offsets), len(gaussians.means))


def _offsets(planes: torch.Tensor, means: torch.Tensor, factor: float) -> torch.Tensor:
    """Return b of each pair, a multiple of its plane at the sum of the means."""
    offsets = planes.new_empty(len(planes))
    for t in range(1, len(means)):
        pairs = slice(_n_pairs(t), _n_pairs(t + 1))
        offsets[pairs] = torch.linalg.vecdot(planes[pairs], means[t] + means[:t])
    return offsets.mul_(factor)
