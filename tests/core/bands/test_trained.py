"""Trained state: moments in the neurons, and neurons of classes that are forgotten."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.bands.trained import (
    BandMoments,
    layer_columns,
    remove_neurons,
    split_moments,
)
from ffnb_sklearn.core.merge_and_forget import decay_classes, forget_classes, join_classes
from ffnb_sklearn.core.model import Task, Trained
from ffnb_sklearn.core.moments import moments_of
from tests.core.small_models import (
    CPU,
    SETTINGS,
    D,
    empty,
    learn,
    learnt,
    moments_of_all,
    past_rows,
    samples,
    streamed,
    task,
)


def squared(past):
    return past.T @ past


def moments(n, d, max_rank=None):
    """Moments of some samples."""
    X, weights = samples(n, d)
    return moments_of([(torch.as_tensor(X), torch.as_tensor(weights))], max_rank)


# ---- moments in the neurons


def in_neurons(whole):
    """The moments of a class as if all features were neurons."""
    return BandMoments(whole.mean, whole.residual, (whole.factor,))


def test_some_neurons_can_be_taken_and_others_appended():
    whole, columns = moments(12, 5, 2), np.array([3, 0])

    taken = in_neurons(whole).take(columns, 2)
    again = taken.append(whole.mean[[4]], whole.factor[:, [4]], whole.residual[[4]])

    assert_array_equal(taken.factor(2), whole.factor[:, columns])
    assert_array_equal(taken.residual, whole.residual[columns])
    assert_array_equal(again.mean, whole.mean[[3, 0, 4]])
    assert_array_equal(again.residual, whole.residual[[3, 0, 4]])
    assert_array_equal(again.factor(2), whole.factor[:, [3, 0, 4]])


def test_appended_columns_stand_in_few_blocks_behind_those_that_stay_in_place():
    whole = moments(12, 40, 6)
    one = BandMoments.empty()

    for j in range(9, 40):
        before = one
        one = one.append(whole.mean[[j]], whole.factor[:, [j]], whole.residual[[j]])
        # The memory of a stream: a task does, mostly, not copy the columns before.
        assert_array_equal(before.factor(6), whole.factor[:, 9:j])

    assert [block.shape[1] for block in one.blocks] == [16, 8, 4, 2, 1]
    assert_array_equal(one.factor(6), whole.factor[:, 9:])
    assert_array_equal(one.mean, whole.mean[9:])
    assert_array_equal(one.residual, whole.residual[9:])
    doubled = one.scale_weights(2.0)
    assert_array_equal(doubled.mean, one.mean)
    assert_allclose(doubled.residual, 2.0 * one.residual)
    assert_allclose(doubled.factor(6), 2.0**0.5 * one.factor(6), rtol=1e-6)
    assert_array_equal(one.take(np.arange(31)[::-1], 6).factor(6), whole.factor[:, :8:-1])


def test_no_neuron_has_no_column():
    none = BandMoments.empty()

    assert none.factor(4).shape == (4, 0)
    assert none.take(np.arange(0), 4).factor(4).shape == (4, 0)
    assert len(none.mean) == len(none.residual) == 0


@pytest.mark.parametrize("max_rank", [None, 2])
def test_moments_are_divided_and_put_together_again(max_rank):
    whole = moments(12, 8, max_rank)
    model = learnt([task(0, 1)], p=(2,))

    fixed, neurons = split_moments(whole, 6)

    assert_array_equal(fixed.mean, whole.mean[:6])
    assert_array_equal(fixed.factor, whole.factor[:, :6])
    assert fixed.weight == whole.weight
    assert_array_equal(neurons.factor(whole.rank), whole.factor[:, 6:])
    assert (fixed.truncated is None) == (max_rank is None)
    trained = replace(model.trained, moments=(neurons,))
    again = trained.complete(fixed, 0)
    assert again.equals(whole)
    assert (again.truncated is None) == (max_rank is None)


def test_moments_without_neurons_are_not_copied():
    trained = replace(learnt([task(0, 1)]).trained, moments=(BandMoments.empty(),))
    fixed = moments(12, 5)

    assert trained.complete(fixed, 0) is fixed


def test_the_residual_of_neurons_alone_is_kept():
    fixed = moments(5, 12)
    none = np.zeros((fixed.rank, 1))
    trained = learnt([task(0, 1)]).trained
    for residual in (np.zeros(1), np.ones(1)):
        trained = replace(trained, moments=(BandMoments(np.ones(1), residual, (none,)),))
        whole = trained.complete(fixed, 0)
        assert (whole.truncated is None) == (residual == 0.0).all()
        assert_array_equal(whole.residual, np.append(np.zeros(12), residual))


def test_layers_have_their_columns_among_all_features():
    model = learnt([task(0, 1), task(2)])

    assert_array_equal(layer_columns(model, 0), np.arange(D))
    n_fixed = model.features.n_features
    assert_array_equal(layer_columns(model, 1), n_fixed + np.array([0, 1, 4]))
    assert_array_equal(layer_columns(model, 2), n_fixed + np.array([2, 3, 5]))
    for number, fixed in enumerate(model.moments):
        whole = model.complete_moments(number)
        for layer in range(3):
            columns = layer_columns(model, layer)
            found = model.trained.layer_moments(fixed, number, layer)
            assert found.weight == whole.weight
            assert_array_equal(found.mean, whole.mean[columns])
            assert_array_equal(found.factor, whole.factor[:, columns])
            assert_array_equal(found.residual, whole.residual[columns])


def test_the_core_knows_what_is_trained_by_its_contract():
    trained = learnt([task(0, 1)]).trained

    assert isinstance(trained, Trained)
    assert pickle.loads(pickle.dumps(trained)).past is None


# ---- classes of other weights or in another order


@pytest.mark.parametrize("rank", [None, 3])
def test_a_class_keeps_its_shape_through_any_number_of_decays(rank):
    model, X = streamed(3, rank=rank)
    faded = model
    for _ in range(200):
        faded = decay_classes(faded, 0.5, range(3))

    assert_allclose(faded.moments[0].weight, 8.0 * 0.5**200, rtol=1e-12)
    assert_allclose(prediction.scores(faded, X), prediction.scores(model, X), rtol=1e-5)
    shares = [squared(past_rows(one, 1)) for one in (faded, model)]
    assert_allclose(shares[0] / 0.5**200, shares[1], rtol=1e-5, atol=1e-5)


def test_decayed_classes_alone_have_other_moments():
    model, _ = streamed(2, 1)

    decayed = decay_classes(model, 0.25, [1])

    pairs = zip(moments_of_all(model), moments_of_all(decayed), strict=True)
    for number, (before, after) in enumerate(pairs):
        factor = 0.25 if number == 1 else 1.0
        assert_array_equal(after.mean, before.mean)
        assert_allclose(after.scatter(), factor * before.scatter(), rtol=1e-12)
    assert decayed.trained.past is None


def test_classes_in_a_new_order_keep_their_bands():
    model, X = streamed(2, 1)
    turned = join_classes(model, [[2], [0], [1]], device=CPU)
    assert turned.features is model.features
    assert turned.trained.layers is model.trained.layers
    assert turned.moments == (model.moments[2], model.moments[0], model.moments[1])
    assert turned.trained.n_newest == model.trained.n_newest
    assert model.trained.owners.tolist() == [0, 1, 0, 1, 2, 2]
    assert turned.trained.owners.tolist() == [1, 2, 1, 2, 0, 0]
    assert_allclose(prediction.scores(turned, X), prediction.scores(model, X)[:, [2, 0, 1]])


# ---- forgotten classes and their neurons


@pytest.mark.parametrize("n_layers", [1, 2])
def test_a_forgotten_class_leaves_the_past_of_the_layers(n_layers):
    model, X = streamed(2, 1, p=(0.5,) * n_layers)

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
    one = Task(X, classes, torch.ones(12).double())
    model = learn(empty(X.shape[1], settings), one, settings)

    left = forget_classes(model, [1])

    kept = torch.cat([X[:4], X[8:]])
    past = past_rows(left, 0)
    if rank is None:
        gram, along = (kept @ kept.T).numpy(), (past @ kept.T).numpy()
        assert_allclose(along.T @ along, gram @ gram, rtol=1e-8, atol=1e-8 * np.max(gram) ** 2)
    assert len(past) == 8


def test_the_neurons_of_a_forgotten_class_are_removed():
    tasks = [task(0), task(1, 2), task(3)]
    model = learnt(tasks, p=(1,), band_size=2)
    assert model.trained.owners.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]

    left = forget_classes(model, [1])

    neurons = [0, 1, 4, 5, 6, 7]
    X = tasks[1].X
    assert_allclose(left.trained.layers(X), model.trained.layers(X)[:, neurons], rtol=1e-12)
    assert left.trained.owners.tolist() == [0, 0, 1, 1, 2, 2]
    assert left.trained.null_space_dims == model.trained.null_space_dims
    columns = np.r_[: D + 4, D + 4 + np.array(neurons)]
    for number, old_number in enumerate([0, 2, 3]):
        moments_left = left.complete_moments(number)
        whole = model.complete_moments(old_number)
        assert_array_equal(moments_left.mean, whole.mean[columns])
        assert_array_equal(moments_left.factor, whole.factor[:, columns])


@pytest.mark.parametrize("p", [(1,), (1, 1)])
def test_a_task_whose_classes_are_forgotten_leaves_nothing_if_it_is_the_newest(p):
    tasks = [task(0, 1), task(2), task(3, 4)]
    model = learnt(tasks, p=p)

    removal = remove_neurons(model.trained, [3, 4])

    before = learnt(tasks[:2], p=p)
    assert not removal.leaves_trace
    assert removal.trained.null_space_dims == before.trained.null_space_dims
    left = forget_classes(model, [3, 4])
    X = tasks[2].X
    assert torch.equal(left.feature_map(X), before.feature_map(X))
    for one, expected in zip(moments_of_all(left), moments_of_all(before), strict=True):
        assert one.equals(expected)


@pytest.mark.parametrize(
    ("gone", "leaves_trace"),
    [
        ([3], False),
        ([2, 3], False),
        ([2], True),  # the band of class 3 was confined to the null-space of class 2
        ([0], True),  # so was every later band, and that of class 1 was fitted beside it
        ([0, 1], True),
        ([0, 1, 2], True),
        ([0, 1, 2, 3], False),
        ([], False),
    ],
)
def test_neurons_of_the_same_task_or_a_later_one_are_a_trace(gone, leaves_trace):
    trained = learnt([task(0, 1), task(2), task(3)], p=(1,)).trained

    assert remove_neurons(trained, gone).leaves_trace == leaves_trace


def test_a_neuron_that_other_neurons_see_stays_until_they_go():
    model = learnt([task(0), task(1), task(2)], p=(1, 1))
    X = task(0).X

    left = forget_classes(model, [0])

    # Neuron 1 is that of class 0 in the second layer, which no neuron sees.
    neurons = [0, 2, 3, 4, 5]
    assert left.trained.owners.tolist() == [-1, 0, 0, 1, 1]
    assert_allclose(left.trained.layers(X), model.trained.layers(X)[:, neurons], rtol=1e-12)
    assert left.trained.null_space_dims == model.trained.null_space_dims
    nothing = forget_classes(left, [0, 1]).trained
    assert nothing.layers.n_neurons == 0
    assert nothing.null_space_dims == ()
    later = learn(left, task(2, seed=5), replace(SETTINGS, p=(1, 1)))
    assert later.trained.owners.tolist() == [-1, 0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("p", [(1,), (1, 1)])
def test_cycles_of_learning_and_forgetting_leave_the_number_of_features(p):
    settings = replace(SETTINGS, p=p)
    model = learnt([task(0, 1), task(2)], settings)
    n_features = []
    for cycle in range(20):
        model = forget_classes(model, [2])
        model = learn(model, task(2, seed=cycle), settings)
        n_features.append(model.feature_map.n_features)

    assert len(set(n_features)) == 1
    assert n_features[0] == learnt([task(0, 1), task(2)], settings).feature_map.n_features


def test_forgetting_neurons_leaves_batch_normalisation_of_the_others():
    tasks = [task(0, 1), task(2)]
    model = learnt(tasks, p=(1, 1), batch_norm=True)

    left = forget_classes(model, [1])

    # The second layer of class 2 sees both neurons of the first layer.
    assert left.trained.owners.tolist() == [0, -1, 0, 1, 1]
    X = tasks[0].X
    expected = model.trained.layers(X)[:, [0, 1, 2, 4, 5]]
    assert_allclose(left.trained.layers(X), expected, rtol=1e-12, atol=1e-15)
