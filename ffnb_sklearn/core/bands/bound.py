r"""The bound on forgetting [Prop. 1], for the change of the feature map by the newest task.

Before the task its neurons are silent, so its training is one step from :math:`\alpha^0 = 0`.
`forgetting_bound` has the bound for this step, and `descent_bound` the printed sum over the steps
of Algorithm 2. docs/theory/paper.rst has the proofs.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import torch

from ..device import as_array, as_tensor, plain_torch
from ..linalg import ENERGY_ROUNDING, SUM_ROUNDING
from ..model import Model, Task
from .drafts import Draft, draft_bands
from .layers import Band
from .null_space import NullSpace
from .old_classes import constant_inputs, layer_past
from .trained import trained_of
from .tuning.finetune import finetune


class LayerBound(NamedTuple):
    """Terms of the bound in one layer; all norms are squared Frobenius norms.

    Attributes
    ----------
    bound : float
        Product of `alpha` and `beta`, the bound of Proposition 1 on `drift`.
    tight_bound : float
        Squared norm of the responses of the newest rows, which are the product of both matrices.
        It lies between `drift` and `bound`.
    drift : float
        Squared norm of the change of the layer's outputs.
    alpha : float
        Squared norm of the coordinates of the newest rows.
    beta : float
        Squared norm of the residual coordinates of the inputs of the newest rows.
    """

    bound: float
    tight_bound: float
    drift: float
    alpha: float
    beta: float


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
    def tight_bound(self) -> float:
        """Bound with the norm of the product of both matrices, for the last layer."""
        return self.layers[-1].tight_bound

    @property
    def drift(self) -> float:
        """Measured squared change of the last layer's outputs, summed over samples."""
        return self.layers[-1].drift


@plain_torch
def forgetting_bound(model: Model, X: torch.Tensor) -> ForgettingBound:
    r"""Evaluate Proposition 1 for the newest task's bands, on samples X of previous tasks.

    .. math:: \|\psi_l(X) - \psi_l^{before}(X)\|_F^2
              \le \|\beta_{l-1} \alpha_l\|_F^2
              \le \|\alpha_l\|_F^2 \, \|\beta_{l-1}\|_F^2

    The printed bound adds the change that older rows pass on. Older rows have zero weight on newer
    neurons of the layer below, so they pass on nothing.
    """
    null_spaces = open_axes(model, X.device)
    n_layers = len(null_spaces)
    trained_layers = trained_of(model).layers
    newest_bands = trained_layers.bands[-n_layers:]
    layers = []
    for band, null_space in zip(newest_bands, null_spaces, strict=True):
        below = trained_layers.layer_of(X, band.layer - 1)
        layers.append(_layer_bound(band, null_space, below))
    return ForgettingBound(tuple(layers))


def _layer_bound(band: Band, null_space: NullSpace, below: torch.Tensor) -> LayerBound:
    """Return the terms of the bound in one layer, from the features of the layer below."""
    responses = band.response(below)
    scaled_responses = band.scale * responses
    norm_of_product = float(scaled_responses.square().sum())
    alpha = _energy_of_rows(band)
    beta = _energy_seen(band, null_space, below)
    # Rounding must not invert an inequality.
    slack = 1.0 + SUM_ROUNDING
    return LayerBound(
        bound=slack * alpha * beta,
        tight_bound=slack * norm_of_product,
        drift=_drift(band, responses),
        alpha=alpha,
        beta=beta,
    )


@plain_torch
def descent_bound(model: Model, task: Task, X: torch.Tensor) -> float:
    r"""Return the printed bound [Eq. 3] for the descent of a task, on samples X of previous tasks.

    `model` is the model before the task. Algorithm 2 runs once more for its steps :math:`\tau`,
    from 1 to :math:`\eta`:

    .. math:: B = \sum_\tau B_L^\tau, \qquad B_l^\tau
              = \|\alpha_l^\tau\|_F^2 \, \|\beta_{l-1}^\tau\|_F^2
              + \|\alpha_l^{\tau-1}\|_F^2 \, \|\beta_{l-1}^{\tau-1}\|_F^2
              + \|W_l^{old}\|_F^2 \, B_{l-1}^\tau, \quad B_0^\tau = 0 .

    The sum is 0 without a step.
    """
    drafts = draft_bands(model, task)
    path: list[list[torch.Tensor]] = []
    finetune(model, task, drafts, path)
    trained = trained_of(model)
    old_layers = []
    old_weights = []
    for draft in drafts:
        old_layers.append(trained.layers.layer_of(X, draft.layer - 1))
        old_weights.append(_energy_of_layer(trained.layers.bands, draft.layer))
    activation = trained.settings.activation
    products = [_energy_products(drafts, leaves, old_layers, activation) for leaves in path]
    total = 0.0
    for products_before, products_after in pairwise(products):
        bound = 0.0
        layers = zip(products_before, products_after, old_weights, strict=True)
        for product_before, product_after, weights in layers:
            bound = product_after + product_before + weights * bound
        total += bound
    return total


def _energy_products(
    drafts: Sequence[Draft],
    leaves: Sequence[torch.Tensor],
    old_layers: Sequence[torch.Tensor],
    activation: str,
) -> list[float]:
    r"""Return :math:`\|\alpha_l\|_F^2 \, \|\beta_{l-1}\|_F^2` of each layer during a descent.

    `leaves` are those at one point of a descent, and `old_layers` the features below each band
    before the task.
    """
    products = []
    outputs = old_layers[0][:, :0]
    for draft, leaf, old_layer in zip(drafts, leaves, old_layers, strict=True):
        leaf_in_axes = draft.open_axes.project(leaf)
        rows = as_array(leaf_in_axes / draft.typical_length)
        band = Band(draft.layer, rows, activation, scale=draft.scale)
        below = torch.cat([old_layer, outputs], dim=1)
        beta_coordinates = draft.open_axes.project(below)
        alpha = _energy_of_rows(band)
        beta = float(beta_coordinates.square().sum())
        products.append(alpha * beta)
        outputs = band(below)
    return products


def open_axes(model: Model, device: torch.device) -> list[NullSpace]:
    """Return the axes open to the newest band of each layer, from the moments of older classes."""
    trained = trained_of(model)
    older_moments = model.moments[: -trained.n_newest]
    older_model = replace(model, moments=older_moments)
    dims_of_newest_task = trained.null_space_dims[-1]
    null_spaces = []
    for layer, n_residual in enumerate(dims_of_newest_task):
        past = layer_past(older_model, layer, device)
        closed = None
        if layer == 0:
            closed = _closed_inputs(model, device)
        n_open = past.principal.width
        if closed is not None:
            past = past.without_columns(closed)
            n_open -= int(closed.sum())
        null_spaces.append(NullSpace(past.principal, n_open - n_residual, closed))
    return null_spaces


def _closed_inputs(model: Model, device: torch.device) -> torch.Tensor | None:
    """Return which inputs had not varied when the newest bands were drafted; None if all varied."""
    trained = trained_of(model)
    older_moments = model.moments[: -trained.n_newest]
    if model.settings.units == "absolute" or not older_moments:
        return None
    row = model.moments[-1].mean[: trained.layers.n_inputs]
    constant = constant_inputs(model.moments, row[None])
    if constant is None:
        return None
    return torch.as_tensor(constant, device=device)


def _energy_of_rows(band: Band) -> float:
    """Return the squared norm of the rows of a band, with the scale of its outputs."""
    rows = band.scale * band.weights
    squares = rows**2
    return float(squares.sum())


def _energy_of_layer(bands: Sequence[Band], layer: int) -> float:
    """Return the squared norm of the rows of the bands of a layer."""
    energy = 0.0
    for band in bands:
        if band.layer == layer:
            energy += _energy_of_rows(band)
    return energy


def _drift(band: Band, responses: torch.Tensor) -> float:
    """Return the squared norm of the change of a band's outputs, which were silent before."""
    no_responses = torch.zeros_like(responses)
    outputs = band.output(responses)
    silent_outputs = band.output(no_responses)
    change = outputs - silent_outputs
    squares = change.square()
    return float(squares.sum())


def _energy_seen(band: Band, null_space: NullSpace, below: torch.Tensor) -> float:
    r"""Return the energy of the inputs in the residual axes, beta, and what rows see beyond.

    Rows lie in the residual axes up to rounding, unless older classes have had samples since. With
    the part k of rows W and inputs X in the kept axes, the norm of the responses is at most
    :math:`\|W\| (\|X_{residual}\| + \|X_k\| \|W_k\| / \|W\|)`.
    """
    norm = torch.linalg.vector_norm
    below = null_space.without_closed(below)
    kept_axes = null_space.kept.T
    rows = as_tensor(band.weights, device=below.device)
    rows_in_kept_axes = rows @ kept_axes
    inputs_in_kept_axes = below @ kept_axes
    inputs_in_residual_axes = null_space.project(below)
    share_in_kept_axes = norm(rows_in_kept_axes) / norm(rows)
    seen_in_kept_axes = share_in_kept_axes.nan_to_num() * norm(inputs_in_kept_axes)
    seen = norm(inputs_in_residual_axes) + seen_in_kept_axes
    input_energy = below.square().sum()
    rounding = ENERGY_ROUNDING * input_energy
    return float(seen.square() + rounding)
