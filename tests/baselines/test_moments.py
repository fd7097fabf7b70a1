"""Moments of the classes: sums, unions with earlier samples, and models that do not change."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.baselines._moments import ClassMeans, PooledScatter, class_sums, with_rows
from tests.baselines.small_problem import five_classes

X, Y, _, _ = five_classes()


def learned(model, *parts):
    """Return a model after parts of the samples."""
    for part in parts:
        n_classes = max(len(model.counts), Y[part].max() + 1)
        model = model.add(model.batch(X[part], Y[part], n_classes))
    return model


def dense_scatter(X, y):
    """Return the pooled scatter within the classes."""
    scatter = 0.0
    for label in np.unique(y):
        rows = X[y == label]
        deviations = rows - rows.mean(axis=0)
        scatter = scatter + deviations.T @ deviations
    return scatter


def test_sums_over_classes():
    values = np.arange(8.0).reshape(4, 2)
    assert_array_equal(class_sums(values, np.array([1, 0, 1, 1])), [[2.0, 3.0], [10.0, 13.0]])
    assert_array_equal(with_rows(values[:1], 2), [[0.0, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("sizes", [[300], [1, 299], [100, 1, 199]])
def test_parts_give_the_moments_of_all_samples(sizes):
    parts = np.split(np.argsort(Y, kind="stable"), np.cumsum(sizes)[:-1])
    model = learned(PooledScatter.empty(12), *parts)
    assert_array_equal(model.counts, np.bincount(Y))
    assert_allclose(model.means, [X[label == Y].mean(axis=0) for label in range(5)])
    assert_allclose(model.scatter, dense_scatter(X, Y))
    assert_allclose(model.covariance(), dense_scatter(X, Y) / 300)


def test_a_far_origin_costs_no_digits_of_the_scatter():
    far = X + 1e8
    model = PooledScatter.empty(12)
    for part in (Y < 3, Y >= 0):
        model = model.add(model.batch(far[part], Y[part], 5))
    twice = np.concatenate([far[Y < 3], far]) - 1e8
    expected = dense_scatter(twice, np.concatenate([Y[Y < 3], Y]))
    assert_allclose(model.scatter, expected, rtol=1e-6, atol=1e-4)


def test_learning_changes_no_earlier_model():
    first = learned(PooledScatter.empty(12), Y < 2)
    before = {name: copy.copy(getattr(first, name)) for name in ("counts", "means", "scatter")}
    learned(first, Y >= 0)
    for name, array in before.items():
        assert_array_equal(getattr(first, name), array)


def test_pickles_lack_the_cache_and_copies_are_the_model_itself():
    model = learned(ClassMeans.empty(12), Y >= 0)
    model.cache["parameters"] = "solution"
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.cache == {}
    assert_array_equal(loaded.means, model.means)
    assert copy.deepcopy(model) is model
