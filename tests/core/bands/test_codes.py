"""Codes of a new band: which samples a neuron stands for."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.bands.codes import band_codes


def tensors(*arrays):
    return tuple(torch.as_tensor(np.asarray(array)) for array in arrays)


def codes_of(X, targets, weights, band_size):
    X, weights = tensors(np.asarray(X, dtype=float), np.asarray(weights, dtype=float))
    return band_codes(X, torch.as_tensor(targets), weights, band_size).numpy()


def test_one_neuron_per_class_has_the_indicator_of_its_class():
    targets = [1, -1, 0, 1, -3]

    codes = codes_of(np.random.default_rng(0).normal(size=(5, 3)), targets, np.ones(5), 1)

    assert_array_equal(codes, [[0, 1], [0, 0], [1, 0], [0, 1], [0, 0]])


def test_several_neurons_share_a_class_along_its_principal_axis():
    # The axis is (0, 1): the coordinate that spreads most.
    X = [[0.1, 5.0], [0.0, -2.0], [0.1, 1.0], [-0.1, 9.0], [0.0, -7.0], [0.1, 3.0]]

    codes = codes_of(X, np.zeros(6, dtype=int), np.ones(6), 3)

    assert_array_equal(codes, [[0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]])


def test_a_sample_across_a_cut_belongs_to_both_parts():
    X = np.arange(4.0)[:, None]

    codes = codes_of(X, np.zeros(4, dtype=int), np.ones(4), 3)

    third = 1.0 / 3.0
    assert_allclose(
        codes, [[1, 0, 0], [third, 2 * third, 0], [0, 2 * third, third], [0, 0, 1]], atol=1e-15
    )


def test_parts_have_equal_weight_and_samples_are_given_out_whole():
    rng = np.random.default_rng(0)
    X, targets, weights = rng.normal(size=(40, 4)), rng.integers(-1, 3, 40), rng.uniform(0.1, 3, 40)

    codes = codes_of(X, targets, weights, 3)

    assert codes.shape == (40, 9)
    assert (codes[targets < 0] == 0).all()
    for label in range(3):
        own, others = codes[:, 3 * label : 3 * label + 3], targets != label
        assert (own[others] == 0).all()
        assert_allclose(own[~others].sum(axis=1), 1.0)
        assert_allclose(weights @ own, weights[~others].sum() / 3)


@pytest.mark.parametrize("band_size", [1, 3])
def test_a_weight_is_a_number_of_repetitions(band_size):
    rng = np.random.default_rng(0)
    X, targets, counts = rng.normal(size=(15, 4)), np.arange(15) % 2, rng.integers(1, 5, 15)

    weighted = codes_of(X, targets, counts, band_size)
    repeated = codes_of(
        *(np.repeat(one, counts, axis=0) for one in (X, targets, np.ones(15))), band_size
    )

    assert_allclose(repeated, np.repeat(weighted, counts, axis=0), atol=1e-12)


def test_the_order_of_the_samples_does_not_matter():
    rng = np.random.default_rng(0)
    X, targets, weights = rng.normal(size=(20, 4)), np.arange(20) % 2, rng.uniform(0.1, 3, 20)
    order = rng.permutation(20)

    shuffled = codes_of(X[order], targets[order], weights[order], 3)

    assert_allclose(shuffled, codes_of(X, targets, weights, 3)[order], atol=1e-12)


def test_equal_samples_share_equally_in_all_parts():
    for X in (np.ones((4, 3)), np.zeros((4, 3)), np.ones((1, 3))):
        codes = codes_of(X, np.zeros(len(X), dtype=int), np.ones(len(X)), 3)
        assert_allclose(codes, 1.0 / 3.0)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_the_unit_of_the_samples_does_not_move_the_cuts(scale):
    X, targets = np.random.default_rng(0).normal(size=(15, 4)), np.arange(15) % 2

    scaled = codes_of(scale * X, targets, np.ones(15), 3)

    assert_allclose(scaled, codes_of(X, targets, np.ones(15), 3), atol=1e-9)
