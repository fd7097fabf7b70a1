"""The model: what it keeps, and that it is never changed."""

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch.utils._python_dispatch import TorchDispatchMode

from ffnb_sklearn.core import model as module
from ffnb_sklearn.core.model import Task, empty_model, updated_moments
from tests.core.small_models import CPU, SETTINGS, D, learnt, past_rows, second_moment, task

BARE = replace(SETTINGS, p=(0.95,), band_size=0, shared_band_size=7)
RNG = np.random.default_rng(0)
CLASSES = torch.as_tensor(RNG.permutation(np.repeat([0, 1, 2], [9, 4, 12])))
TASK = Task(
    torch.as_tensor(RNG.normal(size=(25, 5))), CLASSES, torch.as_tensor(RNG.uniform(0.5, 2, 25))
)


def known(settings=BARE):
    model = empty_model(5, settings, 3)
    return replace(model, moments=updated_moments(model, TASK))


def test_an_empty_model_has_its_shared_band_and_nothing_else():
    model = empty_model(5, replace(BARE, band_size=1, p=(0.9, 3)), 3)

    assert model.features.shared.rows.shape == (7, 6)
    assert model.moments == ()
    assert [past_rows(model, layer).shape for layer in range(2)] == [(0, 5), (0, 0)]
    assert model.n_weights == 7 * 5 + 1


def test_the_shared_band_comes_from_the_seed():
    first, same, other = (empty_model(5, BARE, seed).features.shared.rows for seed in (3, 3, 4))

    assert_array_equal(first, same)
    assert not np.allclose(first, other)


def test_moments_are_those_of_each_class_over_all_features():
    model = known()

    values = model.features(TASK.X).numpy()
    assert len(model.moments) == 3
    for label, one in enumerate(model.moments):
        now, weights = values[TASK.classes == label], TASK.weights[TASK.classes == label].numpy()
        assert one.weight == pytest.approx(weights.sum())
        assert_allclose(one.mean, np.average(now, axis=0, weights=weights), rtol=1e-10)
        assert_allclose(second_moment(one), now.T @ (now * weights[:, None]), rtol=1e-9)


@pytest.mark.parametrize("chunk", [1, 7])
def test_few_samples_at_a_time_give_the_same(chunk):
    whole = known()
    parts = known(replace(BARE, chunk_size=chunk))

    for one, expected in zip(parts.moments, whole.moments, strict=True):
        assert_allclose(one.mean, expected.mean, rtol=1e-12)
        assert_allclose(one.scatter(), expected.scatter(), rtol=1e-9, atol=1e-12)
    assert_allclose(parts.scores(TASK.X), whole.scores(TASK.X), rtol=1e-9)


def test_given_outputs_of_the_newest_neurons_stand_in_for_computed_ones():
    model = empty_model(5, BARE, 3)
    fresh = torch.as_tensor(RNG.normal(size=(25, 2)))

    moments = updated_moments(model, TASK, fresh)

    for label, one in enumerate(moments):
        now = TASK.classes == label
        weights = TASK.weights[now]
        assert_allclose(one.mean[-2:], weights @ fresh[now] / weights.sum(), rtol=1e-10)


def test_the_classifier_is_solved_when_scores_are_first_asked_for_and_never_again(monkeypatch):
    solved, solve = [], module.solve
    monkeypatch.setattr(module, "solve", lambda *of, **how: solved.append(of) or solve(*of, **how))
    model = known()
    assert model.n_weights == 7 * 5 + 1 + 3 * 13
    assert not solved

    scores = model.scores(TASK.X)

    assert torch.equal(model.scores(TASK.X), scores)
    assert len(solved) == 1
    # What it is solved from may be another in a model made of this one.
    assert replace(model).solution(CPU).classifier is not model.solution(CPU).classifier
    assert len(solved) == 2


def test_pickles_leave_out_what_is_derived():
    model = known()
    before = pickle.dumps(model)
    scores = model.scores(TASK.X)
    model.likeness(TASK.X)
    after = pickle.dumps(model)

    assert after == before
    assert torch.equal(pickle.loads(after).scores(TASK.X), scores)
    # The model itself keeps its solution.
    assert model.solved is not None


@pytest.mark.parametrize("skip_connection", [True, False])
def test_the_view_has_the_columns_that_the_classifier_sees(skip_connection):
    model = known(replace(BARE, skip_connection=skip_connection))

    columns = slice(0 if skip_connection else 5, None)
    assert torch.equal(model.view(TASK.X), model.features(TASK.X)[:, columns])


def test_a_model_is_never_changed_so_that_copies_share_it():
    model = known()

    model.scores(TASK.X)

    assert copy.deepcopy(model) is model
    with pytest.raises(FrozenInstanceError):
        model.moments = ()


class Transfers(TorchDispatchMode):
    """Count the numbers that go from the CPU to another device."""

    def __init__(self):
        super().__init__()
        self.n_numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.ops.aten._to_copy.default and "device" in kwargs:
            self.n_numbers += args[0].numel() if kwargs["device"].type != "cpu" else 0
        return func(*args, **kwargs)


def sent(call, *arguments):
    """Return how many numbers a call sends to a device."""
    with Transfers() as transfers:
        call(*arguments)
    return transfers.n_numbers


@pytest.mark.parametrize("classifier", ["gaussian", "ovo", "ova"])
@pytest.mark.parametrize("band_size", [0, 1])
def test_what_was_solved_is_sent_to_a_device_once(classifier, band_size):
    settings = {"classifier": classifier, "band_size": band_size, "p": (2,)}
    model = learnt([task(0, 1), task(2)], **settings)
    expected, _ = model.scores(X := task(0, 1, 2).X), model.likeness(X)
    n_copies = sent(model.scores, X)
    elsewhere, order = X.to("meta"), np.array([2, 0, 1])
    first = sent(model.scores, elsewhere)
    n_planes = 3 * 10 if classifier != "ova" else 3 * (D + 4)
    assert n_copies == 0
    assert first >= n_planes
    assert sent(model.likeness, elsewhere) > 0
    for call, n_sent in [(model.scores, 0), (model.likeness, 0), (model.most_likely, len(order))]:
        arguments = (elsewhere, order) if call == model.most_likely else (elsewhere,)
        assert sent(call, *arguments) == n_sent
    # Results on the CPU, copies and other states do not see the tensors of the device.
    assert_array_equal(model.scores(X), expected)
    assert len(pickle.dumps(model)) == len(pickle.dumps(pickle.loads(pickle.dumps(model))))
    copied = pickle.loads(pickle.dumps(model))
    copied._cache["solution"] = model.solved
    assert sent(copied.scores, elsewhere)
    later = learnt([task(0, 1), task(2), task(3)], **settings)
    later.solution(CPU)
    assert sent(later.scores, elsewhere) > first
