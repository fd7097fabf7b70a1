"""A stream of tasks: the origin of bands, their statistics, and the features that stay."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.bands.codes import band_codes
from ffnb_sklearn.core.bands.merging import merge_models_with_bands
from ffnb_sklearn.core.bands.null_space import null_space
from ffnb_sklearn.core.bands.old_classes import store_inputs_past
from ffnb_sklearn.core.bands.rows import regression_rows
from ffnb_sklearn.core.bands.trained import Trained, layer_columns
from ffnb_sklearn.core.merge_and_forget import forget_classes
from ffnb_sklearn.core.model import Task
from tests.core.small_models import (
    CPU,
    SETTINGS,
    D,
    empty,
    learn,
    learnt,
    moments_of_all,
    parameters_of,
    past_of,
    past_rows,
    second_moment,
    task,
)


def root(one):
    return one.X * one.weights.sqrt()[:, None]


def test_every_task_of_new_classes_adds_a_band_to_every_layer():
    model = learnt([task(0, 1), task(2)])

    assert [(one.layer, one.weights.shape) for one in model.trained.layers.bands] == [
        (1, (2, 6)),
        (2, (2, 2)),
        (1, (1, 6)),
        (2, (1, 3)),
    ]
    # All axes are open to the first task; then 2 and 1 are kept.
    assert model.trained.null_space_dims == ((6, 2), (4, 2))


def test_known_classes_alone_add_no_band():
    model = learnt([task(0, 1)])

    again = learn(model, task(0, seed=1), SETTINGS)

    assert again.trained.layers is model.trained.layers
    assert again.trained.null_space_dims == model.trained.null_space_dims
    assert again.moments[0].weight > model.moments[0].weight
    assert again.moments[1] is model.moments[1]
    assert again.trained.moments[1] is model.trained.moments[1]


def test_the_past_is_the_second_moment_of_all_samples_seen():
    tasks = [task(0, 1), task(2), task(1, seed=1)]
    past = past_rows(learnt(tasks), 0)

    rows = torch.cat([root(one) for one in tasks])
    assert_allclose(past.T @ past, rows.T @ rows, rtol=1e-9)


def test_what_the_past_measured_in_old_neurons_stays_when_new_ones_come():
    before = learnt([task(0, 1)])
    new = task(2)

    after = learn(before, new, SETTINGS)

    past, now = past_rows(before, 1), past_rows(after, 1)
    n_old = past.shape[1]
    columns = layer_columns(after, 1)[:n_old]
    old = after.feature_map(new.X)[:, columns] * new.weights.sqrt()[:, None]
    assert_allclose((now.T @ now)[:n_old, :n_old], past.T @ past + old.T @ old, rtol=1e-8)


@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("p", [(0.6,), (0.6, 0.6)])
@pytest.mark.parametrize("third", [(3,), (1,), (1, 3)])
def test_a_stream_that_is_resumed_is_the_uninterrupted_one(rank, p, third):
    n_known = 3 + (3 in third)
    tasks = [task(0, 1), task(2), task(*third, seed=1), task(n_known, n_known + 1)]
    settings = replace(SETTINGS, p=p, rank=rank)
    whole = resumed = empty(D, settings)
    for one in tasks:
        whole = learn(whole, one, settings)
        resumed = learn(pickle.loads(pickle.dumps(resumed)), one, settings)
    assert whole.trained.past is not None
    assert whole.trained.null_space_dims == resumed.trained.null_space_dims
    for band, other in zip(whole.trained.layers.bands, resumed.trained.layers.bands, strict=True):
        assert_array_equal(band.weights, other.weights)


def test_a_stream_adds_each_class_once_to_the_past_of_the_inputs(monkeypatch):
    added, layer_moments = [], Trained.layer_moments
    settings = replace(SETTINGS, p=(2,), shared_band_size=0, rank=3)
    model = learnt([task(0, 1), task(2)], settings)
    monkeypatch.setattr(
        Trained, "layer_moments", lambda *of: added.append(of[1]) or layer_moments(*of)
    )
    store_inputs_past(model, CPU)
    assert len(added) == 1
    assert added[0] is model.moments[2]
    # Pickles begin again, and so do models whose known classes have changed.
    for changed in (
        pickle.loads(pickle.dumps(model)),
        learn(model, task(1, seed=1), settings),
        forget_classes(model, [0]),
        merge_models_with_bands(model, learnt([task(0, seed=3)], settings), [3], device=CPU),
    ):
        assert changed.trained.past is None


@pytest.mark.parametrize(("d", "rank"), [(5, None), (5, 2), (200, None), (200, 2)])
def test_the_past_follows_from_the_moments_of_the_classes(d, rank):
    rng = np.random.default_rng(0)
    X, labels = torch.as_tensor(rng.normal(size=(30, d))), torch.arange(30) // 10
    samples = Task(X, labels, torch.ones(30, dtype=torch.float64))
    model = learnt([samples], p=(2,), rank=rank)
    past = past_rows(model, 0).numpy()
    expected = sum(second_moment(one, slice(0, d)) for one in model.moments)
    axes = past / np.linalg.norm(past, axis=1, keepdims=True)
    n_rows = sum(one.rank + 1 for one in model.moments)
    assert len(past) == min(d, n_rows)
    # The part that the factors leave out counts along the rows, which span a narrow layer.
    assert_allclose(axes @ expected @ axes.T, past @ past.T, atol=1e-9)
    if d <= n_rows or rank is None:
        assert_allclose(past.T @ past, expected, atol=1e-9)


@pytest.mark.parametrize("init", ["multi", "mono"])
@pytest.mark.parametrize("confined", [True, False])
def test_rows_are_regressed_on_the_moments_of_all_tasks_or_of_one(init, confined):
    first, second = task(0, 1), task(2, 3)

    model = learnt([first, second], init=init, null_space=confined, p=(2,))

    past = past_of(root(first))
    codes = band_codes(second.X, second.classes - 2, second.weights, 1)
    expected = regression_rows(
        second.X,
        codes,
        second.weights,
        null_space(past, 2 if confined else 0),
        0.1,
        sees_past=init == "multi",
    )
    assert_allclose(model.trained.layers.bands[1].weights, expected.rows, rtol=1e-8, atol=1e-12)


def test_statistics_of_new_neurons_are_those_of_samples_left_out():
    first = task(0, 1)
    model = learnt([first], p=(2,))

    codes = band_codes(first.X, first.classes, first.weights, 1)
    left_out = (
        regression_rows(
            first.X, codes, first.weights, null_space(past_of(first.X[:0]), 0), 0.1
        ).responses.relu()
        * model.trained.layers.bands[0].scale
    )
    for label, one in enumerate(moments_of_all(model)):
        now = first.classes == label
        share = first.weights[now] / first.weights[now].sum()
        assert_allclose(one.mean[-2:], share @ left_out[now], rtol=1e-8)
        in_sample = share @ model.feature_map(first.X)[now][:, -2:]
        assert in_sample[label] > one.mean[-2 + label]  # the optimism that is taken out


@pytest.mark.parametrize("how", ["gaussian", "zero"])
def test_old_classes_keep_their_moments_and_get_those_of_new_neurons(how):
    before = learnt([task(0, 1)], old_statistics=how)

    after = learn(before, task(2), parameters_of(before))

    width = before.feature_map.n_features
    pairs = zip(moments_of_all(before), moments_of_all(after)[:2], strict=True)
    for number, (old, new) in enumerate(pairs):
        assert after.moments[number] is before.moments[number]
        assert_array_equal(new.mean[:width], old.mean)
        assert_array_equal(new.factor[:, :width], old.factor)
        assert (new.mean[width:] == 0.0).all() == (how == "zero")


def test_random_rows_differ_from_task_to_task_and_repeat_with_the_seed():
    tasks = [task(0), task(1), task(2)]

    rows = [one.weights for one in learnt(tasks, init="random", p=(0.5,)).trained.layers.bands]
    again = [one.weights for one in learnt(tasks, init="random", p=(0.5,)).trained.layers.bands]

    assert_array_equal(rows, again)
    assert abs(np.corrcoef(np.vstack(rows))[0, 1]) < 0.99


@pytest.mark.parametrize(("p", "layer", "width"), [((6, 1), 1, 6), ((2, 3), 2, 3)])
def test_keeping_all_axes_is_an_error_that_names_the_layer_and_what_works(p, layer, width):
    model = learnt([task(0, 1)], p=(1, 1))
    bands = model.trained.layers.bands

    message = rf"p={width} leaves no axis .* in layer {layer}, .* {width} wide .* is {width - 1}"
    with pytest.raises(ValueError, match=message):
        learn(model, task(2), replace(parameters_of(model), p=p))
    assert model.trained.layers.bands is bands


def test_learning_leaves_the_model_it_started_from_as_it_was():
    model, X = learnt([task(0, 1)]), task(5).X
    before = prediction.scores(model, X).clone()

    learn(model, task(2, 3), SETTINGS)
    learn(model, task(0, seed=1), SETTINGS)

    assert torch.equal(prediction.scores(model, X), before)


def test_random_bands_draw_other_numbers_than_the_shared_band():
    settings = replace(SETTINGS, init="random", p=(0.5,), shared_band_size=1)
    model = empty(D, settings)
    model = learn(learn(model, task(0), settings), task(1), settings)
    rows = [
        model.features.shared.rows[0, :D],
        *(band.weights[0] for band in model.trained.layers.bands),
    ]
    directions = np.array([row / np.linalg.norm(row) for row in rows])
    assert np.abs(directions @ directions.T - np.eye(3)).max() < 0.99
