"""Modules of torch of the heads, whose scores and logits are those of NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.heads import HEADS
from tests.core.small_models import CPU, D, learnt, task

PRIORS = np.array([0.2, 0.5, 0.3])


@pytest.fixture(params=HEADS)
def head(request):
    samples = task(0, 1, 2, n=20, seed=9)
    model = learnt([samples], classifier=request.param, skip_connection=True, band_size=0)
    model = replace(model, settings=replace(model.settings, shrinkage=0.4, epsilon=0.2))
    x = prediction.classifier_features(
        model, torch.as_tensor(np.random.default_rng(0).normal(size=(70, D)))
    )
    return prediction.solve_once(model, CPU).head, x


# Rows far away have squares beyond single precision.
@pytest.mark.parametrize("unit", [1.0, 1e25])
def test_scores_and_logits_of_a_module_are_those_of_the_head(head, unit):
    head, x = head
    scores = head.apply_priors(head.scores(unit * x).numpy(), PRIORS)
    found = head.scores_module(PRIORS)(unit * x)
    assert_allclose(found, scores, rtol=1e-9, atol=1e-9)
    assert_allclose(head.logits_module()(found), head.logits(scores), rtol=1e-7, atol=1e-7)


def test_a_module_holds_buffers_and_no_parameters(head):
    module = head[0].scores_module(PRIORS)
    assert not list(module.parameters())
    assert all(isinstance(name, str) for name in module.state_dict())
    assert module.state_dict()
