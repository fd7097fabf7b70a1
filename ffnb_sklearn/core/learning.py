"""The steps of the paper for one task: null-space, bands, moments."""

from dataclasses import replace

from .device import few_threads
from .drafts import append_drafts, draft_bands, grown_past
from .features.feature_map import FeatureMap
from .model import Model, Settings, Task, updated_moments
from .tuning.descent import SILENT, EpochWatcher
from .tuning.finetune import finetune

__all__ = ["learn"]


def learn(model: Model, task: Task, settings: Settings, watcher: EpochWatcher = SILENT) -> Model:
    """Learn one task.

    Parameters
    ----------
    model : Model
        Model before the task.
    task : Task
        Samples of new classes, known classes, or both.
    settings : Settings
        Settings of the task.
    watcher : EpochWatcher
        Watches the epochs of fine-tuning.

    Returns
    -------
    Model
        Model after the task.

    Raises
    ------
    ValueError
        If `p` leaves no axis for new neurons in some layer.
    """
    with few_threads(_operations(model, task, settings)):
        if settings.band_size:
            # Bands need all samples at once in double precision.
            task = replace(task, samples=task.X)
        model, fresh = replace(model, settings=settings, loss_curve=()), None
        if settings.batch_norm:
            model = replace(model, features=_renormalised(model, task))
        if settings.band_size and int(task.classes.max()) >= len(model.moments):
            drafts, loss_curve = finetune(model, task, draft_bands(model, task), watcher)
            model, fresh = append_drafts(replace(model, loss_curve=loss_curve), task, drafts)
        moments = updated_moments(model, task, fresh)
        return replace(model, moments=moments, past=grown_past(model, task))


def _operations(model: Model, task: Task, settings: Settings) -> float:
    """Estimate the operations of learning: products of the samples with each other."""
    n, d = len(task.classes), model.features.n_features
    return 2.0 * n * d * min(n, d) * (1 + settings.descent.max_epochs)


def _renormalised(model: Model, task: Task) -> FeatureMap:
    """Return the feature map after the task's mini-batches of batch normalisation."""
    descent = model.settings.descent
    n_batches = -(-len(task.X) // descent.batch_size)
    n_steps = n_batches * max(1, descent.max_epochs)
    return model.features.renormalised(task.X, task.weights, n_steps)
