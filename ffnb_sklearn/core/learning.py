"""The steps of the paper for one task: null-space, bands, moments.

With the setting `novelty`, a task is also learned without parts of its samples, up to ten times.
The likeness of the samples left out is that of new samples, and its quantiles are kept. Shrinkage
and ridge are those of all samples.
"""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from .device import as_array, few_threads
from .drafts import append_drafts, draft_bands
from .features.feature_map import FeatureMap
from .likeness import LeftOutLikeness, pooled_likeness
from .model import Model, Samples, Task, updated_moments
from .settings import Settings
from .sparse import SparseInputs
from .tuning.descent import deal
from .tuning.finetune import finetune

# Folds of the samples that are left out in turn, until there are enough samples in total. With one
# fold alone, a threshold for 5 % gives up to 13 % false alarms on tables of few samples.
_N_FOLDS, _ENOUGH = 10, 1000

# Samples that are compared at a time.
_BLOCK = 1024


def learn(model: Model, task: Task, settings: Settings) -> Model:
    """Learn one task, of new classes, known classes, or both.

    Raise `ValueError` if `p` leaves no axis for new neurons in some layer.
    """
    n, d = len(task.classes), model.features.n_features
    with few_threads(2.0 * n * d * min(n, d) * (1 + settings.descent.max_epochs)):
        if settings.band_size and settings.sees_past and _has_new_classes(model, task):
            # All folds of the samples share it.
            model = model.with_inputs_past(task.classes.device)
        learned = _learned(model, task, settings)
        if settings.refresh:
            learned = learned.with_earlier(model)
        if not settings.novelty:
            return learned
        learned = replace(learned, left_out=_left_out(model, task, learned))
        return learned.with_solution(learned.solution(task.classes.device))


def _learned(model: Model, task: Task, settings: Settings) -> Model:
    """Return the model after a task, which has the left-out likeness of earlier tasks alone."""
    if settings.band_size:
        # Bands need all samples at once in double precision.
        task = replace(task, samples=task.X)
    model, fresh = replace(model, settings=settings, loss_curve=()), None
    if settings.batch_norm:
        model = replace(model, features=_renormalised(model, task))
    if settings.band_size and _has_new_classes(model, task):
        drafts, loss_curve = finetune(model, task, draft_bands(model, task))
        model, fresh = append_drafts(replace(model, loss_curve=loss_curve), task, drafts)
    return model.with_moments(updated_moments(model, task, fresh))


def _has_new_classes(model: Model, task: Task) -> bool:
    """Return whether a task has samples of classes that the model does not know."""
    return int(task.classes.max()) >= len(model.moments)


def _left_out(model: Model, task: Task, learned: Model) -> tuple[LeftOutLikeness, ...]:
    """Return the left-out likeness of all classes, given the models before and after a task."""
    settings, n_classes = learned.settings, len(learned.moments)
    classes, weights = task.classes.cpu().numpy(), as_array(task.weights)
    rng = np.random.default_rng([model.seed, len(model.moments), 2])
    likeness = np.full(len(classes), np.nan)
    # Equal samples are left out together: a model that has learned an equal sample knows it.
    groups, first = _equal_samples(task.samples)
    folds = deal(classes[first], _N_FOLDS, rng)[groups]
    for label in range(len(model.moments), n_classes):
        members = classes == label
        if len(np.unique(folds[members])) == 1:
            # Without these samples there would be no new class.
            folds[np.isin(groups, groups[members])] = -1
    for fold in range(_N_FOLDS):
        held, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        if not len(held):
            continue
        without = _learned(model, task.part(rest), settings) if len(rest) else model
        without = replace(without, settings=settings)
        without = without.with_solution(learned.solution(task.classes.device))
        likeness[held] = as_array(without.likeness(task.part(held).samples))
        if len(np.unique(groups[np.isfinite(likeness)])) >= _ENOUGH:
            break
    left_out = list(model.left_out)
    left_out += [LeftOutLikeness()] * (n_classes - len(left_out))
    for label in np.unique(classes):
        known = (classes == label) & np.isfinite(likeness)
        new = LeftOutLikeness.of(likeness[known], weights[known], n_classes)
        if label < len(model.left_out):
            old = left_out[label], model.moments[label].weight
            new = pooled_likeness([old, (new, float(weights[classes == label].sum()))])
        left_out[label] = new
    return tuple(left_out)


def _equal_samples(samples: Samples) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the group of equal samples of each sample, and the first sample of each group."""
    numbers: dict[bytes, int] = {}
    groups, first = np.empty(len(samples), dtype=np.intp), list[int]()
    for number, row in enumerate(_rows(samples)):
        groups[number] = numbers.setdefault(blake2b(row, digest_size=16).digest(), len(first))
        if groups[number] == len(first):
            first.append(number)
    return groups, np.array(first)


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
    return model.features.renormalised(task.X, task.weights, n_steps)
