"""The stacked moments of all classes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.features import Blocks
from ffnb_sklearn.core.gaussians import ClassGaussians
from ffnb_sklearn.core.moments import ClassMoments

CPU = torch.device("cpu")
COLUMNS = np.array([0, 2, 3])
PENALTIES = np.array([1.0, 4.0, 0.5])


def classes(spread=1.0, gap=1.0):
    rng = np.random.default_rng(0)
    return [
        ClassMoments(
            weight,
            weight**0.5,
            5.0 + gap * rng.normal(size=4),
            spread * rng.normal(size=(n_rows, 4)),
            spread**2 * rng.random(4),
        )
        for weight, n_rows in [(4.0, 3), (1.0, 0), (2.5, 2)]
    ]


def stacked(moments, penalties=PENALTIES):
    return ClassGaussians.from_moments(moments, COLUMNS, penalties, device=CPU)


def test_moments_of_the_chosen_features_are_stacked():
    moments = classes()

    gaussians = stacked(moments)

    assert gaussians.lengths == (3, 0, 2)
    assert [len(part) for part in gaussians.class_rows] == [3, 0, 2]
    assert_array_equal(gaussians.weights, [4.0, 1.0, 2.5])
    assert_array_equal(gaussians.means, [one.mean[COLUMNS] for one in moments])
    assert_array_equal(gaussians.rows[3:], moments[2].factor[:, COLUMNS])
    assert_array_equal(gaussians.residuals[1], moments[1].residual[COLUMNS])
    assert_array_equal(gaussians.penalties, PENALTIES)


def test_mean_variances_are_those_of_scaled_features():
    moments = classes()

    gaussians = stacked(moments)

    scale = np.sqrt(1.0 / PENALTIES)
    expected = [one.scatter().diagonal()[COLUMNS] @ scale**2 / one.weight / 3 for one in moments]
    assert_allclose(gaussians.mean_variances(), expected, rtol=1e-12)
    assert_allclose(
        gaussians.pooled_variance, np.average(expected, weights=[4, 1, 2.5]), rtol=1e-12
    )


def test_other_penalties_change_nothing_but_what_depends_on_them():
    known, fresh = stacked(classes(), np.ones(3)), stacked(classes())
    rows = [one.factor[:, COLUMNS] for one in classes()]

    other = replace(known, penalties=fresh.penalties)

    assert_allclose(other.energies, [np.square(part).sum(axis=0) for part in rows], rtol=1e-12)
    assert_array_equal(other.rows, fresh.rows)
    assert_array_equal(other.mean_variances(), fresh.mean_variances())
    assert not np.allclose(known.mean_variances(), fresh.mean_variances())


def test_where_no_class_has_spread_that_between_the_classes_counts():
    moments = classes(0.0)

    variance = stacked(moments).pooled_variance

    means = np.stack([one.mean[COLUMNS] for one in moments])
    centred = means - np.average(means, axis=0, weights=[4, 1, 2.5])
    expected = np.average((centred**2 / PENALTIES).mean(axis=1), weights=[4, 1, 2.5])
    assert_allclose(variance, expected, rtol=1e-12)


def test_where_there_is_no_spread_at_all_it_is_the_energy_or_one():
    assert_allclose(stacked(classes(0.0, 0.0)).pooled_variance, np.mean(25.0 / PENALTIES))
    nothing = [replace(one, mean=0.0 * one.mean) for one in classes(0.0)]
    assert stacked(nothing).pooled_variance == 1.0


def test_a_penalty_is_a_scaled_feature():
    moments, scale = classes(), np.array([2.0, 1.0, 0.1, 3.0])
    scaled = [
        replace(
            one,
            mean=scale * one.mean,
            factor=scale * one.factor,
            truncated=scale**2 * one.residual,
        )
        for one in moments
    ]

    plain = stacked(moments, 1.0 / scale[COLUMNS] ** 2)

    assert_allclose(
        stacked(scaled, np.ones(3)).mean_variances(), plain.mean_variances(), rtol=1e-12
    )
    assert isinstance(plain.pooled_variance, torch.Tensor)


def ridge_of(gaussians, epsilon):
    return epsilon * float(gaussians.ridge_unit()) * np.diag(gaussians.penalties)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 1.0])
def test_the_shared_covariance_is_that_of_dense_matrices(shrinkage, absolute):
    gaussians = replace(stacked(classes()), absolute_ridge=absolute)
    rows, residuals = (one.numpy() for one in (gaussians.rows, gaussians.residuals))
    weights = gaussians.weights.numpy()
    pooled = (rows.T @ rows + np.diag(residuals.sum(axis=0))) / weights.sum()
    outside = np.diag((residuals / weights[:, None]).mean(axis=0))
    expected = shrinkage * pooled + (1.0 - shrinkage) * outside + ridge_of(gaussians, 0.4)

    for times in (1.0, 2.0):
        inverse = (
            gaussians.shared_covariance(shrinkage, 0.4, times).solve(torch.eye(3).double()).numpy()
        )
        assert_allclose(inverse @ (times * expected), np.eye(3), atol=1e-12)
    assert absolute == (float(gaussians.ridge_unit()) == 0.5)


@pytest.mark.parametrize("unit", [1e-70, 1.0, 1e70])
@pytest.mark.parametrize("kind", ["few rows", "many rows"])
def test_the_relative_square_is_that_of_dense_matrices(kind, unit):
    rng, d = np.random.default_rng(0), 9
    shapes = (12, d) if kind == "many rows" else (3, d)
    moments = [
        ClassMoments(
            20.0,
            20.0**0.5,
            unit * rng.normal(size=d),
            unit * rng.normal(size=shapes),
            np.zeros(d),
        )
        for _ in range(2)
    ]
    penalties = np.linspace(1.0, 3.0, d)
    gaussians = ClassGaussians.from_moments(moments, np.arange(d), penalties, device=CPU)

    rows = gaussians.rows.numpy() / unit / penalties**0.5
    pooled = rows.T @ rows
    expected = np.sum(pooled**2) / np.trace(pooled) ** 2
    assert_allclose(gaussians.relative_square(), expected, rtol=1e-12)


def test_classes_without_rows_have_no_relative_square():
    moments = [replace(one, factor=one.factor[:0]) for one in classes()]

    assert stacked(moments).relative_square() == 0.0


def test_the_seed_is_kept_by_all_that_derives_from_the_classes():
    gaussians = ClassGaussians.from_moments(classes(), COLUMNS, device=CPU, seed=7)

    assert (
        gaussians.first_features(2).replace_by_identity().weigh_blocks(Blocks(1, 1), 2.0).seed == 7
    )


# ---- columns that are constant up to rounding


def with_constant(value, shift=0.0):
    """Return classes in four columns, of which column 2 is a value up to a shift per class."""
    moments = []
    for number, each in enumerate(classes()):
        each.mean[2] = value + number * shift
        each.factor[:, 2] = 0.0
        each.residual[2] = 0.0
        moments.append(each)
    return moments


@pytest.mark.parametrize("value", [1e-3, 1.7e18, -1e30])
def test_rounding_of_means_separates_no_classes(value):
    shift = np.spacing(value)
    gaussians = stacked(with_constant(value, shift))
    assert len(set(gaussians.means[:, 1].tolist())) == 1
    within, between, _ = gaussians.spreads
    assert (within[1], between[1]) == (0.0, 0.0)
    # Further columns keep their bits.
    other = stacked(classes())
    assert_array_equal(gaussians.means[:, [0, 2]], other.means[:, [0, 2]])
    assert_array_equal(gaussians.first_features(2).rounding, gaussians.rounding[:2])
    # The ridge exceeds the rounding, so a sample that differs by rounding is not remote.
    assert gaussians.ridge(0.0)[1] >= (4.0 * shift) ** 2
    assert_array_equal(gaussians.ridge(0.0)[[0, 2]], [0.0, 0.0])


def test_a_gap_beyond_rounding_separates_classes():
    gaussians = stacked(with_constant(1e6, 1e-3))
    assert len(set(gaussians.means[:, 1].tolist())) == 3
    assert_array_equal(gaussians.rounding, np.zeros(3))


def test_a_constant_column_does_not_hide_the_variance_between_classes():
    moments = [replace(each, factor=each.factor[:0], truncated=None) for each in classes()]
    plain = []
    for each in moments:
        factor = each.factor[:, [0, 3]]
        plain.append(replace(each, mean=each.mean[[0, 3]], factor=factor))
    for each in moments:
        each.mean[2] = 1.7e18
    found = stacked(moments, np.ones(3)).pooled_variance
    alone = ClassGaussians.from_moments(plain, np.arange(2), np.ones(2), device=CPU)
    # Of three columns, one has no variance.
    assert_allclose(found, alone.pooled_variance * 2.0 / 3.0, rtol=1e-12)


def test_rounding_of_a_shared_neuron_is_relative_to_all_shared_neurons():
    moments = with_constant(1.0, 1e-3)
    for each in moments:
        each.mean[3] = 1e12
        each.factor[:, 3] = 0.0
        each.residual[3] = 0.0
    stack = ClassGaussians.from_moments(moments, COLUMNS, device=CPU, shared=slice(1, 3))
    assert_array_equal(stack.means[0, 1:], stack.means[1, 1:])
    assert_allclose(stack.rounding, [0.0, 1.0, 1.0], rtol=1e-12)
