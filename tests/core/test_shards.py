"""Bands from sums over samples are those that the samples themselves give."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.drafts import append_drafts, draft_bands
from ffnb_sklearn.core.features.bands import band_codes
from ffnb_sklearn.core.shards import (
    learn_band,
    only_inputs,
    pooled,
    same_samples,
    shard_moments,
)
from tests.core.small_models import CPU, D, learnt, task

OLD, NEW = task(0, 1, 2), task(1, 3, 4)
NUMBERS = [1, 3, 4]


def sums_of(model, samples):
    """Return the result of the first pass over a task of a single shard."""
    local = torch.unique(samples.classes, return_inverse=True)[1]
    moments = shard_moments(only_inputs(model), type(samples)(samples.X, local, samples.weights))
    return pooled(dict(zip(NUMBERS, moments, strict=True)), device=CPU)


def in_unit(unit, samples):
    return type(samples)(samples.X * unit, samples.classes, samples.weights)


def second_moment(moments):
    return sum(one.second_moment() for one in moments)


@pytest.mark.parametrize("init", ["multi", "mono", "random"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("unit", [1.0, 2.0**-20])
def test_band_and_what_it_gives_without_each_sample(init, activation, unit):
    new = in_unit(unit, NEW)
    model = learnt([in_unit(unit, OLD)], p=(2,), init=init, activation=activation)
    extended, band = learn_band(model, sums_of(model, new), device=CPU)
    expected, fresh = append_drafts(model, new, draft_bands(model, new))
    its = expected.features.bands[-1]
    # Neurons have the size of the first task's features.
    size = (OLD.weights @ OLD.X.square() / OLD.weights.sum()).mean().sqrt()
    assert_allclose([its.scale, band.band.scale], unit * float(size))
    assert_allclose(band.band.weights, its.weights, atol=1e-12 / unit)
    codes = band_codes(new.X, new.classes - 3, new.weights, 1)
    outputs = band.outputs(new.X, codes, new.weights)
    assert_allclose(outputs.numpy(), fresh.numpy(), atol=1e-12 * its.scale)
    assert extended.null_space_dims == expected.null_space_dims
    assert extended.n_newest == expected.n_newest == 2
    for one, other in zip(extended.moments, expected.moments, strict=True):
        assert_allclose(one.scatter(), other.scatter(), atol=1e-10 * its.scale**2)


def test_no_sample_is_left_out_of_the_mean_of_a_large_offset():
    old, new = (type(one)(one.X + 1e4, one.classes, one.weights) for one in (OLD, NEW))
    model = learnt([old], p=(1,))
    extended, band = learn_band(model, sums_of(model, new), device=CPU)
    _, fresh = append_drafts(model, new, draft_bands(model, new))
    codes = band_codes(new.X, new.classes - 3, new.weights, 1)
    outputs = band.outputs(new.X, codes, new.weights)
    assert_allclose(outputs.numpy(), extended.features(new.X).numpy()[:, -2:])
    assert_allclose(outputs.numpy(), fresh.numpy(), atol=1e-9 * band.band.scale)


def test_pooled_moments_have_few_rows_and_the_same_sum():
    model = learnt([OLD], p=(2,))
    exact = shard_moments(only_inputs(model), OLD)
    few = pooled(dict(enumerate(exact)), device=CPU)
    assert sum(len(one.factor) for one in few.values()) == D
    assert_allclose(second_moment(few.values()), second_moment(exact), atol=1e-10)
    for number, one in few.items():
        assert one.weight == exact[number].weight
        assert_allclose(one.mean, exact[number].mean)


def test_zero_inputs():
    nothing = in_unit(0.0, NEW)
    model = learnt([OLD], p=(2,), init="mono")
    _, band = learn_band(model, sums_of(model, nothing), device=CPU)
    assert not np.any(band.band.weights)
    codes = band_codes(nothing.X, nothing.classes - 3, nothing.weights, 1)
    assert not torch.any(band.outputs(nothing.X, codes, nothing.weights))


def test_the_same_samples_in_another_order_and_others():
    model = learnt([OLD], p=(2,))
    first, order = sums_of(model, NEW), torch.arange(len(NEW.X) - 1, -1, -1)
    again = sums_of(model, type(NEW)(NEW.X[order], NEW.classes[order], NEW.weights[order]))
    assert same_samples(first, again)
    for other in (
        type(NEW)(NEW.X + 1e-4, NEW.classes, NEW.weights),
        type(NEW)(NEW.X, NEW.classes, 1.001 * NEW.weights),
        type(NEW)(NEW.X, NEW.classes.roll(1), NEW.weights),
    ):
        assert not same_samples(first, sums_of(model, other))
    assert not same_samples(first, dict(list(first.items())[:2]))
