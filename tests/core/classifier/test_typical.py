"""Typical samples have the covariances of the inputs, however the moments came."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.classifier import typical
from ffnb_sklearn.core.classifier.typical import typical_samples
from ffnb_sklearn.core.features.feature_map import FeatureMap, classifier_columns
from ffnb_sklearn.core.features.shared_band import draw_shared_band
from ffnb_sklearn.core.statistics import moments_of
from tests.core.small_models import CPU

D, M = 5, 20


def feature_map(d=D, m=M):
    rng = np.random.default_rng(0)
    return FeatureMap(d, draw_shared_band(m, d, mirrored=True, rng=rng))


def moments(features, n=40, rank=None, seed=0):
    """Moments of three classes of unlike covariances over all features."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(3):
        scales = rng.uniform(0.2, 2.0, features.n_inputs)
        X = torch.as_tensor(rng.normal(size=(n, features.n_inputs)) * scales + rng.normal(size=1))
        found.append(moments_of([(features(X), torch.ones(n, dtype=torch.float64))], rank))
    return found


def drawn(features, moments, classes=(0, 2), skip_connection=True):
    return typical_samples(
        features, moments, classes, skip_connection=skip_connection, device=CPU
    ).numpy()


@pytest.mark.parametrize("rank", [None, 3])
@pytest.mark.parametrize("n", [4, 40])
def test_samples_have_the_means_and_covariances_of_the_inputs(n, rank, monkeypatch):
    monkeypatch.setattr(typical, "_N_SAMPLES", 40_000)
    monkeypatch.setattr(typical, "_MOST_VALUES", 1e9)
    features = feature_map()
    learned = moments(features, n, rank)

    parts = np.split(drawn(features, learned)[:, :D], 2)

    for c, part in zip((0, 2), parts, strict=True):
        one = learned[c]
        covariance = one.factor[:, :D].T @ one.factor[:, :D] + np.diag(one.residual[:D])
        covariance /= one.weight
        assert_allclose(part.mean(0), one.mean[:D], atol=1e-12)
        error = np.cov(part.T, bias=True) - covariance
        assert np.abs(error).max() < 0.05 * np.abs(covariance).max()


@pytest.mark.parametrize("skip_connection", [True, False])
def test_the_features_are_those_of_the_inputs_that_were_drawn(skip_connection):
    features = feature_map()
    learned = moments(features)

    inputs = torch.as_tensor(drawn(features, learned)[:, :D])

    columns = classifier_columns(features, skip_connection)
    expected = features(inputs).numpy()[:, columns]
    found = drawn(features, learned, skip_connection=skip_connection)
    assert_allclose(found, expected, rtol=1e-12)


def test_neither_the_order_of_classes_nor_the_turn_of_a_factor_changes_samples():
    features = feature_map()
    learned = moments(features, n=4)
    turn, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(learned[0].rank,) * 2))
    turned = [replace(learned[0], blocks=(turn @ learned[0].factor,)), *learned[1:]]

    first, last = np.split(drawn(features, learned, (0, 2)), 2)

    assert_allclose(drawn(features, turned, (2, 0)), np.concatenate([last, first]), atol=1e-9)


@pytest.mark.parametrize(("d", "n_classes", "expected"), [(5, 2, 256), (5, 3, 252), (2000, 2, 20)])
def test_there_are_fewer_samples_of_many_features(d, n_classes, expected, monkeypatch):
    monkeypatch.setattr(typical, "_MOST_VALUES", 4e4)
    features = feature_map(d, m=0)

    found = drawn(features, moments(features, n=3), range(n_classes))

    assert found.shape == (expected, d)


def test_a_class_of_equal_samples_is_typical_of_itself():
    features = feature_map(m=0)
    X = torch.ones((6, D), dtype=torch.float64)
    one = moments_of([(X, torch.ones(6, dtype=torch.float64))], None)

    assert_allclose(drawn(features, [one], [0]), 1.0, rtol=1e-12)
