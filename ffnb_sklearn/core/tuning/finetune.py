r"""Fine-tuning of a task's bands by gradients [Alg. 2].

The loss is the multi-class hinge of the aggregated scores,

.. math:: E = \frac{1}{\sum_i w_i} \sum_i w_i
          \max\bigl(0, 1 - s_{y_i}(x_i) + \max_{c \ne y_i} s_c(x_i)\bigr) .

Only the coordinates alpha of the new rows move, :math:`W = (\Phi \alpha)^\top`, by descent with
momentum and weight decay on mini-batches. The step of :math:`\alpha` along the orthonormal
residual axes :math:`\Phi` is the projected step of W, so the axes are never formed. After every
epoch the discriminants that involve the task's classes are solved anew from the statistics.

Rows are measured in units of the inverse root mean square length of the task's samples in the
open axes, so that rates mean the same at every scale of the features.

The descent is cross-fitted. The task's samples are dealt into four folds, and of the rows there
are four copies, each of which descends on all folds but one. The band is the mean of the copies,
and each sample is taken to respond as it does to the copy that has not seen it. So every sample
both teaches and judges; neither the moments of the new classes nor the recorded loss are those of
samples that the rows were fitted to. An epoch is better than the start only if that loss is lower
by more than two standard errors: else a few samples would choose among accidents.

Where old classes are taken to be Gaussian, draws from their Gaussians stand in the loss for the
data that is gone, so that a band separates new from old, not only new from new. The paper names
this as future work.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ..classifier.fisher import PairwiseFisher
from ..classifier.selection import Choice
from ..classifier.solve import solve
from ..drafts import Draft, append_draft, append_drafts
from ..features.feature_map import classifier_columns
from ..model import Model, Task, updated_moments
from .descent import MomentumSteps, has_stalled, rate_factor
from .draws import pseudo_features
from .hinge import Network, Samples

__all__ = ["finetune"]

# Folds of the task's samples, each left out of the gradients of one copy of the rows.
_FOLDS = 4

# How many standard errors the loss has to be below that of the start.
_STANDARD_ERRORS = 2.0

# Draws from old classes per epoch, as a multiple of the task's samples, at most.
_MOST_DRAWS = 4

# Rows of this length, relative like their steps, have moments that leave the range of numbers.
_LONGEST = 1e70

# Samples scored at one time where no gradient is needed.
_CHUNK = 4096


def finetune(
    model: Model, task: Task, drafts: Sequence[Draft]
) -> tuple[list[Draft], tuple[float, ...]]:
    """Tune the bands of a task [Alg. 2].

    Parameters
    ----------
    model : Model
        What was known before.
    task : Task
        Its samples.
    drafts : sequence of Draft
        The bands to start from.

    Returns
    -------
    drafts : list of Draft
        Those of the epoch with the lowest loss, if it is clearly below that of the start.
    loss_curve : tuple of float
        Loss after each epoch, up to one without any: empty if no epoch was asked for, if a
        single class is known, or if there is no loss from the start.

    Raises
    ------
    ValueError
        If rows become so long that their moments overflow: the learning rate is too large.
    """
    n_classes = max(len(model.moments), int(task.classes.max()) + 1)
    if model.settings.descent.max_epochs == 0 or n_classes == 1:
        return list(drafts), ()
    return _Tuning(model, task, drafts).run()


class _Tuning:
    """The descent for one task, from the model that was known before it."""

    def __init__(self, model: Model, task: Task, drafts: Sequence[Draft]) -> None:
        # Gradients go through the hyperplanes of all pairs.
        self._model = replace(model, settings=replace(model.settings, shortlist=None))
        self._task, self._start, self._descent = task, list(drafts), model.settings.descent
        # Streams of two keys belong to the bands as they start out.
        self._rng = np.random.default_rng([model.seed, 1 + len(model.null_space_dims), 1])
        self._folds = _deal(task.classes, self._rng)
        self._samples = self._real_samples()
        self._judging_draws = self._draws()
        # Both are those of the start in every epoch.
        self._old_pairs: PairwiseFisher | None = None
        self._choice: Choice | None = None

    def run(self) -> tuple[list[Draft], tuple[float, ...]]:
        """Bands of the best epoch, and the loss after each."""
        steps = [
            (draft.rows * draft.reach).repeat(_FOLDS, 1, 1).requires_grad_()
            for draft in self._start
        ]
        move = MomentumSteps(steps, self._descent)
        network, at_start = self._solved(self._start)
        best, least = self._start, at_start.mean()
        losses = [float(least)]
        while len(losses) <= self._descent.max_epochs and losses[-1] and not has_stalled(losses):
            self._epoch(network, steps, move)
            drafts = self._mean_of_copies([step.detach() for step in steps])
            network, hinges = self._solved(drafts)
            losses.append(float(hinges.mean()))
            if hinges.mean() < least and _is_better(hinges, at_start):
                best, least = drafts, hinges.mean()
            move.rate *= rate_factor(losses)
        return best, tuple(losses[1:])

    def _epoch(self, network: Network, steps: Sequence[torch.Tensor], move: MomentumSteps) -> None:
        """One pass in mini-batches over the task, and over new draws of the old classes."""
        samples = self._samples.followed_by(self._draws())
        device = samples.fixed.device
        # Draws are of no fold, and so teach every copy.
        folds = torch.full_like(samples.classes, -1)
        folds[: len(self._folds)] = self._folds
        copies = torch.arange(_FOLDS, device=device)[:, None]
        order = torch.as_tensor(self._rng.permutation(len(samples.classes)), device=device)
        for batch in torch.split(order, self._descent.batch_size):
            chosen, taught = samples.take(batch), folds[batch] != copies
            with torch.enable_grad():
                hinge = network.hinge(chosen, self._rows(steps))
                total = (taught * chosen.weights * hinge).sum(1)
                loss = (total / taught.sum(1).clamp_min(1)).sum()
            move(loss)

    def _rows(self, steps: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Rows W within the open axes, of every copy."""
        return [
            draft.open_axes.project(step) / draft.reach
            for draft, step in zip(self._start, steps, strict=True)
        ]

    def _mean_of_copies(self, steps: Sequence[torch.Tensor]) -> list[Draft]:
        """Bands whose rows are those of the copies on average."""
        model, below, drafts = self._model, self._task.X, []
        position = torch.arange(len(below), device=below.device)
        for start, rows in zip(self._start, self._rows(steps), strict=True):
            self._check_length(start.layer, rows * start.reach)
            unseen = (below @ rows.mT)[self._folds, position] + start.corrections
            mean = rows.mean(0)
            drafts.append(replace(start, rows=mean, corrections=unseen - below @ mean.T))
            model, below, _ = append_draft(model, self._task, drafts[-1], below)
        return drafts

    def _solved(self, drafts: Sequence[Draft]) -> tuple[Network, torch.Tensor]:
        """The network with discriminants for the bands as they are, and its judges' losses."""
        device = self._task.X.device
        model, fresh = append_drafts(self._model, self._task, drafts)
        moments = updated_moments(model, self._task, fresh)
        features, settings = model.features, model.settings
        classifier, self._choice = solve(
            features,
            moments,
            settings,
            device=device,
            known=self._old_pairs,
            choice=self._choice,
        )
        if self._old_pairs is None and isinstance(classifier, PairwiseFisher):
            self._old_pairs = classifier.first(len(self._model.moments))
        network = Network(features.bands[-len(drafts) :], classifier, device)
        rows = [draft.rows for draft in drafts]
        corrections = tuple(draft.corrections for draft in drafts)
        judges = self._samples._replace(corrections=corrections).followed_by(self._judging_draws)
        hinges = []
        with torch.no_grad():
            for part in torch.split(torch.arange(len(judges.classes), device=device), _CHUNK):
                samples = judges.take(part)
                hinges.append(samples.weights * network.hinge(samples, rows))
        return network, torch.cat(hinges)

    def _check_length(self, layer: int, copies: torch.Tensor) -> None:
        """Refuse to go on from rows that a descent has thrown out of range."""
        if not copies.norm() < _LONGEST:
            descent = self._descent
            raise ValueError(
                f"learning_rate={descent.learning_rate} or weight_decay={descent.weight_decay} is "
                "too large: fine-tuning has left the range of numbers whose moments can be "
                f"computed, in layer {layer}."
            )

    def _real_samples(self) -> Samples:
        """The task's samples."""
        model, task = self._model, self._task
        return Samples(
            tuple(model.features.layer_of(task.X, draft.layer - 1) for draft in self._start),
            tuple(draft.corrections for draft in self._start),
            model.view(task.X),
            task.classes,
            task.weights / task.weights.mean(),
        )

    def _draws(self) -> Samples:
        """Draws of old classes; none where these are not taken to be Gaussian."""
        model, real = self._model, self._samples
        n_old = len(model.moments)
        if model.settings.old_statistics != "gaussian" or n_old == 0:
            return real.take(real.classes[:0])
        # As many as a new class has samples, within limits; all classes weigh the same.
        size = len(real.classes) / len(set(real.classes.tolist()))
        n_drawn = max(1, int(min(size, _MOST_DRAWS * len(real.classes) / n_old)))
        features = pseudo_features(model.moments, n_drawn, self._rng, device=real.fixed.device)
        columns = [model.features.layer(layer) for layer in range(len(real.old))]
        seen = classifier_columns(model.features, model.settings.skip_connection)
        return Samples(
            tuple(features[:, index] for index in columns),
            tuple(one.new_zeros((len(features), one.shape[1])) for one in real.corrections),
            features[:, seen],
            torch.arange(n_old, device=features.device).repeat_interleave(n_drawn),
            features.new_full((len(features),), size / n_drawn),
        )


def _deal(classes: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Fold of each sample; those of a class are dealt out in turn."""
    labels = classes.cpu().numpy()
    folds = np.empty_like(labels)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        folds[members] = (rng.integers(_FOLDS) + np.arange(len(members))) % _FOLDS
    return torch.as_tensor(folds, device=classes.device)


def _is_better(hinges: torch.Tensor, at_start: torch.Tensor) -> bool:
    """Whether losses are lower on average by more than accidents explain."""
    gain = at_start - hinges
    return bool(gain.mean() > _STANDARD_ERRORS * gain.std(correction=0) / len(gain) ** 0.5)
