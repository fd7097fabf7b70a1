"""The feature map: inputs, shared band, and the block triangular layers of trained bands.

Also which of its features the classifier sees.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..device import as_tensor
from ..statistics import Array
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

# Neurons of the first layer whose responses are one product.
_NEURONS_TOGETHER = 64

Index = npt.NDArray[np.intp]


def as_slice(columns: Index) -> Index | slice:
    """The same columns, as a slice if they follow each other: then taking them copies nothing."""
    first, stop = (int(columns[0]), int(columns[-1]) + 1) if len(columns) else (0, 0)
    steady = stop - first == len(columns) and bool((np.diff(columns) == 1).all())
    return slice(first, stop) if steady else columns


@dataclass(frozen=True)
class Band:
    """Neurons that one task adds to one layer; they never change afterwards.

    Attributes
    ----------
    layer : int
        The layer, counted from 1.
    weights : ndarray of shape (n_neurons, n_inputs)
        Rows of W_l, over the features of the layer below that existed when the band was added.
        Those added there later have zero weight, which makes W_l block lower triangular.
    activation : {"relu", "tanh", "sigmoid"}
        g.
    batch_norm : BatchNorm or None, default=None
        What the responses are normalised by before g, if anything. It moves with every task,
        and the outputs of old neurons with it.
    scale : float, default=1.0
        What the outputs of g are multiplied by.
    """

    layer: int
    weights: Array
    activation: str
    batch_norm: BatchNorm | None = None
    scale: float = 1.0

    def response(self, below: torch.Tensor) -> torch.Tensor:
        """W z of shape (n_samples, n_neurons) from the features z of the layer below."""
        weights = as_tensor(self.weights, device=below.device)
        return below[:, : weights.shape[1]] @ weights.T

    def output(self, response: torch.Tensor) -> torch.Tensor:
        """What the neurons give for their responses, of the same shape."""
        if self.batch_norm is not None:
            response = self.batch_norm(response)
        outputs = ACTIVATIONS[self.activation](response)
        return outputs if self.scale == 1.0 else self.scale * outputs

    def __call__(self, below: torch.Tensor) -> torch.Tensor:
        """Outputs of shape (n_samples, n_neurons) from the features of the layer below."""
        return self.output(self.response(below))

    def goes_with(self, other: "Band") -> bool:
        """Whether both look at the inputs, and give the same for the same response."""
        if not self.layer == other.layer == 1 or self.batch_norm or other.batch_norm:
            return False
        return (self.activation, self.scale) == (other.activation, other.scale)


@dataclass(frozen=True)
class FeatureMap:
    """Everything that is computed from an input, in the order in which it came to be.

    Features are numbered [inputs | shared band | first task's bands | second task's | ...], so
    that a new task only ever appends, and what older features say of a sample stays bit for
    bit the same.

    Attributes
    ----------
    n_inputs : int
        Width of psi_0.
    shared : SharedBand
        Random neurons that no task changes.
    bands : tuple of Band
        Trained bands, oldest first.
    """

    n_inputs: int
    shared: SharedBand
    bands: tuple[Band, ...] = field(default=())

    @property
    def n_features(self) -> int:
        """Number of all features."""
        return self.n_inputs + len(self.shared) + sum(len(band.weights) for band in self.bands)

    @property
    def n_weights(self) -> int:
        """Number of weights in the bands, trained and shared."""
        shared = int(np.count_nonzero(self.shared.rows))
        return shared + sum(band.weights.size for band in self.bands)

    def layer(self, layer: int) -> Index:
        """Columns of psi_l: the inputs for l = 0, else all bands of that layer."""
        if layer == 0:
            return np.arange(self.n_inputs)
        columns = [np.empty(0, dtype=np.intp)]
        start = self.n_inputs + len(self.shared)
        for band in self.bands:
            stop = start + len(band.weights)
            if band.layer == layer:
                columns.append(np.arange(start, stop))
            start = stop
        return np.concatenate(columns)

    def shared_columns(self) -> Index:
        """Columns of the shared band."""
        return np.arange(self.n_inputs, self.n_inputs + len(self.shared))

    def inputs_of(self, band: Band) -> Index:
        """Columns that a band of this map looks at."""
        return self.layer(band.layer - 1)[: band.weights.shape[1]]

    def with_band(self, band: Band) -> "FeatureMap":
        """The map with one more band behind the others."""
        return replace(self, bands=(*self.bands, band))

    def renormalised(self, X: torch.Tensor, weights: torch.Tensor, n_steps: int) -> "FeatureMap":
        """The map after batch normalisation has seen some samples in ``n_steps`` mini-batches."""
        bands: list[Band] = []
        for band in self.bands:
            # The layer below has moved already.
            below = replace(self, bands=tuple(bands)).layer_of(X, band.layer - 1)
            if band.batch_norm is not None:
                seen = BatchNorm.of(band.response(below), weights)
                band = replace(band, batch_norm=band.batch_norm.moved_to(seen, n_steps))
            bands.append(band)
        return replace(self, bands=tuple(bands))

    def layer_of(self, X: torch.Tensor, layer: int) -> torch.Tensor:
        """psi_l of some samples, of shape (n_samples, d_l)."""
        if layer == 0:
            return X
        features = self.without_shared()
        return features(X)[:, torch.as_tensor(features.layer(layer), device=X.device)]

    def without_shared(self) -> "FeatureMap":
        """The map without its shared band, which no other band looks at."""
        return replace(self, shared=self.shared.without_neurons())

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """All features of some samples.

        Parameters
        ----------
        X : Tensor of shape (n_samples, n_inputs)
            psi_0.

        Returns
        -------
        Tensor of shape (n_samples, n_features)
            Inputs first, newest band last; X itself where there are no neurons.
        """
        if self.n_features == self.n_inputs:
            return X
        features = X.new_empty((len(X), self.n_features))
        stop = self.n_inputs + len(self.shared)
        features[:, : self.n_inputs] = X
        if len(self.shared):
            features[:, self.n_inputs : stop] = self.shared(X)
        responses, n_used = self._first_responses(X), 0
        for band, n_neurons in self._runs():
            start, stop = stop, stop + n_neurons
            if band.layer == 1:
                response = responses[:, n_used : n_used + n_neurons]
                n_used += n_neurons
            else:
                columns = as_tensor(self.inputs_of(band), device=X.device, dtype=torch.int64)
                response = band.response(features[:, columns])
            features[:, start:stop] = band.output(response)
        return features

    def _runs(self) -> list[tuple[Band, int]]:
        """Bands, and of how many neurons side by side each gives the outputs in one step."""
        runs: list[tuple[Band, int]] = []
        for band in self.bands:
            n_neurons = len(band.weights)
            if runs and band.goes_with(runs[-1][0]):
                band, n_before = runs.pop()
                n_neurons += n_before
            runs.append((band, n_neurons))
        return runs

    def _first_responses(self, X: torch.Tensor) -> torch.Tensor:
        """Responses of the bands of the first layer to its inputs, side by side."""
        rows = [band.weights for band in self.bands if band.layer == 1]
        if not rows:
            return X[:, :0]
        # Products of few rows are slow, and one of all rows might round an old neuron otherwise
        # whenever new ones come: neurons go in groups of one size, the last of which is filled up.
        n_neurons = sum(map(len, rows))
        missing = np.zeros((-n_neurons % _NEURONS_TOGETHER, X.shape[1]))
        weights = as_tensor(np.concatenate([*rows, missing]), device=X.device)
        groups = torch.split(weights, _NEURONS_TOGETHER)
        return torch.cat([X @ group.T for group in groups], dim=1)[:, :n_neurons]


class Blocks(NamedTuple):
    """Of what the features that the classifier sees consist; trained neurons make up the rest.

    Attributes
    ----------
    n_inputs, n_shared : int
        Number of inputs, which come first, and of neurons of the shared band, which follow.
    """

    n_inputs: int
    n_shared: int

    @property
    def n_fixed(self) -> int:
        """Number of features that no task changes."""
        return self.n_inputs + self.n_shared


def classifier_columns(features: FeatureMap, skip_connection: bool) -> Index:
    """Features that the classifier sees: inputs if asked for, shared band, last layer's bands."""
    inputs = features.layer(0) if skip_connection else np.empty(0, dtype=np.intp)
    last = features.layer(max((band.layer for band in features.bands), default=1))
    return np.concatenate([inputs, features.shared_columns(), last])


def classifier_blocks(features: FeatureMap, skip_connection: bool) -> Blocks:
    """The blocks of these features."""
    return Blocks(features.n_inputs if skip_connection else 0, len(features.shared))
