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

A quarter of the samples have no part in the gradients: theirs is the loss that is recorded, and
that the best epoch is chosen by. As what they respond was corrected at the start for having been
fitted, it is that of samples never seen. An epoch is better than the start only if their loss is
lower by more than a standard error: else a few held-out samples would choose among accidents.

Where old classes are taken to be Gaussian, draws from their Gaussians stand in the loss for the
data that is gone, so that a band separates new from old, not only new from new. The paper names
this as future work. They cannot speak for an epoch, only against it: the task's own samples are
real.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from .descent import MomentumSteps, has_stalled, rate_factor
from .fisher import PairwiseFisher
from .growth import Draft, append_drafts
from .hinge import Network, Samples
from .model import Model, Task, solve, updated_moments
from .replay import pseudo_features
from .view import classifier_columns

__all__ = ["finetune"]

# Share of each class's samples that judge the epochs and have no part in the gradients.
_HELD_OUT = 0.25

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
        single class is known, or if the task's samples have no loss from the start.

    Raises
    ------
    ValueError
        If rows become so long that their moments overflow: the learning rate is too large.
    """
    n_classes = max(len(model.moments), int(task.classes.max()) + 1)
    if model.settings.descent.max_epochs == 0 or n_classes == 1:
        return list(drafts), ()
    return _Tuning(model, task, drafts).run(list(drafts))


class _Tuning:
    """The descent for one task, from the model that was known before it."""

    def __init__(self, model: Model, task: Task, drafts: Sequence[Draft]) -> None:
        self._model, self._task, self._descent = model, task, model.settings.descent
        # Streams of two keys belong to the bands as they start out.
        self._rng = np.random.default_rng([model.seed, 1 + len(model.null_space_dims), 1])
        real = self._real_samples(drafts)
        trained, judged = _split(task.classes, self._rng)
        self._n_own = len(judged)
        self._trained = real.take(trained)
        self._judged = self._with_draws(real.take(judged))
        self._old_pairs: PairwiseFisher | None = None

    def run(self, drafts: list[Draft]) -> tuple[list[Draft], tuple[float, ...]]:
        """Bands of the best epoch, and the loss after each."""
        steps = [(draft.rows * draft.reach).requires_grad_() for draft in drafts]
        move = MomentumSteps(steps, self._descent)
        network, at_start = self._solved(drafts)
        best, least = drafts, at_start
        losses = [float(at_start.mean())]
        if not at_start[: self._n_own].any():
            return best, ()
        while len(losses) <= self._descent.max_epochs and losses[-1] and not has_stalled(losses):
            self._epoch(network, drafts, steps, move)
            moved = [step.detach() for step in steps]
            drafts = [
                replace(draft, rows=rows)
                for draft, rows in zip(drafts, self._rows(drafts, moved), strict=True)
            ]
            network, hinges = self._solved(drafts)
            losses.append(float(hinges.mean()))
            if hinges.mean() < least.mean() and self._is_better(hinges, at_start):
                best, least = drafts, hinges
            move.rate *= rate_factor(losses)
        return best, tuple(losses[1:])

    def _epoch(
        self,
        network: Network,
        drafts: Sequence[Draft],
        steps: Sequence[torch.Tensor],
        move: MomentumSteps,
    ) -> None:
        """One pass in mini-batches over the task, and over new draws of the old classes."""
        samples = self._with_draws(self._trained)
        order = torch.as_tensor(self._rng.permutation(len(samples.classes)))
        for batch in torch.split(order, self._descent.batch_size):
            chosen = samples.take(batch.to(samples.fixed.device))
            with torch.enable_grad():
                hinge = network.hinge(chosen, self._rows(drafts, steps))
                loss = (chosen.weights * hinge).mean()
            move(loss)

    def _rows(self, drafts: Sequence[Draft], steps: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Rows W within the open axes."""
        return [
            draft.open_axes.project(step) / draft.reach
            for draft, step in zip(drafts, steps, strict=True)
        ]

    def _solved(self, drafts: Sequence[Draft]) -> tuple[Network, torch.Tensor]:
        """The network with discriminants for the bands as they are, and its judges' losses."""
        device = self._task.X.device
        self._check_length(drafts)
        model, fresh = append_drafts(self._model, self._task, drafts)
        model = replace(model, moments=updated_moments(model, self._task, fresh))
        model = solve(model, device, self._old_pairs)
        if self._old_pairs is None and isinstance(model.classifier, PairwiseFisher):
            self._old_pairs = model.classifier.first(len(self._model.moments))
        network, hinges = Network(model, len(drafts), device), []
        with torch.no_grad():
            for part in torch.split(torch.arange(len(self._judged.classes), device=device), _CHUNK):
                samples = self._judged.take(part)
                hinge = network.hinge(samples, [draft.rows for draft in drafts])
                hinges.append(samples.weights * hinge)
        return network, torch.cat(hinges)

    def _is_better(self, hinges: torch.Tensor, at_start: torch.Tensor) -> bool:
        """Whether an epoch is clearly better than the start for the task, no worse for draws."""
        gain = at_start - hinges
        own, drawn = gain[: self._n_own], gain[self._n_own :]
        error = own.std(correction=0) / self._n_own**0.5
        return bool(own.mean() > error and drawn.sum() >= 0.0)

    def _check_length(self, drafts: Sequence[Draft]) -> None:
        """Refuse to go on from rows that a descent has thrown out of range."""
        for draft in drafts:
            if not draft.rows.norm() * draft.reach < _LONGEST:
                raise ValueError(
                    f"learning_rate={self._descent.learning_rate} is too large: fine-tuning has "
                    f"left the range of numbers whose moments can be computed, in layer "
                    f"{draft.layer}."
                )

    def _real_samples(self, drafts: Sequence[Draft]) -> Samples:
        """The task's samples."""
        model, task = self._model, self._task
        return Samples(
            tuple(model.features.layer_of(task.X, draft.layer - 1) for draft in drafts),
            tuple(draft.corrections for draft in drafts),
            model.view(task.X),
            task.classes,
            task.weights / task.weights.mean(),
        )

    def _with_draws(self, real: Samples) -> Samples:
        """Samples, and draws of old classes where these are taken to be Gaussian."""
        model = self._model
        n_old = len(model.moments)
        if model.settings.old_statistics != "gaussian" or n_old == 0:
            return real
        # As many as a new class has samples, within limits; all classes weigh the same.
        size = len(real.classes) / len(set(real.classes.tolist()))
        n_drawn = max(1, int(min(size, _MOST_DRAWS * len(real.classes) / n_old)))
        features = pseudo_features(model.moments, n_drawn, self._rng, device=real.fixed.device)
        columns = [model.features.layer(layer) for layer in range(len(real.old))]
        seen = classifier_columns(model.features, model.settings.skip_connection)
        drawn = Samples(
            tuple(features[:, index] for index in columns),
            tuple(one.new_zeros((len(features), one.shape[1])) for one in real.corrections),
            features[:, seen],
            torch.arange(n_old, device=features.device).repeat_interleave(n_drawn),
            features.new_full((len(features),), size / n_drawn),
        )
        return real.followed_by(drawn)


def _split(classes: torch.Tensor, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples for the gradients, and some of each class to judge by; all for both if too few."""
    labels = classes.cpu().numpy()
    held_out = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        held_out[members[: round(_HELD_OUT * len(members))]] = True
    judged = held_out if held_out.any() else ~held_out
    parts = (torch.as_tensor(np.flatnonzero(part)) for part in (~held_out, judged))
    trained, judged_by = (part.to(classes.device) for part in parts)
    return trained, judged_by
