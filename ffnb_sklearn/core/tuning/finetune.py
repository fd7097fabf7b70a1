"""Fine-tuning of a task's bands by gradients [Alg. 2].

Only the coordinates alpha of the new rows move, by descent with momentum and weight decay on
mini-batches. The step of alpha along the orthonormal residual axes is the projected step of W, so
the axes are never formed. Every epoch ends with new discriminants from the statistics.

The settings add to the printed algorithm: cross-fitted copies of the rows, draws from old classes,
and a veto. docs/theory/paper.rst explains them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..classifier.choice import Choice
from ..classifier.heads import head_named
from ..classifier.solve import solve
from ..drafts import Draft, append_drafts
from ..features.feature_map import as_slice, classifier_columns
from ..model import Model, Task, updated_moments
from .descent import EpochWatcher, MomentumSteps, deal
from .draws import pseudo_features
from .hinge import Network, Samples

__all__ = ["finetune"]

# Most draws from old classes per epoch, relative to the number of the task's samples.
_MOST_DRAWS = 4


def finetune(
    model: Model, task: Task, drafts: Sequence[Draft], watcher: EpochWatcher | None = None
) -> tuple[list[Draft], tuple[float, ...]]:
    """Tune the bands of a task from their drafts [Alg. 2].

    Return the bands of the epoch with the lowest loss, if it is clearly below the loss of the
    start, or of the last epoch; and the loss after each epoch, none if no epoch was asked for or a
    single class is known. Raise `ValueError` if the learning rate or the weight decay is too large.
    """
    n_classes = max(len(model.moments), int(task.classes.max()) + 1)
    if model.settings.descent.max_epochs == 0 or n_classes == 1:
        return list(drafts), ()
    return _Tuning(model, task, drafts).run(watcher)


class _Tuning:
    """Descent for one task, from the model before it."""

    def __init__(self, model: Model, task: Task, drafts: Sequence[Draft]) -> None:
        # The descent uses a linear head, whichever head predicts.
        linear = head_named(model.settings.classifier).tuned_as
        settings = replace(model.settings, classifier=linear)
        self._model = replace(model, settings=settings)
        self._task, self._start = task, list(drafts)
        # Streams with two keys belong to the start of the bands.
        self._rng = np.random.default_rng([model.seed, 1 + len(model.null_space_dims), 1])
        self._n_folds = settings.descent.n_folds
        folds = deal(task.classes.cpu().numpy(), self._n_folds, self._rng)
        self._folds = torch.as_tensor(folds, device=task.X.device)
        # Old features of the samples stay; each epoch writes those of the new neurons.
        n_new = sum(len(draft.rows) for draft in drafts)
        old = model.features(task.X)
        self._features = torch.cat([old, old.new_empty((len(old), n_new))], dim=1)
        corrections = tuple(draft.corrections for draft in drafts)
        weights = task.weights / task.weights.mean()
        self._samples = self._as_samples(self._features, corrections, task.classes, weights)
        self._judging_draws = self._draws()
        # Every epoch keeps the choice of the start.
        self._choice: Choice | None = None

    def run(self, watcher: EpochWatcher | None) -> tuple[list[Draft], tuple[float, ...]]:
        """Return the bands of the best epoch, and the loss after each epoch."""
        steps = [
            (draft.rows * draft.reach).repeat(self._n_folds, 1, 1).requires_grad_()
            for draft in self._start
        ]
        move = MomentumSteps(steps, self._model.settings.descent, watcher)
        network, at_start = self._solved(self._start)
        best, least = self._start, at_start.mean()
        errors = self._model.settings.descent.standard_errors
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
        copies = torch.arange(self._n_folds, device=folds.device)[:, None]

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
        layers = zip(self._start, self._rows(steps), self._samples.old, strict=True)
        for start, rows, old in layers:
            below, mean = torch.cat([old, outputs], dim=1), rows.mean(0)
            unseen = (below @ rows.mT)[self._folds, position] + start.corrections
            corrections = unseen - below @ mean.T
            draft = replace(start, rows=mean, responses=unseen, corrections=corrections)
            outputs = draft.band(self._task.weights, self._model.settings).output(unseen)
            drafts.append(draft)
        return drafts

    def _solved(self, drafts: Sequence[Draft]) -> tuple[Network, torch.Tensor]:
        """Return the network with discriminants for the bands, and the losses of its judges."""
        device = self._task.X.device
        model, fresh = append_drafts(self._model, self._task, drafts)
        self._features[:, -fresh.shape[1] :] = fresh
        moments = updated_moments(model, self._task, self._features)
        classifier, self._choice = solve(
            model.features, moments, model.settings, device=device, choice=self._choice
        )
        network = Network(model.features.bands[-len(drafts) :], classifier, device)
        rows = [draft.rows for draft in drafts]
        corrections = tuple(draft.corrections for draft in drafts)
        judges = self._samples._replace(corrections=corrections).followed_by(self._judging_draws)
        numbers = torch.arange(len(judges.classes), device=device)
        parts = map(judges.take, torch.split(numbers, model.settings.chunk_size))
        with torch.no_grad():
            return network, torch.cat([one.weights * network.hinge(one, rows) for one in parts])

    def _draws(self) -> Samples:
        """Draw from old classes; return no draws if these are not taken to be Gaussian."""
        model, real = self._model, self._samples
        n_old, settings = len(model.moments), model.settings
        if settings.old_statistics != "gaussian" or not settings.descent.draws or n_old == 0:
            return real.take(real.classes[:0])
        # As many as a new class has samples, within limits; all classes weigh the same.
        size = len(real.classes) / len(set(real.classes.tolist()))
        n_drawn = max(1, int(min(size, _MOST_DRAWS * len(real.classes) / n_old)))
        features = pseudo_features(model.moments, n_drawn, self._rng, device=real.fixed.device)
        classes = torch.arange(n_old, device=features.device).repeat_interleave(n_drawn)
        weights = features.new_full((len(features),), size / n_drawn)
        zeros = tuple(one.new_zeros((len(features), one.shape[1])) for one in real.corrections)
        return self._as_samples(features, zeros, classes, weights)

    def _as_samples(
        self,
        features: torch.Tensor,
        corrections: tuple[torch.Tensor, ...],
        classes: torch.Tensor,
        weights: torch.Tensor,
    ) -> Samples:
        """Return samples from all their old features."""
        own, skip = self._model.features, self._model.settings.skip_connection
        old = tuple(features[:, as_slice(own.layer(one.layer - 1))] for one in self._start)
        fixed = features[:, as_slice(classifier_columns(own, skip))]
        return Samples(old, corrections, fixed, classes, weights)


def _is_better(hinges: torch.Tensor, at_start: torch.Tensor, standard_errors: float) -> bool:
    """Return whether losses are lower on average by more than so many standard errors."""
    gain = at_start - hinges
    return bool(gain.mean() > standard_errors * gain.std(correction=0) / len(gain) ** 0.5)
