"""Codes of a new band: the samples that each neuron stands for."""

import torch

from ..linalg import LENGTH_ROUNDING

__all__ = ["band_codes"]


def band_codes(
    X: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, band_size: int
) -> torch.Tensor:
    """Return the coding matrix of a task: the samples that each new neuron stands for.

    With one neuron per class, the code is 1 for samples of the class and 0 for all others. With b
    neurons per class, each stands for one of b parts of equal weight along the first principal axis
    of the class. A sample across a cut belongs to both parts by its shares, so a weight of k equals
    k repetitions.

    `targets` numbers the new classes from 0; it is negative for known classes. The codes, of shape
    (n_samples, n_new_classes * band_size), have the neurons of a class side by side.
    """
    n_classes = int(targets.max()) + 1
    codes = X.new_zeros((len(targets), n_classes, band_size))
    for label in range(n_classes):
        members = torch.nonzero(targets == label)[:, 0]
        codes[members, label] = _parts(X[members], weights[members], band_size)
    return codes.reshape(len(targets), -1)


def _parts(X: torch.Tensor, weights: torch.Tensor, n_parts: int) -> torch.Tensor:
    """Return the shares of samples in parts of equal weight along their principal axis."""
    if n_parts == 1:
        return X.new_ones((len(X), 1))
    centred = X - weights @ X / weights.sum()
    axis = torch.linalg.svd(centred * weights.sqrt()[:, None], full_matrices=False).Vh[0]
    position = centred @ axis * torch.sign(axis[axis.abs().argmax()])
    order = torch.argsort(position, stable=True)
    gaps = position[order].diff(prepend=position[order[:1]])
    # Repetitions of a sample form one group, so that all have the same shares.
    group = (gaps > LENGTH_ROUNDING * position.abs().max()).cumsum(0)
    size = weights.new_zeros(int(group[-1]) + 1).index_add(0, group, weights[order])
    stop = size.cumsum(0)
    edges = torch.linspace(0.0, float(stop[-1]), n_parts + 1, dtype=stop.dtype, device=stop.device)
    start = torch.maximum((stop - size)[:, None], edges[:-1])
    overlap = (torch.minimum(stop[:, None], edges[1:]) - start).clamp_min(0.0)
    shares = X.new_empty((len(X), n_parts))
    shares[order] = (overlap / size[:, None])[group]
    return shares
