"""The block triangular layers of trained bands."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.bands.batch_norm import BatchNorm
from ffnb_sklearn.core.bands.layers import Band, Layers

RNG = np.random.default_rng(0)
X = torch.as_tensor(RNG.normal(size=(20, 5)))


def grown():
    """Two tasks of two layers each: 2 and 1 neurons, then 1 and 2."""
    stages = [Layers(5)]
    for layer, n_neurons, n_inputs in [(1, 2, 5), (2, 1, 2), (1, 1, 5), (2, 2, 3)]:
        band = Band(layer, RNG.normal(size=(n_neurons, n_inputs)), "relu")
        stages.append(stages[-1].append_band(band))
    return stages


def test_neurons_are_numbered_in_the_order_of_their_arrival():
    layers = grown()[-1]

    assert layers.n_neurons == 6
    assert layers.n_weights == 10 + 2 + 5 + 6
    assert_array_equal(layers.columns(1), [0, 1, 3])
    assert_array_equal(layers.columns(2), [2, 4, 5])
    assert_array_equal(layers.columns_of_last_layer(), [2, 4, 5])
    assert [layers.width(layer) for layer in range(3)] == [5, 3, 3]


def test_layers_without_a_band_have_no_neuron():
    layers = Layers(5)

    assert layers.n_neurons == layers.n_weights == layers.width(1) == 0
    assert len(layers.columns_of_last_layer()) == 0
    assert layers(X).shape == (20, 0)


def test_old_neurons_are_bit_identical_after_every_new_band():
    stages = grown()

    for before, after in pairwise(stages):
        assert after.n_neurons > before.n_neurons
        assert torch.equal(after(X)[:, : before.n_neurons], before(X))


def test_old_neurons_are_bit_identical_however_many_come():
    samples = torch.as_tensor(RNG.normal(size=(257, 300)))
    stages = [Layers(300)]
    for _ in range(30):
        stages.append(stages[-1].append_band(Band(1, RNG.normal(size=(5, 300)), "tanh")))

    last = stages[-1](samples)

    for earlier in stages:
        assert torch.equal(last[:, : earlier.n_neurons], earlier(samples))


def test_layers_are_those_of_block_triangular_matrices():
    layers = grown()[-1]
    first, second, third, fourth = (band.weights for band in layers.bands)
    W1 = np.vstack([first, third])
    W2 = np.zeros((3, 3))
    W2[:1, :2], W2[1:] = second, fourth  # no weight on the neuron that came later

    values = layers(X).numpy()

    psi1 = np.maximum(X.numpy() @ W1.T, 0.0)
    assert_allclose(values[:, layers.columns(1)], psi1, rtol=1e-12, atol=1e-14)
    psi2 = np.maximum(psi1 @ W2.T, 0.0)
    assert_allclose(values[:, layers.columns(2)], psi2, rtol=1e-12, atol=1e-14)


def test_a_layer_has_its_neurons_alone_and_layer_0_is_the_inputs():
    layers = grown()[-1]

    assert layers.layer_of(X, 0) is X
    for layer in (1, 2):
        assert torch.equal(layers.layer_of(X, layer), layers(X)[:, layers.columns(layer)])


@pytest.mark.parametrize(
    ("activation", "value"), [("tanh", np.tanh), ("sigmoid", lambda z: 1 / (1 + np.exp(-z)))]
)
def test_a_band_has_its_own_activation(activation, value):
    band = Band(1, RNG.normal(size=(2, 5)), activation)
    weak = Band(1, band.weights, activation, scale=1e-3)

    layers = Layers(5).append_band(band).append_band(weak)

    expected = value(X.numpy() @ band.weights.T)
    assert_allclose(layers(X)[:, :2], expected, rtol=1e-12)
    assert_allclose(layers(X)[:, 2:], 1e-3 * expected, rtol=1e-12)


def test_bands_of_any_kind_side_by_side_give_what_each_gives_alone():
    norm = BatchNorm(np.array([0.5]), np.array([4.0]))
    kinds = [
        {},
        {},
        {"scale": 0.25},
        {"scale": 0.25},
        {"activation": "tanh"},
        {"batch_norm": norm},
        {"batch_norm": norm},
        {},
    ]
    bands = [Band(1, RNG.normal(size=(1, 5)), **({"activation": "relu"} | kind)) for kind in kinds]
    layers = Layers(5, tuple(bands))

    expected = torch.cat([band(X) for band in bands], dim=1)
    assert_allclose(layers(X), expected, rtol=1e-12)


def test_a_band_looks_past_neurons_that_came_later():
    band = Band(2, RNG.normal(size=(2, 3)), "relu")

    assert torch.equal(band(X), band(X[:, :3]))


def test_some_neurons_of_a_band_that_see_some_inputs_give_the_same_outputs():
    weights = RNG.normal(size=(3, 5))
    weights[1:, [1, 4]] = 0.0
    norm = BatchNorm(np.array([0.5, -0.5, 1.0]), np.array([4.0, 1.0, 9.0]))
    band = Band(1, weights, "tanh", norm, scale=0.5)

    taken = band.take(np.array([1, 2]), np.array([0, 2, 3]))

    assert len(taken) == 2
    assert_allclose(taken(X[:, [0, 2, 3]]), band(X)[:, 1:], rtol=1e-12)
