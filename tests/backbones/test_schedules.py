import numpy as np
import pytest
from numpy.testing import assert_allclose

from ffnb_sklearn.backbones._pretraining import learning_rate


def rates(schedule, n_steps=100):
    return np.array([learning_rate(schedule, 2.0, step, n_steps) for step in range(n_steps)])


def test_constant():
    assert_allclose(rates("constant"), 2.0)


def test_cosine_falls_to_zero():
    values = rates("cosine")
    assert values[0] == 2.0
    assert values[50] == pytest.approx(1.0)
    assert (np.diff(values) < 0).all()
    assert values[-1] < 2e-3


def test_one_cycle_rises_and_falls():
    values = rates("one-cycle")
    assert values[0] == pytest.approx(0.08)
    assert values[30] == values.max() == 2.0
    assert_allclose(np.diff(values[:31]), 1.92 / 30)
    assert values[65] == pytest.approx(1.0)
    assert (np.diff(values[30:]) < 0).all()


@pytest.mark.parametrize("schedule", ["one-cycle", "cosine", "constant"])
def test_one_step_has_a_positive_rate(schedule):
    assert 0 < learning_rate(schedule, 2.0, 0, 1) <= 2.0
