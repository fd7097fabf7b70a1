"""The bands of one task while they are made: where they start, and how a model takes them in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from .device import as_array, as_tensor
from .features.bands import FittedRows, band_codes, random_rows, regression_rows
from .features.batch_norm import BatchNorm
from .features.feature_map import Band, Index
from .features.nullspace import NullSpace, moment_rows, null_space
from .features.old_classes import extend_moments
from .model import Model, Task
from .statistics import Array, ClassMoments

__all__ = ["Draft", "append_band", "append_draft", "append_drafts", "draft_bands"]


@dataclass(frozen=True)
class Draft:
    """The band of one layer, not yet part of a model.

    Attributes
    ----------
    layer : int
        The layer, counted from 1.
    rows : Tensor of shape (n_neurons, d)
        W, within the open axes.
    open_axes : NullSpace
        The axes left by previous tasks.
    corrections : Tensor of shape (n_samples, n_neurons)
        What to add to W z on the task's own samples z, so that they respond as samples do
        that the rows were not fitted to.
    reach : Tensor of shape ()
        Root mean square length of those samples z, as `FittedRows` has it.
    scale : float
        What the outputs are multiplied by, so that they have the unit of the inputs.
    """

    layer: int
    rows: torch.Tensor
    open_axes: NullSpace
    corrections: torch.Tensor
    reach: torch.Tensor
    scale: float

    def responses(self, below: torch.Tensor) -> torch.Tensor:
        """Corrected responses to the features of the task's samples in the layer below."""
        return below @ self.rows.T + self.corrections


def draft_bands(model: Model, task: Task) -> list[Draft]:
    """Bands for the new classes of a task, as they are before any fine-tuning [Eq. 1, 5-7].

    Parameters
    ----------
    model : Model
        What is known.
    task : Task
        Samples, some of them of new classes.

    Returns
    -------
    list of Draft
        One per layer, the first layer first.

    Raises
    ------
    ValueError
        If `p` leaves no axis for new neurons in some layer.
    """
    settings = model.settings
    # Stream 0 of the seed is the shared band's.
    rng = np.random.default_rng([model.seed, 1 + len(model.null_space_dims)])
    codes = band_codes(task.X, task.classes - len(model.moments), task.weights, settings.band_size)
    drafts, below = [], task.X
    for layer in range(1, len(settings.p) + 1):
        open_axes = _open_axes(model, layer, below.shape[1], task.X.device)
        fitted = _fit_rows(model, layer, below, open_axes, codes, task.weights, rng)
        corrections = fitted.responses - below @ fitted.rows.T
        # One scale for all, or some bands would count for more than others; a band of zeros says
        # nothing of the inputs' size.
        scales = (band.scale for band in model.features.bands if band.weights.any())
        scale = next(scales, float(fitted.magnitude))
        drafts.append(Draft(layer, fitted.rows, open_axes, corrections, fitted.reach, scale))
        if layer < len(settings.p):
            model, below, _ = append_draft(model, task, drafts[-1], below)
    return drafts


def append_draft(
    model: Model, task: Task, draft: Draft, below: torch.Tensor
) -> tuple[Model, torch.Tensor, torch.Tensor]:
    """The model with the band of one layer.

    Parameters
    ----------
    model : Model
        What was known before, with the task's bands of the layers below.
    task : Task
        The samples that the band is made for.
    draft : Draft
        The band.
    below : Tensor of shape (n_samples, d)
        The task's features of the layer below.

    Returns
    -------
    model : Model
        Its classifier does not see the band yet.
    features : Tensor of shape (n_samples, d_l)
        The task's features of the band's own layer; the new ones alone if it is the last layer,
        which no band looks at.
    outputs : Tensor of shape (n_samples, n_neurons)
        The new ones among them alone.
    """
    responses = draft.responses(below)
    norm = BatchNorm.of(responses, task.weights) if model.settings.batch_norm else None
    activation = model.settings.activation
    band = Band(draft.layer, as_array(draft.rows), activation, norm, draft.scale)
    outputs = band.output(responses)
    features = outputs
    if draft.layer < len(model.settings.p):
        features = torch.cat([model.features.layer_of(task.X, draft.layer), outputs], dim=1)
    return append_band(model, band, task.X.device), features, outputs


def append_drafts(model: Model, task: Task, drafts: Sequence[Draft]) -> tuple[Model, torch.Tensor]:
    """The model with the bands of a task.

    Parameters
    ----------
    model : Model
        What was known before.
    task : Task
        The samples that the bands are made for.
    drafts : sequence of Draft
        One per layer, the first layer first.

    Returns
    -------
    model : Model
        Its classifier does not see the bands yet.
    fresh : Tensor of shape (n_samples, n_new_neurons)
        Outputs of the new neurons for each sample of the task as if it had not been among
        those that they were fitted to.
    """
    below, fresh = task.X, []
    for draft in drafts:
        model, below, outputs = append_draft(model, task, draft, below)
        fresh.append(outputs)
    kept = tuple(as_array(draft.open_axes.kept) for draft in drafts)
    dims = tuple(draft.open_axes.n_residual for draft in drafts)
    model = replace(model, kept_axes=kept, null_space_dims=(*model.null_space_dims, dims))
    return model, torch.cat(fresh, dim=1)


def _open_axes(model: Model, layer: int, width: int, device: torch.device) -> NullSpace:
    """Axes open to new neurons of a layer; all of them on the first task [Eq. 1]."""
    p = model.settings.p[layer - 1]
    if isinstance(p, int) and p >= width:
        raise ValueError(
            f"p={p} leaves no axis for new neurons in layer {layer}, whose input is {width} "
            f"wide now; the largest p that works there is {width - 1}."
        )
    past = as_tensor(model.past[layer - 1], device=device)
    return null_space(past, p) if model.settings.null_space else NullSpace(past[:0])


def _fit_rows(
    model: Model,
    layer: int,
    below: torch.Tensor,
    open_axes: NullSpace,
    codes: torch.Tensor,
    weights: torch.Tensor,
    rng: np.random.Generator,
) -> FittedRows:
    """Rows of a layer's new band, by the chosen initialisation."""
    settings, device = model.settings, below.device
    if settings.init == "random":
        draw = rng.standard_normal((codes.shape[1], below.shape[1]))
        return random_rows(as_tensor(draw, device=device), below, weights, open_axes)
    past = as_tensor(model.past[layer - 1], device=device)
    if settings.init == "mono":
        past = past[:0]
    return regression_rows(past, below, codes, weights, open_axes, settings.gamma)


def append_band(model: Model, band: Band, device: torch.device) -> Model:
    """Append a band, and what the known classes look like in it.

    Parameters
    ----------
    model : Model
        What is known.
    band : Band
        The new neurons.
    device : torch.device
        Where to compute.

    Returns
    -------
    Model
        Its classifier does not see the band yet.
    """
    features = model.features.with_band(band)
    how, inputs = model.settings.old_statistics, features.inputs_of(band)
    moments = extend_moments(model.moments, band, inputs, how, device=device)
    past = list(model.past)
    if band.layer < len(past):
        past[band.layer] = _widened(past[band.layer], features.layer(band.layer), moments)
    return replace(model, features=features, moments=moments, past=tuple(past))


def _widened(past: Array, columns: Index, moments: tuple[ClassMoments, ...]) -> Array:
    """Past of a layer with new neurons, as the known classes are taken to look in them."""
    if not moments:
        return np.empty((0, len(columns)))
    means = [np.sqrt(one.weight) * one.mean[None, columns] for one in moments]
    rows = np.concatenate([*means, *(one.columns(columns) for one in moments)])
    second = rows.T @ rows
    second.flat[:: len(second) + 1] += np.sum([one.residual[columns] for one in moments], axis=0)
    # What was measured stays as it is; only what the new neurons bring in is inferred.
    second[: past.shape[1], : past.shape[1]] = past.T @ past
    return moment_rows(second)
