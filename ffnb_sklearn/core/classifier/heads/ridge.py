r"""One-vs-all ridge regression from the same statistics: the ablation of the pairwise classifier.

Normal equations split into the covariance within the classes, W, which is pooled and has the ridge,
and the scatter of the C means M (one per column) around their own mean. For classes of shares
:math:`\pi` the total covariance and the coefficients are

.. math:: T_\pi = W + M A_\pi M^\top , \qquad T_\pi^{-1} M A_\pi , \qquad
          A_\pi = \mathrm{diag}(\pi) - \pi \pi^\top .

The equations are solved for equal shares, :math:`u = 1/C + M^\top T^{-1} (x - \bar m) / C`. By the
Woodbury identity other shares then need a system of size C alone, with
:math:`G = M^\top T^{-1} M` and :math:`z = C u - 1`:

.. math:: s = \pi + \bigl(z^\top - \pi^\top G\bigr)
          \bigl(I + (A_\pi - A) G\bigr)^{-1} A_\pi .

The values estimate probabilities, but the ridge draws them towards 1/C, and they may be negative.
They become probabilities by a power of :math:`y + \sqrt{y^2 + 1}` with :math:`y = C u / 4`,

.. math:: p_c \propto \exp \bigl(a \operatorname{arsinh} (C u_c / 4)\bigr) .

With few classes, y is small and this is about a softmax of u. With many, a softmax would be too
sure of the samples with the largest values, and not sure enough of the others. The power a has the
least cross-entropy of left-out samples (`left_out_values`). Their deviations from the mean of their
class are drawn from a multivariate Laplace distribution [1]_. With a normal distribution, whose
tails are shorter than those of most classes, two classes with many samples look too certain.

References
----------
.. [1] T. Eltoft, T. Kim and T.-W. Lee. On the multivariate Laplace distribution. IEEE Signal
   Processing Letters 13(5), 2006.
"""

from dataclasses import dataclass

import numpy as np
import torch

from ...device import as_array, as_tensor
from ...linalg import NotPositiveDefiniteError
from ...settings import Settings
from ...statistics import Array
from ..gaussians import ClassGaussians
from ..judge import LEAST_SHARE, LeftOutSamples
from .interface import Choice, Head, Rows

__all__ = ["OneVsAllRidge", "fit_one_vs_all"]

# Values far beyond this multiple of 1 / C count by their ratios, and values far below by their
# differences: on CIFAR-100 a softmax has 0.31 more log-loss .
_LINEAR = 4.0


@dataclass(frozen=True)
class OneVsAllRidge(Head):
    """Linear functions of the classes, regressed for classes of equal shares.

    Attributes
    ----------
    planes : ndarray of shape (C, d)
        Coefficients.
    offsets : ndarray of shape (C,)
        Intercepts.
    gram : ndarray of shape (C, C)
        G, products of the means in the metric of the total covariance.
    power : float
        a, the power that makes values probabilities.
    """

    planes: Array
    offsets: Array
    gram: Array
    power: float

    fixed_ridge = 0.3
    tuned_as = "ova"

    @classmethod
    def solved(
        cls, gaussians: ClassGaussians, choice: Choice, settings: Settings
    ) -> "OneVsAllRidge":
        """Solve the regression, which has no covariances of classes."""
        return fit_one_vs_all(gaussians, epsilon=choice.epsilon)

    @staticmethod
    def n_weights(n_features: int, n_classes: int, n_axes: int) -> int:
        """Return the number of coefficients and intercepts."""
        return n_classes * (n_features + 1)

    def scores(self, x: Rows) -> torch.Tensor:
        """Return the values of the linear functions, of shape (n_samples, C)."""
        planes, offsets = (as_tensor(one, device=x.device) for one in (self.planes, self.offsets))
        return (x @ planes.T).add_(offsets)

    def logits(self, scores: Array) -> Array:
        """Return logarithms of the probabilities, but for a constant, of shape (n_samples, C)."""
        found: Array = self.power * np.arcsinh(scores * (len(self.planes) / _LINEAR))
        return found

    def with_priors(self, scores: Array, priors: Array) -> Array:
        """Return the values that a regression for classes of these shares would have.

        Raise a NotPositiveDefiniteError if it cannot be solved.
        """
        n_classes = len(priors)
        spread = np.diag(priors) - np.outer(priors, priors)
        equal = np.eye(n_classes) / n_classes - 1.0 / n_classes**2
        try:
            weights = np.linalg.solve(np.eye(n_classes) + (spread - equal) @ self.gram, spread)
        except np.linalg.LinAlgError as error:
            raise NotPositiveDefiniteError(
                "the regression for these priors cannot be solved to working precision; use a "
                "larger ridge."
            ) from error
        moved: Array = priors + (n_classes * scores - 1.0 - priors @ self.gram) @ weights
        return moved


def fit_one_vs_all(gaussians: ClassGaussians, *, epsilon: float) -> OneVsAllRidge:
    """Regress the indicator of each class on the features, with a ridge and an intercept.

    The normal equations need no sample, only the total scatter: the scatter within the classes plus
    the scatter of their means, as if all classes had equal weights.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    epsilon : float
        Ridge, relative to the mean variance within classes.

    Returns
    -------
    OneVsAllRidge
        The linear functions.
    """
    share = 1.0 / len(gaussians.weights)
    centre = gaussians.means.mean(0)
    from_centre = gaussians.means - centre
    base = gaussians.total_covariance(torch.full_like(gaussians.weights, share), epsilon)
    solved = base.solve(from_centre)
    planes, gram = solved * share, solved @ from_centre.T
    left_out, margins = LeftOutSamples(gaussians), []
    for c in left_out.classes:
        # The draws of a class belong to its distance from class c, and not to its number.
        nearness = gram[c].clone()
        nearness[c] = torch.inf
        order = nearness.argsort(descending=True, stable=True)
        h, root = left_out.spread(c, base, solved[order])
        products = _draws(root, gaussians.seed)
        values = share * (1.0 + gram[c, order] + products)
        length = h + 2.0 * products[:, 0] + gram[c, c]
        leverage = share / gaussians.counts[c] * (1.0 + length).clamp_min(0.0)
        values[:, 0] -= leverage
        values /= (1.0 - leverage).clamp_min(LEAST_SHARE)[:, None]
        logits = torch.asinh(values * (len(planes) / _LINEAR))
        margins.append(logits[:, :1] - logits[:, 1:])
    is_judged = bool(margins) and len(planes) > 1
    return OneVsAllRidge(
        as_array(planes),
        as_array(share - planes @ centre),
        as_array(gram),
        1.0 / left_out.least_cross_entropy(margins)[1] if is_judged else 1.0,
    )


def _draws(root: torch.Tensor, seed: int, n_draws: int = 256) -> torch.Tensor:
    """Return Laplace distributed draws with a root of their covariance, and their mirror images.

    They are many because the tails decide between two classes that hardly overlap.
    """
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn((n_draws, len(root)), generator=generator, dtype=root.dtype, device="cpu")
    # A normal distribution with an exponentially distributed variance.
    uniform = torch.rand((n_draws, 1), generator=generator, dtype=root.dtype, device="cpu")
    draws = (normal * (-torch.log1p(-uniform)).sqrt()).to(root.device) @ root
    return torch.cat([draws, -draws])
