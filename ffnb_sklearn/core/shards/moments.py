r"""A task in pieces: exact moments of its shards, their union, and a model that takes it in.

Shards keep every axis of their scatters. Where shards i have weights :math:`W_i`, means
:math:`\mu_i` and factors :math:`F_i`, the union has the mean
:math:`\mu = \sum_i W_i \mu_i / \sum_i W_i`, and its scatter is that of the rows of all
:math:`F_i` and all :math:`\sqrt{W_i} (\mu_i - \mu)` together. Only the union is cut to a rank,
once, so that no cut of the samples into shards shows in the result.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch

from ..model import Model, Task, updated_moments
from ..statistics import ClassMoments, merge_classes

__all__ = ["learn_moments", "shard_moments"]


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
    new = sorted(moments.items())
    whole = merge_classes(model.moments, new, model.settings.rank, device=device)
    return replace(model, moments=whole)
