"""Predictions: solved once, in chunks, and sent to a device once."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch.utils._python_dispatch import TorchDispatchMode

from ffnb_sklearn.core import prediction
from tests.core.small_models import CPU, D, learnt, task
from tests.core.test_model import BARE, TASK, known


def test_the_classifier_is_solved_when_scores_are_first_asked_for_and_never_again(monkeypatch):
    solved, solve = [], prediction.solve
    monkeypatch.setattr(
        prediction, "solve", lambda *of, **how: solved.append(of) or solve(*of, **how)
    )
    model = known()
    assert model.n_weights == 7 * 5 + 1 + 3 * 13
    assert not solved

    scores = prediction.scores(model, TASK.X)

    assert torch.equal(prediction.scores(model, TASK.X), scores)
    assert len(solved) == 1
    # A model made from this model may have other moments, and then solves anew.
    assert (
        prediction.solve_once(replace(model), CPU).head
        is not prediction.solve_once(model, CPU).head
    )
    assert len(solved) == 2


@pytest.mark.parametrize("skip_connection", [True, False])
def test_the_view_has_the_columns_that_the_classifier_sees(skip_connection):
    model = known(replace(BARE, skip_connection=skip_connection))

    columns = slice(0 if skip_connection else 5, None)
    assert torch.equal(
        prediction.classifier_features(model, TASK.X), model.feature_map(TASK.X)[:, columns]
    )


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
    expected, _ = prediction.scores(model, X := task(0, 1, 2).X), prediction.likeness(model, X)
    n_copies = sent(prediction.scores, model, X)
    elsewhere, order = X.to("meta"), np.array([2, 0, 1])
    first = sent(prediction.scores, model, elsewhere)
    n_planes = 3 * 10 if classifier != "ova" else 3 * (D + 4)
    assert n_copies == 0
    assert first >= n_planes
    assert sent(prediction.likeness, model, elsewhere) > 0
    assert sent(prediction.scores, model, elsewhere) == 0
    assert sent(prediction.likeness, model, elsewhere) == 0
    assert sent(prediction.most_likely, model, elsewhere, order) == len(order)
    # Results on the CPU, copies and other states do not see the tensors of the device.
    assert_array_equal(prediction.scores(model, X), expected)
    assert len(pickle.dumps(model)) == len(pickle.dumps(pickle.loads(pickle.dumps(model))))
    copied = pickle.loads(pickle.dumps(model))
    copied.cache["solution"] = model.solution
    assert sent(prediction.scores, copied, elsewhere)
    later = learnt([task(0, 1), task(2), task(3)], **settings)
    prediction.solve_once(later, CPU)
    assert sent(prediction.scores, later, elsewhere) > first
