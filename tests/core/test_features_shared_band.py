"""The shared band: what its neurons give, their energy, and what they can tell apart."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.features import SharedBand, draw_shared_band

RNG = np.random.default_rng(0)
X = torch.as_tensor(RNG.normal(size=(20, 5)))


def drawn(n_neurons, n_inputs=5, seed=0, *, mirrored=True):
    return draw_shared_band(n_neurons, n_inputs, mirrored=mirrored, seed=seed)


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


def test_a_quarter_of_the_rectified_has_a_bias_and_all_kinds_have_the_same_energy():
    band = drawn(20_000)

    rectified, cosines = np.split(band.rows[:, -1], [band.n_rectified])

    assert np.count_nonzero(rectified) == np.count_nonzero(rectified[:2500]) == 2500
    assert np.count_nonzero(cosines) == len(cosines) == 10_000
    energies = np.split(band(X).square().mean(0).numpy(), [2500, 10_000])
    assert_allclose([one.mean() for one in energies], energies[0].mean(), rtol=0.05)


@pytest.mark.parametrize(
    ("n_neurons", "n_inputs", "n_cosines"),
    [(100, 5, 50), (50, 5, 20), (30, 5, 0), (2000, 31, 1000), (2000, 44, 20), (7, 1, 2)],
)
def test_there_are_cosines_where_neurons_outnumber_quadratic_forms(n_neurons, n_inputs, n_cosines):
    assert len(drawn(n_neurons, n_inputs).frequencies) == n_cosines


def gaps(points):
    """Squared distances of all pairs of points."""
    return np.square(points[:, None] - points).sum(2)


def test_cosines_are_random_features_of_gaussian_kernels_of_directions_and_norms():
    band = drawn(40_000)
    norms = np.linalg.norm(X, axis=1)
    directions, radii = X.numpy() / norms[:, None], np.log(norms)[:, None]
    single = [np.exp(-0.5 * 5 * gaps(column[:, None])) for column in directions.T]
    kernels = np.exp(-0.5 * gaps(directions)), np.mean(single, axis=0)

    cosines = band(X).numpy()[:, -len(band.frequencies) :]

    pairs = cosines.reshape(len(X), -1, 2)
    for values, kernel in zip((pairs[:, ::2], pairs[:, 1::2]), kernels, strict=True):
        values = values.reshape(len(X), -1)
        # A quarter of the neurons carries a quarter of the energy.
        expected = 0.25 * kernel * np.exp(-0.5 * gaps(radii)) * np.outer(norms, norms)
        assert_allclose(values @ values.T, expected, atol=0.01 * norms.max() ** 2)


def test_every_other_pair_sees_one_input_and_the_inputs_take_turns():
    cosines = drawn(160).rows[-80:, :-1]

    assert_array_equal(cosines[::2], cosines[1::2])
    assert_array_equal(np.count_nonzero(cosines[::4], axis=1), 5)
    assert_array_equal(cosines[2::4] != 0.0, np.tile(np.eye(5), (4, 1)))


@pytest.mark.parametrize("factor", [1e-100, 1e-6, 1e6])
def test_another_scale_only_scales_the_band_and_turns_the_phases_of_its_cosines(factor):
    band = drawn(200)
    rows = band.rows.copy()
    rows[-len(band.frequencies) :, -1] += band.frequencies * np.log(factor)

    outputs = band(factor * X) / factor

    assert len(band.frequencies) == 100
    assert_allclose(outputs, replace(band, rows=rows)(X), rtol=0.0, atol=1e-12)
    assert_allclose(outputs[:, :100], band(X)[:, :100], rtol=1e-12)
    # A cosine and its sine turn in their plane, so distances and products stay.
    pairs, before = (one[:, 100:].reshape(-1, 2) for one in (outputs, band(X)))
    assert_allclose(pairs.norm(dim=1), before.norm(dim=1), rtol=1e-12)
    assert_allclose(outputs @ outputs.T, band(X) @ band(X).T, rtol=1e-11)


def test_cosines_tell_apart_samples_of_one_direction():
    radii = torch.linspace(1.0, 20.0, 40, dtype=torch.float64)
    ray = torch.outer(radii, torch.tensor([0.6, -0.8], dtype=torch.float64))
    rings = np.cos(2.0 * np.log(radii.numpy()))

    rectified, cosines = np.split(drawn(80, 2)(ray).numpy(), 2, axis=1)

    assert share_of_energy(rectified, rings) < 0.5
    assert share_of_energy(cosines, rings) > 0.999


def test_a_sample_of_zeros_gives_zeros():
    assert not drawn(40)(torch.zeros((2, 5), dtype=torch.float64)).any()


def test_a_band_comes_from_its_seed_alone():
    first, again, other = (drawn(16, seed=seed).rows for seed in (1, 1, 2))

    assert_array_equal(first, again)
    assert not np.allclose(first, other)


@pytest.mark.parametrize("band", [drawn(0), SharedBand.empty(5)])
def test_a_band_may_have_no_neurons(band):
    assert len(band) == 0
    assert band(X).shape == (20, 0)


def share_of_energy(values, target):
    """Share of a target that a linear function of some values explains."""
    fitted = values @ np.linalg.lstsq(values, target, rcond=1e-6)[0]
    return np.square(fitted).sum() / np.square(target).sum()


def test_neurons_tell_apart_what_neurons_without_bias_cannot():
    # An odd harmonic of degree three: no sum of abs(r x) and x has a share in it.
    angles = np.linspace(0.0, 2.0 * np.pi, 64, endpoint=False)
    circle = torch.as_tensor(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    target = np.cos(3.0 * angles)

    biased, others, cosines = np.split(drawn(160, 2)(circle).numpy(), [20, 80], axis=1)

    assert share_of_energy(biased, target) > 0.9
    assert share_of_energy(cosines, target) > 0.99
    assert share_of_energy(others, target) < 1e-9
