"""The feature map: its columns, and the blocks that the classifier sees."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from ffnb_sklearn.core.bands.layers import Band, Layers
from ffnb_sklearn.core.features import (
    Blocks,
    FeatureMap,
    FixedFeatures,
    SharedBand,
    TrainedLayers,
    as_slice,
)

RNG = np.random.default_rng(0)
X = torch.as_tensor(RNG.normal(size=(20, 5)))
FIXED = FixedFeatures(5, SharedBand(RNG.normal(size=(3, 6)), mirrored=True))
INPUTS = FixedFeatures(5, SharedBand.empty(5))


def grown():
    """Two tasks of two layers each: 2 and 1 neurons, then 1 and 2."""
    stages = [Layers(5)]
    for layer, n_neurons, n_inputs in [(1, 2, 5), (2, 1, 2), (1, 1, 5), (2, 2, 3)]:
        band = Band(layer, RNG.normal(size=(n_neurons, n_inputs)), "relu")
        stages.append(stages[-1].append_band(band))
    return [FeatureMap(FIXED), *(FeatureMap(FIXED, layers) for layers in stages)]


def test_features_are_inputs_then_shared_neurons_then_trained_neurons():
    features = grown()[-1]

    values = features(X)

    assert features.n_features == 5 + 3 + 6
    assert features.n_weights == 18 + 10 + 2 + 5 + 6
    assert torch.equal(values[:, :5], X)
    assert torch.equal(values[:, 5:8], FIXED.shared(X))
    assert torch.equal(values[:, 8:], features.layers(X))


def test_bands_are_layers_of_the_feature_map():
    assert isinstance(Layers(5), TrainedLayers)


@pytest.mark.parametrize("columns", [[], [3], [2, 3, 4], [2, 4], [0, 2, 1, 3], [3, 2]])
def test_columns_become_a_slice_only_if_they_follow_each_other(columns):
    columns = np.array(columns, dtype=np.intp)

    found = as_slice(columns)

    assert isinstance(found, slice) == (columns.tolist() in ([], [3], [2, 3, 4]))
    assert_array_equal(np.arange(6)[found], np.arange(6)[columns])


def test_old_columns_are_bit_identical_after_every_new_band():
    stages = grown()

    for before, after in pairwise(stages[1:]):
        assert after.n_features > before.n_features
        assert torch.equal(after(X)[:, : before.n_features], before(X))


def test_layers_without_a_neuron_change_nothing():
    without_layers, without_neurons = grown()[:2]

    assert without_neurons.n_features == without_layers.n_features
    assert without_neurons.n_weights == without_layers.n_weights
    assert torch.equal(without_neurons(X), without_layers(X))
    assert_array_equal(without_neurons.columns(True), without_layers.columns(True))


def test_inputs_alone_are_not_copied():
    assert FeatureMap(INPUTS)(X) is X


def test_no_band_looks_at_the_shared_neurons():
    features = grown()[-1]

    bare = FeatureMap(INPUTS, features.layers)

    assert bare.n_features == features.n_features - 3
    assert torch.equal(bare(X)[:, 5:], features(X)[:, 8:])


# ---- what the classifier sees

WITH_SHARED = FixedFeatures(4, SharedBand(np.ones((6, 5)), mirrored=True))
WITHOUT_SHARED = FixedFeatures(4, SharedBand.empty(4))
SHALLOW = Layers(4).append_band(Band(1, np.ones((2, 4)), "relu"))
DEEP = SHALLOW.append_band(Band(2, np.ones((3, 2)), "relu"))


@pytest.mark.parametrize(
    ("features", "skip", "expected"),
    [
        (FeatureMap(WITH_SHARED), True, [*range(10)]),
        (FeatureMap(WITH_SHARED), False, [*range(4, 10)]),
        (FeatureMap(WITH_SHARED, SHALLOW), True, [*range(12)]),
        (FeatureMap(WITH_SHARED, DEEP), True, [*range(10), 12, 13, 14]),
        (FeatureMap(WITHOUT_SHARED, DEEP), False, [6, 7, 8]),
    ],
)
def test_the_classifier_sees_inputs_shared_neurons_and_the_last_layer(features, skip, expected):
    assert_array_equal(features.columns(skip), expected)


@pytest.mark.parametrize(
    ("fixed", "skip", "expected"),
    [
        (WITH_SHARED, True, Blocks(4, 6)),
        (WITH_SHARED, False, Blocks(0, 6)),
        (WITHOUT_SHARED, True, Blocks(4, 0)),
    ],
)
def test_blocks_are_the_inputs_that_are_seen_and_the_shared_neurons(fixed, skip, expected):
    assert fixed.blocks(skip) == expected
    assert expected.n_fixed == sum(expected)
