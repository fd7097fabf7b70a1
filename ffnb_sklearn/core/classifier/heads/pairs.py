r"""Pairwise Fisher discriminants of all classes, and the sum of their outputs [Sec. 3.2.3].

For classes t and r, Gaussian with regularised covariances,

.. math:: w_{tr} = (\tilde\Sigma_t + \tilde\Sigma_r + s I)^{-1} (\mu_t - \mu_r), \qquad
          b_{tr} = -\tfrac12 w_{tr} \cdot (\mu_t + \mu_r), \qquad
          \tilde\Sigma_c = (1 - \rho) \Sigma_c + \rho \Sigma_{pooled} .

(The paper prints b without the 1/2, which puts the threshold off the midpoint.) With equal
covariances :math:`w \cdot x + b` is half the log-likelihood ratio, so its tanh is the posterior of
t minus the posterior of r.
"""

from dataclasses import dataclass

import numpy as np
import torch

from ...device import as_array, as_tensor
from ...settings import Settings
from ...statistics import Array
from ..gaussians import ClassGaussians
from .interface import Choice, Head, Rows
from .pair_systems import PairSolver, pair_system
from .products import responses

__all__ = ["PairwiseFisher", "fit_pairwise"]

# Losses added to those of each class, which keeps probabilities away from 0 and 1.
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
    def solved(
        cls, gaussians: ClassGaussians, choice: Choice, settings: Settings
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
        planes, offsets = (as_tensor(one, device=x.device) for one in (self.planes, self.offsets))
        pooled = planes.new_zeros((self.n_classes, len(x)))
        # Class t has the pairs (t, r), r < t.
        for samples, classes, found in responses(x, planes, offsets, range(self.n_classes)):
            parts = torch.split(found.tanh_(), [*classes])
            for t, against in zip(classes, parts, strict=True):
                pooled[t, samples] += against.sum(0)
                pooled[:t, samples] -= against
        return pooled.T.contiguous()

    def logits(self, scores: Array) -> Array:
        r"""Return logarithms of probabilities in the order of the scores.

        A pair output is the posterior of one class minus that of the other, so
        :math:`L_t = (C - 1 - s_t) / 2` is the expected number of opponents to which class t loses,
        and :math:`p_t \propto 1 / L_t`. For two classes :math:`p_t` is the pair's posterior itself.
        """
        logits: Array = -np.log(0.5 * (self.n_classes - 1 - scores) + _SURE)
        return logits

    def with_priors(self, scores: Array, priors: Array) -> Array:
        """Divide the expected losses by the priors, relative to equal priors."""
        most = self.n_classes - 1 + 2.0 * _SURE
        return most - (most - scores) / (self.n_classes * priors)

    def pooling(self) -> Array:
        """Return the matrix that adds up the pair outputs."""
        t, r = np.tril_indices(self.n_classes, -1)
        identity = np.eye(self.n_classes)
        return identity[t] - identity[r]


def _n_pairs(n_classes: int) -> int:
    """Return the number of pairs among the first classes."""
    return n_classes * (n_classes - 1) // 2


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
