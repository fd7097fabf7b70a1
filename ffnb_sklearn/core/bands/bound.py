r"""The bound on forgetting [Prop. 1], for the change of the feature map by the newest task.

Before the task its neurons are silent, so its training is one step from :math:`\alpha^0 = 0`, for
which the printed bound holds without a sum over steps (docs/theory/paper.rst has the proof, and the
printed sum):

.. math:: \|\psi_l(X) - \psi_l^{before}(X)\|_F^2 \le B_l
          = \|\alpha_l\|_F^2 \, \|\beta_{l-1}\|_F^2 + \|W_l^{old}\|_F^2 \, B_{l-1} .
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch

from ..device import as_tensor, plain_torch
from ..features.feature_map import Band
from ..linalg import ENERGY_ROUNDING, SUM_ROUNDING
from ..model import Model
from .null_space import NullSpace
from .old_classes import layer_past


class LayerBound(NamedTuple):
    """Terms of the bound in one layer; all norms are squared Frobenius norms.

    Attributes
    ----------
    bound : float
        Bound on `drift`, B_l of Proposition 1.
    drift : float
        Squared norm of the change of the layer's outputs, never above `bound`.
    alpha : float
        Squared norm of the coordinates of the newest rows.
    beta : float
        Squared norm of the residual coordinates of the inputs of the newest rows.
    old_weights : float
        Squared norm of the older rows.
    """

    bound: float
    drift: float
    alpha: float
    beta: float
    old_weights: float


@dataclass(frozen=True)
class ForgettingBound:
    """Bound and measured change of the features of some samples by the newest task.

    Attributes
    ----------
    layers : tuple of LayerBound
        Terms per layer, the first layer first.
    """

    layers: tuple[LayerBound, ...]

    @property
    def bound(self) -> float:
        """Bound of Proposition 1 on the last layer, which the classifier sees."""
        return self.layers[-1].bound

    @property
    def drift(self) -> float:
        """Measured squared change of the last layer's outputs, summed over samples."""
        return self.layers[-1].drift


@plain_torch
def forgetting_bound(model: Model, X: torch.Tensor) -> ForgettingBound:
    """Evaluate Proposition 1 for the newest task's bands, on samples X of previous tasks."""
    features = model.features
    layers: list[LayerBound] = []
    inherited = 0.0
    axes = open_axes(model, X.device)
    for band, left in zip(features.bands[-len(axes) :], axes, strict=True):
        below = features.layer_of(X, band.layer - 1)
        older = [one for one in features.bands if one.layer == band.layer and one is not band]
        alpha, *others = (float(((b.scale * b.weights) ** 2).sum()) for b in (band, *older))
        beta, old = _seen_energy(band, left, below), sum(others)
        # The older rows would pass on a change of the layer below.
        inherited = (1.0 + SUM_ROUNDING) * alpha * beta + old * inherited
        response = band.response(below)
        change = band.output(response) - band.output(0.0 * response)
        layers.append(LayerBound(inherited, float(change.square().sum()), alpha, beta, old))
    return ForgettingBound(tuple(layers))


def open_axes(model: Model, device: torch.device) -> list[NullSpace]:
    """Return the axes open to the newest band of each layer, from the moments of older classes."""
    older = replace(model, moments=model.moments[: -model.n_newest])
    axes = []
    for layer, n_residual in enumerate(model.null_space_dims[-1]):
        past = layer_past(older, layer, device).principal
        axes.append(NullSpace(past, past.width - n_residual))
    return axes


def _seen_energy(band: Band, left: NullSpace, below: torch.Tensor) -> float:
    """Return the energy of inputs in the residual axes, and what rows see beyond these axes.

    Rows lie in the residual axes up to rounding, unless older classes have had samples since.
    """
    rows = as_tensor(band.weights, device=below.device)
    beyond = torch.linalg.vector_norm(rows @ left.kept.T) / torch.linalg.vector_norm(rows)
    inside = torch.linalg.vector_norm(left.project(below))
    seen = inside + beyond.nan_to_num() * torch.linalg.vector_norm(below @ left.kept.T)
    return float(seen.square() + ENERGY_ROUNDING * below.square().sum())
