"""Pseudo-features: draws from the Gaussians of classes whose data is gone."""

from collections.abc import Sequence

import numpy as np
import torch

from .device import as_tensor
from .statistics import ClassMoments

__all__ = ["pseudo_features"]


def pseudo_features(
    moments: Sequence[ClassMoments],
    n_per_class: int,
    rng: np.random.Generator,
    *,
    device: torch.device,
) -> torch.Tensor:
    """Draws from the Gaussian of every class, over all its features.

    Parameters
    ----------
    moments : sequence of ClassMoments
        Of the same d features.
    n_per_class : int
        Number of draws from each.
    rng : numpy.random.Generator
        Source of the draws.
    device : torch.device
        Where they are to be.

    Returns
    -------
    Tensor of shape (len(moments) * n_per_class, d)
        The draws of one class lie under those of the class before.
    """
    draws = []
    for one in moments:
        along = as_tensor(rng.standard_normal((n_per_class, len(one.factor))), device=device)
        apart = as_tensor(rng.standard_normal((n_per_class, len(one.mean))), device=device)
        factor = as_tensor(one.factor, device=device)
        residual = as_tensor(one.residual, device=device)
        noise = (along @ factor + apart * residual.sqrt()) * one.weight**-0.5
        draws.append(as_tensor(one.mean, device=device) + noise)
    return torch.cat(draws)
