"""How much the classifier trusts each block of the features that it sees."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.classifier.gaussians import ClassGaussians
from ffnb_sklearn.core.classifier.penalties import block_penalties
from ffnb_sklearn.core.features.feature_map import (
    Band,
    FeatureMap,
    classifier_blocks,
    classifier_columns,
)
from ffnb_sklearn.core.features.shared_band import SharedBand
from ffnb_sklearn.core.statistics import moments_of
from tests.core.small_models import CPU

RNG = np.random.default_rng(0)
N_INPUTS, N_SHARED = 4, 6
SHARED = SharedBand(RNG.normal(size=(N_SHARED, N_INPUTS + 1)), mirrored=True)
BARE = FeatureMap(N_INPUTS, SHARED)
BANDS = BARE.with_band(Band(1, RNG.normal(size=(2, 4)), "relu"))
DEEP = BANDS.with_band(Band(2, RNG.normal(size=(3, 2)), "relu"))
X = RNG.normal(size=(30, N_INPUTS)) + 2.0 * RNG.normal(size=(3, N_INPUTS)).repeat(10, axis=0)


def moments(features, samples=X, n_classes=3):
    values = features(torch.as_tensor(samples))
    return [
        moments_of([(part, torch.ones(len(part)).double())]) for part in values.chunk(n_classes)
    ]


def penalties(features, samples=X, *, skip_connection=True, pooled=True, n_classes=3):
    gaussians = ClassGaussians.from_moments(
        moments(features, samples, n_classes),
        classifier_columns(features, skip_connection),
        device=CPU,
    )
    blocks = classifier_blocks(features, skip_connection)
    return block_penalties(gaussians, blocks, pooled=pooled).numpy()


def index(values):
    """Calinski-Harabasz index of three classes of ten, up to a common factor."""
    groups = values.reshape(3, 10, -1)
    means = groups.mean(axis=1, keepdims=True)
    between = 10 * np.square(means - means.mean(axis=0)).sum()
    return between / np.square(groups - means).sum()


def spreads(values):
    """Spread of each column within three classes of ten."""
    groups = values.reshape(3, 10, -1)
    return np.square(groups - groups.mean(axis=1, keepdims=True)).sum(axis=(0, 1))


def test_inputs_and_shared_band_enter_by_their_class_separation():
    values = BARE(torch.as_tensor(X)).numpy()
    within = spreads(values[:, :4])
    columns = within + np.sort(within)[1]
    columns *= (within / columns).sum() / within.sum()
    separation = np.array([index(values[:, :4] / columns**0.5), index(values[:, 4:])])

    energies = (separation / separation.max()) ** 2

    assert energies.min() < 0.9
    expected = np.concatenate([columns / energies[0], np.full(6, 1.0 / energies[1])])
    assert_allclose(penalties(BARE), expected, rtol=1e-9)


def test_the_ridge_of_an_input_follows_its_unit():
    units = np.array([1.0, 1e3, 1.0, 1.0])
    bare = BARE.without_shared()

    result = penalties(bare, X * units)

    within = spreads(X)
    expected = within * units**2
    expected += np.sort(expected)[1]
    assert_allclose(result / result[0], expected / expected[0], rtol=1e-9)


def test_constant_inputs_do_not_set_the_unit_of_others():
    constant = np.repeat([[1e3, 2e3], [3e3, 4e3], [5e3, 6e3]], 10, axis=0) / 7.0
    features = FeatureMap(N_INPUTS + 2, SharedBand.empty(N_INPUTS + 2))

    result = penalties(features, np.hstack([X, constant]))

    within = spreads(X)
    median = np.sort(within)[1]
    assert_allclose(result[:4] / result[4], (within + median) / median, rtol=1e-9)
    assert_allclose(result[4], result[5], rtol=1e-9)


def test_where_pairs_stand_alone_inputs_have_a_fixed_energy():
    assert_array_equal(penalties(BARE, pooled=False), np.repeat([4.0, 1.0], [4, 6]))


@pytest.mark.parametrize("pooled", [True, False])
def test_a_single_kind_of_features_is_not_penalised(pooled):
    alone = [
        penalties(BARE, skip_connection=False, pooled=pooled),
        penalties(BARE.without_shared(), pooled=False),
        penalties(BANDS.without_shared(), skip_connection=False, pooled=pooled),
    ]
    for one in alone:
        assert_array_equal(one, np.ones(len(one)))


def test_trained_bands_enter_with_one_thousandth_of_the_spread_of_the_rest():
    result = penalties(DEEP)

    spread = DEEP(torch.as_tensor(X)).numpy()[:, classifier_columns(DEEP, True)].var(axis=0)
    scaled = spread / result
    assert len(set(result[10:])) == 1
    assert_allclose(scaled[10:].sum(), 0.001 * scaled[:10].sum(), rtol=1e-9)


def test_penalties_are_free_of_scale_and_of_the_order_of_the_classes():
    expected = penalties(DEEP)

    assert_allclose(penalties(DEEP, 1e6 * X), expected, rtol=1e-9)
    assert_allclose(penalties(DEEP, X[::-1].copy()), expected, rtol=1e-9)


def test_where_separation_says_nothing_blocks_are_alike():
    one_class = penalties(BARE, n_classes=1)
    no_spread = penalties(BARE, np.ones((3, N_INPUTS)))

    within = np.square(X - X.mean(axis=0)).sum(axis=0)
    assert_allclose((within / one_class[:4]).sum(), within.sum(), rtol=1e-9)
    assert_array_equal(one_class[4:], np.ones(6))
    assert_array_equal(no_spread, np.ones(10))


def test_means_that_differ_by_rounding_do_not_separate():
    """The mean of all samples of a single class may differ from the mean of that class."""
    columns, blocks = classifier_columns(BARE, True), classifier_blocks(BARE, True)
    classes = ClassGaussians.from_moments(moments(BARE, n_classes=1), columns, device=CPU)
    for weight in range(2, 40):
        classes = replace(classes, weights=torch.tensor([float(weight)], dtype=torch.float64))
        shared = block_penalties(classes, blocks, pooled=True)[N_INPUTS:]
        assert_array_equal(shared, np.ones(N_SHARED))


@pytest.mark.parametrize("weight", [0.0, 1e-16])
def test_trained_bands_without_spread_have_no_penalty_of_their_own(weight):
    silent = BARE.with_band(Band(1, np.full((2, 4), weight), "relu"))

    assert_array_equal(penalties(silent)[10:], np.ones(2))
    assert_allclose(penalties(silent)[:10], penalties(BARE), rtol=1e-12)
