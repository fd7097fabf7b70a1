"""Batch normalisation: torch's running statistics, and what they do to old neurons."""

import numpy as np
import torch
from numpy.testing import assert_allclose
from torch import nn

from ffnb_sklearn.core.bands.batch_norm import BatchNorm
from ffnb_sklearn.core.bands.layers import Band, Layers

RNG = np.random.default_rng(0)
X = torch.as_tensor(RNG.normal(2.0, 3.0, size=(50, 4)))
ONES = torch.ones(50, dtype=torch.float64)


def test_statistics_are_weighted():
    weights = torch.as_tensor(RNG.integers(1, 4, size=50)).double()
    repeated = X.repeat_interleave(weights.long(), dim=0)

    found = BatchNorm.of(X, weights)

    assert_allclose(found.mean, repeated.mean(0), rtol=1e-12)
    assert_allclose(found.variance, repeated.var(0, correction=0), rtol=1e-12)


def test_outputs_are_those_of_torch():
    layer = nn.BatchNorm1d(4, affine=False).double().eval()
    norm = BatchNorm.of(X[:30], ONES[:30])
    layer.running_mean.copy_(torch.as_tensor(norm.mean))
    layer.running_var.copy_(torch.as_tensor(norm.variance))

    assert_allclose(norm(X), layer(X), rtol=1e-12)


def test_running_statistics_move_as_those_of_torch():
    layer = nn.BatchNorm1d(4, affine=False).double().train()
    start, seen = BatchNorm(np.zeros(4), np.ones(4)), BatchNorm.of(X, ONES)

    for _ in range(7):
        layer(X)

    moved = start.update(seen, 7)
    assert_allclose(moved.mean, layer.running_mean, rtol=1e-12)
    # torch's running variance is the unbiased one.
    assert_allclose(moved.variance - 0.9**7, (layer.running_var - 0.9**7) * 49 / 50, rtol=1e-10)


def test_layers_are_renormalised_from_the_first_layer_up():
    norm = BatchNorm(np.zeros(3), np.ones(3))
    layers = Layers(4)
    layers = layers.append_band(Band(1, RNG.normal(size=(3, 4)), "tanh", norm))
    layers = layers.append_band(Band(2, RNG.normal(size=(3, 3)), "tanh", norm))

    moved = layers.update_batch_norms(X, ONES, 10_000)

    first, second = moved.bands
    responses = X @ torch.as_tensor(first.weights).T
    assert_allclose(first.batch_norm.mean, responses.mean(0), rtol=1e-9)
    below = torch.tanh(first.batch_norm(responses)) @ torch.as_tensor(second.weights).T
    assert_allclose(second.batch_norm.mean, below.mean(0), rtol=1e-9)
    assert not np.allclose(moved(X), layers(X))


def test_bands_without_it_stay():
    band = Band(1, RNG.normal(size=(3, 4)), "relu")
    layers = Layers(4).append_band(band)

    assert torch.equal(layers.update_batch_norms(X, ONES, 5)(X), layers(X))
