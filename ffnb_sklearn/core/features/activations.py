"""The activations g, and the moments of g(z) for a Gaussian z."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

__all__ = ["ACTIVATIONS", "ActivationMoments", "gaussian_moments"]

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


class ActivationMoments(NamedTuple):
    """Moments of g(z) for z Gaussian: its mean, its variance, and the mean of g'(z)."""

    mean: torch.Tensor
    variance: torch.Tensor
    slope: torch.Tensor


def gaussian_moments(
    activation: str, mean: torch.Tensor, variance: torch.Tensor, n_nodes: int = 64
) -> ActivationMoments:
    r"""Compute the moments of an activation of Gaussians z with the given means and variances.

    ReLU has a closed form; tanh and sigmoid need Gauss-Hermite quadrature with `n_nodes`. z is
    constant if its variance is zero. The slope couples g(z) to any u jointly Gaussian with z:
    :math:`\mathrm{Cov}(u, g(z)) = \mathrm{Cov}(u, z)\, E[g'(z)]` (Stein's lemma).
    """
    if activation == "relu":
        return _relu_moments(mean, variance)
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    node = torch.as_tensor(nodes, dtype=mean.dtype, device=mean.device)
    weight = torch.as_tensor(weights / weights.sum(), dtype=mean.dtype, device=mean.device)
    value = ACTIVATIONS[activation](mean[..., None] + variance.sqrt()[..., None] * node)
    derivative = 1.0 - value.square() if activation == "tanh" else value * (1.0 - value)
    average = value @ weight
    return ActivationMoments(
        average, (value - average[..., None]).square() @ weight, derivative @ weight
    )


def _relu_moments(mean: torch.Tensor, variance: torch.Tensor) -> ActivationMoments:
    """Compute moments of the rectified Gaussian without cancellation far from its corner."""
    deviation = variance.sqrt()
    constant = deviation == 0.0
    ratio = mean / torch.where(constant, torch.ones_like(deviation), deviation)
    # Far from the corner the distribution function is 0 or 1, as for a vanishing variance.
    ratio = torch.where(constant, torch.sign(mean) * 1e3, ratio).clamp(-1e3, 1e3)
    density = torch.exp(-0.5 * ratio.square()) / (2.0 * torch.pi) ** 0.5
    share = 0.5 * torch.special.erfc(-ratio * 0.5**0.5)
    rest = 0.5 * torch.special.erfc(ratio * 0.5**0.5)
    average = mean * share + deviation * density
    relative = (
        share + ratio.square() * share * rest + ratio * density * (rest - share) - density.square()
    )
    return ActivationMoments(average, variance * relative.clamp_min(0.0), share)
