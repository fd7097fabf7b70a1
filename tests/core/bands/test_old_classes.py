"""What a class whose data is gone looks like in new neurons, against samples of its Gaussian."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.bands.activations import ACTIVATIONS
from ffnb_sklearn.core.bands.batch_norm import BatchNorm
from ffnb_sklearn.core.bands.layers import Band
from ffnb_sklearn.core.bands.old_classes import append_band, moments_in_band
from ffnb_sklearn.core.bands.past import LayerMoments
from ffnb_sklearn.core.moments import ClassMoments
from tests.core.small_models import CPU, D, learnt, task

RNG = np.random.default_rng(0)
WEIGHT = 7.0


def a_class(residual=0.0):
    factor = RNG.normal(size=(3, 5)) * np.sqrt(WEIGHT)
    return ClassMoments(
        WEIGHT, WEIGHT**0.5, RNG.normal(size=5), factor, np.full(5, residual * WEIGHT)
    )


def extend_moments(classes, band, inputs, how, *, device):
    """The moments of classes with those in a band that sees some of the features."""
    below = []
    for one in classes:
        below.append(
            LayerMoments(one.weight, one.mean[inputs], one.factor[:, inputs], one.residual[inputs])
        )
    extended = []
    for one, added in zip(classes, moments_in_band(below, band, how, device=device), strict=True):
        extended.append(
            ClassMoments(
                one.weight,
                one.weight_norm,
                np.append(one.mean, added.mean),
                np.hstack([one.factor, added.factor]),
                np.append(one.residual, added.residual),
            )
        )
    return tuple(extended)


def sampled(moments, n=400_000):
    root = np.linalg.cholesky(moments.scatter() / WEIGHT + 1e-14 * np.eye(5))
    return moments.mean + np.random.default_rng(1).normal(size=(n, 5)) @ root.T


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("residual", [0.0, 0.3])
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_gaussian_moments_are_those_of_samples_of_the_gaussian(activation, residual, scale):
    moments, inputs = a_class(residual), np.array([4, 1, 2])
    band = Band(1, 0.5 * RNG.normal(size=(2, 3)), activation, scale=scale)

    (result,) = extend_moments([moments], band, inputs, "gaussian", device=CPU)

    X = sampled(moments)
    outputs = band(torch.as_tensor(X[:, inputs])).numpy()
    covariance = np.cov(np.hstack([X, outputs]).T)
    found = result.scatter() / WEIGHT
    assert_allclose(result.mean[5:], outputs.mean(axis=0), atol=0.01)
    assert_allclose(np.diag(found)[5:], np.diag(covariance)[5:], atol=0.02)
    if residual == 0.0:  # covariance with what the factor leaves out has no place to be kept
        assert_allclose(found[:5, 5:], covariance[:5, 5:], atol=0.02)


def test_silence_is_the_constant_of_the_activation_at_zero():
    for activation, constant in (("relu", 0.0), ("tanh", 0.0), ("sigmoid", 0.5)):
        band = Band(1, RNG.normal(size=(2, 5)), activation, scale=0.25)

        (result,) = extend_moments([a_class()], band, np.arange(5), "zero", device=CPU)

        assert_array_equal(result.mean[5:], [0.25 * constant, 0.25 * constant])
        assert_array_equal(result.scatter()[:, 5:], 0.0)


def test_a_silenced_class_gives_silence_as_a_gaussian_too():
    moments = a_class()
    # Rows that neither the mean nor any axis of the class reaches.
    _, _, axes = np.linalg.svd(np.vstack([moments.factor, moments.mean]))
    band = Band(1, axes[4:], "sigmoid")

    gaussian, zero = (
        extend_moments([moments], band, np.arange(5), how, device=CPU)[0]
        for how in ("gaussian", "zero")
    )

    assert_allclose(gaussian.mean, zero.mean, rtol=1e-12)
    assert_allclose(gaussian.scatter(), zero.scatter(), atol=1e-12)


@pytest.mark.parametrize("how", ["gaussian", "zero"])
def test_what_is_known_of_the_old_features_stays_bit_for_bit(how):
    moments = a_class(0.2)
    band = Band(1, RNG.normal(size=(2, 5)), "relu")

    (result,) = extend_moments([moments], band, np.arange(5), how, device=CPU)

    assert result.weight == moments.weight
    assert_array_equal(result.mean[:5], moments.mean)
    assert_array_equal(result.factor[:, :5], moments.factor)
    assert_array_equal(result.residual[:5], moments.residual)
    assert (result.residual >= 0).all()


def test_a_class_of_one_sample_gives_what_that_sample_gives():
    point = RNG.normal(size=5)
    moments = ClassMoments(1.0, 1.0, point, np.empty((0, 5)), np.zeros(5))
    band = Band(1, RNG.normal(size=(3, 5)), "relu")

    (result,) = extend_moments([moments], band, np.arange(5), "gaussian", device=CPU)

    assert_allclose(result.mean[5:], np.maximum(band.weights @ point, 0.0), rtol=1e-14)
    assert_array_equal(result.scatter(), np.zeros((8, 8)))


@pytest.mark.parametrize("how", ["gaussian", "zero"])
def test_classes_are_extended_together_as_they_are_alone(how):
    point = ClassMoments(1.0, 1.0, RNG.normal(size=5), np.empty((0, 5)), np.zeros(5))
    moments = [a_class(0.2), point, a_class()]
    inputs, band = np.array([4, 1, 2]), Band(1, RNG.normal(size=(2, 3)), "relu")

    together = extend_moments(moments, band, inputs, how, device=CPU)

    for one, both in zip(moments, together, strict=True):
        (alone,) = extend_moments([one], band, inputs, how, device=CPU)
        assert both.weight == alone.weight
        assert_allclose(both.mean, alone.mean, rtol=1e-12, atol=1e-14)
        rows, expected = both.factor, alone.factor
        assert_allclose(rows, expected, rtol=1e-12, atol=1e-14)
        assert_allclose(both.residual, alone.residual, rtol=1e-11, atol=1e-13)
    assert extend_moments([], band, inputs, how, device=CPU) == ()


def test_moments_that_overflow_are_an_error():
    band = Band(1, np.full((1, 5), 1e200), "relu")
    with pytest.raises(ValueError, match=r"moments .* must be finite numbers"):
        extend_moments([a_class()], band, np.arange(5), "gaussian", device=CPU)


def test_batch_normalisation_is_part_of_the_neurons():
    moments, inputs = a_class(), np.array([4, 1, 2])
    norm = BatchNorm(mean=np.array([0.7, -0.4]), variance=np.array([0.5, 2.0]))
    band = Band(1, 0.5 * RNG.normal(size=(2, 3)), "relu", norm, 0.4)

    gaussian, silent = (
        extend_moments([moments], band, inputs, how, device=CPU)[0] for how in ("gaussian", "zero")
    )

    X = sampled(moments)
    outputs = band(torch.as_tensor(X[:, inputs])).numpy()
    covariance = np.cov(np.hstack([X, outputs]).T)
    found = gaussian.scatter() / WEIGHT
    assert_allclose(gaussian.mean[5:], outputs.mean(axis=0), atol=0.01)
    assert_allclose(np.diag(found)[5:], np.diag(covariance)[5:], atol=0.02)
    assert_allclose(found[:5, 5:], covariance[:5, 5:], atol=0.02)
    assert_allclose(silent.mean[5:], band(torch.zeros(1, 3).double())[0], rtol=1e-12)


@pytest.mark.parametrize(("rank", "dtype"), [(3, np.float32), (None, np.float64)])
def test_the_columns_of_new_neurons_have_the_precision_of_the_factor(rank, dtype):
    model = learnt([task(0, 1)], p=(2,), rank=rank)
    before = model.trained
    band = Band(1, RNG.normal(size=(2, D)), "relu")

    trained = append_band(model, band, np.array([2, 2]), CPU).trained

    assert trained.layers.bands == (*before.layers.bands, band)
    assert trained.owners.tolist() == [0, 1, 2, 2]
    for number, moments in enumerate(model.moments):
        columns = trained.moments[number].factor(moments.rank)
        assert columns.dtype == moments.factor.dtype == dtype
        assert_array_equal(columns[:, :2], before.moments[number].factor(moments.rank))
