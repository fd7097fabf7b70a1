"""The loss of fine-tuning: the multi-class hinge of the scores that the model gives."""

from dataclasses import replace

import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core.drafts import append_drafts, draft_bands
from ffnb_sklearn.core.model import updated_moments
from ffnb_sklearn.core.tuning.descent import multi_class_hinge
from ffnb_sklearn.core.tuning.hinge import Network, Samples
from tests.core.small_models import CPU, SETTINGS, learnt, task


def last_task(**changes):
    """A model with the bands of a second task, its samples, and the rows of these bands."""
    settings = replace(SETTINGS, **changes)
    before = learnt([task(0, 1)], settings)
    new = task(2, 3)
    drafts = draft_bands(before, new)
    model, fresh = append_drafts(before, new, drafts)
    model = replace(model, moments=updated_moments(model, new, fresh))
    samples = Samples(
        tuple(before.features.layer_of(new.X, draft.layer - 1) for draft in drafts),
        tuple(torch.zeros_like(draft.corrections) for draft in drafts),
        before.view(new.X),
        new.classes,
        new.weights,
    )
    return model, new, samples, [draft.rows for draft in drafts]


def network_of(model):
    """The network whose newest band in each of two layers is to move."""
    return Network(model.features.bands[-2:], model.solution(CPU).classifier, CPU)


@pytest.mark.parametrize("classifier", ["ovo", "ova"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("skip_connection", [False, True])
def test_the_hinge_is_that_of_the_models_scores(
    classifier, activation, batch_norm, skip_connection
):
    model, new, samples, rows = last_task(
        classifier=classifier,
        activation=activation,
        batch_norm=batch_norm,
        skip_connection=skip_connection,
    )

    found = network_of(model).hinge(samples, rows)

    expected = multi_class_hinge(model.scores(new.X), new.classes)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_gradients_are_those_of_finite_differences():
    model, _, samples, rows = last_task(activation="tanh")
    network = network_of(model)
    moving = [row.clone().requires_grad_() for row in rows]

    assert torch.autograd.gradcheck(lambda *rows: network.hinge(samples, rows).sum(), moving)


def test_samples_are_taken_and_joined():
    _, _, samples, _ = last_task()
    first, second = samples.take(torch.arange(5)), samples.take(torch.arange(5, 16))

    joined = first.followed_by(second)

    assert torch.equal(joined.fixed, samples.fixed)
    assert all(map(torch.equal, joined.old, samples.old))
    assert all(map(torch.equal, joined.corrections, samples.corrections))
    assert torch.equal(joined.classes, samples.classes)
