"""The pieces of the descent: its loss, its steps, its rate, its end."""

from dataclasses import replace

import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from ffnb_sklearn.core.bands.tuning.descent import (
    MomentumSteps,
    has_stalled,
    multi_class_hinge,
    rate_factor,
)
from tests.core.small_models import DESCENT


@pytest.mark.parametrize("n_classes", [1, 2, 5])
def test_the_hinge_is_what_the_own_class_lacks_to_a_lead_of_one(n_classes):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn((30, n_classes), generator=generator, dtype=torch.float64)
    classes = torch.randint(n_classes, (30,), generator=generator)

    by_hand = [
        max([0.0, *(1.0 - row[own] + row[c] for c in range(n_classes) if c != own)])
        for row, own in zip(scores.tolist(), classes.tolist(), strict=True)
    ]
    assert_allclose(multi_class_hinge(scores, classes), by_hand, rtol=1e-12)


def test_for_two_classes_the_hinge_is_that_of_torch():
    scores = torch.tensor([[0.2, 0.5], [3.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    classes = torch.tensor([0, 0, 1])

    expected = nn.functional.multi_margin_loss(scores, classes, reduction="none") * 2
    assert_allclose(multi_class_hinge(scores, classes), expected, rtol=1e-12)


def test_steps_are_those_of_torch():
    start = torch.tensor([1.0, -2.0], dtype=torch.float64)
    ours, theirs = (start.clone().requires_grad_() for _ in range(2))
    step = MomentumSteps(
        [ours], replace(DESCENT, learning_rate=0.1, momentum=0.8, weight_decay=0.3)
    )
    optimiser = torch.optim.SGD([theirs], lr=0.1, momentum=0.8, weight_decay=0.3)

    for rate in (0.1, 0.1, 0.05):
        step.rate = optimiser.param_groups[0]["lr"] = rate
        step(ours.exp().sum())
        optimiser.zero_grad()
        theirs.exp().sum().backward()
        optimiser.step()

    assert_allclose(ours.detach(), theirs.detach(), rtol=1e-14)


@pytest.mark.parametrize(
    ("losses", "factor"),
    [
        ([3.0, 2.0], 1 / 0.99),  # no earlier change to compare with
        ([5.0, 4.0, 2.0], 0.99),
        ([5.0, 4.0, 6.0], 0.99),
        ([5.0, 3.0, 2.0], 1 / 0.99),
        ([9.0, 1.0, 5.0, 4.0, 3.0], 1 / 0.99),
    ],
)
def test_the_rate_falls_when_the_loss_changes_faster_and_else_grows(losses, factor):
    assert rate_factor(losses) == factor


def test_a_descent_stalls_after_ten_epochs_without_a_lower_loss():
    assert not has_stalled([2.0] + [1.0] * 10, 10)
    assert has_stalled([2.0] + [1.0] * 11, 10)
    assert not has_stalled([1.0] + [2.0] * 9 + [0.9], 10)
    assert has_stalled([1.0] + [2.0] * 10, 10)
