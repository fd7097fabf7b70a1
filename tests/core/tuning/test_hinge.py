"""The loss of fine-tuning: the multi-class hinge of the scores that the model gives."""

from dataclasses import replace

import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.drafts import append_drafts, draft_bands
from ffnb_sklearn.core.model import updated_moments
from ffnb_sklearn.core.tuning.descent import multi_class_hinge
from ffnb_sklearn.core.tuning.finetune import Network, Samples
from tests.core.small_models import CPU, SETTINGS, learnt, task


def last_task(**changes):
    """A model with the bands of a second task, its samples, the rows of the bands, the network."""
    settings = replace(SETTINGS, **changes)
    before = learnt([task(0, 1)], settings)
    new = task(2, 3)
    drafts = draft_bands(before, new)
    model, fresh = append_drafts(before, new, drafts)
    model = replace(model, moments=updated_moments(model, new, fresh))
    zeros = torch.zeros(len(new.X), sum(len(draft.rows) for draft in drafts), dtype=torch.float64)
    samples = Samples(before.features(new.X), zeros, new.classes, new.weights)
    network = Network(before, model.features.bands[-2:], model.solution(CPU).classifier, CPU)
    return model, new, samples, [draft.rows for draft in drafts], network


@pytest.mark.parametrize("classifier", ["ovo", "ova"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("skip_connection", [False, True])
def test_the_hinge_is_that_of_the_models_scores(
    classifier, activation, batch_norm, skip_connection
):
    model, new, samples, rows, network = last_task(
        classifier=classifier,
        activation=activation,
        batch_norm=batch_norm,
        skip_connection=skip_connection,
    )

    found = network.hinge(samples, rows)

    expected = multi_class_hinge(model.scores(new.X), new.classes)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_gradients_are_those_of_finite_differences():
    _, _, samples, rows, network = last_task(activation="tanh")
    moving = [row.clone().requires_grad_() for row in rows]

    assert torch.autograd.gradcheck(lambda *rows: network.hinge(samples, rows).sum(), moving)


def test_samples_are_taken_and_joined():
    samples = last_task()[2]
    first, second = samples.take(torch.arange(5)), samples.take(torch.arange(5, 16))

    joined = first.followed_by(second)

    assert all(map(torch.equal, joined, samples))
