"""The bands of a task before a model has them: their closed form, and their place in the model."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..device import as_array, as_tensor
from ..features.batch_norm import BatchNorm
from ..features.feature_map import Band
from ..messages import level_of_user
from ..model import Model, Task
from ..past import PrincipalAxes
from ..settings import Settings
from .codes import band_codes
from .null_space import EmptyNullSpaceWarning, NullSpace, null_space
from .old_classes import append_band, layer_past
from .rows import random_rows, regression_rows


@dataclass(frozen=True)
class Draft:
    """The band of one layer, counted from 1, before a model has it.

    The rows W lie within the open axes. `responses` are those of the task's samples, by default to
    rows that were not fitted to them, and `corrections` their difference from W z; both have the
    shape (n_samples, n_neurons). `reach` is the inverse unit of the rows in a descent: that of
    `FittedRows`, or 1 in absolute units. `scale` is the factor of the outputs, which gives them the
    unit of the inputs; 1 in absolute units.
    """

    layer: int
    rows: torch.Tensor
    responses: torch.Tensor
    corrections: torch.Tensor
    reach: torch.Tensor
    scale: float
    open_axes: NullSpace

    def band(self, weights: torch.Tensor, settings: Settings) -> Band:
        """Return the band, normalised by the weighted responses if the settings ask for it."""
        norm = BatchNorm.of(self.responses, weights) if settings.batch_norm else None
        return Band(self.layer, as_array(self.rows), settings.activation, norm, self.scale)


def draft_bands(model: Model, task: Task) -> list[Draft]:
    """Draft bands for the new classes of a task in closed form [Eq. 1, 5-7], first layer first.

    Raise `ValueError` if `p` leaves no axis for new neurons in some layer, and warn with an
    `EmptyNullSpaceWarning` if the task's samples have only rounding in the axes that are left.
    """
    settings, device = model.settings, task.X.device
    absolute = settings.units == "absolute"
    # The shared band has stream 0 of the seed.
    rng = np.random.default_rng([model.seed, 1 + len(model.null_space_dims)])
    codes = band_codes(task.X, task.classes - len(model.moments), task.weights, settings.band_size)
    drafts, below = list[Draft](), task.X
    for layer in range(1, len(settings.p) + 1):
        if drafts:
            # The past of this layer needs the known classes in the new neurons below it.
            band = drafts[-1].band(task.weights, settings)
            outputs = band.output(drafts[-1].responses)
            below = torch.cat([model.features.layer_of(task.X, layer - 1), outputs], dim=1)
            model = append_band(model, band, device)
        open_axes = _open_axes(settings, layer, layer_past(model, layer - 1, device).principal)
        if settings.init == "random":
            draw = as_tensor(rng.standard_normal((codes.shape[1], below.shape[1])), device=device)
            fitted = random_rows(draw, below, task.weights, open_axes)
        else:
            fitted = regression_rows(
                below,
                codes,
                task.weights,
                open_axes,
                settings.gamma,
                sees_past=settings.init == "multi",
                units=settings.units,
                leave_out=settings.left_out,
            )
        if fitted.is_rounding and open_axes.n_kept:
            _warn_of_rounding(model, layer, open_axes)
        corrections = fitted.responses - below @ fitted.rows.T
        # With scales of their own some bands would outweigh others; a band of zeros has no size.
        scales = (band.scale for band in model.features.bands if band.weights.any())
        scale = 1.0 if absolute else next(scales, float(fitted.magnitude))
        reach = torch.ones_like(fitted.reach) if absolute else fitted.reach
        drafts.append(
            Draft(layer, fitted.rows, fitted.responses, corrections, reach, scale, open_axes)
        )
    return drafts


def append_drafts(model: Model, task: Task, drafts: Sequence[Draft]) -> tuple[Model, torch.Tensor]:
    """Append the bands of a task to a model.

    Return the model, to which the moments of the task's samples are still to be added, and the
    outputs of the new neurons, of shape (n_samples, n_new_neurons), for samples left out of the
    fit.
    """
    fresh, n_newest = [], int(task.classes.max()) + 1 - len(model.moments)
    for draft in drafts:
        band = draft.band(task.weights, model.settings)
        fresh.append(band.output(draft.responses))
        model = append_band(model, band, task.X.device)
    dims = tuple(draft.open_axes.n_residual for draft in drafts)
    model = replace(model, n_newest=n_newest, null_space_dims=(*model.null_space_dims, dims))
    return model, torch.cat(fresh, dim=1)


def _open_axes(settings: Settings, layer: int, past: PrincipalAxes) -> NullSpace:
    """Return the axes open to new neurons of a layer; on the first task all axes [Eq. 1]."""
    p, width = settings.p[layer - 1], past.width
    if not past.rank or not settings.null_space:
        return NullSpace(past, 0)
    if isinstance(p, int) and p >= width:
        raise ValueError(
            f"p={p} leaves no axis for new neurons in layer {layer}, whose input is {width} "
            f"wide now; the largest p that works there is {width - 1}."
        )
    return null_space(past, p)


def _warn_of_rounding(model: Model, layer: int, open_axes: NullSpace) -> None:
    """Warn of a band that previous tasks leave nothing to see."""
    p, n_kept = model.settings.p[layer - 1], open_axes.n_kept
    warnings.warn(
        f"The band of task {1 + len(model.null_space_dims)} in layer {layer} sees only rounding: "
        f"p={p} keeps {n_kept} axes for previous tasks, and the new samples have nothing in the "
        f"other {open_axes.n_residual} axes. Set a smaller p, or start over with band_size=0, "
        "which trains no bands.",
        EmptyNullSpaceWarning,
        stacklevel=level_of_user(),
    )
