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

from ..device import Array, as_array, as_tensor
from ..linalg import NotPositiveDefiniteError
from ..moments import weighted_mean
from ..settings import Settings
from .choice import LEAST_SHARE, LeftOutSamples, Metric, normal_draws
from .gaussians import ClassGaussians
from .interface import Choice, Head, Rows
from .modules import AsinhLogits, PlaneScores

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
    def from_gaussians(
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
        planes = as_tensor(self.planes, device=x.device)
        offsets = as_tensor(self.offsets, device=x.device)
        return (x @ planes.T).add_(offsets)

    def logits_module(self) -> nn.Module:
        """Return the logarithms of probabilities as a function of the values."""
        return AsinhLogits(len(self.planes) / _LINEAR, self.power)

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


def fit_one_vs_all(gaussians: ClassGaussians, *, epsilon: float) -> OneVsAllRidge:
    """Regress the indicator of each class on the features, with a ridge and an intercept.

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
    solved = (axes * shrunk) @ (axes.T @ solved_within)
    gram = (axes * (shrunk * values)) @ axes.T
    planes = solved * share
    left_out = LeftOutSamples(gaussians)
    metric = left_out.metric(within, solved_within)
    return OneVsAllRidge(
        planes=as_array(planes),
        offsets=as_array(share - planes @ centre),
        gram=as_array(gram),
        power=_power(left_out, metric, solved, gram),
    )


def _power(
    left_out: LeftOutSamples, metric: Metric, solved: torch.Tensor, gram: torch.Tensor
) -> float:
    """Return the power of the least left-out cross-entropy, or 1 if nothing can be judged."""
    if not left_out.classes:
        return 1.0
    draws = _laplace_draws(left_out.gaussians)
    margins = []
    for c in left_out.classes:
        # The draws of a class belong to its distance from class c, and not to its number.
        nearness = gram[c] - solved @ left_out.off_centre
        nearness[c] = torch.inf
        order = nearness.argsort(descending=True, stable=True)
        products = draws @ left_out.root(c, solved[order])
        leverages = _leverages(left_out, metric, c, solved, gram[c, c], products[:, 0])
        values = (1.0 + gram[c, order] + products) / len(gram)
        logits = torch.asinh(left_out_values(values, leverages) * (len(gram) / _LINEAR))
        margins.append(logits[:, :1] - logits[:, 1:])
    _, temperature = left_out.least_cross_entropy(margins)
    return 1.0 / temperature


def _leverages(
    left_out: LeftOutSamples,
    metric: Metric,
    c: int,
    solved: torch.Tensor,
    squared_mean: torch.Tensor,
    products: torch.Tensor,
) -> torch.Tensor:
    r"""Return the leverages of samples of class c in the regression.

    .. math:: l = \frac{h}{N} + \frac{1 + 2 z^\top T^{-1} m_c + m_c^\top T^{-1} m_c}{C n} ,

    with the mean h of :math:`z^\top T^{-1} z` over the deviations z of the samples from the mean of
    their class, :math:`m_c` from the centre. `products` are :math:`z^\top T^{-1} m_c`.
    """
    gaussians = left_out.gaussians
    n_classes = len(gaussians.weights)
    rows = gaussians.class_rows[c]
    products_within = rows @ metric.planes.T
    products_in_total = rows @ solved.T
    squares_along_means = products_within * products_in_total
    along_means = squares_along_means.sum() / n_classes
    along_means = along_means / gaussians.weights[c]
    h = left_out.mean_length(c, metric) - along_means
    h = h.clamp_min(0.0)
    # A sample has its share of all samples within the classes, and of its class between them.
    within = h / gaussians.counts.sum()
    from_centre = 1.0 + 2.0 * products + squared_mean
    between = from_centre / n_classes / gaussians.counts[c]
    leverages = within + between
    return leverages.clamp_min(0.0)


def left_out_values(values: torch.Tensor, leverages: torch.Tensor) -> torch.Tensor:
    r"""Return the values of samples of the first class under the regression without them.

    .. math:: \frac{u - l y}{1 - l}
    """
    indicator = torch.zeros_like(values[0])
    indicator[0] = 1.0
    remainders = (1.0 - leverages).clamp_min(LEAST_SHARE)
    contributions = torch.outer(leverages, indicator)
    return (values - contributions) / remainders[:, None]


def _laplace_draws(gaussians: ClassGaussians) -> torch.Tensor:
    """Draw numbers for each class: normal ones with an exponentially distributed variance."""
    n_classes = len(gaussians.weights)
    device = gaussians.weights.device
    draws = normal_draws(gaussians.seed, n_classes + 2, device)
    # Half the squared length in a plane is exponentially distributed.
    squares = draws[:, :2].square()
    variances = 0.5 * squares.sum(1, keepdim=True)
    return draws[:, 2:] * variances.sqrt()
