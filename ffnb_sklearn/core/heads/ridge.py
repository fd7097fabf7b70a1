r"""One-vs-all ridge regression from the same statistics: the ablation of the pairwise classifier.

Normal equations split into the covariance within the classes, W, which is pooled and has the ridge,
and the scatter of the C means M (one per column) around their own mean. For classes of shares
:math:`\pi` the total covariance and the coefficients are

.. math:: T_\pi = W + M A_\pi M^\top , \qquad T_\pi^{-1} M A_\pi , \qquad
          A_\pi = \mathrm{diag}(\pi) - \pi \pi^\top .

The equations are solved for equal shares, :math:`u = 1/C + M^\top T^{-1} (x - \bar m) / C`. W is
factored alone, and the Woodbury identity adds the means: with :math:`H = M^\top W^{-1} M` of means
around their centre, :math:`M^\top T^{-1} = (I + H / C)^{-1} M^\top W^{-1}`. Other shares need a
system of size C alone, by the same identity, with :math:`G = M^\top T^{-1} M` and :math:`z = C u -
1`:

.. math:: s = \pi + \bigl(z^\top - \pi^\top G\bigr)
          \bigl(I + (A_\pi - A) G\bigr)^{-1} A_\pi .

The values estimate probabilities, but the ridge draws them towards 1/C, and they may be negative.
They become probabilities by a power a of :math:`y + \sqrt{y^2 + 1}` with :math:`y = C u / 4`
(docs/theory/default.rst).
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ..choice.pooled import SolvedMeans
from ..choice.regression import LINEAR, RegressedMeans
from ..device import Array, as_array, as_tensor
from ..gaussians import ClassGaussians
from ..linalg import NotPositiveDefiniteError
from ..moments import weighted_mean
from ..settings import Choice, Settings
from .interface import Head, Rows
from .modules import AsinhLogits, PlaneScores

__all__ = ["OneVsAllRidge", "solve_means"]


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
    def solve_means(
        cls, gaussians: ClassGaussians, choice: Choice, settings: Settings
    ) -> RegressedMeans:
        """Solve the normal equations, which have no covariances of classes."""
        return solve_means(gaussians, choice.epsilon)

    @classmethod
    def from_gaussians(
        cls,
        gaussians: ClassGaussians,
        solved_means: SolvedMeans | None,
        choice: Choice,
        settings: Settings,
    ) -> "OneVsAllRidge":
        """Return the regression of the indicators of the classes, with an intercept."""
        assert isinstance(solved_means, RegressedMeans)
        share = 1.0 / len(gaussians.weights)
        planes = solved_means.in_total * share
        return cls(
            planes=as_array(planes),
            offsets=as_array(share - planes @ solved_means.centre),
            gram=as_array(solved_means.gram),
            power=1.0 / choice.temperature,
        )

    @staticmethod
    def n_weights(n_features: int, n_classes: int, n_axes: int) -> int:
        """Return the number of coefficients and intercepts."""
        return n_classes * (n_features + 1)

    def scores(self, x: Rows) -> torch.Tensor:
        """Return the values of the linear functions, of shape (n_samples, C)."""
        planes = as_tensor(self.planes, device=x.device)
        offsets = as_tensor(self.offsets, device=x.device)
        return (x @ planes.T).add_(offsets)

    def logits_module(self) -> nn.Module:
        """Return the logarithms of probabilities as a function of the values."""
        return AsinhLogits(len(self.planes) / LINEAR, self.power)

    def scores_module(self, priors: Array) -> nn.Module:
        """Return the values as a module; the adjustment for priors is affine."""
        n_classes = len(self.planes)
        shift = self.apply_priors(np.zeros((1, n_classes)), priors)
        mixing = self.apply_priors(np.eye(n_classes), priors) - shift
        arrays = {
            "planes": self.planes,
            "offsets": self.offsets,
            "mixing": mixing,
            "shift": shift,
        }
        return PlaneScores(arrays, has_tanh=False)

    def apply_priors(self, scores: Array, priors: Array) -> Array:
        """Return the values that a regression for classes of these shares would have.

        Raise a NotPositiveDefiniteError if it cannot be solved.
        """
        n_classes = len(priors)
        change = _share_matrix(priors) - _share_matrix(np.full(n_classes, 1.0 / n_classes))
        try:
            system = np.eye(n_classes) + change @ self.gram
            weights = np.linalg.solve(system, _share_matrix(priors))
        except np.linalg.LinAlgError as error:
            raise NotPositiveDefiniteError(
                "the regression for these priors cannot be solved to working precision; use a "
                "larger ridge."
            ) from error
        z = n_classes * scores - 1.0
        adjusted: Array = priors + (z - priors @ self.gram) @ weights
        return adjusted.compress(priors > 0.0, axis=1)


def _share_matrix(shares: Array) -> Array:
    r"""Return :math:`A_\pi = \mathrm{diag}(\pi) - \pi \pi^\top`."""
    matrix: Array = np.diag(shares) - np.outer(shares, shares)
    return matrix


def solve_means(gaussians: ClassGaussians, epsilon: float) -> RegressedMeans:
    """Multiply the class means, minus their centre, by the inverses of W and of T.

    The ridge, epsilon, is relative to the mean variance within classes, which have equal weights.
    """
    share = 1.0 / len(gaussians.weights)
    centre = weighted_mean(gaussians.means, torch.ones_like(gaussians.weights))
    from_centre = gaussians.means - centre
    # The part within the classes is factored alone: the sum with that of the means would lose the
    # digits of classes that are small beside their distances.
    within = gaussians.shared_covariance(1.0, epsilon)
    solved_within = within.solve(from_centre)
    values, axes = torch.linalg.eigh(from_centre @ solved_within.T)
    # Class means that depend on each other, as centred means do, leave axes of rounding.
    eps = torch.finfo(values.dtype).eps
    rounding = len(values) * eps * values[-1]
    varying = values > rounding
    values = values[varying]
    axes = axes[:, varying]
    shrunk = 1.0 / (1.0 + share * values)
    in_total = (axes * shrunk) @ (axes.T @ solved_within)
    gram = (axes * (shrunk * values)) @ axes.T
    return RegressedMeans(within, solved_within, 1.0, centre=centre, in_total=in_total, gram=gram)
