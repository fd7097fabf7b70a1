r"""Gradient descent as the paper has it: hinge loss, momentum, an adaptive rate [Sec. 4.1]."""

from collections.abc import Sequence
from itertools import pairwise

import torch

from ..settings import Descent

__all__ = ["MomentumSteps", "has_stalled", "multi_class_hinge", "rate_factor"]

# Epochs without a lower loss after which a descent ends.
_PATIENCE = 10

# Factor of the adaptive rate.
_RATE_FACTOR = 0.99


class MomentumSteps:
    """Steps of stochastic gradient descent; torch's own optimisers take seconds to import.

    Parameters
    ----------
    parameters : sequence of Tensor
        Leaves that require gradients; they are updated in place.
    descent : Descent
        Momentum, weight decay and the first rate.

    Attributes
    ----------
    rate : float
        Rate of the next step.
    """

    def __init__(self, parameters: Sequence[torch.Tensor], descent: Descent) -> None:
        self.rate = descent.learning_rate
        self._parameters, self._descent = parameters, descent
        self._velocities = [torch.zeros_like(one) for one in parameters]

    def __call__(self, loss: torch.Tensor) -> None:
        """Take a step down a loss; weight decay is a part of the gradient."""
        gradients = torch.autograd.grad(loss, self._parameters)
        with torch.no_grad():
            for one, velocity, gradient in zip(
                self._parameters, self._velocities, gradients, strict=True
            ):
                velocity.mul_(self._descent.momentum).add_(gradient)
                velocity.add_(one, alpha=self._descent.weight_decay)
                one.sub_(velocity, alpha=self.rate)


def multi_class_hinge(scores: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    r"""Multi-class hinge :math:`\max(0, 1 - s_y + \max_{c \ne y} s_c)` of each sample.

    Parameters
    ----------
    scores : Tensor of shape (..., n_samples, n_classes)
        s.
    classes : Tensor of shape (n_samples,)
        y.

    Returns
    -------
    Tensor of shape (..., n_samples)
        Zero where the own class leads all others by 1, or is the only one.

    References
    ----------
    K. Crammer and Y. Singer. On the algorithmic implementation of multiclass kernel-based vector
    machines. Journal of Machine Learning Research 2, 2001.
    """
    index = classes[:, None].expand(*scores.shape[:-1], 1)
    own = scores.gather(-1, index)
    lacking = (scores - own + 1.0).scatter(-1, index, 0.0)
    return lacking.amax(-1).clamp_min(0.0)


def rate_factor(losses: Sequence[float]) -> float:
    """What the rate is multiplied by after an epoch.

    Parameters
    ----------
    losses : sequence of float
        Losses of the epochs so far.

    Returns
    -------
    float
        0.99 if the loss has changed by more than in the epoch before, else 1 / 0.99.
    """
    speeds = [abs(after - before) for before, after in pairwise(losses[-3:])]
    faster = len(speeds) == 2 and speeds[1] > speeds[0]
    return _RATE_FACTOR if faster else 1.0 / _RATE_FACTOR


def has_stalled(losses: Sequence[float]) -> bool:
    """Whether none of the last 10 epochs has brought a lower loss."""
    return len(losses) > _PATIENCE and min(losses[-_PATIENCE:]) >= min(losses[:-_PATIENCE])
