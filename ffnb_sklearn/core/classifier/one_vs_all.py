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

Probabilities are the softmax of the values at a temperature. The margin between a class mean and
its nearest opponent is known in these values and in the linear discriminants of W, which follow
from G alone:

.. math:: M^\top W^{-1} M = G (I - G / C)^{-1} .

The median of their ratio turns the temperature of the discriminants into that of the values.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from ..device import as_array, as_tensor
from ..linalg import SUM_ROUNDING, DiagonalPlusGram, NotPositiveDefiniteError
from ..statistics import Array
from .gaussians import ClassGaussians

__all__ = ["OneVsAllRidge", "fit_one_vs_all"]

# Temperature that values have at least, in quadrature: their spread about 0 and 1 does not vanish
# with the scatter within the classes (cross-entropy on hold-outs of 20 sets).
_LEAST_TEMPERATURE = 0.045


@dataclass(frozen=True)
class OneVsAllRidge:
    """Linear functions of the classes, regressed for classes of equal shares.

    Attributes
    ----------
    planes : ndarray of shape (C, d)
        Coefficients.
    offsets : ndarray of shape (C,)
        Intercepts.
    gram : ndarray of shape (C, C)
        G, products of the means in the metric of the total covariance.
    temperature : float
        Divisor of the values that makes their softmax a probability.
    """

    planes: Array
    offsets: Array
    gram: Array
    temperature: float

    def scores(self, features: torch.Tensor) -> torch.Tensor:
        """Return the values of the linear functions, of shape (n_samples, C)."""
        planes = as_tensor(self.planes, device=features.device)
        offsets = as_tensor(self.offsets, device=features.device)
        return torch.addmm(offsets, features, planes.T)

    def with_shares(self, scores: Array, shares: Array) -> Array:
        """Return the values that a regression for classes of other shares would have.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, C)
            Values for equal shares.
        shares : ndarray of shape (C,)
            Positive shares of the classes, of sum one.

        Returns
        -------
        ndarray of shape (n_samples, C)
            Values for these shares.
        """
        n_classes = len(shares)
        spread = np.diag(shares) - np.outer(shares, shares)
        equal = np.eye(n_classes) / n_classes - 1.0 / n_classes**2
        try:
            weights = np.linalg.solve(np.eye(n_classes) + (spread - equal) @ self.gram, spread)
        except np.linalg.LinAlgError as error:
            raise NotPositiveDefiniteError(
                "the regression for these priors cannot be solved to working precision; use a "
                "larger ridge."
            ) from error
        moved: Array = shares + (n_classes * scores - 1.0 - shares @ self.gram) @ weights
        return moved


def fit_one_vs_all(
    gaussians: ClassGaussians, *, epsilon: float, temperature: float = 1.0
) -> OneVsAllRidge:
    """Regress the indicator of each class on the features, with a ridge and an intercept.

    The normal equations need no sample, only the total scatter: the scatter within the classes plus
    the scatter of their means, as if all classes had equal weights.

    Parameters
    ----------
    gaussians : ClassGaussians
        The classes.
    epsilon : float
        Ridge, relative to the mean variance within classes.
    temperature : float, default=1.0
        Temperature of linear discriminants.

    Returns
    -------
    OneVsAllRidge
        The linear functions.
    """
    total, share = gaussians.weights.sum(), 1.0 / len(gaussians.weights)
    centre = gaussians.means.mean(0)
    from_centre = gaussians.means - centre
    rows = torch.cat([gaussians.rows / total.sqrt(), from_centre * share**0.5])
    diagonal = (
        gaussians.residuals.sum(0) / total + epsilon * gaussians.ridge_unit() * gaussians.penalties
    )
    base = DiagonalPlusGram(diagonal, rows, name="the total covariance")
    solved = base.solve(from_centre)
    planes = solved * share
    gram = solved @ from_centre.T
    ratio = _margin_ratio(gram)
    return OneVsAllRidge(
        as_array(planes),
        as_array(share - planes @ centre),
        as_array(gram),
        math.hypot(_LEAST_TEMPERATURE, temperature / ratio),
    )


def _margin_ratio(gram: torch.Tensor) -> float:
    """Return the margins of linear discriminants relative to those of the values of regression."""
    n_classes = len(gram)
    if n_classes == 1:
        return 1.0
    identity = torch.eye(n_classes, dtype=gram.dtype, device=gram.device)
    products, failed = torch.linalg.solve_ex(identity - gram / n_classes, gram)
    if bool(failed):
        return 1.0
    sizes = products.diagonal()
    # Of a class mean, one per column: half of its squared distance from the other means.
    distances = 0.5 * (sizes + sizes[:, None]) - products
    nearest = distances.masked_fill(identity.bool(), torch.inf).min(0)
    values = (gram.diagonal() - gram.gather(0, nearest.indices[None])[0]) / n_classes
    # Classes with equal means have no margin but rounding.
    apart = values > SUM_ROUNDING * gram.diagonal().max()
    ratios = (nearest.values / values)[apart]
    ratio = float(ratios.median()) if len(ratios) else 1.0
    return ratio if 0.0 < ratio < math.inf else 1.0
