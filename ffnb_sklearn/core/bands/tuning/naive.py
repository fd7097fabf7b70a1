"""Algorithm 1 of the paper: a network that grows by a band per task, and back-propagation alone.

The baseline of the method. Only parameters of previous tasks remain, so a new task has no
information on where old classes lie.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ...device import Array, as_array, as_tensor
from ...features.activations import ACTIVATIONS
from ...features.feature_map import Band, FeatureMap
from ...features.shared_band import SharedBand
from ...settings import Descent
from .descent import MomentumSteps, multi_class_hinge


@dataclass(frozen=True)
class Outputs:
    """Linear outputs of the classes of one task, over the neurons that the last layer had."""

    weights: Array
    offsets: Array

    def __call__(self, last: torch.Tensor) -> torch.Tensor:
        """Compute scores of shape (n_samples, n_new_classes) from the last layer."""
        weights = as_tensor(self.weights, device=last.device)
        offsets = as_tensor(self.offsets, device=last.device)
        # The same memory layout keeps scores of old classes bit for bit the same.
        return last[:, : weights.shape[1]].contiguous() @ weights.T + offsets


@dataclass(frozen=True)
class NaiveNetwork:
    """The network after some tasks; functions return a new network.

    The inputs are divided by `scale`. Every task adds one band to each layer, and an entry to
    `outputs`. The number of trainings selects the stream of mini-batches.
    """

    seed: int
    n_layers: int
    scale: float
    features: FeatureMap
    outputs: tuple[Outputs, ...] = field(default=())
    n_trainings: int = 0
    loss_curve: tuple[float, ...] = ()

    @property
    def n_classes(self) -> int:
        """Number of classes that have an output."""
        return sum(len(one.offsets) for one in self.outputs)

    @property
    def n_weights(self) -> int:
        """Number of parameters of all tasks."""
        return self.features.n_weights + sum(
            one.weights.size + one.offsets.size for one in self.outputs
        )

    def layers(self, X: torch.Tensor) -> list[torch.Tensor]:
        """Return the scaled inputs and the outputs of every layer, psi_0 to psi_L."""
        features = self.features(X / self.scale)
        columns = [self.features.layer(layer) for layer in range(self.n_layers + 1)]
        return [features[:, torch.as_tensor(one, device=X.device)] for one in columns]

    def scores(self, X: torch.Tensor) -> torch.Tensor:
        """Compute scores of all classes in order of arrival, of shape (n_samples, n_classes)."""
        last = self.layers(X.double())[-1]
        return torch.cat([last.new_empty((len(X), 0)), *(one(last) for one in self.outputs)], dim=1)

    def with_task(self, bands: Sequence[Band], outputs: Outputs) -> "NaiveNetwork":
        """Return the network with the parameters of one more task."""
        features = replace(self.features, bands=(*self.features.bands, *bands))
        return replace(self, features=features, outputs=(*self.outputs, outputs))


def empty_network(X: torch.Tensor, n_layers: int, seed: int) -> NaiveNetwork:
    """Return the network before the first task, scaled by the root mean square norm of X."""
    norm = float(X.square().sum(1).mean().sqrt())
    features = FeatureMap(X.shape[1], SharedBand.empty(X.shape[1]))
    return NaiveNetwork(seed, n_layers, norm if norm > 0.0 else 1.0, features)


def grow(network: NaiveNetwork, n_new: int, band_size: int, activation: str) -> NaiveNetwork:
    """Append a random band to every layer, and a random output for each new class.

    Weights are normal. Their variance is the gain of the activation over the mean square norm of a
    neuron's inputs, so that neurons are of order one. Old rows are the same arrays, with zero
    weight on the new neurons.
    """
    rng = np.random.default_rng([network.seed, len(network.outputs), 0])
    gain = ACTIVATIONS[activation].gain
    bands = []
    for layer in range(1, network.n_layers + 1):
        width = len(network.features.layer(layer - 1)) + (layer > 1) * n_new * band_size
        # Scaled inputs have a mean square norm of 1; each neuron has a mean square of 1.
        variance = gain if layer == 1 else gain / width
        rows = rng.normal(scale=variance**0.5, size=(n_new * band_size, width))
        bands.append(Band(layer, rows, activation))
    width = len(network.features.layer(network.n_layers)) + n_new * band_size
    weights = rng.normal(scale=width**-0.5, size=(n_new, width))
    return network.with_task(bands, Outputs(weights, np.zeros(n_new)))


def train_newest(
    network: NaiveNetwork, X: torch.Tensor, classes: torch.Tensor, descent: Descent
) -> NaiveNetwork:
    """Train the parameters of the newest task alone on samples of any known classes."""
    rng = np.random.default_rng([network.seed, len(network.outputs), 1 + network.n_trainings])
    network = replace(network, n_trainings=network.n_trainings + 1)
    if network.n_classes == 1:
        return network
    bands, outputs = network.features.bands[-network.n_layers :], network.outputs[-1]
    features = replace(network.features, bands=network.features.bands[: -network.n_layers])
    old = replace(network, features=features, outputs=network.outputs[:-1])
    start = [*(band.weights for band in bands), outputs.weights, outputs.offsets]
    # Clones: an array and its tensor share memory.
    parameters = [as_tensor(one, device=X.device).clone().requires_grad_() for one in start]
    # Old neurons and old outputs are constant.
    below, old_scores = old.layers(X), old.scores(X)

    def loss(rows: torch.Tensor) -> torch.Tensor:
        new = X.new_empty((len(rows), 0))
        for band, psi, weights in zip(bands, below, parameters, strict=False):
            new = band.output(torch.cat([psi[rows], new], dim=1) @ weights.T)
        last = torch.cat([below[-1][rows], new], dim=1)
        scores = last @ parameters[-2].T + parameters[-1]
        scores = torch.cat([old_scores[rows], scores], dim=1)
        return multi_class_hinge(scores, classes[rows]).mean()

    move, losses = MomentumSteps(parameters, descent), list[float]()
    for _ in move.epochs(losses):
        losses.append(move.epoch(loss, len(X), rng))
    *rows, weights, offsets = (as_array(one) for one in parameters)
    trained = [replace(band, weights=one) for band, one in zip(bands, rows, strict=True)]
    old = replace(old, loss_curve=tuple(losses))
    return old.with_task(trained, Outputs(weights, offsets))
