"""The feature map: inputs, shared neurons and trained layers."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from .shared_band import SharedBand

__all__ = ["Blocks", "FeatureMap", "FixedFeatures", "Index", "TrainedLayers", "as_slice"]

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


class Blocks(NamedTuple):
    """Number of inputs and of shared neurons among the classifier's first features.

    Trained neurons make up the rest.
    """

    n_inputs: int
    n_shared: int

    @property
    def n_fixed(self) -> int:
        """Number of features that no task changes."""
        return self.n_inputs + self.n_shared


@dataclass(frozen=True)
class FixedFeatures:
    """The features that no task changes: first the inputs, then the shared neurons."""

    n_inputs: int
    shared: SharedBand

    @property
    def n_features(self) -> int:
        """Number of inputs and shared neurons."""
        return self.n_inputs + len(self.shared)

    @property
    def n_weights(self) -> int:
        """Number of weights of the shared neurons."""
        return int(np.count_nonzero(self.shared.rows))

    def blocks(self, skip_connection: bool) -> Blocks:
        """Return the numbers of inputs and of shared neurons that the classifier sees."""
        n_inputs = 0
        if skip_connection:
            n_inputs = self.n_inputs
        return Blocks(n_inputs, len(self.shared))

    def columns(self, skip_connection: bool) -> Index:
        """Return the columns that the classifier sees: inputs if requested, and shared neurons."""
        start = 0
        if not skip_connection:
            start = self.n_inputs
        return np.arange(start, self.n_features)

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Compute the features of samples; X itself if there are no shared neurons."""
        if len(self.shared) == 0:
            return X
        # The older exporter to ONNX would lose blocks that are written into one tensor.
        return torch.cat([X, self.shared(X)], dim=1)


@runtime_checkable
class TrainedLayers(Protocol):
    """Neurons that tasks have trained, as `ffnb_sklearn.core.bands` implements them."""

    @property
    def n_neurons(self) -> int:
        """Number of trained neurons."""

    @property
    def n_weights(self) -> int:
        """Number of trained weights."""

    def columns_of_last_layer(self) -> Index:
        """Return the numbers of the neurons of the last layer."""

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Compute the outputs of the neurons, of shape (n_samples, n_neurons), from inputs X."""


@dataclass(frozen=True)
class FeatureMap:
    """The map from an input to all features.

    Features are numbered [inputs | shared neurons | first task's bands | second task's | ...]. A
    new task only appends. Older features of a sample stay the same up to rounding.
    """

    fixed: FixedFeatures
    layers: TrainedLayers | None = None

    @property
    def n_features(self) -> int:
        """Number of all features."""
        n_features = self.fixed.n_features
        if self.layers is not None:
            n_features += self.layers.n_neurons
        return n_features

    @property
    def n_weights(self) -> int:
        """Number of weights of all neurons, shared and trained."""
        n_weights = self.fixed.n_weights
        if self.layers is not None:
            n_weights += self.layers.n_weights
        return n_weights

    def columns(self, skip_connection: bool) -> Index:
        """Return the columns that the classifier sees: fixed features, then the last layer."""
        columns = self.fixed.columns(skip_connection)
        if self.layers is None:
            return columns
        last_layer = self.fixed.n_features + self.layers.columns_of_last_layer()
        return np.concatenate([columns, last_layer])

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Compute all features of samples, inputs first, newest band last; X without neurons."""
        features = self.fixed(X)
        if self.layers is None:
            return features
        return torch.cat([features, self.layers(X)], dim=1)
