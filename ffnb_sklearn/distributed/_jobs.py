"""Jobs of the workers: describe the shards, and learn the shards.

A job is sent to all workers. `map_reduce` calls its three methods: `compute` returns the result of
a shard, `merge` returns the result of several groups of shards, and `finish` returns the result for
the caller.
"""

from copy import copy
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._base.revision import merge_states
from .._base.state import State
from .._base.task_learning import spreads_of_task
from .._base.validation import check_samples
from .._inputs.columns import ColumnSpreads, merged_by_label
from ..core.device import resolve_device
from ..core.moments import merge

__all__ = ["DescribeShards", "LearnShards"]


class Description(NamedTuple):
    """State with the features of some shards, their labels, and their spreads by label."""

    state: State
    labels: np.ndarray
    spreads: dict[object, ColumnSpreads]


class DescribeShards:
    """Describe shards; they must have the features and the kind of labels of a state, if any."""

    def __init__(self, estimator, state=None):
        self.estimator = estimator
        self.state = state

    def compute(self, X, y, sample_weight):
        """Return the description of a shard, None if all weights are 0."""
        if _are_all_zero(sample_weight):
            return None
        X, y, _, weights, state = check_samples(
            self.estimator, X, y, classes=None, sample_weight=sample_weight, state=self.state
        )
        labels = np.unique(y)
        spreads = spreads_of_task(state, X, y, weights)
        return Description(state, labels, spreads)

    def merge(self, descriptions):
        """Return the description of several groups of shards."""
        labels = [description.labels for description in descriptions]
        spreads = [description.spreads for description in descriptions]
        return Description(
            descriptions[0].state,
            np.unique(np.concatenate(labels)),
            merged_by_label(spreads),
        )

    def finish(self, description):
        """Return the description, which is small."""
        return description


class LearnShards:
    """Learn shards with an estimator that has no classes yet, and truncate the moments once."""

    def __init__(self, estimator, rank):
        self.estimator = estimator
        self.rank = rank

    def compute(self, X, y, sample_weight):
        """Return the state after a shard; samples that all weigh 0 only declare their labels."""
        if _are_all_zero(sample_weight):
            state = self.estimator._state
            # scikit-learn refuses weights that are all 0.
            _, y, *_ = check_samples(
                self.estimator, X, y, classes=None, sample_weight=None, state=state
            )
            return state.declaring(y)
        # Other threads learn other shards with this estimator.
        learner = copy(self.estimator)
        learner.partial_fit(X, y, sample_weight=sample_weight)
        return learner._state

    def merge(self, states):
        """Return the state after several groups of shards."""
        device = resolve_device(self.estimator.device)
        merged = states[0]
        for state in states[1:]:
            if not merged.task_classes:
                merged = state
            elif state.task_classes:
                # Shards may hold equal samples, so classes with equal moments are no error.
                merged = merge_states(merged, state, self.estimator, device)
        for state in states:
            merged = merged.declaring(state.classes)
        return merged

    def finish(self, state):
        """Return the state with the moments of each class truncated to the rank."""
        model = state.model
        device = resolve_device(self.estimator.device)
        n_inputs = model.features.n_inputs
        truncated = []
        for moments in model.moments:
            truncated.append(merge([moments], self.rank, device=device, n_inputs=n_inputs))
        model = replace(model, moments=tuple(truncated))
        return replace(state, model=model)


def _are_all_zero(weights):
    """Return whether weights are given and are all 0."""
    if weights is None:
        return False
    return not np.any(weights)
