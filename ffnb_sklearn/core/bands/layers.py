"""The block triangular layers of trained bands."""

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ..device import Array, as_tensor
from ..features import Index
from .activations import ACTIVATIONS
from .batch_norm import BatchNorm

__all__ = ["Band", "Layers"]


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

    def __len__(self) -> int:
        return len(self.weights)

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

    def take(self, neurons: Index, inputs: Index) -> "Band":
        """Return the band with some of its neurons, which see some of its inputs."""
        batch_norm = self.batch_norm
        if batch_norm is not None:
            batch_norm = BatchNorm(batch_norm.mean[neurons], batch_norm.variance[neurons])
        weights = self.weights[neurons][:, inputs]
        return replace(self, weights=weights, batch_norm=batch_norm)


@dataclass(frozen=True)
class Layers:
    """All bands over the inputs psi_0, in the order of their neurons' numbers."""

    n_inputs: int
    bands: tuple[Band, ...] = field(default=())

    @property
    def n_neurons(self) -> int:
        """Number of trained neurons."""
        return sum(map(len, self.bands))

    @property
    def n_weights(self) -> int:
        """Number of weights of the bands."""
        return sum(band.weights.size for band in self.bands)

    def columns(self, layer: int) -> Index:
        """Return the numbers of the neurons of a layer, counted from 1."""
        columns = [np.empty(0, dtype=np.intp)]
        start = 0
        for band in self.bands:
            stop = start + len(band)
            if band.layer == layer:
                columns.append(np.arange(start, stop))
            start = stop
        return np.concatenate(columns)

    def columns_of_last_layer(self) -> Index:
        """Return the numbers of the neurons of the last layer."""
        last_layer = max((band.layer for band in self.bands), default=1)
        return self.columns(last_layer)

    def width(self, layer: int) -> int:
        """Return the number of features of a layer; layer 0 are the inputs."""
        if layer == 0:
            return self.n_inputs
        return len(self.columns(layer))

    def append_band(self, band: Band) -> "Layers":
        """Return the layers with one more band after all other bands."""
        return replace(self, bands=(*self.bands, band))

    def update_batch_norms(self, X: torch.Tensor, weights: torch.Tensor, n_steps: int) -> "Layers":
        """Return the layers after ``n_steps`` mini-batches of batch normalisation."""
        updated = replace(self, bands=())
        for band in self.bands:
            # The band sees the layer below with the updated statistics.
            below = updated.layer_of(X, band.layer - 1)
            if band.batch_norm is not None:
                batch = BatchNorm.of(band.response(below), weights)
                batch_norm = band.batch_norm.update(batch, n_steps)
                band = replace(band, batch_norm=batch_norm)
            updated = updated.append_band(band)
        return updated

    def layer_of(self, X: torch.Tensor, layer: int) -> torch.Tensor:
        """Compute psi_l of some samples, of shape (n_samples, d_l)."""
        if layer == 0:
            return X
        columns = torch.as_tensor(self.columns(layer), device=X.device)
        return self(X)[:, columns]

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Compute the outputs of all neurons, of shape (n_samples, n_neurons), from inputs X."""
        blocks = [X[:, :0]]
        # Blocks of each layer so far: a band sees the blocks of the layer below that precede it.
        layers: dict[int, list[torch.Tensor]] = {0: [X]}
        # Each band has its own product, so later bands do not change the rounding of its neurons.
        for band in self.bands:
            below = torch.cat(layers[band.layer - 1], dim=1)
            outputs = band(below)
            layers.setdefault(band.layer, []).append(outputs)
            blocks.append(outputs)
        return torch.cat(blocks, dim=1)
