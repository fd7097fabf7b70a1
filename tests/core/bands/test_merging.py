"""Models with bands that are taken together."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.bands.merging import merge_models_with_bands
from ffnb_sklearn.core.bands.trained import layer_columns
from ffnb_sklearn.core.model import Task
from tests.core.small_models import (
    CPU,
    SETTINGS,
    D,
    learn,
    moments_of_all,
    past_rows,
    second_moment,
    streamed,
)


def squared(past):
    return past.T @ past


@pytest.mark.parametrize("how", ["gaussian", "zero"])
def test_merged_models_keep_the_features_and_moments_of_both(how):
    (first, X), (second, Z) = (
        streamed(2, 1, old_statistics=how),
        streamed(1, 2, seed=1, old_statistics=how),
    )

    merged = merge_models_with_bands(first, second, [5, 3, 4], device=CPU)

    n_fixed, n_first = D + 4, first.feature_map.n_features
    own = np.r_[:n_fixed, n_first : merged.feature_map.n_features]  # the columns of the second
    samples = torch.cat([X, Z])
    values = merged.feature_map(samples)
    assert torch.equal(values[:, :n_first], first.feature_map(samples))
    assert_allclose(values[:, own], second.feature_map(samples), rtol=1e-12, atol=1e-14)
    moments = moments_of_all(merged)
    for label in range(3):
        here, there = moments[label], moments[[5, 3, 4][label]]
        assert_array_equal(here.mean[:n_first], first.complete_moments(label).mean)
        expected = second.complete_moments(label)
        assert_array_equal(there.mean[own], expected.mean)
        assert_allclose(there.scatter()[np.ix_(own, own)], expected.scatter(), atol=1e-12)


def test_classes_of_both_models_are_merged():
    (first, _), (second, _) = streamed(2), streamed(2, seed=1)

    merged = merge_models_with_bands(first, second, [1, 2], device=CPU)

    assert [one.weight for one in merged.moments] == [8.0, 16.0, 8.0]
    expected = 0.5 * (first.moments[1].mean[:D] + second.moments[0].mean[:D])
    assert_allclose(merged.moments[1].mean[:D], expected, rtol=1e-12)


def test_neurons_keep_their_classes_and_tasks_their_axes():
    (first, _), (second, _) = streamed(2, 1), streamed(2, seed=1)

    # Class 0 of the second model is class 3, and its class 1 is class 1 of the first.
    merged = merge_models_with_bands(first, second, [3, 1], device=CPU).trained

    assert merged.owners.tolist() == [0, 1, 0, 1, 2, 2, 3, 1, 3, 1]
    dims = first.trained.null_space_dims + second.trained.null_space_dims
    assert merged.null_space_dims == dims
    assert merged.n_newest == 0
    assert merged.past is None
    assert merged.loss_curve == ()


def test_the_past_of_merged_models_is_that_of_both():
    (first, X), (second, Z) = streamed(2, 1), streamed(1, 2, seed=1)

    merged = merge_models_with_bands(first, second, [3, 4, 5], device=CPU)

    assert merged.trained.n_newest == 0
    assert_allclose(squared(past_rows(merged, 0)), X.T @ X + Z.T @ Z, rtol=1e-9, atol=1e-9)
    # Each measured its own neurons; what its classes give in the other's is inferred.
    columns, n_first = layer_columns(merged, 1), len(layer_columns(first, 1))
    moments = moments_of_all(merged)
    expected = sum(second_moment(one, columns) for one in moments)
    assert_allclose(squared(past_rows(merged, 1)), expected, rtol=1e-9, atol=1e-9)
    for model, classes, own in (
        (first, moments[:3], slice(0, n_first)),
        (second, moments[3:], slice(n_first, None)),
    ):
        measured = sum(second_moment(one, columns[own]) for one in classes)
        assert_allclose(squared(past_rows(model, 1)), measured, rtol=1e-9, atol=1e-9)
    later = learn(merged, Task(X[:8], torch.full((8,), 6), torch.ones(8).double()), SETTINGS)
    assert prediction.scores(later, X).shape == (24, 7)


def test_merging_leaves_both_models_as_they_were():
    models = [streamed(2, 1)[0], streamed(1, 2, seed=1)[0]]
    X = streamed(2)[1]
    before = [prediction.scores(model, X) for model in models]

    merge_models_with_bands(*models, [3, 4, 5], device=CPU)

    for model, scores in zip(models, before, strict=True):
        assert torch.equal(prediction.scores(model, X), scores)
