r"""A task in pieces: exact moments of its shards, their union, and a model that takes it in.

Shards keep every axis of their scatters. Where shards i have weights :math:`W_i`, means
:math:`\mu_i` and factors :math:`F_i`, the union has the mean
:math:`\mu = \sum_i W_i \mu_i / \sum_i W_i`, and its scatter is that of the rows of all
:math:`F_i` and all :math:`\sqrt{W_i} (\mu_i - \mu)` together. Only the union is cut to a rank,
once, so that no cut of the samples into shards shows in the result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from ..device import as_array, as_tensor
from ..model import Model, Task, updated_moments
from ..statistics import Array, ClassMoments, merge, principal_factor, principal_rows, rounding_of

__all__ = ["learn_moments", "limited", "shard_moments", "union"]


def shard_moments(
    model: Model, task: Task, fresh: torch.Tensor | None = None
) -> tuple[ClassMoments, ...]:
    """Exact moments of the classes of a shard.

    Parameters
    ----------
    model : Model
        Whose features are measured; what it knows of classes does not matter.
    task : Task
        Samples of the shard, whose classes are numbered from 0 without a gap.
    fresh : Tensor of shape (n_samples, n_new_neurons) or None, default=None
        What to take for the outputs of the newest neurons; None takes what they give.

    Returns
    -------
    tuple of ClassMoments
        Of each class, with all the axes there are, whatever the model's rank.
    """
    exact = replace(model.settings, rank=None)
    return updated_moments(replace(model, moments=(), settings=exact), task, fresh)


def union(parts: Sequence[ClassMoments], *, device: torch.device) -> ClassMoments:
    """Exact moments of a class from those of disjoint sets of its samples.

    Parameters
    ----------
    parts : sequence of ClassMoments
        At least one.
    device : torch.device
        Where to compute.

    Returns
    -------
    ClassMoments
        With at most as many rows as there are features. The rows need not be principal.
    """
    if len(parts) == 1:
        return parts[0]
    weights = np.array([one.weight for one in parts])
    means = np.stack([one.mean for one in parts])
    mean = weights @ means / weights.sum()
    shifts = np.sqrt(weights)[:, None] * (means - mean)
    factor = np.concatenate([*(one.factor for one in parts), shifts])
    if len(factor) > factor.shape[1]:
        factor = as_array(principal_rows(as_tensor(factor, device=device)))
    residual: Array = np.sum([one.residual for one in parts], axis=0)
    return ClassMoments(float(weights.sum()), mean, (factor,), residual)


def limited(moments: ClassMoments, max_rank: int | None, *, device: torch.device) -> ClassMoments:
    """Moments with the longest principal rows alone, and the diagonal of what these leave out.

    Parameters
    ----------
    moments : ClassMoments
        Exact moments.
    max_rank : int or None
        Most rows of the factor; None keeps the scatter exactly.
    device : torch.device
        Where to compute.

    Returns
    -------
    ClassMoments
        What one machine keeps of the same samples.
    """
    rows = as_tensor(moments.factor, device=device)
    rounding = rounding_of(moments.weight, moments.mean)
    factor, left_out = principal_factor(rows, max_rank, rounding)
    return replace(moments, blocks=(factor,), residual=moments.residual + left_out)


def learn_moments(
    model: Model, moments: Mapping[int, ClassMoments], *, device: torch.device
) -> Model:
    """Learn a task from the moments of its classes.

    Parameters
    ----------
    model : Model
        What was learnt before, with the settings of the task and its band, if it has one.
    moments : mapping of int to ClassMoments
        Of the task's samples, cut to the rank, by the number of the class. New classes follow
        on from the last class of the model.
    device : torch.device
        Where to compute.

    Returns
    -------
    Model
        That of `ffnb_sklearn.core.learning.learn` for the samples themselves, up to rounding.
    """
    everything, rank = list(model.moments), model.settings.rank
    for number in sorted(moments):
        if number < len(model.moments):
            known = everything[number]
            everything[number] = merge(known, moments[number], rank, device=device)
        else:
            everything.append(moments[number])
    return replace(model, moments=tuple(everything))
