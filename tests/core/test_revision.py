"""Classes taken out of models with bands, and models with bands taken together."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.learning import learn
from ffnb_sklearn.core.likeness import LeftOutLikeness
from ffnb_sklearn.core.model import Task, empty_model
from ffnb_sklearn.core.revision import (
    decay_classes,
    forget_classes,
    join_classes,
    merge_models,
    subtract_samples,
)
from tests.core.small_models import CPU, SETTINGS, D, past_rows, second_moment, task

PAIR = replace(SETTINGS, p=(0.5, 0.5))


def learnt(*sizes, seed=0, **changes):
    """A model of one task per entry, with that many new classes each; and its samples."""
    settings = replace(PAIR, **changes)
    rng, model, tasks, first = np.random.default_rng(seed), empty_model(D, settings, 3), [], 0
    for size in sizes:
        labels = np.repeat(np.arange(first, first + size), 8)
        X = torch.as_tensor(rng.normal(size=(len(labels), D)) + rng.normal(size=D))
        tasks.append(Task(X, torch.as_tensor(labels), torch.ones(len(labels)).double()))
        model, first = learn(model, tasks[-1], settings), first + size
    return model, torch.cat([one.X for one in tasks])


def squared(past):
    return past.T @ past


@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_forgotten_class_leaves_the_past_of_the_layers(n_layers):
    model, X = learnt(2, 1, p=(0.5,) * n_layers)

    left = forget_classes(model, [1])

    kept = torch.cat([X[:8], X[16:]])
    assert_allclose(squared(past_rows(left, 0)), kept.T @ kept, rtol=1e-8, atol=1e-8)
    assert left.moments == (model.moments[0], model.moments[2])
    assert left.features is model.features
    assert prediction.scores(left, X).shape == (24, 2)


@pytest.mark.parametrize("rank", [None, 3])
def test_forgetting_a_few_of_many_inputs_forms_no_square_matrix(rank):
    settings = replace(SETTINGS, p=(0.5,), rank=rank, shared_band_size=0)
    X = torch.as_tensor(np.random.default_rng(0).normal(size=(12, 30_000)))
    classes = torch.arange(12) // 4
    samples = Task(X, classes, torch.ones(12).double())
    model = learn(empty_model(X.shape[1], settings, 3), samples, settings)

    left = forget_classes(model, [1])

    kept = torch.cat([X[:4], X[8:]])
    past = past_rows(left, 0)
    if rank is None:
        gram, along = (kept @ kept.T).numpy(), (past @ kept.T).numpy()
        assert_allclose(along.T @ along, gram @ gram, rtol=1e-8, atol=1e-8 * np.max(gram) ** 2)
    assert len(past) == 8


def test_forgetting_leaves_the_model_it_started_from_as_it_was():
    model, X = learnt(2, 1)
    before = prediction.scores(model, X)

    forget_classes(model, [0, 2])

    assert torch.equal(prediction.scores(model, X), before)


@pytest.mark.parametrize("decayed", [[0, 1, 2], [1]])
@pytest.mark.parametrize("classifier", ["gaussian", "ovo", "ova"])
def test_decayed_classes_equal_one_joint_fit_with_decayed_sample_weights(classifier, decayed):
    settings = replace(SETTINGS, band_size=0, classifier=classifier, shrinkage=None, epsilon=None)
    first, again = task(0, 1, 2), task(1, 2, 3, seed=1)

    model = learn(empty_model(D, settings, 3), first, settings)
    model = learn(decay_classes(model, 0.3, decayed), again, settings)

    now = torch.isin(first.classes, torch.as_tensor(decayed))
    weights = torch.where(now, 0.3 * first.weights, first.weights)
    both = [
        torch.cat(parts)
        for parts in zip(*((one.X, one.classes) for one in (first, again)), strict=True)
    ]
    joint = Task(*both, torch.cat([weights, again.weights]))
    expected = learn(empty_model(D, settings, 3), joint, settings)
    assert_allclose(
        prediction.scores(model, joint.X),
        prediction.scores(expected, joint.X),
        rtol=1e-8,
        atol=1e-8,
    )


@pytest.mark.parametrize("rank", [None, 3])
def test_a_class_keeps_its_shape_through_any_number_of_decays(rank):
    model, X = learnt(3, rank=rank)
    faded = model
    for _ in range(200):
        faded = decay_classes(faded, 0.5, range(3))

    assert_allclose(faded.moments[0].weight, 8.0 * 0.5**200, rtol=1e-12)
    assert_allclose(prediction.scores(faded, X), prediction.scores(model, X), rtol=1e-5)
    shares = [squared(past_rows(one, 1)) for one in (faded, model)]
    assert_allclose(shares[0] / 0.5**200, shares[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", ["gaussian", "zero"])
def test_merged_models_keep_the_features_and_moments_of_both(how):
    (first, X), (second, Z) = learnt(2, 1, old_statistics=how), learnt(1, 2, seed=1)

    merged = merge_models(first, second, [5, 3, 4], device=CPU)

    n_fixed, n_first = D + 4, first.features.n_features
    own = np.r_[:n_fixed, n_first : merged.features.n_features]  # the columns of the second
    samples = torch.cat([X, Z])
    values = merged.features(samples)
    assert torch.equal(values[:, :n_first], first.features(samples))
    assert_allclose(values[:, own], second.features(samples), rtol=1e-12, atol=1e-14)
    for label in range(3):
        assert_array_equal(merged.moments[label].mean[:n_first], first.moments[label].mean)
        there = merged.moments[[5, 3, 4][label]]
        assert_array_equal(there.mean[own], second.moments[label].mean)
        assert_allclose(
            there.scatter()[np.ix_(own, own)], second.moments[label].scatter(), atol=1e-12
        )


def test_classes_of_both_models_are_merged():
    (first, _), (second, _) = learnt(2), learnt(2, seed=1)

    merged = merge_models(first, second, [1, 2], device=CPU)

    assert [one.weight for one in merged.moments] == [8.0, 16.0, 8.0]
    expected = 0.5 * (first.moments[1].mean[:D] + second.moments[0].mean[:D])
    assert_allclose(merged.moments[1].mean[:D], expected, rtol=1e-12)


def test_the_past_of_merged_models_is_that_of_both():
    (first, X), (second, Z) = learnt(2, 1), learnt(1, 2, seed=1)

    merged = merge_models(first, second, [3, 4, 5], device=CPU)

    assert merged.n_newest == 0
    assert_allclose(squared(past_rows(merged, 0)), X.T @ X + Z.T @ Z, rtol=1e-9, atol=1e-9)
    # Each measured its own neurons; what its classes give in the other's is inferred.
    columns, n_first = merged.features.layer(1), len(first.features.layer(1))
    expected = sum(second_moment(one, columns) for one in merged.moments)
    assert_allclose(squared(past_rows(merged, 1)), expected, rtol=1e-9, atol=1e-9)
    for model, classes, own in (
        (first, merged.moments[:3], slice(0, n_first)),
        (second, merged.moments[3:], slice(n_first, None)),
    ):
        measured = sum(second_moment(one, columns[own]) for one in classes)
        assert_allclose(squared(past_rows(model, 1)), measured, rtol=1e-9, atol=1e-9)
    later = learn(merged, Task(X[:8], torch.full((8,), 6), torch.ones(8).double()), SETTINGS)
    assert prediction.scores(later, X).shape == (24, 7)


# ---- samples that are subtracted, and classes that are joined


def subset(samples, rows):
    """Return some samples of a task."""
    return Task(samples.X[rows], samples.classes[rows], samples.weights[rows])


def assert_same_moments(moments, expected):
    assert_allclose(moments.weight, expected.weight, rtol=1e-12)
    assert_allclose(moments.weight_norm, expected.weight_norm, rtol=1e-9)
    assert_allclose(moments.mean, expected.mean, rtol=1e-9, atol=1e-9)
    assert_allclose(moments.scatter(), expected.scatter(), rtol=1e-8, atol=1e-8)


def test_subtracted_samples_leave_the_moments_of_the_other_samples():
    settings = replace(SETTINGS, band_size=0, p=(0.5,))
    samples = task(0, 1, 2, n=20)
    model = learn(empty_model(D, settings, 3), samples, settings)
    # Three samples of class 0, and the whole class 2.
    is_gone = torch.zeros(60, dtype=torch.bool)
    is_gone[[1, 5, 7]] = True
    is_gone[40:] = True
    removed = subset(samples, is_gone)
    numbered = replace(removed, classes=(removed.classes == 2).long())

    remaining, gone, rounded = subtract_samples(model, numbered, [0, 2])

    assert gone == [2]
    assert rounded == []
    expected = learn(empty_model(D, settings, 3), subset(samples, ~is_gone), settings)
    assert_same_moments(remaining.moments[0], expected.moments[0])
    assert remaining.moments[1] is model.moments[1]
    assert remaining.earlier is None
    assert remaining.inputs_past is None
    assert remaining.features is model.features


def test_samples_are_not_subtracted_from_truncated_moments():
    settings = replace(SETTINGS, band_size=0, p=(0.5,), rank=3)
    samples = task(0, 1, n=20)
    model = learn(empty_model(D, settings, 3), samples, settings)
    with pytest.raises(ValueError, match="scatter of the class is not stored exactly"):
        subtract_samples(model, subset(samples, slice(0, 3)), [0])


@pytest.mark.parametrize("rank", [None, 3])
def test_joined_classes_have_the_moments_of_all_their_samples(rank):
    settings = replace(SETTINGS, band_size=0, p=(0.5,), rank=rank)
    samples = task(0, 1, 2, n=20)
    model = learn(empty_model(D, settings, 3), samples, settings)

    joined = join_classes(model, [[1], [2, 0]], device=CPU)

    assert joined.moments[0] is model.moments[1]
    names = torch.tensor([1, 0, 1])
    renamed = replace(samples, classes=names[samples.classes])
    exact = replace(settings, rank=None)
    expected = learn(empty_model(D, exact, 3), renamed, exact).moments[1]
    moments = joined.moments[1]
    assert_allclose(moments.mean, expected.mean, rtol=1e-9, atol=1e-9)
    assert_allclose(np.diag(moments.scatter()), np.diag(expected.scatter()), rtol=1e-5)
    if rank is None:
        assert_same_moments(moments, expected)


def test_classes_in_a_new_order_keep_their_bands():
    model, X = learnt(2, 1)
    turned = join_classes(model, [[2], [0], [1]], device=CPU)
    assert turned.features is model.features
    assert turned.moments == (model.moments[2], model.moments[0], model.moments[1])
    assert turned.n_newest == model.n_newest
    assert_allclose(prediction.scores(turned, X), prediction.scores(model, X)[:, [2, 0, 1]])


def left_out(*values):
    """Return left-out likeness, from a model of samples of weight 32."""
    return LeftOutLikeness(np.array(values), np.ones(len(values)), np.full(len(values), 32.0))


def learnt_with_likeness(*calls):
    """Return a model after calls, each a dictionary of the weights of its classes."""
    settings = replace(SETTINGS, band_size=0, novelty=True)
    rng = torch.Generator().manual_seed(5)
    model = empty_model(D, settings, 3)
    for weights in calls:
        classes = torch.tensor(list(weights)).repeat_interleave(6)
        X = torch.randn(len(classes), D, generator=rng, dtype=torch.float64)
        each = torch.tensor(list(weights.values()), dtype=torch.float64)
        model = learn(model, Task(X, classes, each.repeat_interleave(6)), settings)
    return model


def assert_same_weights(found, expected):
    """Compare the weights of two models' left-out likeness, whose values differ."""
    assert len(found.left_out) == len(expected.left_out)
    for one, other in zip(found.left_out, expected.left_out, strict=True):
        for name in ("weights", "learned_weights", "arrivals", "arrived_weights"):
            found_weights = np.sort(getattr(one, name))
            expected_weights = np.sort(getattr(other, name))
            assert_allclose(found_weights, expected_weights, rtol=1e-9)


def test_forgotten_classes_leave_no_weight_in_left_out_likeness():
    # Class 1 comes before, with and after the classes that are forgotten.
    model = learnt_with_likeness({0: 1.0, 1: 2.0}, {2: 3.0}, {1: 1.0, 3: 9.0}, {4: 1.0}, {2: 1.0})
    never = learnt_with_likeness({0: 1.0, 1: 2.0}, {1: 1.0}, {2: 1.0})
    found = forget_classes(model, [2, 3])
    assert_array_equal(found.left_out[0].learned_weights, 18.0)
    assert_array_equal(np.unique(found.left_out[1].learned_weights), [18.0, 24.0])
    assert_same_weights(found, never)
    # Calls after that are as large as they would be.
    both = []
    X = torch.ones(2, D, dtype=torch.float64).cumsum(0)
    more = Task(X, torch.tensor([0, 3]), torch.ones(2, dtype=torch.float64))
    for each in (found, never):
        both.append(learn(each, more, each.settings))
    assert_same_weights(*both)


@pytest.mark.parametrize("classes", [[1], [0, 1, 2]], ids=repr)
def test_decayed_classes_leave_the_likeness_of_samples_of_less_weight(classes):
    model = learnt_with_likeness({0: 1.0, 1: 2.0}, {1: 2.0, 2: 4.0})
    decayed = decay_classes(model, 0.5, classes)
    first = {0: 1.0, 1: 2.0}
    second = {1: 2.0, 2: 4.0}
    for call in (first, second):
        for number in call.keys() & set(classes):
            call[number] *= 0.5
    assert_same_weights(decayed, learnt_with_likeness(first, second))
    for one, other in zip(decayed.left_out, model.left_out, strict=True):
        assert_array_equal(one.values, other.values)


def test_a_merge_and_a_join_keep_the_shares_of_their_classes():
    settings = replace(SETTINGS, band_size=0, novelty=True)
    first, second = learnt_with_likeness({0: 1.0, 1: 2.0}), learnt_with_likeness({0: 2.0, 1: 4.0})
    assert first.settings == settings
    merged = merge_models(first, second, [0, 1], device=CPU)
    kept = forget_classes(merged, [1])
    # A third of each model's samples remain.
    assert_allclose(np.unique(kept.left_out[0].learned_weights), [6.0, 12.0])
    joined = join_classes(learnt_with_likeness({0: 1.0, 1: 2.0, 2: 3.0}), [[0, 2], [1]], device=CPU)
    assert_allclose(forget_classes(joined, [1]).left_out[0].learned_weights, 24.0)


def test_likeness_of_files_without_calls_keeps_the_present_shares():
    model, _ = learnt(2)
    likeness = left_out(-2.0, -1.0)
    model = model.replace_left_out((likeness, likeness))
    weights = [each.weight for each in model.moments]
    decayed = decay_classes(model, 0.5, [1])
    expected = 32.0 * (weights[0] + 0.5 * weights[1]) / sum(weights)
    for each, weight in zip(decayed.left_out, (1.0, 0.5), strict=True):
        assert_array_equal(each.values, likeness.values)
        assert_array_equal(each.weights, [weight, weight])
        assert_allclose(each.learned_weights, expected)


def test_left_out_likeness_follows_classes_and_joins():
    likeness = [left_out(-3.0, -1.0), LeftOutLikeness(), left_out(-2.0)]
    model, _ = learnt(4)
    model = model.replace_left_out(tuple(likeness))

    turned = join_classes(model, [[2], [3], [0], [1]], device=CPU)
    joined = join_classes(model, [[3], [2, 0], [1]], device=CPU)

    assert [each.values.tolist() for each in turned.left_out] == [[-2.0], [], [-3.0, -1.0]]
    assert [len(each.values) for each in joined.left_out] == [0, 3]
    assert_array_equal(joined.left_out[1].values, [-3.0, -2.0, -1.0])
    assert_array_equal(joined.left_out[1].weights, [1.0, 1.0, 1.0])
    assert_array_equal(joined.left_out[1].learned_weights, [32.0, 32.0, 32.0])
