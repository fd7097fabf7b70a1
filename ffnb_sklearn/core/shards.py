r"""Learning from shards: exact moments and bands of parts of a task, computed at the data.

The rows of a band regress codes on the inputs [Eq. 6, Eq. 7]. The regression needs only the second
moment of the samples and the sum of each class, which add up over shards in a first pass. Stand-in
samples with these sums give the same rows: :math:`\mu \pm \sqrt{r / W} f_j` of weight
:math:`W / 2r` each, for the r rows :math:`f_j` of a scatter of weight W. A second pass computes the
response of each sample left out of the regression, from the regression and this sample alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from .device import as_array, as_tensor, plain_torch
from .drafts import append_drafts, draft_bands
from .features.bands import code_ridge, code_system, fits_samples, left_out
from .features.feature_map import Band, FeatureMap
from .features.nullspace import NullSpace
from .features.shared_band import SharedBand
from .model import Model, Task, updated_moments
from .sparse import SparseInputs
from .statistics import Array, ClassMoments, merge_classes, principal_rows

__all__ = [
    "ShardBand",
    "learn_band",
    "learn_moments",
    "only_inputs",
    "pooled",
    "same_samples",
    "shard_moments",
    "shard_rank",
]


@dataclass(frozen=True)
class ShardBand:
    """A band of the first layer, with the regression that its rows come from.

    `kept` holds the axes kept for the past, `moment` the principal rows of the moment in the
    regression (none if no sample is left out of it), `gamma` and `units` its ridge.
    """

    band: Band
    kept: Array
    moment: Array
    gamma: float
    units: str

    def outputs(self, X: torch.Tensor, codes: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """Compute the outputs for samples of the task, each left out of the regression."""
        responses = self.band.response(X)
        if len(self.moment):
            open_axes = NullSpace(as_tensor(self.kept, device=X.device))
            moment = as_tensor(self.moment, device=X.device)
            energy, open_rows = moment.square().sum(), open_axes.project(moment)
            ridge = code_ridge(self.gamma, energy / X.shape[1], self.units)
            system = code_system(open_rows, ridge)
            responses = left_out(system, open_axes.project(X), responses, codes, weights)
        return self.band.output(responses)


def only_inputs(model: Model) -> Model:
    """Return a model that measures psi_0 alone."""
    n_inputs = model.features.n_inputs
    return replace(model, features=FeatureMap(n_inputs, SharedBand.empty(n_inputs)))


def pooled(moments: Mapping[int, ClassMoments], *, device: torch.device) -> dict[int, ClassMoments]:
    """Reduce the exact scatters of some classes to their sum, which the first class receives."""
    factors = (as_tensor(one.factor, device=device) for one in moments.values())
    together = as_array(principal_rows(*factors))
    bare = {key: replace(one, blocks=(together[:0],)) for key, one in moments.items()}
    first = next(iter(bare))
    return {**bare, first: replace(bare[first], blocks=(together,))}


def same_samples(first: Mapping[int, ClassMoments], second: Mapping[int, ClassMoments]) -> bool:
    """Return whether two passes over the samples agree in the weight and mean of each class.

    The means are compared in the features that both passes measure. Float32 samples that are
    recomputed on another machine may differ in their last digit.
    """
    rounding = np.finfo(np.float32).eps
    if first.keys() != second.keys():
        return False
    for number, one in first.items():
        other = second[number]
        width = min(len(one.mean), len(other.mean))
        means = np.stack([one.mean[:width], other.mean[:width]])
        scatter = np.square(other.columns(slice(0, width))).sum(axis=0) + other.residual[:width]
        size = np.sqrt(np.square(means).max(axis=0) + scatter / other.weight)
        if abs(one.weight - other.weight) > rounding * other.weight:
            return False
        if (np.abs(means[0] - means[1]) > rounding * size).any():
            return False
    return True


@plain_torch
def learn_band(
    model: Model, moments: Mapping[int, ClassMoments], *, device: torch.device
) -> tuple[Model, ShardBand]:
    """Append the band of a task, from the sums over its samples, as `pooled` returns them.

    The moments of the task are still to be added to the model. Raise `ValueError` if `p` leaves no
    axis for new neurons.
    """
    task, settings = _stand_ins(moments, device), model.settings
    if settings.sees_past:
        model = model.with_inputs_past(device)
    drafts = draft_bands(model, task)
    extended, _ = append_drafts(model, task, drafts)
    (draft,), band = drafts, extended.features.bands[-1]
    moment = task.X[:0]
    if settings.init != "random" and settings.left_out:
        moment = task.X * task.weights.sqrt()[:, None]
        if settings.init == "multi":
            moment = torch.cat([model.past(0, device), moment])
        moment = principal_rows(moment)
        ridge = code_ridge(settings.gamma, moment.square().sum() / task.X.shape[1], settings.units)
        if not fits_samples(draft.open_axes.project(task.X), task.weights, ridge):
            moment = moment[:0]
    kept, gamma, units = as_array(draft.open_axes.kept), settings.gamma, settings.units
    return extended, ShardBand(band, kept, as_array(moment), gamma, units)


@plain_torch
def shard_moments(
    model: Model, task: Task, fresh: torch.Tensor | None = None
) -> tuple[ClassMoments, ...]:
    """Compute the moments of the classes of a shard: exact ones, unless it is wide and sparse.

    The classes of the model and its rank play no part; class numbers go from 0 without a gap.
    `fresh` holds the outputs of the newest neurons; None computes them.
    """
    rank = shard_rank(model) if isinstance(task.samples, SparseInputs) else None
    exact = replace(model.settings, rank=rank)
    return updated_moments(replace(model, moments=(), settings=exact), task, fresh)


def shard_rank(model: Model) -> int | None:
    """Return the most rows of a factor of wide sparse shards: exact factors would be too large."""
    # Shards that differ have more axes than their union keeps.
    rank = model.settings.rank
    return 4 * rank if isinstance(rank, int) else None


@plain_torch
def learn_moments(
    model: Model, moments: Mapping[int, ClassMoments], *, device: torch.device
) -> Model:
    """Learn a task from the truncated moments of its classes, by class number.

    The model has the settings of the task and its band, if it has one. The result is that of
    `ffnb_sklearn.core.learning.learn` on the samples, up to rounding.
    """
    new = sorted(moments.items())
    rank, pairs = model.settings.rank, model.features.shared.pairs()
    whole = merge_classes(model.moments, new, rank, device=device, pairs=pairs)
    return model.with_moments(whole)


def _stand_ins(moments: Mapping[int, ClassMoments], device: torch.device) -> Task:
    """Return a few samples with the same second moment and the same sums of the classes."""
    X, classes, weights = [], [], []
    for number, one in moments.items():
        shifts = one.factor * np.sqrt(one.rank / one.weight)
        points = np.concatenate([one.mean + shifts, one.mean - shifts])
        if not len(points):
            points = one.mean[None]
        X.append(points)
        classes += [number] * len(points)
        weights += [one.weight / len(points)] * len(points)
    return Task(
        as_tensor(np.concatenate(X), device=device),
        as_tensor(classes, device=device, dtype=torch.int64),
        as_tensor(weights, device=device),
    )
