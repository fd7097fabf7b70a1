"""Gradient descent of the paper: hinge loss, momentum, an adaptive rate [Sec. 4.1]."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch

from ..band_settings import Descent

# Wraps the iterator over the epochs of a descent: it may report each epoch, and may stop early. The
# built-in `iter` does neither. The iterator yields the list of the losses, whose last entry is that
# of the epoch when the epoch has ended.
EpochObserver = Callable[[Iterator[Sequence[float]]], Iterator[Sequence[float]]]

# Factor of the adaptive rate (the paper's, Sec. 4.1).
_RATE_FACTOR = 0.99


class MomentumSteps:
    """Steps of stochastic gradient descent on leaves, in place.

    `rate` is the learning rate of the next step. The leaves before the first step and after each
    step are copied to the end of `path`, if it is a list. (Torch's own optimisers take seconds to
    import.)
    """

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        descent: Descent,
        path: list[list[torch.Tensor]] | None = None,
    ) -> None:
        self.rate = descent.learning_rate
        self._parameters = parameters
        self._descent = descent
        self._velocities = [torch.zeros_like(parameter) for parameter in parameters]
        self._path = path
        self._record()

    def __call__(self, loss: torch.Tensor) -> None:
        """Take a step down a loss; the gradient includes the weight decay."""
        momentum = self._descent.momentum
        weight_decay = self._descent.weight_decay
        gradients = torch.autograd.grad(loss, self._parameters)
        leaves = zip(self._parameters, self._velocities, gradients, strict=True)
        with torch.no_grad():
            for parameter, velocity, gradient in leaves:
                velocity.mul_(momentum).add_(gradient)
                velocity.add_(parameter, alpha=weight_decay)
                parameter.sub_(velocity, alpha=self.rate)
        self._record()

    def _record(self) -> None:
        """Append copies of the leaves to the path."""
        if self._path is not None:
            self._path.append([parameter.detach().clone() for parameter in self._parameters])

    def epoch(
        self, loss: Callable[[torch.Tensor], torch.Tensor], n_samples: int, rng: np.random.Generator
    ) -> float:
        """Take a step per mini-batch of one pass over the samples, and return their mean loss.

        `loss` returns the mean loss of the samples with the given numbers. Raise `ValueError` if
        the descent has left the range of numbers.
        """
        device = self._parameters[0].device
        order = torch.as_tensor(rng.permutation(n_samples), device=device)
        total_loss = self._parameters[0].new_zeros(())
        for batch in torch.split(order, self._descent.batch_size):
            with torch.enable_grad():
                batch_loss = loss(batch)
            self(batch_loss)
            total_loss += batch_loss.detach() * len(batch)
        self._check_finite(total_loss)
        return float(total_loss) / n_samples

    def _check_finite(self, total_loss: torch.Tensor) -> None:
        """Raise unless the loss is finite, and so are scatters of the responses of the leaves."""
        # Scatters of the responses have the fourth power of the length of the rows.
        powers = [torch.linalg.vector_norm(parameter) ** 4 for parameter in self._parameters]
        if not all(map(torch.isfinite, (total_loss, *powers))):
            raise ValueError(
                f"learning_rate={self._descent.learning_rate} or weight_decay="
                f"{self._descent.weight_decay} is too large: the descent has left the range of "
                "numbers. Use a smaller value, or features of the scale of the first task."
            )

    def epochs(self, losses: Sequence[float]) -> Iterator[Sequence[float]]:
        """Yield `losses` once per epoch, whose loss the caller adds, until the descent ends."""
        for _ in range(self._descent.max_epochs):
            yield losses
            if has_stalled(losses, self._descent.patience):
                return
            if self._descent.adaptive_rate:
                self.rate *= rate_factor(losses)


def multi_class_hinge(scores: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    r"""Compute :math:`\max(0, 1 - s_y + \max_{c \ne y} s_c)` of each sample.

    It is zero if the own class y leads all other classes by 1, or is the only class (K. Crammer and
    Y. Singer. On the algorithmic implementation of multiclass kernel-based vector machines. Journal
    of Machine Learning Research 2, 2001). Scores s have the shape (..., n_samples, n_classes).
    """
    index = classes[:, None].expand(*scores.shape[:-1], 1)
    scores_of_class = scores.gather(-1, index)
    violations = scores - scores_of_class + 1.0
    violations = violations.scatter(-1, index, 0.0)
    return violations.amax(-1).clamp_min(0.0)


def rate_factor(losses: Sequence[float]) -> float:
    """Return the factor of the rate: 0.99 if the loss changes faster than before, or 1 / 0.99."""
    speeds = [abs(after - before) for before, after in pairwise(losses[-3:])]
    is_faster = len(speeds) == 2 and speeds[1] > speeds[0]
    if is_faster:
        return _RATE_FACTOR
    return 1.0 / _RATE_FACTOR


def has_stalled(losses: Sequence[float], patience: int | None) -> bool:
    """Return whether none of the last epochs, `patience` in number, had a lower loss."""
    if patience is None or len(losses) <= patience:
        return False
    recent_losses = losses[-patience:]
    earlier_losses = losses[:-patience]
    return min(recent_losses) >= min(earlier_losses)
