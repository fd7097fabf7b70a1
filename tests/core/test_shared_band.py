"""The shared band: what its neurons give, their energy, and what they can tell apart."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.shared_band import SharedBand, draw_shared_band

RNG = np.random.default_rng(0)
X = torch.as_tensor(RNG.normal(size=(20, 5)))


def drawn(n_neurons, n_inputs=5, seed=0, *, mirrored=True):
    return draw_shared_band(n_neurons, n_inputs, mirrored=mirrored, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("mirrored", [True, False])
def test_neurons_are_relus_or_sums_of_two_mirrored_ones(mirrored):
    band = SharedBand(RNG.normal(size=(4, 6)), mirrored)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    z = X.numpy() @ band.rows[:, :5].T + norms * band.rows[:, 5]

    values = band(X)

    assert_allclose(values, np.abs(z) / np.sqrt(2.0) if mirrored else z.clip(0.0), rtol=1e-12)


@pytest.mark.parametrize("mirrored", [True, False])
def test_the_band_carries_the_energy_of_the_inputs(mirrored):
    energy = drawn(20_000, mirrored=mirrored)(X).square().sum(1)

    assert_allclose(energy, X.square().sum(1), rtol=0.06)


def test_a_quarter_has_a_bias_and_the_energy_of_the_others():
    band = drawn(20_000)

    biased = band.rows[:, -1] != 0.0

    assert biased.sum() == 5000
    energy = band(X).square()
    assert_allclose(energy[:, biased].mean(), energy[:, ~biased].mean(), rtol=0.05)


@pytest.mark.parametrize("factor", [1e-100, 1e-6, 1e6])
def test_the_band_is_homogeneous(factor):
    band = drawn(40)

    assert_allclose(band(factor * X) / factor, band(X), rtol=1e-12)


def test_a_sample_of_zeros_gives_zeros():
    assert not drawn(40)(torch.zeros((2, 5), dtype=torch.float64)).any()


def test_a_band_comes_from_its_seed_alone():
    first, again, other = (drawn(16, seed=seed).rows for seed in (1, 1, 2))

    assert_array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize("band", [drawn(0), SharedBand.empty(5), drawn(16).without_neurons()])
def test_a_band_may_have_no_neurons(band):
    assert len(band) == 0
    assert band(X).shape == (20, 0)


def share_of_energy(values, target):
    """Share of a target that a linear function of some values explains."""
    fitted = values @ np.linalg.lstsq(values, target, rcond=1e-6)[0]
    return np.square(fitted).sum() / np.square(target).sum()


def test_neurons_tell_apart_what_neurons_without_bias_cannot():
    # Odd harmonics of degree three: no sum of abs(r x) and x has a share in them.
    angles = np.linspace(0.0, 2.0 * np.pi, 64, endpoint=False)
    circle = torch.as_tensor(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    target = np.cos(3.0 * angles)

    values = drawn(80, 2)(circle).numpy()

    assert share_of_energy(values, target) > 0.99
    assert share_of_energy(values[:, 20:], target) < 1e-9
