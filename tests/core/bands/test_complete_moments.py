"""Moments of the classes over fixed features and trained neurons together."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.bands.complete_moments import (
    add_task_to_bands,
    features_with_outputs,
    replace_complete_moments,
)
from tests.core.small_models import D, learnt, moments_of_all, second_moment, task

RNG = np.random.default_rng(0)


def test_given_outputs_of_the_newest_neurons_stand_in_for_computed_ones():
    model, samples = learnt([task(0, 1)]), task(0, 1, seed=1)
    outputs = torch.as_tensor(RNG.normal(size=(len(samples.X), 2)))
    numbers = torch.tensor([3, 0, 7])

    features = features_with_outputs(model, samples, outputs)(numbers)

    computed = model.feature_map(samples.X[numbers])
    assert torch.equal(features[:, :-2], computed[:, :-2])
    assert torch.equal(features[:, -2:], outputs[numbers])
    assert torch.equal(features_with_outputs(model, samples, None)(numbers), computed)


@pytest.mark.parametrize("chunk_size", [3, 4096])
def test_samples_of_a_known_class_are_added_over_all_features(chunk_size):
    model, new = learnt([task(0, 1)], chunk_size=chunk_size), task(1, seed=1)
    before = moments_of_all(model)

    after = add_task_to_bands(model, new, features_with_outputs(model, new, None))

    known, grown = moments_of_all(after)
    rows = model.feature_map(new.X).numpy() * np.sqrt(new.weights.numpy())[:, None]
    assert grown.weight == pytest.approx(before[1].weight + float(new.weights.sum()))
    expected = second_moment(before[1]) + rows.T @ rows
    assert_allclose(second_moment(grown), expected, rtol=1e-9, atol=1e-9)
    assert known.equals(before[0])
    assert after.moments[0] is model.moments[0]
    assert after.trained.moments[0] is model.trained.moments[0]


def test_new_samples_of_known_classes_alone_end_the_stored_past():
    model = learnt([task(0, 1)])
    new, known = task(2), task(1, seed=1)
    assert model.trained.past is not None

    after_new, after_known = (
        add_task_to_bands(model, one, features_with_outputs(model, one, None))
        for one in (new, known)
    )

    assert after_new.trained.past is model.trained.past
    assert after_known.trained.past is None


def test_complete_moments_are_divided_at_the_first_neuron():
    model = learnt([task(0, 1)], rank=2)
    first, second = moments_of_all(model)
    other = replace(second, mean=second.mean + 1.0)

    changed = replace_complete_moments(model, [first, other, second], [1, 2])

    assert changed.moments[0] is model.moments[0]
    assert len(changed.moments) == len(changed.trained.moments) == 3
    for moments, expected in zip(moments_of_all(changed), (first, other, second), strict=True):
        assert moments.equals(expected)
    n_fixed = D + 4
    assert_array_equal(changed.moments[1].mean, other.mean[:n_fixed])
    assert_array_equal(changed.trained.moments[1].mean, other.mean[n_fixed:])
