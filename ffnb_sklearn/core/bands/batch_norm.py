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
        shares = weights / weights.sum()
        mean = shares @ responses
        deviations = responses - mean
        squares = deviations.square()
        variance = shares @ squares
        return cls(as_array(mean), as_array(variance))

    @property
    def scale(self) -> Array:
        """Factors of the responses, of shape (n_neurons,)."""
        scale: Array = (self.variance + 1e-5) ** -0.5
        return scale

    def __call__(self, responses: torch.Tensor) -> torch.Tensor:
        """Normalise responses."""
        mean = as_tensor(self.mean, device=responses.device)
        scale = as_tensor(self.scale, device=responses.device)
        deviations = responses - mean
        return deviations * scale

    def update(self, batch: "BatchNorm", n_steps: int) -> "BatchNorm":
        """Return the running statistics after ``n_steps`` mini-batches with those of ``batch``."""
        old_share = 0.9**n_steps
        new_share = 1.0 - old_share
        mean = old_share * self.mean + new_share * batch.mean
        variance = old_share * self.variance + new_share * batch.variance
        return BatchNorm(mean, variance)
