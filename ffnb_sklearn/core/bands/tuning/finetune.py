"""Fine-tuning of a task's bands by gradients [Alg. 2].

Only the coordinates alpha of the new rows move, by descent with momentum and weight decay on
mini-batches. The step of alpha along the orthonormal residual axes is the projected step of W, so
the axes are never formed. Every epoch ends with new discriminants from the statistics.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from ...device import as_tensor
from ...features import as_slice
from ...heads import HEADS, Head
from ...model import Model, Task
from ...settings import Choice
from ...solution import solve
from ..complete_moments import add_task_to_bands
from ..drafts import Draft, append_drafts
from ..layers import Band
from ..trained import layer_columns, trained_of
from .descent import EpochObserver, MomentumSteps, multi_class_hinge


class Samples(NamedTuple):
    """Constants of a task's samples during the descent of its bands.

    `features` come from the model before the task; `corrections` (see `Draft`) turn the responses
    of the new neurons, the first layer's first, into those of left-out samples. Sample weights have
    a mean of 1.
    """

    features: torch.Tensor
    corrections: torch.Tensor
    classes: torch.Tensor
    weights: torch.Tensor

    def take(self, index: torch.Tensor) -> "Samples":
        """Return the samples with the given numbers."""
        return Samples(
            self.features[index], self.corrections[index], self.classes[index], self.weights[index]
        )


class Network:
    """A model as a function of the rows of its newest bands, one per layer.

    It consists of the model before these bands, the bands, and the linear classifier over both.
    """

    def __init__(self, old: Model, bands: Sequence[Band], head: Head, device: torch.device) -> None:
        old_columns = old.columns
        self._bands = bands
        self._inputs = [as_slice(layer_columns(old, band.layer - 1)) for band in bands]
        self._old_columns = as_slice(old_columns)
        planes = as_tensor(head.planes, device=device)
        self._planes_of_old = planes[:, : len(old_columns)]
        self._planes_of_new = planes[:, len(old_columns) :]
        self._offsets = as_tensor(head.offsets, device=device)
        self._pooling = None
        pooling = head.pooling()
        if pooling is not None:
            self._pooling = as_tensor(pooling, device=device)

    def hinge(self, samples: Samples, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Compute the multi-class hinge loss of each sample, of shape (n_samples,).

        `rows` holds W of the newest band of each layer, of shape (n_neurons, d).
        """
        outputs = self._new_outputs(samples, rows)
        old_features = samples.features[:, self._old_columns]
        scores_of_old = torch.addmm(self._offsets, old_features, self._planes_of_old.T)
        scores_of_new = outputs @ self._planes_of_new.T
        scores = scores_of_old + scores_of_new
        if self._pooling is not None:
            pair_outputs = scores.tanh()
            scores = pair_outputs @ self._pooling
        return multi_class_hinge(scores, samples.classes)

    def _new_outputs(self, samples: Samples, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Compute the outputs of the newest band of the last layer."""
        widths = [len(weights) for weights in rows]
        corrections = torch.split(samples.corrections, widths, dim=1)
        # The first layer sees no new neurons.
        outputs = samples.features[:, :0]
        layers = zip(self._bands, self._inputs, corrections, rows, strict=True)
        for band, inputs, correction, weights in layers:
            old_inputs = samples.features[:, inputs]
            n_old = old_inputs.shape[1]
            responses = old_inputs @ weights[:, :n_old].T
            responses = responses + outputs @ weights[:, n_old:].T
            outputs = band.output(responses + correction)
        return outputs


def finetune(
    model: Model,
    task: Task,
    drafts: Sequence[Draft],
    path: list[list[torch.Tensor]] | None = None,
    observe: EpochObserver = iter,
) -> tuple[list[Draft], tuple[float, ...]]:
    """Tune the bands of a task from their drafts [Alg. 2].

    Choose shrinkage and ridge of a linear head for the drafts, and solve it. Then repeat for each
    epoch: descend on the rows of the bands while the head is fixed, and solve the head again with
    the same shrinkage and ridge.

    Return the bands after the last epoch, and the loss after each epoch. Without epochs, or with a
    single class, return the drafts and no loss. `path` records the steps of the descent, see
    `MomentumSteps`. `observe` reports the epochs, and may end them.
    Raise `ValueError` if the learning rate or the weight decay is too large.
    """
    n_epochs = trained_of(model).settings.descent.max_epochs
    last_class = int(task.classes.max())
    n_classes = max(len(model.moments), last_class + 1)
    if n_epochs == 0 or n_classes == 1:
        return list(drafts), ()
    tuning = _Tuning(model, task, drafts)
    return tuning.run(path, observe)


class _Tuning:
    """Descent for one task, from the model before it."""

    def __init__(self, model: Model, task: Task, drafts: Sequence[Draft]) -> None:
        # The descent uses a linear head, even if the head that predicts is not linear.
        linear_head = HEADS[model.settings.classifier].tuned_as
        settings = replace(model.settings, classifier=linear_head)
        self._model = replace(model, settings=settings)
        self._task = task
        self._start = list(drafts)
        self._samples = Samples(
            features=model.feature_map(task.X),
            corrections=torch.cat([draft.corrections for draft in drafts], dim=1),
            classes=task.classes,
            weights=task.weights / task.weights.mean(),
        )
        # `draft_bands` has the stream of the first two keys.
        n_tasks = len(trained_of(model).null_space_dims)
        self._rng = np.random.default_rng([model.seed, 1 + n_tasks, 1])
        # Every epoch keeps the choice of the start.
        self._choice: Choice | None = None

    def run(
        self, path: list[list[torch.Tensor]] | None, observe: EpochObserver
    ) -> tuple[list[Draft], tuple[float, ...]]:
        """Return the bands of the last epoch, and the loss after each epoch."""
        # Rows times the typical length, so a step does not depend on the unit of the inputs.
        leaves = []
        for draft in self._start:
            leaf = draft.rows * draft.typical_length
            leaves.append(leaf.requires_grad_())
        descent = trained_of(self._model).settings.descent
        steps = MomentumSteps(leaves, descent, path)
        drafts = self._start
        network, loss = self._solve(drafts)
        losses = [loss]
        for _ in observe(steps.epochs(losses)):
            self._run_epoch(network, leaves, steps)
            drafts = self._drafts_of([leaf.detach() for leaf in leaves])
            network, loss = self._solve(drafts)
            losses.append(loss)
        return drafts, tuple(losses[1:])

    def _run_epoch(
        self, network: Network, leaves: Sequence[torch.Tensor], steps: MomentumSteps
    ) -> None:
        """Take a step per mini-batch of one pass over the task."""

        def loss(batch: torch.Tensor) -> torch.Tensor:
            samples = self._samples.take(batch)
            rows = self._rows_of(leaves)
            hinge = network.hinge(samples, rows)
            losses = samples.weights * hinge
            return losses.mean()

        n_samples = len(self._samples.classes)
        steps.epoch(loss, n_samples, self._rng)

    def _rows_of(self, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the rows W of each layer, within the open axes."""
        rows = []
        for draft, leaf in zip(self._start, leaves, strict=True):
            rows.append(draft.open_axes.project(leaf) / draft.typical_length)
        return rows

    def _drafts_of(self, leaves: Sequence[torch.Tensor]) -> list[Draft]:
        """Return the bands whose rows the leaves hold."""
        drafts: list[Draft] = []
        features = self._samples.features
        outputs = features[:, :0]
        rows_of_layers = self._rows_of(leaves)
        for start, rows in zip(self._start, rows_of_layers, strict=True):
            layer_below = layer_columns(self._model, start.layer - 1)
            old_inputs = features[:, as_slice(layer_below)]
            below = torch.cat([old_inputs, outputs], dim=1)
            responses = below @ rows.T
            responses = responses + start.corrections
            draft = replace(start, rows=rows, responses=responses)
            band = draft.band(self._task.weights, trained_of(self._model).settings)
            outputs = band.output(responses)
            drafts.append(draft)
        return drafts

    def _solve(self, drafts: Sequence[Draft]) -> tuple[Network, float]:
        """Return the network with discriminants for the bands, and its mean loss."""
        device = self._task.X.device
        model, new_features = append_drafts(self._model, self._task, drafts)
        features = torch.cat([self._samples.features, new_features], dim=1)
        model = add_task_to_bands(
            model, self._task, lambda numbers: features[as_slice(numbers.numpy())]
        )
        moments = [model.complete_moments(number) for number in range(len(model.moments))]
        solution = solve(model.space, moments, device=device, choice=self._choice)
        self._choice = solution.choice
        bands = trained_of(model).layers.bands[-len(drafts) :]
        network = Network(self._model, bands, solution.head, device)
        rows = [draft.rows for draft in drafts]
        mean_loss = self._mean_loss(network, rows)
        return network, mean_loss

    def _mean_loss(self, network: Network, rows: Sequence[torch.Tensor]) -> float:
        """Return the mean loss of all samples, computed for some samples at a time."""
        classes = self._samples.classes
        numbers = torch.arange(len(classes), device=classes.device)
        losses = []
        with torch.no_grad():
            for chunk in torch.split(numbers, self._model.settings.chunk_size):
                samples = self._samples.take(chunk)
                hinge = network.hinge(samples, rows)
                losses.append(samples.weights * hinge)
        mean_loss = torch.cat(losses).mean()
        return float(mean_loss)
