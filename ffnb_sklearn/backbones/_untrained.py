"""Recognise a network whose weights look as if they were never trained.

A network does not record where its weights come from. But initial weights have properties that
training does not preserve: normalisations start at constants, and torch draws the weights of linear
layers and convolutions uniformly from an interval that their number of inputs determines.
"""

from math import sqrt

import torch
from scipy.stats import kstest
from torch import nn

_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
_DRAWN = (nn.Linear, nn.modules.conv._ConvNd)

# Fewest weights for a comparison of their distribution with the initial one.
_FEWEST = 100

# Most numbers of a layer in this comparison, which bounds its time.
_MOST = 10_000

# Smaller probabilities of the distance from the initial distribution count as trained.
_LEVEL = 1e-6

# Factor of rounding errors of weights in half precision.
_ROUNDING = 1.01


def looks_untrained(module):
    """Return whether the weights of a network look as torch initialises them.

    If the network has normalisations, all of them must be constant. Otherwise, the weights and
    biases of all linear layers and convolutions, at least 100 numbers, must fit the uniform
    distribution from which torch draws them. Weights from another initialisation, without
    normalisations, are not recognised.
    """
    if any(map(nn.parameter.is_lazy, module.parameters())):
        return True
    norms = [
        one
        for layer in module.modules()
        if isinstance(layer, _NORMS)
        for one in (*layer.parameters(), *layer.buffers())
        if one.numel() > 1
    ]
    if norms:
        return all(bool((one == one.flatten()[0]).all()) for one in norms)
    sample = []
    for layer in module.modules():
        if isinstance(layer, _DRAWN) and layer.weight.numel():
            numbers = _relative(layer)
            if numbers.abs().max() > _ROUNDING:
                return False
            sample.append(numbers[:: 1 + len(numbers) // _MOST])
    if sum(map(len, sample)) < _FEWEST:
        return False
    return kstest(torch.cat(sample).numpy(), "uniform", (-1, 2)).pvalue > _LEVEL


def _relative(layer):
    """Return the weights and biases of a layer, relative to the bound of their initial interval."""
    bound = 1 / sqrt(layer.weight[0].numel())
    given = [one for one in (layer.weight, layer.bias) if one is not None]
    return torch.cat([one.detach().cpu().float().flatten() for one in given]) / bound
