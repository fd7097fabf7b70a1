"""The feature map: its columns and its block triangular layers."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.bands.batch_norm import BatchNorm
from ffnb_sklearn.core.features.feature_map import (
    Band,
    Blocks,
    FeatureMap,
    as_slice,
    classifier_blocks,
    classifier_columns,
)
from ffnb_sklearn.core.features.shared_band import SharedBand

RNG = np.random.default_rng(0)
X = torch.as_tensor(RNG.normal(size=(20, 5)))


def grown():
    """Two tasks of two layers each: 2 and 1 neurons, then 1 and 2."""
    features = FeatureMap(5, SharedBand(RNG.normal(size=(3, 6)), mirrored=True))
    maps = [features]
    for layer, n_neurons, n_inputs in [(1, 2, 5), (2, 1, 2), (1, 1, 5), (2, 2, 3)]:
        band = Band(layer, RNG.normal(size=(n_neurons, n_inputs)), "relu")
        maps.append(maps[-1].append_band(band))
    return maps


def test_columns_are_numbered_in_the_order_of_their_arrival():
    features = grown()[-1]

    assert features.n_features == 5 + 3 + 6
    assert features.n_weights == 18 + 10 + 2 + 5 + 6
    assert_array_equal(features.layer(0), np.arange(5))
    assert_array_equal(features.shared_columns(), [5, 6, 7])
    assert_array_equal(features.layer(1), [8, 9, 11])
    assert_array_equal(features.layer(2), [10, 12, 13])
    assert_array_equal(features.inputs_of(features.bands[1]), [8, 9])
    assert_array_equal(features.inputs_of(features.bands[3]), [8, 9, 11])


@pytest.mark.parametrize("columns", [[], [3], [2, 3, 4], [2, 4], [0, 2, 1, 3], [3, 2]])
def test_columns_become_a_slice_only_if_they_follow_each_other(columns):
    columns = np.array(columns, dtype=np.intp)

    found = as_slice(columns)

    assert isinstance(found, slice) == (columns.tolist() in ([], [3], [2, 3, 4]))
    assert_array_equal(np.arange(6)[found], np.arange(6)[columns])


def test_old_columns_are_bit_identical_after_every_new_band():
    maps = grown()

    for before, after in pairwise(maps):
        assert after.n_features > before.n_features
        assert torch.equal(after(X)[:, : before.n_features], before(X))


def test_old_columns_are_bit_identical_however_many_neurons_come():
    samples = torch.as_tensor(RNG.normal(size=(257, 300)))
    maps = [FeatureMap(300, SharedBand.empty(300))]
    for _ in range(30):
        maps.append(maps[-1].append_band(Band(1, RNG.normal(size=(5, 300)), "tanh")))

    last = maps[-1](samples)

    for earlier in maps:
        assert torch.equal(last[:, : earlier.n_features], earlier(samples))


def test_layers_are_those_of_block_triangular_matrices():
    features = grown()[-1]
    first, second, third, fourth = (band.weights for band in features.bands)
    W1 = np.vstack([first, third])
    W2 = np.zeros((3, 3))
    W2[:1, :2], W2[1:] = second, fourth  # no weight on the neuron that came later

    values = features(X).numpy()

    psi1 = np.maximum(X.numpy() @ W1.T, 0.0)
    assert_allclose(values[:, features.layer(1)], psi1, rtol=1e-12, atol=1e-14)
    psi2 = np.maximum(psi1 @ W2.T, 0.0)
    assert_allclose(values[:, features.layer(2)], psi2, rtol=1e-12, atol=1e-14)
    assert torch.equal(features(X)[:, :5], X)


@pytest.mark.parametrize(
    ("activation", "value"), [("tanh", np.tanh), ("sigmoid", lambda z: 1 / (1 + np.exp(-z)))]
)
def test_a_band_has_its_own_activation(activation, value):
    band = Band(1, RNG.normal(size=(2, 5)), activation)
    weak = Band(1, band.weights, activation, scale=1e-3)

    features = FeatureMap(5, SharedBand.empty(5)).append_band(band).append_band(weak)

    expected = value(X.numpy() @ band.weights.T)
    assert_allclose(features(X)[:, 5:7], expected, rtol=1e-12)
    assert_allclose(features(X)[:, 7:], 1e-3 * expected, rtol=1e-12)


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
    features = FeatureMap(5, SharedBand.empty(5), tuple(bands))

    expected = torch.cat([X, *(band(X) for band in bands)], dim=1)
    assert_allclose(features(X), expected, rtol=1e-12)


def test_a_band_looks_past_neurons_that_came_later():
    band = Band(2, RNG.normal(size=(2, 3)), "relu")

    assert torch.equal(band(X), band(X[:, :3]))


def test_no_band_looks_at_the_shared_one():
    features = grown()[-1]

    bare = features.remove_shared_band()

    assert bare.n_features == features.n_features - 3
    assert torch.equal(bare(X)[:, 5:], features(X)[:, 8:])


# ---- what the classifier sees

BARE = FeatureMap(4, SharedBand(np.ones((6, 5)), mirrored=True))
BANDS = BARE.append_band(Band(1, np.ones((2, 4)), "relu"))
DEEP = BANDS.append_band(Band(2, np.ones((3, 2)), "relu"))


@pytest.mark.parametrize(
    ("features", "skip", "expected"),
    [
        (BARE, True, [*range(10)]),
        (BARE, False, [*range(4, 10)]),
        (BANDS, True, [*range(12)]),
        (DEEP, True, [*range(10), 12, 13, 14]),
        (DEEP.remove_shared_band(), False, [6, 7, 8]),
    ],
)
def test_the_classifier_sees_inputs_shared_band_and_the_last_layer(features, skip, expected):
    assert_array_equal(classifier_columns(features, skip), expected)


@pytest.mark.parametrize(
    ("features", "skip", "expected"),
    [
        (DEEP, True, Blocks(4, 6)),
        (DEEP, False, Blocks(0, 6)),
        (DEEP.remove_shared_band(), True, Blocks(4, 0)),
    ],
)
def test_blocks_are_the_inputs_that_are_seen_and_the_shared_band(features, skip, expected):
    assert classifier_blocks(features, skip) == expected
    assert expected.n_fixed == sum(expected)
