"""The steps of the paper for one task: null-space, bands, moments, classifier."""

from dataclasses import replace

import numpy as np
import torch

from .activations import ACTIVATIONS
from .bands import FittedRows, band_codes, random_rows, regression_rows
from .device import as_array, as_tensor
from .features import Band, Index
from .fisher import PairwiseFisher
from .model import Model, Settings, Task, solve, updated_moments
from .nullspace import NullSpace, moment_rows, null_space
from .old_classes import extend_moments
from .statistics import Array, ClassMoments, principal_rows

__all__ = ["append_band", "learn"]


def learn(model: Model, task: Task, settings: Settings, *, solved: bool = True) -> Model:
    """Learn one task.

    Parameters
    ----------
    model : Model
        What was learnt before.
    task : Task
        Samples of new classes, of known ones, or both.
    settings : Settings
        What the parameters are now.
    solved : bool, default=True
        Whether to solve the classifier, which can wait where a further task follows at once.

    Returns
    -------
    Model
        What is known now; without a classifier if it was not to be solved.

    Raises
    ------
    ValueError
        If `p` leaves no axis for new neurons in some layer.
    """
    known = model.classifier if _pairs_stay(model, task, settings) else None
    model, fresh = replace(model, settings=settings), None
    if settings.band_size and int(task.classes.max()) >= len(model.moments):
        model, fresh = _with_new_bands(model, task)
    moments = updated_moments(model, task, fresh)
    model = replace(model, moments=moments, past=_grown_past(model, task), classifier=None)
    if not solved:
        return model
    return solve(model, task.X.device, known if isinstance(known, PairwiseFisher) else None)


def _pairs_stay(model: Model, task: Task, settings: Settings) -> bool:
    """Whether the features, the known classes and the settings stay as they are."""
    return (
        settings == model.settings
        and settings.band_size == 0
        and int(task.classes.min()) >= len(model.moments)
    )


def _with_new_bands(model: Model, task: Task) -> tuple[Model, torch.Tensor]:
    """Add a band to every layer for the new classes of a task [Eq. 1, 5-7].

    Returns the model, and the outputs of the new neurons for each sample of the task as if it
    had not been among those that they were fitted to.
    """
    settings, device = model.settings, task.X.device
    # Stream 0 of the seed is the shared band's.
    rng = np.random.default_rng([model.seed, 1 + len(model.null_space_dims)])
    codes = band_codes(task.X, task.classes - len(model.moments), task.weights, settings.band_size)
    below, fresh, dims = task.X, [], []
    for layer in range(1, len(settings.p) + 1):
        open_axes = _open_axes(model, layer, below.shape[1], device)
        fitted = _fit_rows(model, layer, below, open_axes, codes, task.weights, rng)
        band = Band(layer, as_array(fitted.rows), settings.activation)
        old = _layer_features(model, layer, task.X)
        model = append_band(model, band, device)
        fresh.append(ACTIVATIONS[settings.activation](fitted.responses))
        dims.append(open_axes.n_residual)
        below = torch.cat([old, fresh[-1]], dim=1)
    model = replace(model, null_space_dims=(*model.null_space_dims, tuple(dims)))
    return model, torch.cat(fresh, dim=1)


def _layer_features(model: Model, layer: int, X: torch.Tensor) -> torch.Tensor:
    """psi_l of some samples."""
    if layer == 0:
        return X
    features = model.features.without_shared()
    return features(X)[:, torch.as_tensor(features.layer(layer), device=X.device)]


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
    moments = tuple(extend_moments(one, band, inputs, how, device=device) for one in model.moments)
    past = list(model.past)
    if band.layer < len(past):
        past[band.layer] = _widened(past[band.layer], features.layer(band.layer), moments)
    return replace(model, features=features, moments=moments, past=tuple(past))


def _widened(past: Array, columns: Index, moments: tuple[ClassMoments, ...]) -> Array:
    """Past of a layer with new neurons, as the known classes are taken to look in them."""
    if not moments:
        return np.empty((0, len(columns)))
    second = sum((one.second_moment(columns) for one in moments), np.zeros((len(columns),) * 2))
    # What was measured stays as it is; only what the new neurons bring in is inferred.
    second[: past.shape[1], : past.shape[1]] = past.T @ past
    return moment_rows(second)


def _grown_past(model: Model, task: Task) -> tuple[Array, ...]:
    """Past of the layers that feed bands, with a task's samples taken in."""
    grown = []
    for layer, past in enumerate(model.past):
        samples = _layer_features(model, layer, task.X) * task.weights.sqrt()[:, None]
        rows = torch.cat([as_tensor(past, device=samples.device), samples])
        grown.append(as_array(principal_rows(rows)))
    return tuple(grown)
