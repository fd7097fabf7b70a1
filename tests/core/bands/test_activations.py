"""Moments of activations under a Gaussian, against adaptive quadrature."""

import re

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import integrate, stats

from ffnb_sklearn import Bands, NaiveIncrementalClassifier
from ffnb_sklearn.core.bands.activations import ACTIVATIONS, Activation


def moments(activation, mean, variance):
    mean, variance = (torch.as_tensor(one, dtype=torch.float64) for one in (mean, variance))
    return [one.numpy() for one in ACTIVATIONS[activation].gaussian_moments(mean, variance)]


def slope(activation, z):
    """Slope of an activation by autograd."""
    z = torch.tensor(z, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(ACTIVATIONS[activation].value(z).sum(), z)
    return gradient.numpy()


def by_quadrature(activation, mean, deviation):
    """Mean, variance and mean slope by adaptive integration, split where ReLU has its corner."""

    def value(z):
        return ACTIVATIONS[activation].value(torch.tensor(z, dtype=torch.float64)).item()

    def expectation(f):
        corner = np.clip(-mean / deviation, -12.0, 12.0)
        total = 0.0
        for a, b in ((-12.0, corner), (corner, 12.0)):
            total += integrate.quad(
                lambda u: f(mean + deviation * u) * stats.norm.pdf(u), a, b, epsabs=1e-13, limit=200
            )[0]
        return total

    average = expectation(value)
    variance = expectation(lambda z: (value(z) - average) ** 2)
    return average, variance, expectation(lambda z: slope(activation, z))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    ("mean", "deviation"), [(0.0, 1.0), (0.7, 0.2), (-1.3, 0.9), (2.5, 1.4), (-0.1, 0.01)]
)
def test_moments_are_those_of_adaptive_quadrature(activation, mean, deviation):
    result = moments(activation, [mean], [deviation**2])

    expected = by_quadrature(activation, mean, deviation)
    # The Gauss-Hermite rule loses digits as the Gaussian grows wider than the activation.
    tolerance = 1e-10 if activation == "relu" or deviation < 0.5 else 2e-5
    assert_allclose(np.ravel(result), expected, rtol=tolerance, atol=1e-12)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_without_variance_the_moments_are_those_of_a_constant(activation):
    mean = np.array([-3.0, -1e-8, 0.0, 0.4, 1e8])

    average, variance, derivative = moments(activation, mean, np.zeros(5))

    expected = ACTIVATIONS[activation].value(torch.as_tensor(mean)).numpy()
    assert_allclose(average, expected, rtol=1e-14, atol=1e-16)
    assert_allclose(variance, np.zeros(5), atol=1e-25)
    inner = np.flatnonzero(mean)  # ReLU has no slope at its corner
    assert_allclose(derivative[inner], slope(activation, mean[inner]), rtol=1e-12)


def test_far_above_its_corner_relu_is_the_identity():
    mean, variance = np.array([50.0, 1e4, 1e8, 1e12]), np.array([1.0, 1.0, 1.0, 1e-6])

    average, result, derivative = moments("relu", mean, variance)

    assert_allclose(average, mean, rtol=1e-15)
    assert_allclose(result, variance, rtol=1e-12)
    assert_allclose(derivative, np.ones(4))


@pytest.mark.parametrize("deviations", [4.0, 8.0, 15.0, 30.0])
def test_far_below_its_corner_relu_has_the_tail_of_the_gaussian(deviations):
    average, variance, derivative = (one[0] for one in moments("relu", [-2.0 * deviations], [4.0]))

    # With the density's value at the corner taken out, what is left to integrate is of order 1.
    density = stats.norm.pdf(deviations)
    first, second = (
        integrate.quad(lambda u, k=k: u**k * np.exp(-deviations * u - 0.5 * u * u), 0, np.inf)[0]
        for k in (1, 2)
    )
    assert average == pytest.approx(2.0 * density * first, rel=1e-7, abs=0)
    assert variance == pytest.approx(4.0 * density * second, rel=1e-3, abs=0)
    assert derivative == pytest.approx(stats.norm.sf(deviations), rel=1e-12, abs=0)


def test_extreme_ratios_stay_finite_and_not_negative():
    mean = np.array([-1e150, -1e150, 1e150, 1e150, -40.0, 0.0])
    variance = np.array([1e-300, 1e280, 1e-300, 1e280, 1.0, 1e-300])

    for one in moments("relu", mean, variance):
        assert np.isfinite(one).all()
        assert (one >= 0.0).all()


def test_relu_moments_scale_with_their_gaussian():
    mean, variance = np.array([-0.3, 1.2]), np.array([0.5, 2.0])

    plain, scaled = moments("relu", mean, variance), moments("relu", 1e6 * mean, 1e12 * variance)

    assert_allclose(scaled[0], 1e6 * plain[0], rtol=1e-13)
    assert_allclose(scaled[1], 1e12 * plain[1], rtol=1e-13)
    assert_allclose(scaled[2], plain[2], rtol=1e-13)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_any_shape_is_kept(activation):
    for one in moments(activation, np.zeros((2, 3)), np.ones((2, 3))):
        assert one.shape == (2, 3)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_derivative_is_that_of_autograd_and_within_one(activation):
    z = np.concatenate([np.linspace(-40.0, 40.0, 4001), [-1e300, -1e-300, 1e-300, 1e300]])
    derivative = ACTIVATIONS[activation].derivative(torch.as_tensor(z)).numpy()
    assert_allclose(derivative, slope(activation, z), rtol=1e-12, atol=1e-15)
    # The bound on forgetting has no factor for steeper activations.
    assert np.abs(derivative).max() <= 1.0


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_pass_through_the_value(activation):
    z = torch.linspace(-3.05, 3.0, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(ACTIVATIONS[activation].value, z)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_gain_keeps_outputs_of_order_one(activation):
    response = torch.linspace(-6.0, 6.0, 2001, dtype=torch.float64)
    density = torch.exp(-0.5 * response.square())
    outputs = ACTIVATIONS[activation].value(ACTIVATIONS[activation].gain ** 0.5 * response)
    energy = float((density * outputs.square()).sum() / density.sum())
    assert 0.25 < energy <= 1.0 + 1e-9
    if activation == "relu":
        assert energy == pytest.approx(1.0)


class Softsign(Activation):
    """An activation that the package lacks: it is this object alone."""

    def value(self, z):
        return z / (1.0 + z.abs())

    def derivative(self, z):
        return (1.0 + z.abs()) ** -2


def test_a_new_activation_is_one_object(monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "softsign", Softsign())
    result = np.ravel(moments("softsign", [0.7], [0.01]))
    assert_allclose(result, by_quadrature("softsign", 0.7, 0.1), rtol=1e-10)
    assert_allclose(slope("softsign", [0.7]), [1.7**-2])


@pytest.mark.parametrize("estimator", [Bands, NaiveIncrementalClassifier])
def test_estimators_take_and_list_every_activation(estimator):
    (options,) = estimator._parameter_constraints["activation"]
    assert options.options == set(ACTIVATIONS)
    listed = re.search(r"activation : \{(.*)\}", estimator.__doc__)[1]
    assert {name.strip('"') for name in listed.split(", ")} == set(ACTIVATIONS)
