"""The steps of the paper for one task: null-space, bands, moments.

With the setting `novelty`, the likeness of the samples to the model without each of them is that of
new samples, and its quantiles are kept. Shrinkage and ridge are those of all samples.
"""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import torch

from .bands.drafts import append_drafts, draft_bands
from .bands.old_classes import store_inputs_past
from .bands.tuning.finetune import finetune
from .device import as_array, as_tensor, few_threads
from .features.feature_map import FeatureMap
from .likeness import LeftOutLikeness, pooled_likeness
from .linalg import LENGTH_ROUNDING
from .model import Model, Samples, Task, updated_moments
from .settings import Settings
from .sparse import SparseInputs

# Samples whose left-out likeness is computed: a quantile of 5 % is then known up to 0.7 %.
_ENOUGH = 1000

# Samples that are compared at a time.
_BLOCK = 1024


def learn(model: Model, task: Task, settings: Settings) -> Model:
    """Learn one task, of new classes, known classes, or both.

    Raise `ValueError` if `p` leaves no axis for new neurons in some layer.
    """
    n, d = len(task.classes), model.features.n_features
    with few_threads(2.0 * n * d * min(n, d) * (1 + settings.descent.max_epochs)):
        learned, fresh = _learned(model, task, settings)
        if settings.refresh:
            learned = learned.with_earlier(model)
        if not settings.novelty:
            return learned
        return learned.with_left_out(_left_out(model, task, learned, fresh))


def _learned(model: Model, task: Task, settings: Settings) -> tuple[Model, torch.Tensor | None]:
    """Return the model after a task, which has the left-out likeness of earlier tasks alone.

    The second result holds the outputs of new neurons, as the moments have them.
    """
    if settings.band_size:
        # Bands need all samples at once in double precision.
        task = replace(task, samples=task.X)
    model, fresh = replace(model, settings=settings, loss_curve=()), None
    if settings.batch_norm:
        model = replace(model, features=_renormalised(model, task))
    if settings.band_size and _has_new_classes(model, task):
        if settings.sees_past:
            model = store_inputs_past(model, task.classes.device)
        drafts, loss_curve = finetune(model, task, draft_bands(model, task))
        model, fresh = append_drafts(replace(model, loss_curve=loss_curve), task, drafts)
    return model.with_moments(updated_moments(model, task, fresh)), fresh


def _has_new_classes(model: Model, task: Task) -> bool:
    """Return whether a task has samples of classes that the model does not know."""
    return int(task.classes.max()) >= len(model.moments)


def _left_out(
    model: Model, task: Task, learned: Model, fresh: torch.Tensor | None
) -> tuple[LeftOutLikeness, ...]:
    """Return the left-out likeness of all classes, given the models before and after a task."""
    n_classes = len(learned.moments)
    rng = np.random.default_rng([model.seed, len(model.moments), 2])
    numbers, weights = _distinct_samples(task)
    classes = task.classes.cpu().numpy()[numbers]
    class_weights = np.array([one.weight for one in learned.moments])
    # Without all samples of a class there would be no class.
    able = np.flatnonzero(weights < (1.0 - LENGTH_ROUNDING) * class_weights[classes])
    chosen = able[_fair_choice(classes[able], rng)]
    likeness = np.empty(0)
    if len(chosen):
        device = task.classes.device
        together = as_tensor(weights[chosen], device=device)
        likeness = as_array(
            learned.left_out_likeness(task, fresh, torch.from_numpy(numbers[chosen]), together)
        )
    left_out = list(model.left_out)
    left_out += [LeftOutLikeness()] * (n_classes - len(left_out))
    for label in np.unique(classes):
        known = classes[chosen] == label
        new = LeftOutLikeness.of(likeness[known], weights[chosen][known], n_classes)
        if label < len(model.left_out):
            old = left_out[label], model.moments[label].weight
            new = pooled_likeness([old, (new, float(weights[classes == label].sum()))])
        left_out[label] = new
    return tuple(left_out)


def _fair_choice(classes: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.intp]:
    """Choose up to 1000 samples at random, as many of each class as there are."""
    turns = np.empty(len(classes), dtype=np.intp)
    for label in np.unique(classes):
        members = rng.permutation(np.flatnonzero(classes == label))
        turns[members] = np.arange(len(members))
    return np.argsort(turns, kind="stable")[:_ENOUGH]


def _distinct_samples(task: Task) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Return the number of the first of equal samples of a class, and their total weight.

    They are left out together: a model that has learned an equal sample knows the sample.
    """
    found: dict[tuple[int, bytes], int] = {}
    groups = np.empty(len(task.classes), dtype=np.intp)
    samples = zip(task.classes.tolist(), _rows(task.samples), strict=True)
    for number, (label, row) in enumerate(samples):
        key = label, blake2b(row, digest_size=16).digest()
        groups[number] = found.setdefault(key, number)
    numbers = np.array(list(found.values()))
    weights = np.bincount(groups, as_array(task.weights))
    return numbers, weights[numbers]


def _rows(samples: Samples) -> Iterator[bytes]:
    """Yield the inputs of each sample as bytes, which are equal for equal inputs."""
    for start in range(0, len(samples), _BLOCK):
        block = slice(start, start + _BLOCK)
        if isinstance(samples, SparseInputs):
            yield from samples.sparse(block).row_bytes()
        else:
            # The sum turns -0.0 into 0.0.
            yield from (row.tobytes() for row in as_array(samples[block] + 0.0))


def _renormalised(model: Model, task: Task) -> FeatureMap:
    """Return the feature map after the task's mini-batches of batch normalisation."""
    descent = model.settings.descent
    n_batches = -(-len(task.X) // descent.batch_size)
    n_steps = n_batches * max(1, descent.max_epochs)
    return model.features.update_batch_norms(task.X, task.weights, n_steps)
