"""Trained state of a model: the bands, and the moments of the classes in their neurons."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ..device import Array
from ..features import Index
from ..model import Model
from ..moments import ClassMoments, none_if_zero
from .band_settings import BandSettings
from .layers import Layers
from .past import LayerMoments, Past

__all__ = [
    "BandMoments",
    "Removal",
    "Trained",
    "layer_columns",
    "remove_neurons",
    "split_moments",
    "trained_of",
]


@dataclass(frozen=True)
class BandMoments:
    """Moments of one class in the trained neurons, as columns beside those of its `ClassMoments`.

    Attributes
    ----------
    mean, residual : ndarray of shape (n_neurons,)
        Mean and residual of each neuron.
    blocks : tuple of ndarray
        Columns of the factor, in a few blocks: new neurons leave most columns where they are in
        memory.
    """

    mean: Array
    residual: Array
    blocks: tuple[Array, ...] = ()

    @classmethod
    def empty(cls) -> "BandMoments":
        """Return the moments in no neuron."""
        return cls(np.empty(0), np.empty(0))

    def factor(self, rank: int) -> Array:
        """Return the columns of the factor, which has `rank` rows."""
        if len(self.blocks) == 1:
            return self.blocks[0]
        no_columns = np.empty((rank, 0), dtype=np.float32)
        factor: Array = np.concatenate([no_columns, *self.blocks], axis=1)
        return factor

    def append(self, mean: Array, factor: Array, residual: Array) -> "BandMoments":
        """Return the moments with further neurons after the present neurons."""
        blocks = list(self.blocks)
        # Each column is copied at most once per doubling of the width behind it.
        while blocks and blocks[-1].shape[1] <= factor.shape[1]:
            factor = np.concatenate([blocks.pop(), factor], axis=1)
        blocks.append(factor)
        mean = np.concatenate([self.mean, mean])
        residual = np.concatenate([self.residual, residual])
        return BandMoments(mean, residual, tuple(blocks))

    def take(self, neurons: Index, rank: int) -> "BandMoments":
        """Return the moments in some neurons, in the given order."""
        factor = np.ascontiguousarray(self.factor(rank)[:, neurons])
        return BandMoments(self.mean[neurons], self.residual[neurons], (factor,))

    def scale_weights(self, share: float) -> "BandMoments":
        """Return the moments of the same samples, their weights times a positive share."""
        blocks = tuple(block * share**0.5 for block in self.blocks)
        return BandMoments(self.mean, self.residual * share, blocks)


def split_moments(moments: ClassMoments, n_fixed: int) -> tuple[ClassMoments, BandMoments]:
    """Return moments over all features as those over the fixed features, and in the neurons."""
    residual = moments.residual
    fixed = replace(
        moments,
        mean=moments.mean[:n_fixed],
        factor=np.ascontiguousarray(moments.factor[:, :n_fixed]),
        truncated=none_if_zero(residual[:n_fixed]),
    )
    factor_in_neurons = np.ascontiguousarray(moments.factor[:, n_fixed:])
    in_neurons = BandMoments(moments.mean[n_fixed:], residual[n_fixed:], (factor_in_neurons,))
    return fixed, in_neurons


def _no_owners() -> npt.NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Trained:
    """The bands that the tasks of a model have trained, and the moments in them.

    Attributes
    ----------
    settings : BandSettings
        Settings of the last task.
    layers : Layers
        The bands of all tasks, one per layer and task.
    moments : tuple of BandMoments
        Moments of each class in the trained neurons.
    owners : ndarray of shape (n_neurons,)
        Number of the class that each neuron was trained for; -1 if this class was forgotten.
    null_space_dims : tuple of tuple of int
        Number of residual axes, per task with new bands and per layer.
    n_newest : int
        Number of classes that the newest task with bands brought, the last classes; 0 if no task
        is the newest, as after a merge.
    loss_curve : tuple of float
        Loss after each epoch of fine-tuning for the last task.
    past : Past or None
        Past of psi_0 for some of the first classes, to which a stream adds new classes. It follows
        from the moments, so neither files nor pickles hold it.
    """

    settings: BandSettings
    layers: Layers
    moments: tuple[BandMoments, ...] = ()
    owners: npt.NDArray[np.int64] = field(default_factory=_no_owners)
    null_space_dims: tuple[tuple[int, ...], ...] = ()
    n_newest: int = 0
    loss_curve: tuple[float, ...] = ()
    past: Past | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the past, which a copy computes again."""
        return {**vars(self), "past": None}

    @property
    def n_layers(self) -> int:
        """Number of bands of each task."""
        return len(self.settings.p)

    def complete(self, moments: ClassMoments, number: int) -> ClassMoments:
        """Return the moments of a class over the fixed features with those of the neurons."""
        in_neurons = self.moments[number]
        if len(in_neurons.mean) == 0:
            return moments
        factor_in_neurons = in_neurons.factor(moments.rank)
        residual = np.concatenate([moments.residual, in_neurons.residual])
        return replace(
            moments,
            mean=np.concatenate([moments.mean, in_neurons.mean]),
            factor=np.concatenate([moments.factor, factor_in_neurons], axis=1),
            truncated=none_if_zero(residual),
        )

    def layer_moments(self, moments: ClassMoments, number: int, layer: int) -> LayerMoments:
        """Return the moments of a class in a layer, given its moments over the fixed features."""
        if layer == 0:
            inputs = slice(0, self.layers.n_inputs)
            return LayerMoments(
                moments.weight,
                moments.mean[inputs],
                moments.factor[:, inputs],
                moments.residual[inputs],
            )
        columns = self.layers.columns(layer)
        in_neurons = self.moments[number]
        factor = in_neurons.factor(moments.rank)
        return LayerMoments(
            moments.weight,
            in_neurons.mean[columns],
            factor[:, columns],
            in_neurons.residual[columns],
        )

    def scale_weights(self, factor: float, numbers: Container[int]) -> "Trained":
        """Return the state in which the samples of some classes have other weights."""
        moments = list(self.moments)
        for number, each in enumerate(moments):
            if number in numbers:
                moments[number] = each.scale_weights(factor)
        return replace(self, moments=tuple(moments), past=None)

    def reorder(self, order: Sequence[int]) -> "Trained":
        """Return the state with the classes in another order, given by their present numbers."""
        moments = tuple(self.moments[number] for number in order)
        owners = _renumbered(self.owners, order)
        return replace(self, moments=moments, owners=owners, past=None)

    def without_classes(self, gone: Container[int]) -> "Trained":
        """Return the state without some classes, and without their neurons where that is possible.

        A neuron stays if neurons of other classes see it.
        """
        return remove_neurons(self, gone).trained


def trained_of(model: Model) -> Trained:
    """Return what the tasks of a model have trained."""
    return cast(Trained, model.trained)


def layer_columns(model: Model, layer: int) -> Index:
    """Return the columns of psi_l among all features: the inputs, or the bands of a layer."""
    layers = trained_of(model).layers
    if layer == 0:
        return np.arange(layers.n_inputs)
    return model.features.n_features + layers.columns(layer)


def _renumbered(owners: npt.NDArray[np.int64], order: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the owners of neurons after a change of the numbers of classes.

    `order` holds the old number of each class; owners that are not in it become -1.
    """
    new_owners = np.full_like(owners, -1)
    for new_number, old_number in enumerate(order):
        new_owners[owners == old_number] = new_number
    return new_owners


class Removal(NamedTuple):
    """The trained state without some classes, and whether it depends on these classes."""

    trained: Trained
    leaves_trace: bool


def remove_neurons(trained: Trained, gone: Container[int]) -> Removal:
    """Remove classes, and the neurons that were trained for them and that no other neuron sees.

    The neurons of other classes were confined to the null-space of a class, or regressed beside it,
    if they were trained in its task or later. Such neurons are a trace of the class.
    """
    order = [number for number in range(len(trained.moments)) if number not in gone]
    owners = _renumbered(trained.owners, order)
    is_lost = (owners < 0) & (trained.owners >= 0)
    is_kept = _needed_neurons(trained.layers, owners >= 0)
    first_lost = len(owners)
    if is_lost.any():
        first_task = _task_of_each_neuron(trained)[is_lost].min()
        first_lost = int(np.flatnonzero(_task_of_each_neuron(trained) >= first_task)[0])
    leaves_trace = bool(is_kept[first_lost:].any())
    layers, null_space_dims = _layers_of(trained, is_kept)
    neurons = np.flatnonzero(is_kept)
    moments = []
    for number in order:
        each = trained.moments[number]
        if not is_kept.all():
            rank = len(each.blocks[0])
            each = each.take(neurons, rank)
        moments.append(each)
    remaining = replace(
        trained,
        layers=layers,
        moments=tuple(moments),
        owners=owners[neurons],
        null_space_dims=null_space_dims,
        n_newest=0,
        past=None,
    )
    return Removal(remaining, leaves_trace)


def _task_of_each_neuron(trained: Trained) -> Index:
    """Return the number of the task that has trained each neuron."""
    sizes = [len(band) for band in trained.layers.bands]
    tasks = np.arange(len(sizes)) // trained.n_layers
    return np.repeat(tasks, sizes)


def _needed_neurons(layers: Layers, has_owner: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which neurons have an owner, or are seen by a neuron that is needed."""
    is_needed = has_owner.copy()
    starts = np.cumsum([0, *map(len, layers.bands)])
    n_layers = max((band.layer for band in layers.bands), default=0)
    # The neurons of a layer are seen by the layer above.
    for layer in range(n_layers, 1, -1):
        below = layers.columns(layer - 1)
        for band, start in zip(layers.bands, starts, strict=False):
            if band.layer == layer:
                rows = band.weights[is_needed[start : start + len(band)]]
                is_seen = (rows != 0.0).any(axis=0)
                is_needed[below[: len(is_seen)]] |= is_seen
    return is_needed


def _layers_of(
    trained: Trained, is_kept: npt.NDArray[np.bool_]
) -> tuple[Layers, tuple[tuple[int, ...], ...]]:
    """Return the layers with some neurons, and the residual axes of the tasks that have any."""
    layers = trained.layers
    kept_by_layer = [np.ones(layers.n_inputs, dtype=bool)]
    for layer in range(1, trained.n_layers + 1):
        kept_by_layer.append(is_kept[layers.columns(layer)])
    tasks = _task_of_each_neuron(trained)
    remaining_tasks = set(tasks[is_kept].tolist())
    bands = []
    start = 0
    for number, band in enumerate(layers.bands):
        stop = start + len(band)
        if number // trained.n_layers in remaining_tasks:
            is_kept_below = kept_by_layer[band.layer - 1][: band.weights.shape[1]]
            neurons = np.flatnonzero(is_kept[start:stop])
            bands.append(band.take(neurons, np.flatnonzero(is_kept_below)))
        start = stop
    dims = []
    for task, dims_of_task in enumerate(trained.null_space_dims):
        if task in remaining_tasks:
            dims.append(dims_of_task)
    return replace(layers, bands=tuple(bands)), tuple(dims)
