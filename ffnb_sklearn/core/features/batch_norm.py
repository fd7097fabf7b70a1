"""Batch normalisation of trained neurons: the ablation that moves old features."""

from dataclasses import dataclass

import torch

from ..device import Array, as_array, as_tensor

__all__ = ["BatchNorm"]


@dataclass(frozen=True)
class BatchNorm:
    """Running mean and variance of the responses of neurons (S. Ioffe and C. Szegedy, ICML 2015).

    The share of a mini-batch, 0.1, and the term added to the variance are the defaults of torch.
    """

    mean: Array
    variance: Array

    @classmethod
    def of(cls, responses: torch.Tensor, weights: torch.Tensor) -> "BatchNorm":
        """Compute the statistics of weighted responses of shape (n_samples, n_neurons)."""
        share = weights / weights.sum()
        mean = share @ responses
        return cls(as_array(mean), as_array(share @ (responses - mean).square()))

    @property
    def scale(self) -> Array:
        """Factors of the responses, of shape (n_neurons,)."""
        scale: Array = (self.variance + 1e-5) ** -0.5
        return scale

    def __call__(self, responses: torch.Tensor) -> torch.Tensor:
        """Normalise responses."""
        mean = as_tensor(self.mean, device=responses.device)
        return (responses - mean) * as_tensor(self.scale, device=responses.device)

    def moved_to(self, seen: "BatchNorm", n_steps: int) -> "BatchNorm":
        """Return the running statistics after ``n_steps`` mini-batches like ``seen``."""
        kept = 0.9**n_steps
        return BatchNorm(
            kept * self.mean + (1.0 - kept) * seen.mean,
            kept * self.variance + (1.0 - kept) * seen.variance,
        )
