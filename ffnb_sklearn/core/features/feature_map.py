"""The feature map: inputs, shared band, and the block triangular layers of trained bands."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..device import Array, as_tensor
from .activations import ACTIVATIONS
from .batch_norm import BatchNorm
from .shared_band import SharedBand

__all__ = [
    "Band",
    "Blocks",
    "FeatureMap",
    "Index",
    "as_slice",
    "classifier_blocks",
    "classifier_columns",
]

Index = npt.NDArray[np.intp]


def as_slice(columns: Index) -> Index | slice:
    """Return columns as a slice if they are consecutive, so that taking them copies nothing."""
    if len(columns) == 0:
        return slice(0, 0)
    first = int(columns[0])
    last = int(columns[-1])
    if last - first + 1 != len(columns):
        return columns
    if (np.diff(columns) != 1).any():
        return columns
    return slice(first, last + 1)


@dataclass(frozen=True)
class Band:
    """Neurons that one task adds to one layer, counted from 1; they never change afterwards.

    The weights are rows of W_l, over the features that the layer below had. Later features there
    have zero weight, which makes W_l block lower triangular. Batch normalisation of the responses
    before the activation g moves with every task, and so do the outputs, which are g times `scale`.
    """

    layer: int
    weights: Array
    activation: str
    batch_norm: BatchNorm | None = None
    scale: float = 1.0

    def response(self, below: torch.Tensor) -> torch.Tensor:
        """Compute W z, of shape (n_samples, n_neurons), from the features z of the layer below."""
        weights = as_tensor(self.weights, device=below.device)
        n_inputs = weights.shape[1]
        inputs = below[:, :n_inputs]
        return inputs @ weights.T

    def output(self, response: torch.Tensor) -> torch.Tensor:
        """Compute the outputs of the neurons from their responses, of the same shape."""
        if self.batch_norm is not None:
            response = self.batch_norm(response)
        outputs = ACTIVATIONS[self.activation].value(response)
        if self.scale == 1.0:
            return outputs
        return self.scale * outputs

    def __call__(self, below: torch.Tensor) -> torch.Tensor:
        """Compute outputs of shape (n_samples, n_neurons) from the features of the layer below."""
        return self.output(self.response(below))


@dataclass(frozen=True)
class FeatureMap:
    """The map from an input to all features.

    Features are numbered [inputs | shared band | first task's bands | second task's | ...]. A new
    task only appends. Older features of a sample stay the same up to rounding.
    """

    n_inputs: int
    shared: SharedBand
    bands: tuple[Band, ...] = field(default=())

    @property
    def n_features(self) -> int:
        """Number of all features."""
        n_trained = sum(len(band.weights) for band in self.bands)
        return self.n_inputs + len(self.shared) + n_trained

    @property
    def n_weights(self) -> int:
        """Number of weights in the bands, trained and shared."""
        n_shared = int(np.count_nonzero(self.shared.rows))
        n_trained = sum(band.weights.size for band in self.bands)
        return n_shared + n_trained

    def layer(self, layer: int) -> Index:
        """Return the columns of psi_l: the inputs for l = 0, else all bands of the layer."""
        if layer == 0:
            return np.arange(self.n_inputs)
        start = self.n_inputs + len(self.shared)
        columns = [np.empty(0, dtype=np.intp)]
        for band in self.bands:
            stop = start + len(band.weights)
            if band.layer == layer:
                columns.append(np.arange(start, stop))
            start = stop
        return np.concatenate(columns)

    def shared_columns(self) -> Index:
        """Return the columns of the shared band."""
        start = self.n_inputs
        stop = start + len(self.shared)
        return np.arange(start, stop)

    def inputs_of(self, band: Band) -> Index:
        """Return the columns that a band of this map sees."""
        n_inputs = band.weights.shape[1]
        columns_below = self.layer(band.layer - 1)
        return columns_below[:n_inputs]

    def append_band(self, band: Band) -> "FeatureMap":
        """Return the map with one more band after all other bands."""
        return replace(self, bands=(*self.bands, band))

    def update_batch_norms(
        self, X: torch.Tensor, weights: torch.Tensor, n_steps: int
    ) -> "FeatureMap":
        """Return the map after ``n_steps`` mini-batches of batch normalisation."""
        features = replace(self, bands=())
        for band in self.bands:
            # The band sees the layer below with the updated statistics.
            below = features.layer_of(X, band.layer - 1)
            if band.batch_norm is not None:
                batch = BatchNorm.of(band.response(below), weights)
                batch_norm = band.batch_norm.update(batch, n_steps)
                band = replace(band, batch_norm=batch_norm)
            features = features.append_band(band)
        return features

    def layer_of(self, X: torch.Tensor, layer: int) -> torch.Tensor:
        """Compute psi_l of some samples, of shape (n_samples, d_l)."""
        if layer == 0:
            return X
        trained = self.remove_shared_band()
        columns = torch.as_tensor(trained.layer(layer), device=X.device)
        return trained(X)[:, columns]

    def remove_shared_band(self) -> "FeatureMap":
        """Return the map without its shared band, which no other band sees."""
        return replace(self, shared=SharedBand.empty(self.n_inputs))

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Compute all features of samples, inputs first, newest band last; X without neurons."""
        if self.n_features == self.n_inputs:
            return X
        blocks = [X]
        if len(self.shared):
            blocks.append(self.shared(X))
        # Blocks of each layer so far: a band sees the blocks of the layer below that precede it.
        layers: dict[int, list[torch.Tensor]] = {0: [X]}
        # Each band has its own product, so later bands do not change the rounding of its neurons.
        for band in self.bands:
            below = torch.cat(layers[band.layer - 1], dim=1)
            outputs = band(below)
            layers.setdefault(band.layer, []).append(outputs)
            blocks.append(outputs)
        # The older exporter to ONNX would lose blocks that are written into one tensor.
        return torch.cat(blocks, dim=1)


class Blocks(NamedTuple):
    """Number of inputs and of neurons of the shared band among the classifier's first features.

    Trained neurons make up the rest.
    """

    n_inputs: int
    n_shared: int

    @property
    def n_fixed(self) -> int:
        """Number of features that no task changes."""
        return self.n_inputs + self.n_shared


def classifier_columns(features: FeatureMap, skip_connection: bool) -> Index:
    """Return the classifier's columns: inputs if requested, shared band, last layer's bands."""
    columns = [features.shared_columns()]
    if skip_connection:
        columns.insert(0, features.layer(0))
    last_layer = max((band.layer for band in features.bands), default=1)
    columns.append(features.layer(last_layer))
    return np.concatenate(columns)


def classifier_blocks(features: FeatureMap, skip_connection: bool) -> Blocks:
    """Return the sizes of the blocks of these columns."""
    n_inputs = 0
    if skip_connection:
        n_inputs = features.n_inputs
    return Blocks(n_inputs, len(features.shared))
