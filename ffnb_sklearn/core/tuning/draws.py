r"""Pseudo-features: draws for classes whose data is gone.

What is known of a class of n samples is an estimate, so a draw is of what its next sample may
be: about the mean :math:`\mu_c`, with covariance

.. math:: \Bigl(1 + \frac1n\Bigr) \bigl((1 - \rho) \Sigma_c + \rho \bar\Sigma\bigr),
          \qquad \rho = \frac{\nu}{n + \nu} ,

where :math:`\bar\Sigma` is the mean covariance of the classes that are drawn: it counts as much as
:math:`\nu = 20` samples, and the mean is that of n samples. A class of a dozen samples in hundreds
of dimensions spans next to none of them, and draws from it alone would look far too easy.
"""

from collections.abc import Sequence

import numpy as np
import torch

from ..device import as_tensor
from ..statistics import ClassMoments

__all__ = ["pseudo_features"]

# Samples that the mean covariance of all classes stands for in that of each.
_PRIOR_SAMPLES = 20.0


def pseudo_features(
    moments: Sequence[ClassMoments],
    n_per_class: int,
    rng: np.random.Generator,
    *,
    device: torch.device,
) -> torch.Tensor:
    """Draws for every class, over all its features.

    Parameters
    ----------
    moments : sequence of ClassMoments
        Of the same d features.
    n_per_class : int
        Number of draws for each.
    rng : numpy.random.Generator
        Source of the draws.
    device : torch.device
        Where they are to be.

    Returns
    -------
    Tensor of shape (len(moments) * n_per_class, d)
        The draws for one class lie under those for the class before.
    """
    noise = torch.cat([_noise(one, n_per_class, rng, device) for one in moments])
    # Shuffled over all classes, noise has their mean covariance.
    shuffled = noise[torch.as_tensor(rng.permutation(len(noise)), device=device)]
    means = as_tensor(np.stack([one.mean for one in moments]), device=device)
    # Sample weights may be below one; a class has at least one sample all the same.
    sizes = as_tensor(np.array([max(1.0, one.weight) for one in moments]), device=device)
    means, sizes = (each.repeat_interleave(n_per_class, dim=0) for each in (means, sizes))
    share = (_PRIOR_SAMPLES / (sizes + _PRIOR_SAMPLES))[:, None]
    spread = (1.0 - share).sqrt() * noise + share.sqrt() * shuffled
    return means + (1.0 + 1.0 / sizes[:, None]).sqrt() * spread


def _noise(
    moments: ClassMoments, n_draws: int, rng: np.random.Generator, device: torch.device
) -> torch.Tensor:
    """Gaussian noise of mean zero with the covariance of a class."""
    along = as_tensor(rng.standard_normal((n_draws, moments.rank)), device=device)
    apart = as_tensor(rng.standard_normal((n_draws, len(moments.mean))), device=device)
    factor, residual = (
        as_tensor(part, device=device) for part in (moments.factor, moments.residual)
    )
    noise: torch.Tensor = (along @ factor + apart * residual.sqrt()) * moments.weight**-0.5
    return noise
