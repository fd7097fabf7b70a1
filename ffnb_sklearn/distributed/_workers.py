"""Tasks of the workers: validate the samples of a shard, compute and sum their moments."""

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.utils.validation import _num_samples

from .._estimators.validation import check_inputs, check_samples
from .._inputs.columns import ColumnSpreads
from .._inputs.labels import label_positions
from .._inputs.sparse import samples_on
from ..classifier import FFNBClassifier
from ..core.device import as_tensor, resolve_device
from ..core.model import Model, Task
from ..core.shards import ShardBand, pooled, shard_moments, shard_rank
from ..core.statistics import merge

# Message for shards that are computed twice and give other samples the second time.
CHANGED = (
    "X must hold the same samples in both passes that trained bands need; its shards have changed "
    "in the meantime. Seed whatever draws or shuffles them, persist them before the call, or set "
    "band_size=0, which needs one pass."
)


@dataclass(frozen=True)
class Plan:
    """Information that a worker needs for a pass over the shards."""

    # Parameters, features and known labels of the estimator, on which the validation depends.
    blank: FFNBClassifier
    # The feature map and the settings, without any class.
    model: Model
    # Whether the scatters of the classes are reduced to their sum, not truncated one by one.
    pooled: bool = False
    # The newest band, if it has been fitted, and then the labels in order of arrival; the labels of
    # the neurons of the band come last.
    band: ShardBand | None = None
    arrived: np.ndarray | None = None

    @property
    def device(self):
        """Device on which to compute, on the current machine."""
        return resolve_device(self.blank.device)


@dataclass(frozen=True)
class Statistics:
    """Statistics of some shards."""

    n_samples: int  # of positive weight
    labels: list  # the distinct labels of each shard that is not empty
    moments: dict  # moments of the samples of positive weight, by label


def inputs_of(blank, shard):
    """Return a state with the number of features of a first shard, and their names if any."""
    X, _, _ = _parts(shard)
    _, state = check_inputs(blank, X, None, ensure_min_samples=0)
    return state


def spreads_of(blank, shard):
    """Return the spreads of the columns of a shard; None without samples of positive weight."""
    samples = _samples(blank, shard)
    if samples is None or not len(samples[1]):
        return None
    return ColumnSpreads.of(samples[0], samples[2])


def merged_spreads(blank, parts):
    """Merge the spreads of the columns of several groups of shards; None if there are none."""
    found = [part for part in parts if part is not None]
    return ColumnSpreads.merged(found) if found else None


def statistics_of(plan, shard):
    """Return the exact statistics of a shard."""
    samples = _samples(plan.blank, shard)
    if samples is None:
        return Statistics(0, [], {})
    X, y, weights, labels = samples
    if not len(y):
        return Statistics(0, [labels], {})
    used, numbers = np.unique(y, return_inverse=True)
    task = Task(
        samples_on(plan.device, X, plan.blank._state),
        as_tensor(numbers, device=plan.device, dtype=torch.int64),
        as_tensor(weights, device=plan.device),
    )
    band = plan.band
    fresh = None if band is None else band.outputs(task.X, _codes(plan, y), task.weights)
    moments = dict(zip(used.tolist(), shard_moments(plan.model, task, fresh), strict=True))
    if plan.pooled:
        moments = pooled(moments, device=plan.device)
    return Statistics(len(y), [labels], moments)


def added(plan, parts):
    """Merge the statistics of several groups of shards; only wide sparse rows are truncated."""
    projection = plan.blank._state.projection
    is_wide = projection is not None and projection.keeps_sparse
    return _merged(plan, parts, shard_rank(plan.model) if is_wide else None)


def whole(plan, parts):
    """Return the statistics of all shards for the caller, truncated if they are not pooled."""
    return _merged(plan, parts, plan.model.settings.rank)


def _merged(plan, parts, max_rank):
    """Merge the statistics of groups of shards, label by label."""
    by_label = {}
    for part in parts:
        for label, moments in part.moments.items():
            by_label.setdefault(label, []).append(moments)
    rank = None if plan.pooled else max_rank
    pairs = plan.model.features.shared.pairs()
    moments = {
        label: merge(some, rank, device=plan.device, pairs=pairs)
        for label, some in by_label.items()
    }
    if plan.pooled and moments:
        moments = pooled(moments, device=plan.device)
    return Statistics(
        sum(part.n_samples for part in parts),
        [labels for part in parts for labels in part.labels],
        moments,
    )


def _parts(shard):
    """Return the samples, labels and weights of a shard, as they are given."""
    is_sequence = isinstance(shard, (list, tuple))
    if not is_sequence or len(shard) not in (2, 3):
        size = f" of {len(shard)}" if is_sequence else ""
        raise TypeError(
            f"a shard must be (X, y) or (X, y, sample_weight); got {type(shard).__name__}{size}."
        )
    return (*shard, None)[:3]


def _samples(blank, shard):
    """Return the samples of positive weight, their labels and weights, and all labels, or None."""
    X, y, weights = _parts(shard)
    known = {"classes": None, "state": blank._state}
    if _num_samples(X) == 0:
        check_inputs(blank, X, blank._state, ensure_min_samples=0)
        return None
    if np.shape(weights) == (_num_samples(X),) and not np.any(weights):
        # Zero weights are an error only if no other shard has a positive weight.
        _, y, *_ = check_samples(blank, X, y, sample_weight=None, **known)
        return X[:0], y[:0], weights[:0], np.unique(y)
    X, y, unused, weights, _ = check_samples(blank, X, y, sample_weight=weights, **known)
    return X, y, weights, np.unique(y) if unused is None else np.union1d(y, unused)


def _codes(plan, y):
    """Return the codes of a shard's samples: 1 for the neuron of their class, if it is new."""
    if not np.isin(y, plan.arrived).all():
        raise ValueError(CHANGED)
    n_neurons = len(plan.band.band.weights)
    positions, _ = label_positions(y, plan.arrived)
    # The neurons belong to the classes that arrived last.
    codes = np.eye(len(plan.arrived))[positions, -n_neurons:]
    return as_tensor(codes, device=plan.device)
