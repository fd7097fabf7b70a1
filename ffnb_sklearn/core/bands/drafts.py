"""The closed form of the bands of a task, and the functions that append them to a model."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from ..device import as_array, as_tensor
from ..messages import level_of_user
from ..model import Model, Task
from .band_settings import BandSettings
from .batch_norm import BatchNorm
from .codes import band_codes
from .layers import Band
from .null_space import EmptyNullSpaceWarning, NullSpace, null_space
from .old_classes import append_band, constant_inputs, layer_past
from .past import PrincipalAxes
from .rows import FittedRows, random_rows, regression_rows
from .trained import trained_of


@dataclass(frozen=True)
class Draft:
    """A band of one layer, counted from 1, that no model contains yet.

    The rows W lie within the residual axes, `open_axes`. `responses` hold the responses of the
    task's samples, by default each to rows that were fitted without this sample, and `corrections`
    hold the responses minus W z, which a descent keeps; both have the shape (n_samples,
    n_neurons). `typical_length` is the inverse unit of the rows in a descent: that of `FittedRows`,
    or 1 in absolute units. `scale` is the factor of the outputs, which gives them the unit of the
    inputs; 1 in absolute units.
    """

    layer: int
    rows: torch.Tensor
    responses: torch.Tensor
    corrections: torch.Tensor
    typical_length: torch.Tensor
    scale: float
    open_axes: NullSpace

    def band(self, weights: torch.Tensor, settings: BandSettings) -> Band:
        """Return the band, normalised by the weighted responses if the settings ask for it."""
        norm = None
        if settings.batch_norm:
            norm = BatchNorm.of(self.responses, weights)
        return Band(self.layer, as_array(self.rows), settings.activation, norm, self.scale)


def draft_bands(model: Model, task: Task) -> list[Draft]:
    """Draft bands for the new classes of a task in closed form [Eq. 1, 5-7], first layer first.

    In each layer: find the axes that the past leaves open, fit rows to the codes in these axes, and
    append the new outputs to the inputs of the next layer. Inputs that have not varied yet, of any
    size, contribute nothing, unless the units are those of the paper.

    Raise `ValueError` if `p` leaves no axis for new neurons in some layer, and warn with an
    `EmptyNullSpaceWarning` if the task's samples have only rounding in the axes that are left.
    """
    trained = trained_of(model)
    settings = trained.settings
    first_new_class = len(model.moments)
    codes = band_codes(task.X, task.classes - first_new_class, task.weights, settings.band_size)
    # The shared band has stream 0 of the seed.
    rng = np.random.default_rng([model.seed, 1 + len(trained.null_space_dims)])
    drafts: list[Draft] = []
    below = task.X
    for layer in range(1, len(settings.p) + 1):
        if drafts:
            band = drafts[-1].band(task.weights, settings)
            new_outputs = band.output(drafts[-1].responses)
            old_outputs = trained.layers.layer_of(task.X, layer - 1)
            below = torch.cat([old_outputs, new_outputs], dim=1)
            # The past of this layer needs the known classes in the new neurons below it.
            model = append_band(model, band, _owners(model, task), task.X.device)
        past = layer_past(model, layer - 1, task.X.device)
        closed = None
        seen = below
        if layer == 1:
            closed = _closed_inputs(model, task)
        if closed is not None:
            past = past.without_columns(closed)
            seen = torch.where(closed, 0.0, below)
        open_axes = _open_axes(settings, layer, past.principal, closed)
        fitted = _fit_rows(model, seen, codes, task.weights, open_axes, rng)
        if fitted.is_rounding and open_axes.n_kept:
            _warn_of_rounding(model, layer, open_axes)
        drafts.append(_draft_of(model, layer, below, fitted, open_axes))
    return drafts


def _closed_inputs(model: Model, task: Task) -> torch.Tensor | None:
    """Return which inputs have not varied yet; None if all may contribute."""
    if model.settings.units == "absolute":
        return None
    constant = constant_inputs(model.moments, as_array(task.X))
    if constant is None:
        return None
    return torch.as_tensor(constant, device=task.X.device)


def _owners(model: Model, task: Task) -> npt.NDArray[np.int64]:
    """Return the number of the new class that each neuron of a task's band stands for."""
    new_classes = np.arange(len(model.moments), int(task.classes.max()) + 1)
    return np.repeat(new_classes, trained_of(model).settings.band_size)


def _fit_rows(
    model: Model,
    below: torch.Tensor,
    codes: torch.Tensor,
    weights: torch.Tensor,
    open_axes: NullSpace,
    rng: np.random.Generator,
) -> FittedRows:
    """Return the initial rows of a layer whose inputs are `below`."""
    settings = trained_of(model).settings
    if settings.init == "random":
        n_neurons = codes.shape[1]
        normal_rows = rng.standard_normal((n_neurons, below.shape[1]))
        return random_rows(as_tensor(normal_rows, device=below.device), below, weights, open_axes)
    return regression_rows(
        below,
        codes,
        weights,
        open_axes,
        settings.gamma,
        sees_past=settings.init == "multi",
        units=model.settings.units,
        leave_out=settings.left_out,
    )


def _draft_of(
    model: Model, layer: int, below: torch.Tensor, fitted: FittedRows, open_axes: NullSpace
) -> Draft:
    """Return the draft of a layer from its fitted rows."""
    if model.settings.units == "absolute":
        typical_length = torch.ones_like(fitted.typical_length)
        scale = 1.0
    else:
        typical_length = fitted.typical_length
        scale = _common_scale(model, fitted)
    corrections = fitted.responses - below @ fitted.rows.T
    return Draft(
        layer, fitted.rows, fitted.responses, corrections, typical_length, scale, open_axes
    )


def _common_scale(model: Model, fitted: FittedRows) -> float:
    """Return the scale of the first band, or of this one; a band of zeros has no scale.

    All bands have one scale, or some bands would outweigh others.
    """
    for band in trained_of(model).layers.bands:
        if band.weights.any():
            return band.scale
    return float(fitted.magnitude)


def append_drafts(model: Model, task: Task, drafts: Sequence[Draft]) -> tuple[Model, torch.Tensor]:
    """Append the bands of a task to a model.

    Return the model, to which the moments of the task's samples are still to be added, and the
    outputs of the new neurons, of shape (n_samples, n_new_neurons), as if each sample had been left
    out of the fit.
    """
    n_newest = int(task.classes.max()) + 1 - len(model.moments)
    settings = trained_of(model).settings
    owners = _owners(model, task)
    outputs = []
    for draft in drafts:
        band = draft.band(task.weights, settings)
        outputs.append(band.output(draft.responses))
        model = append_band(model, band, owners, task.X.device)
    dims = tuple(draft.open_axes.n_residual for draft in drafts)
    trained = trained_of(model)
    all_dims = (*trained.null_space_dims, dims)
    trained = replace(trained, n_newest=n_newest, null_space_dims=all_dims)
    return replace(model, trained=trained), torch.cat(outputs, dim=1)


def _open_axes(
    settings: BandSettings, layer: int, past: PrincipalAxes, closed: torch.Tensor | None
) -> NullSpace:
    """Return the axes open to new neurons of a layer; on the first task all axes [Eq. 1]."""
    p = settings.p[layer - 1]
    width = past.width
    if closed is not None:
        width -= int(closed.sum())
    is_confined = past.rank > 0 and settings.null_space
    # The width of the inputs never changes, and that of a deeper layer grows with the tasks.
    is_final_width = layer == 1
    if isinstance(p, int) and p >= width and (is_confined or is_final_width):
        raise ValueError(
            f"p={p} leaves no axis for new neurons in layer {layer}, whose input is {width} "
            f"wide now; the largest p that works there is {width - 1}."
        )
    if not is_confined:
        return NullSpace(past, 0, closed)
    return null_space(past, p, closed)


def _warn_of_rounding(model: Model, layer: int, open_axes: NullSpace) -> None:
    """Warn of a band whose task has no energy in the axes that previous tasks leave."""
    trained = trained_of(model)
    p = trained.settings.p[layer - 1]
    n_task = 1 + len(trained.null_space_dims)
    warnings.warn(
        f"The band of task {n_task} in layer {layer} sees only rounding: p={p} keeps "
        f"{open_axes.n_kept} axes for previous tasks, and the new samples have nothing in the "
        f"other {open_axes.n_residual} axes. Set a smaller p, or use "
        "IncrementalDiscriminantAnalysis, which trains no bands.",
        EmptyNullSpaceWarning,
        stacklevel=level_of_user(),
    )
