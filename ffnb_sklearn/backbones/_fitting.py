"""Fit a `TorchFeatureExtractor`: build or train its network, and scale its layers."""

import warnings
from copy import deepcopy
from dataclasses import replace
from math import sqrt

import torch
from scipy.stats import kstest
from torch import nn

from ffnb_sklearn._inputs.seeds import next_seed
from ffnb_sklearn.backbones._arithmetic import Arithmetic
from ffnb_sklearn.backbones._checkpoint import read_checkpoint
from ffnb_sklearn.backbones._checks import RandomFeaturesWarning, differing_pair
from ffnb_sklearn.backbones._inputs import network_params
from ffnb_sklearn.backbones._loading import Blueprint, freeze, state_to_arrays
from ffnb_sklearn.backbones._plan import Plan, labelled_samples
from ffnb_sklearn.backbones._pretraining import pretrain
from ffnb_sklearn.backbones._readout import Extraction, Readout
from ffnb_sklearn.core.messages import level_of_user

# Layers whose initial weights are constant, and layers whose weights torch draws from a uniform
# distribution.
_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
_DRAWN = (nn.Linear, nn.modules.conv._ConvNd)

# Weights are compared with their initial distribution if there are at least 100; of each layer, at
# most 10,000 are. Smaller probabilities of the distance count as trained.
_FEWEST, _MOST, _LEVEL = 100, 10_000, 1e-6

# Factor of rounding errors of weights in half precision.
_ROUNDING = 1.01


def learn(extractor, rows, y, inputs, *, keep):
    """Build the network, train it if requested, and compute the scales of its layers.

    Return the attributes of the fitted extractor, which is not changed, and the features if `keep`
    is true and there are `layers`, else None.
    """
    if extractor.epochs:
        module, learned = _pretrained(extractor, rows, y, inputs)
    else:
        module, learned = _as_made(extractor), {}
    extraction, features = Extraction.of(extractor, freeze(module), inputs), None
    widths = extraction.probe(differing_pair(rows))
    if extractor.layers is not None:
        scales, features = extraction.scales(rows, extractor.batch_size, widths, keep=keep)
        layers = [str(name) for name in extractor.layers]
        learned["layer_widths_"] = dict(zip(layers, widths, strict=True))
        learned["layer_scales_"] = dict(zip(layers, scales, strict=True))
        pooling = extractor.pooling
        learned["pooling_"] = pooling if isinstance(pooling, str) else int(pooling)
    state = state_to_arrays(module)
    learned |= {"state_dict_": state, "n_features_out_": sum(widths)}
    learned["network_params_"] = network_params(extractor)
    built = (extractor.dtype, extractor.backbone, state, module)
    return learned | {"_built": built}, features


def _as_made(extractor):
    """Build the network without pretraining; warn if its weights are random."""
    blueprint, reason = Blueprint.of(extractor), None
    module = blueprint.build(extractor.weights)
    if extractor.weights is not None:
        return module
    if not isinstance(extractor.backbone, nn.Module):
        n_random, n_all = blueprint.count_random(module)
        if n_random:
            name = repr(extractor.backbone)
            reason = f"of {n_all} tensors of backbone={name}, {n_random} are drawn at random"
    elif looks_untrained(module):
        kind = type(extractor.backbone).__name__
        reason = f"the weights of backbone, a {kind}, are distributed as torch draws them"
    if reason:
        warnings.warn(
            f"The features are random: {reason}, because there are no weights. Give weights, a "
            "factory that loads them, or epochs to pretrain it. If random features are wanted, fix "
            "their seed in backbone_params.",
            RandomFeaturesWarning,
            stacklevel=level_of_user(),
        )
    return module


def _pretrained(extractor, rows, y, inputs):
    """Train the network; return it with the fitted attributes that describe the training."""
    samples = labelled_samples(rows, y, inputs)
    path = extractor.checkpoint
    saved = None if path is None else read_checkpoint(path)
    if extractor.random_state is None and saved is not None:
        seed = saved["settings"]["random_state"]
    else:
        seed = next_seed(extractor.random_state)
    # Only parameters and buffers of the seed are kept: whatever else the factory draws must be the
    # same when the network is rebuilt.
    blueprint = Blueprint.of(extractor)
    module = blueprint.build(blueprint.build(extractor.weights, seed).state_dict())
    # Probe before the training, which an error afterwards would waste. Probe a copy, because
    # tensors that a network stores in inference mode cannot be trained.
    extraction = Extraction.of(extractor, freeze(deepcopy(module)), inputs)
    pair = differing_pair(rows)
    extraction.probe(pair)
    (n_features,) = replace(extraction, readout=Readout()).probe(pair)
    history, n_epochs = pretrain(
        module,
        n_features,
        samples,
        Plan.of(extractor, seed),
        arithmetic=Arithmetic.of(extractor, training=True).to_train(module),
        saved=saved,
        checkpoint=path,
        verbose=extractor.verbose,
    )
    return module, {"history_": history, "n_epochs_": n_epochs, "classes_": samples.classes}


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
