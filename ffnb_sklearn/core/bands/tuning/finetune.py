"""Fine-tuning of a task's bands by gradients [Alg. 2].

Only the coordinates alpha of the new rows move, by descent with momentum and weight decay on
mini-batches. The step of alpha along the orthonormal residual axes is the projected step of W, so
the axes are never formed. Every epoch ends with new discriminants from the statistics.

The settings add to the printed algorithm: cross-fitted copies of the rows, draws from old classes,
and a veto. docs/theory/paper.rst explains them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from ...device import as_tensor
from ...features.feature_map import Band, as_slice, classifier_columns
from ...heads import HEADS, Head
from ...model import Model, Task, updated_moments
from ...selection import Choice
from ...solution import solve
from ..drafts import Draft, append_drafts
from .descent import MomentumSteps, deal, multi_class_hinge
from .draws import pseudo_features

# Most draws from old classes per epoch, relative to the number of the task's samples.
_MOST_DRAWS = 4


class Samples(NamedTuple):
    """Constants of samples, real or drawn, during the descent of new bands.

    `features` are those of the model before the task; `corrections` are added to the responses of
    the new neurons, the first layer's first. Sample weights have a mean of 1.
    """

    features: torch.Tensor
    corrections: torch.Tensor
    classes: torch.Tensor
    weights: torch.Tensor

    def take(self, index: torch.Tensor) -> "Samples":
        """Return some of the samples."""
        return Samples(*(one[index] for one in self))

    def followed_by(self, others: "Samples") -> "Samples":
        """Return these samples with other samples behind them."""
        return Samples(*(torch.cat(pair) for pair in zip(self, others, strict=True)))


class Network:
    """A model as a function of the rows of its newest bands, one per layer.

    It is given by the model before these bands, the bands, and the linear classifier over both.
    """

    def __init__(self, old: Model, bands: Sequence[Band], head: Head, device: torch.device) -> None:
        self._bands = bands
        self._inputs = [as_slice(old.features.layer(band.layer - 1)) for band in bands]
        self._fixed = as_slice(classifier_columns(old.features, old.settings.skip_connection))
        self._planes = as_tensor(head.planes, device=device)
        self._offsets = as_tensor(head.offsets, device=device)
        pooling = head.pooling()
        self._pooling = None if pooling is None else as_tensor(pooling, device=device)

    def hinge(self, samples: Samples, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        """Compute the multi-class hinge loss of each sample, of shape (..., n_samples).

        `rows` holds W of the newest band of each layer, of shape (..., n_neurons, d), or of several
        copies of the band.
        """
        outputs = samples.features[:, :0]
        widths = [weights.shape[-2] for weights in rows]
        corrections = torch.split(samples.corrections, widths, dim=1)
        layers = zip(self._bands, self._inputs, corrections, rows, strict=True)
        for band, inputs, correction, weights in layers:
            old = samples.features[:, inputs]
            responses = old @ weights[..., : old.shape[1]].mT
            responses = responses + outputs @ weights[..., old.shape[1] :].mT
            outputs = band.output(responses + correction)
        fixed = samples.features[:, self._fixed]
        scores = torch.addmm(self._offsets, fixed, self._planes[:, : fixed.shape[1]].T)
        scores = scores + outputs @ self._planes[:, fixed.shape[1] :].T
        if self._pooling is not None:
            scores = scores.tanh() @ self._pooling
        return multi_class_hinge(scores, samples.classes)


def finetune(
    model: Model,
    task: Task,
    drafts: Sequence[Draft],
    path: list[list[torch.Tensor]] | None = None,
) -> tuple[list[Draft], tuple[float, ...]]:
    """Tune the bands of a task from their drafts [Alg. 2].

    Return the bands of the epoch with the lowest loss, if it is clearly below the loss of the
    start, or of the last epoch; and the loss after each epoch, none if no epoch was asked for or a
    single class is known. `path` records the steps of the descent, see `MomentumSteps`. Raise
    `ValueError` if the learning rate or the weight decay is too large.
    """
    n_classes = max(len(model.moments), int(task.classes.max()) + 1)
    if model.settings.descent.max_epochs == 0 or n_classes == 1:
        return list(drafts), ()
    return _Tuning(model, task, drafts).run(path)


class _Tuning:
    """Descent for one task, from the model before it."""

    def __init__(self, model: Model, task: Task, drafts: Sequence[Draft]) -> None:
        # The descent uses a linear head, whichever head predicts.
        linear = HEADS[model.settings.classifier].tuned_as
        self._model = replace(model, settings=replace(model.settings, classifier=linear))
        self._task, self._start, self._descent = task, list(drafts), model.settings.descent
        # Streams with two keys belong to the start of the bands.
        self._rng = np.random.default_rng([model.seed, 1 + len(model.null_space_dims), 1])
        folds = deal(task.classes.cpu().numpy(), self._descent.n_folds, self._rng)
        self._folds = torch.as_tensor(folds, device=task.X.device)
        weights = task.weights / task.weights.mean()
        features, corrections = model.features(task.X), _corrections(drafts)
        self._samples = Samples(features, corrections, task.classes, weights)
        self._judging_draws = self._draws()
        # Every epoch keeps the choice of the start.
        self._choice: Choice | None = None

    def run(self, path: list[list[torch.Tensor]] | None) -> tuple[list[Draft], tuple[float, ...]]:
        """Return the bands of the best epoch, and the loss after each epoch."""
        steps = [
            (draft.rows * draft.reach).repeat(self._descent.n_folds, 1, 1).requires_grad_()
            for draft in self._start
        ]
        move = MomentumSteps(steps, self._descent, path)
        network, at_start = self._solved(self._start)
        best, least = self._start, at_start.mean()
        errors = self._descent.standard_errors
        losses = [float(least)]
        for _ in move.epochs(losses):
            self._epoch(network, steps, move)
            drafts = self._mean_of_copies([step.detach() for step in steps])
            network, hinges = self._solved(drafts)
            losses.append(float(hinges.mean()))
            if errors is None or (hinges.mean() < least and _is_better(hinges, at_start, errors)):
                best, least = drafts, hinges.mean()
        return best, tuple(losses[1:])

    def _epoch(self, network: Network, steps: Sequence[torch.Tensor], move: MomentumSteps) -> None:
        """Pass in mini-batches over the task, and over new draws of the old classes."""
        samples = self._samples.followed_by(self._draws())
        # Draws belong to no fold, and so teach every copy.
        folds = torch.full_like(samples.classes, -1)
        folds[: len(self._folds)] = self._folds
        copies = torch.arange(len(steps[0]), device=folds.device)[:, None]

        def loss(batch: torch.Tensor) -> torch.Tensor:
            chosen, taught = samples.take(batch), folds[batch] != copies
            hinge = network.hinge(chosen, self._rows(steps))
            total = (taught * chosen.weights * hinge).sum(1)
            return (total / taught.sum(1).clamp_min(1)).sum()

        move.epoch(loss, len(folds), self._rng)

    def _rows(self, steps: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the rows W of every copy, within the open axes."""
        return [
            draft.open_axes.project(step) / draft.reach
            for draft, step in zip(self._start, steps, strict=True)
        ]

    def _mean_of_copies(self, steps: Sequence[torch.Tensor]) -> list[Draft]:
        """Return bands whose rows are the mean of the copies."""
        drafts, outputs = list[Draft](), self._task.X[:, :0]
        position = torch.arange(len(outputs), device=outputs.device)
        for start, rows in zip(self._start, self._rows(steps), strict=True):
            old = self._samples.features[:, as_slice(self._model.features.layer(start.layer - 1))]
            below, mean = torch.cat([old, outputs], dim=1), rows.mean(0)
            unseen = (below @ rows.mT)[self._folds, position] + start.corrections
            corrections = unseen - below @ mean.T
            draft = replace(start, rows=mean, responses=unseen, corrections=corrections)
            outputs = draft.band(self._task.weights, self._model.settings).output(unseen)
            drafts.append(draft)
        return drafts

    def _solved(self, drafts: Sequence[Draft]) -> tuple[Network, torch.Tensor]:
        """Return the network with discriminants for the bands, and the losses of its judges."""
        device, settings = self._task.X.device, self._model.settings
        model, fresh = append_drafts(self._model, self._task, drafts)
        features = torch.cat([self._samples.features, fresh], dim=1)
        moments = updated_moments(model, self._task, features)
        solution = solve(model.features, moments, settings, device=device, choice=self._choice)
        self._choice = solution.choice
        bands = model.features.bands[-len(drafts) :]
        network = Network(self._model, bands, solution.classifier, device)
        rows = [draft.rows for draft in drafts]
        judges = self._samples._replace(corrections=_corrections(drafts))
        judges = judges.followed_by(self._judging_draws)
        numbers = torch.arange(len(judges.classes), device=device)
        parts = map(judges.take, torch.split(numbers, settings.chunk_size))
        with torch.no_grad():
            return network, torch.cat([one.weights * network.hinge(one, rows) for one in parts])

    def _draws(self) -> Samples:
        """Draw from old classes; return no draws if these are not taken to be Gaussian."""
        moments, real = self._model.moments, self._samples
        is_gaussian = self._model.settings.old_statistics == "gaussian"
        if not is_gaussian or not self._descent.draws or not moments:
            return real.take(real.classes[:0])
        # As many as a new class has samples, within limits; all classes weigh the same.
        size = len(real.classes) / len(set(real.classes.tolist()))
        n_drawn = max(1, int(min(size, _MOST_DRAWS * len(real.classes) / len(moments))))
        features = pseudo_features(moments, n_drawn, self._rng, device=real.features.device)
        classes = torch.arange(len(moments), device=features.device).repeat_interleave(n_drawn)
        zeros = features.new_zeros((len(features), real.corrections.shape[1]))
        return Samples(features, zeros, classes, torch.full_like(features[:, 0], size / n_drawn))


def _corrections(drafts: Sequence[Draft]) -> torch.Tensor:
    """Return the corrections of all bands side by side."""
    return torch.cat([draft.corrections for draft in drafts], dim=1)


def _is_better(hinges: torch.Tensor, at_start: torch.Tensor, standard_errors: float) -> bool:
    """Return whether losses are lower on average by more than so many standard errors."""
    gain = at_start - hinges
    return bool(gain.mean() > standard_errors * gain.std(correction=0) / len(gain) ** 0.5)
