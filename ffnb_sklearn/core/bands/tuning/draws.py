r"""Pseudo-features: random samples of classes whose data is discarded.

A draw stands for the next sample of a class of n samples, whose moments are estimates: its
covariance is :math:`(1 + 1/n) ((1 - \rho) \Sigma_c + \rho \bar\Sigma)`, where the mean covariance
of the drawn classes has the weight of :math:`\nu = 20` samples, :math:`\rho = \nu / (n + \nu)`. A
dozen samples span few of hundreds of dimensions, and would be too easy to separate.
"""

from collections.abc import Sequence

import numpy as np
import torch

from ...class_moments import ClassMoments
from ...device import as_tensor

# Weight of the mean covariance in the covariance of each class, in samples.
_PRIOR_SAMPLES = 20.0


def pseudo_features(
    moments: Sequence[ClassMoments],
    n_per_class: int,
    rng: np.random.Generator,
    *,
    device: torch.device,
) -> torch.Tensor:
    """Draw samples of every class over all features, `n_per_class` each, class by class."""
    noise = torch.cat([_noise(one, n_per_class, rng, device) for one in moments])
    # A permutation over all classes gives noise with their mean covariance.
    shuffled = noise[torch.as_tensor(rng.permutation(len(noise)), device=device)]
    means = as_tensor(np.stack([one.mean for one in moments]), device=device)
    sizes = as_tensor(np.array([one.n_samples for one in moments]), device=device)
    means, sizes = (each.repeat_interleave(n_per_class, dim=0) for each in (means, sizes))
    share = (_PRIOR_SAMPLES / (sizes + _PRIOR_SAMPLES))[:, None]
    spread = (1.0 - share).sqrt() * noise + share.sqrt() * shuffled
    return means + (1.0 + 1.0 / sizes[:, None]).sqrt() * spread


def _noise(
    moments: ClassMoments, n_draws: int, rng: np.random.Generator, device: torch.device
) -> torch.Tensor:
    """Draw Gaussian noise with the covariance of a class."""
    along = as_tensor(rng.standard_normal((n_draws, moments.rank)), device=device)
    apart = as_tensor(rng.standard_normal((n_draws, len(moments.mean))), device=device)
    factor, residual = (
        as_tensor(part, device=device) for part in (moments.columns(slice(None)), moments.residual)
    )
    noise: torch.Tensor = (along @ factor + apart * residual.sqrt()) * moments.weight**-0.5
    return noise
