"""The steps of the paper for one task: null-space, bands, moments."""

from dataclasses import replace

from .device import as_array, as_tensor
from .drafts import append_drafts, draft_bands
from .features.feature_map import FeatureMap
from .model import Model, Settings, Task, updated_moments
from .statistics import Array, principal_rows
from .tuning.finetune import finetune

__all__ = ["learn"]


def learn(model: Model, task: Task, settings: Settings) -> Model:
    """Learn one task.

    Parameters
    ----------
    model : Model
        What was learnt before.
    task : Task
        Samples of new classes, of known ones, or both.
    settings : Settings
        What the parameters are now.

    Returns
    -------
    Model
        What is known now.

    Raises
    ------
    ValueError
        If `p` leaves no axis for new neurons in some layer.
    """
    if settings.band_size:
        # Bands are fitted to all samples at once.
        task = replace(task, X=task.X.double())
    before = model
    model, fresh = replace(model, settings=settings, loss_curve=()), None
    if settings.batch_norm:
        model = replace(model, features=_renormalised(model, task))
    if settings.band_size and int(task.classes.max()) >= len(model.moments):
        drafts, loss_curve = finetune(model, task, draft_bands(model, task))
        model, fresh = append_drafts(replace(model, loss_curve=loss_curve), task, drafts)
    moments = updated_moments(model, task, fresh)
    model = replace(model, moments=moments, past=_grown_past(model, task))
    return model.with_pairs_of(before) if _pairs_stay(before, task, settings) else model


def _pairs_stay(model: Model, task: Task, settings: Settings) -> bool:
    """Whether the pairs of the known classes stay what they are."""
    return (
        settings == model.settings
        and settings.band_size == 0
        and settings.covariance == "class"
        and settings.shrinkage == 0.0
        and int(task.classes.min()) >= len(model.moments)
    )


def _renormalised(model: Model, task: Task) -> FeatureMap:
    """The feature map after batch normalisation has gone through the task's mini-batches."""
    descent = model.settings.descent
    n_batches = -(-len(task.X) // descent.batch_size)
    n_steps = n_batches * max(1, descent.max_epochs)
    return model.features.renormalised(task.X, task.weights, n_steps)


def _grown_past(model: Model, task: Task) -> tuple[Array, ...]:
    """Past of the layers that feed bands, with a task's samples taken in."""
    grown = []
    for layer, past in enumerate(model.past):
        samples = task.weighted(model.features.layer_of(task.X, layer))
        rows = principal_rows(as_tensor(past, device=samples.device), samples)
        grown.append(as_array(rows))
    return tuple(grown)
