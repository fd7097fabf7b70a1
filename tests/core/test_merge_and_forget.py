"""Classes and samples taken out of models, classes joined, and models taken together."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.merge_and_forget import (
    decay_classes,
    forget_classes,
    join_classes,
    merge_models,
    subtract_samples,
)
from ffnb_sklearn.core.model import Task
from ffnb_sklearn.core.novelty.likeness import LeftOutLikeness
from tests.core.small_models import CPU, SETTINGS, D, empty, learn, learnt, streamed, task

PLAIN = replace(SETTINGS, band_size=0)


@pytest.mark.parametrize("band_size", [0, 1])
def test_forgetting_leaves_the_model_it_started_from_as_it_was(band_size):
    model, X = streamed(2, 1, band_size=band_size)
    before = prediction.scores(model, X)

    forget_classes(model, [0, 2])

    assert torch.equal(prediction.scores(model, X), before)


@pytest.mark.parametrize("classifier", ["gaussian", "ovo", "ova"])
@pytest.mark.parametrize("rank", [None, 3])
def test_a_forgotten_class_leaves_the_model_of_the_other_classes(classifier, rank):
    settings = replace(PLAIN, classifier=classifier, rank=rank, shrinkage=None, epsilon=None)
    tasks = [task(0), task(1), task(2)]
    model = learnt(tasks, settings)

    left = forget_classes(model, [1])

    others = [tasks[0], replace(tasks[2], classes=torch.ones_like(tasks[2].classes))]
    expected = learnt(others, settings)
    assert left.moments == (model.moments[0], model.moments[2])
    assert left.features is model.features
    X = tasks[1].X
    assert torch.equal(prediction.scores(left, X), prediction.scores(expected, X))


@pytest.mark.parametrize("decayed", [[0, 1, 2], [1]])
@pytest.mark.parametrize("classifier", ["gaussian", "ovo", "ova"])
def test_decayed_classes_equal_one_joint_fit_with_decayed_sample_weights(classifier, decayed):
    settings = replace(PLAIN, classifier=classifier, shrinkage=None, epsilon=None)
    first, again = task(0, 1, 2), task(1, 2, 3, seed=1)

    model = learn(empty(D, settings), first, settings)
    model = learn(decay_classes(model, 0.3, decayed), again, settings)

    now = torch.isin(first.classes, torch.as_tensor(decayed))
    weights = torch.where(now, 0.3 * first.weights, first.weights)
    both = [
        torch.cat(parts)
        for parts in zip(*((one.X, one.classes) for one in (first, again)), strict=True)
    ]
    joint = Task(*both, torch.cat([weights, again.weights]))
    expected = learn(empty(D, settings), joint, settings)
    assert_allclose(
        prediction.scores(model, joint.X),
        prediction.scores(expected, joint.X),
        rtol=1e-8,
        atol=1e-8,
    )


@pytest.mark.parametrize("rank", [None, 3])
def test_a_class_keeps_its_shape_through_any_number_of_decays(rank):
    model, X = streamed(3, rank=rank, band_size=0)
    faded = model
    for _ in range(200):
        faded = decay_classes(faded, 0.5, range(3))

    assert_allclose(faded.moments[0].weight, 8.0 * 0.5**200, rtol=1e-12)
    assert_allclose(prediction.scores(faded, X), prediction.scores(model, X), rtol=1e-5)


# ---- models that are merged


@pytest.mark.parametrize("classifier", ["gaussian", "ovo", "ova"])
def test_merged_models_are_the_model_of_all_samples(classifier):
    settings = replace(PLAIN, classifier=classifier, shrinkage=None, epsilon=None)
    mine, theirs = task(0, 1), task(0, 1, seed=1)
    first, second = learnt([mine], settings), learnt([theirs], settings)

    # Class 0 of the second model is class 2 of the result, and class 1 is in both models.
    merged = merge_models(first, second, [2, 1], device=CPU)

    renamed = replace(theirs, classes=torch.tensor([2, 1])[theirs.classes])
    expected = learnt([mine, renamed], settings)
    X = torch.cat([mine.X, theirs.X])
    assert [one.weight for one in merged.moments] == [one.weight for one in expected.moments]
    assert_allclose(
        prediction.scores(merged, X), prediction.scores(expected, X), rtol=1e-8, atol=1e-8
    )
    assert merged.features is first.features
    assert merged.trained is None
    assert merged.earlier is None


def test_classes_of_both_models_are_merged():
    (first, _), (second, _) = streamed(2, band_size=0), streamed(2, seed=1, band_size=0)

    merged = merge_models(first, second, [1, 2], device=CPU)

    assert [one.weight for one in merged.moments] == [8.0, 16.0, 8.0]
    expected = 0.5 * (first.moments[1].mean + second.moments[0].mean)
    assert_allclose(merged.moments[1].mean, expected, rtol=1e-12)


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
    settings = PLAIN
    samples = task(0, 1, 2, n=20)
    model = learn(empty(D, settings), samples, settings)
    # Three samples of class 0, and the whole class 2.
    is_gone = torch.zeros(60, dtype=torch.bool)
    is_gone[[1, 5, 7]] = True
    is_gone[40:] = True
    removed = subset(samples, is_gone)
    numbered = replace(removed, classes=(removed.classes == 2).long())

    remaining, gone, rounded = subtract_samples(model, numbered, [0, 2])

    assert gone == [2]
    assert rounded == []
    expected = learn(empty(D, settings), subset(samples, ~is_gone), settings)
    assert_same_moments(remaining.moments[0], expected.moments[0])
    assert remaining.moments[1] is model.moments[1]
    assert remaining.earlier is None
    assert remaining.features is model.features


def test_truncated_moments_keep_weight_mean_and_diagonal_without_samples():
    settings = replace(PLAIN, rank=3)
    samples = task(0, 1, n=20)
    model = learn(empty(D, settings), samples, settings)
    removed = subset(samples, slice(0, 3))
    remaining, gone, rounded = subtract_samples(model, removed, [0])
    assert gone == rounded == []
    assert remaining.moments[1] is model.moments[1]
    moments = remaining.moments[0]
    exact = replace(settings, rank=None)
    expected = learn(empty(D, exact), subset(samples, slice(3, 20)), exact).moments[0]
    assert moments.weight == pytest.approx(expected.weight)
    assert moments.weight_norm == pytest.approx(expected.weight_norm)
    assert_allclose(moments.mean, expected.mean, rtol=1e-9, atol=1e-12)
    assert_allclose(np.diag(moments.scatter()), np.diag(expected.scatter()), rtol=1e-5)
    # Along the axes that the class keeps, the scatter is exact too.
    axes = np.linalg.svd(model.moments[0].factor.astype(float), full_matrices=False)[2]
    along = axes @ (moments.factor.T.astype(float) @ moments.factor) @ axes.T
    assert_allclose(along, axes @ expected.scatter() @ axes.T, rtol=0.02, atol=0.05)


def test_truncated_moments_lose_all_samples_and_no_others():
    settings = replace(PLAIN, rank=3)
    samples = task(0, 1, n=20)
    model = learn(empty(D, settings), samples, settings)
    whole = subset(samples, slice(0, 20))
    _, gone, _ = subtract_samples(model, whole, [0])
    assert gone == [0]
    heavy = replace(whole, weights=2.0 * whole.weights)
    with pytest.raises(ValueError, match="is larger than that of the class"):
        subtract_samples(model, heavy, [0])
    others = replace(subset(samples, slice(0, 3)), samples=99.0 + whole.X[:3])
    with pytest.raises(ValueError, match="a column of the class would have a negative variance"):
        subtract_samples(model, others, [0])


@pytest.mark.parametrize("rank", [None, 3])
def test_joined_classes_have_the_moments_of_all_their_samples(rank):
    settings = replace(PLAIN, rank=rank)
    samples = task(0, 1, 2, n=20)
    model = learn(empty(D, settings), samples, settings)

    joined = join_classes(model, [[1], [2, 0]], device=CPU)

    assert joined.moments[0] is model.moments[1]
    names = torch.tensor([1, 0, 1])
    renamed = replace(samples, classes=names[samples.classes])
    exact = replace(settings, rank=None)
    expected = learn(empty(D, exact), renamed, exact).moments[1]
    moments = joined.moments[1]
    assert_allclose(moments.mean, expected.mean, rtol=1e-9, atol=1e-9)
    assert_allclose(np.diag(moments.scatter()), np.diag(expected.scatter()), rtol=1e-5)
    if rank is None:
        assert_same_moments(moments, expected)


def test_classes_in_a_new_order_keep_their_moments():
    model, X = streamed(2, 1, band_size=0)

    turned = join_classes(model, [[2], [0], [1]], device=CPU)

    assert turned.features is model.features
    assert turned.moments == (model.moments[2], model.moments[0], model.moments[1])
    assert_allclose(prediction.scores(turned, X), prediction.scores(model, X)[:, [2, 0, 1]])


def left_out(*values):
    """Return left-out likeness, from a model of samples of weight 32."""
    return LeftOutLikeness(np.array(values), np.ones(len(values)), np.full(len(values), 32.0))


def learnt_with_likeness(*calls):
    """Return a model after calls, each a dictionary of the weights of its classes."""
    settings = replace(PLAIN, novelty=True)
    rng = torch.Generator().manual_seed(5)
    model = empty(D, settings)
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
    settings = replace(PLAIN, novelty=True)
    both = []
    X = torch.ones(2, D, dtype=torch.float64).cumsum(0)
    more = Task(X, torch.tensor([0, 3]), torch.ones(2, dtype=torch.float64))
    for each in (found, never):
        both.append(learn(each, more, settings))
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
    first, second = learnt_with_likeness({0: 1.0, 1: 2.0}), learnt_with_likeness({0: 2.0, 1: 4.0})
    merged = merge_models(first, second, [0, 1], device=CPU)
    kept = forget_classes(merged, [1])
    # A third of each model's samples remain.
    assert_allclose(np.unique(kept.left_out[0].learned_weights), [6.0, 12.0])
    joined = join_classes(learnt_with_likeness({0: 1.0, 1: 2.0, 2: 3.0}), [[0, 2], [1]], device=CPU)
    assert_allclose(forget_classes(joined, [1]).left_out[0].learned_weights, 24.0)


def test_likeness_of_files_without_calls_keeps_the_present_shares():
    model, _ = streamed(2)
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
    model, _ = streamed(4, band_size=0)
    model = model.replace_left_out(tuple(likeness))

    turned = join_classes(model, [[2], [3], [0], [1]], device=CPU)
    joined = join_classes(model, [[3], [2, 0], [1]], device=CPU)

    assert [each.values.tolist() for each in turned.left_out] == [[-2.0], [], [-3.0, -1.0]]
    assert [len(each.values) for each in joined.left_out] == [0, 3]
    assert_array_equal(joined.left_out[1].values, [-3.0, -2.0, -1.0])
    assert_array_equal(joined.left_out[1].weights, [1.0, 1.0, 1.0])
    assert_array_equal(joined.left_out[1].learned_weights, [32.0, 32.0, 32.0])
