"""Algorithm 1 of the paper: a network that grows by a band per task, and back-propagation alone.

The baseline of the method. Only parameters of previous tasks remain, so a new task has no
information on where old classes lie.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ...device import Array, as_array, as_tensor
from ..activations import ACTIVATIONS
from ..band_settings import Descent
from ..layers import Band, Layers
from .descent import EpochObserver, MomentumSteps, multi_class_hinge


@dataclass(frozen=True)
class Outputs:
    """Linear outputs of the classes of one task, over the neurons that the last layer had."""

    weights: Array
    offsets: Array

    @property
    def n_weights(self) -> int:
        """Number of weights and offsets."""
        n_weights = self.weights.size
        n_offsets = self.offsets.size
        return n_weights + n_offsets

    def __call__(self, last_layer: torch.Tensor) -> torch.Tensor:
        """Compute scores of shape (n_samples, n_new_classes) from the last layer."""
        device = last_layer.device
        weights = as_tensor(self.weights, device=device)
        offsets = as_tensor(self.offsets, device=device)
        n_neurons = self.weights.shape[1]
        # The same memory layout keeps scores of old classes bit for bit the same.
        neurons = last_layer[:, :n_neurons].contiguous()
        return neurons @ weights.T + offsets


@dataclass(frozen=True)
class NaiveNetwork:
    """The network after some tasks; functions return a new network.

    The inputs are divided by `scale`. Every task adds one band to each layer, and an entry to
    `outputs`. The number of trainings selects the stream of mini-batches.
    """

    seed: int
    n_layers: int
    scale: float
    hidden: Layers
    outputs: tuple[Outputs, ...] = field(default=())
    n_trainings: int = 0
    loss_curve: tuple[float, ...] = ()

    @property
    def n_classes(self) -> int:
        """Number of classes that have an output."""
        n_classes = 0
        for outputs in self.outputs:
            n_classes += len(outputs.offsets)
        return n_classes

    @property
    def n_weights(self) -> int:
        """Number of parameters of all tasks."""
        n_weights = self.hidden.n_weights
        for outputs in self.outputs:
            n_weights += outputs.n_weights
        return n_weights

    @property
    def newest_bands(self) -> tuple[Band, ...]:
        """Bands of the newest task, the first layer first."""
        return self.hidden.bands[-self.n_layers :]

    def layers(self, X: torch.Tensor) -> list[torch.Tensor]:
        """Return the scaled inputs and the outputs of every layer, psi_0 to psi_L."""
        inputs = X / self.scale
        neurons = self.hidden(inputs)
        layers = [inputs]
        for layer in range(1, self.n_layers + 1):
            columns = torch.as_tensor(self.hidden.columns(layer), device=X.device)
            layers.append(neurons[:, columns])
        return layers

    def scores(self, X: torch.Tensor) -> torch.Tensor:
        """Compute scores of all classes in order of arrival, of shape (n_samples, n_classes)."""
        last_layer = self.layers(X.double())[-1]
        no_scores = last_layer.new_empty((len(X), 0))
        scores = [outputs(last_layer) for outputs in self.outputs]
        return torch.cat([no_scores, *scores], dim=1)

    def append_task(self, bands: Sequence[Band], outputs: Outputs) -> "NaiveNetwork":
        """Return the network with the parameters of one more task."""
        all_bands = (*self.hidden.bands, *bands)
        all_outputs = (*self.outputs, outputs)
        hidden = replace(self.hidden, bands=all_bands)
        return replace(self, hidden=hidden, outputs=all_outputs)

    def remove_newest_task(self) -> "NaiveNetwork":
        """Return the network without the parameters of the newest task."""
        older_bands = self.hidden.bands[: -self.n_layers]
        older_outputs = self.outputs[:-1]
        hidden = replace(self.hidden, bands=older_bands)
        return replace(self, hidden=hidden, outputs=older_outputs)


def empty_network(X: torch.Tensor, n_layers: int, seed: int) -> NaiveNetwork:
    """Return the network before the first task, scaled by the root mean square norm of X."""
    n_inputs = X.shape[1]
    squared_norms = X.square().sum(1)
    mean_square = float(squared_norms.mean())
    scale = mean_square**0.5
    if scale == 0.0:
        scale = 1.0
    return NaiveNetwork(seed, n_layers, scale, Layers(n_inputs))


def grow(network: NaiveNetwork, n_new: int, band_size: int, activation: str) -> NaiveNetwork:
    """Append a random band to every layer, and a random output for each new class.

    Weights are normal. Their variance is the gain of the activation over the mean square norm of a
    neuron's inputs, so that neurons are of order one. Old rows are the same arrays, with zero
    weight on the new neurons.
    """
    rng = np.random.default_rng([network.seed, len(network.outputs), 0])
    n_neurons = n_new * band_size
    gain = ACTIVATIONS[activation].gain
    # Scaled inputs have a mean square norm of 1.
    width = network.hidden.n_inputs
    variance = gain
    bands = []
    for layer in range(1, network.n_layers + 1):
        deviation = variance**0.5
        rows = rng.normal(scale=deviation, size=(n_neurons, width))
        band = Band(layer, rows, activation)
        bands.append(band)
        # Each neuron has a mean square of 1.
        n_old_neurons = network.hidden.width(layer)
        width = n_old_neurons + n_neurons
        variance = gain / width
    weights = rng.normal(scale=width**-0.5, size=(n_new, width))
    offsets = np.zeros(n_new)
    return network.append_task(bands, Outputs(weights, offsets))


def train_newest(
    network: NaiveNetwork,
    X: torch.Tensor,
    classes: torch.Tensor,
    descent: Descent,
    observe: EpochObserver = iter,
) -> NaiveNetwork:
    """Train the parameters of the newest task alone on samples of any known classes.

    `observe` reports the epochs, and may end them.
    """
    n_trainings = network.n_trainings + 1
    n_tasks = len(network.outputs)
    rng = np.random.default_rng([network.seed, n_tasks, n_trainings])
    network = replace(network, n_trainings=n_trainings)
    if network.n_classes == 1:
        return network
    old_network = network.remove_newest_task()
    # Old neurons and old outputs are constant.
    old_layers = old_network.layers(X)
    old_scores = old_network.scores(X)
    bands = network.newest_bands
    parameters = newest_parameters(network, X.device)

    def loss(batch: torch.Tensor) -> torch.Tensor:
        old_layers_of_batch = [layer[batch] for layer in old_layers]
        new_scores = newest_scores(bands, old_layers_of_batch, parameters)
        scores = torch.cat([old_scores[batch], new_scores], dim=1)
        losses_of_batch = multi_class_hinge(scores, classes[batch])
        return losses_of_batch.mean()

    steps = MomentumSteps(parameters, descent)
    losses: list[float] = []
    for _ in observe(steps.epochs(losses)):
        epoch_loss = steps.epoch(loss, len(X), rng)
        losses.append(epoch_loss)
    old_network = replace(old_network, loss_curve=tuple(losses))
    return append_parameters(old_network, bands, parameters)


def newest_parameters(network: NaiveNetwork, device: torch.device) -> list[torch.Tensor]:
    """Return the newest task's rows of each layer, output weights and offsets, as new leaves."""
    outputs = network.outputs[-1]
    arrays = [band.weights for band in network.newest_bands]
    arrays += [outputs.weights, outputs.offsets]
    leaves = []
    for array in arrays:
        # An array and its tensor share memory, so the leaf is a clone.
        leaf = as_tensor(array, device=device).clone()
        leaves.append(leaf.requires_grad_())
    return leaves


def newest_scores(
    bands: Sequence[Band], old_layers: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]
) -> torch.Tensor:
    """Compute the scores of the newest classes as a function of the newest task's parameters.

    `old_layers` are the layers of the network before the task, and `parameters` are ordered as by
    `newest_parameters`.
    """
    *rows, weights, offsets = parameters
    # A new neuron reads the old neurons and the new neurons of the layer below. The inputs, which
    # are the lowest layer, have no new neurons.
    inputs = old_layers[0]
    outputs = inputs[:, :0]
    for band, old_layer, band_rows in zip(bands, old_layers, rows, strict=False):
        below = torch.cat([old_layer, outputs], dim=1)
        outputs = band.output(below @ band_rows.T)
    last_layer = torch.cat([old_layers[-1], outputs], dim=1)
    return last_layer @ weights.T + offsets


def append_parameters(
    network: NaiveNetwork, bands: Sequence[Band], parameters: Sequence[torch.Tensor]
) -> NaiveNetwork:
    """Return the network with one more task, whose bands have the rows of the parameters."""
    *rows, weights, offsets = [as_array(parameter) for parameter in parameters]
    trained_bands = []
    for band, band_rows in zip(bands, rows, strict=True):
        trained_band = replace(band, weights=band_rows)
        trained_bands.append(trained_band)
    return network.append_task(trained_bands, Outputs(weights, offsets))
