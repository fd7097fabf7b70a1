"""Faults at a few inner calls; python -m tests.campaigns.faults raises at every inner call."""

import gc

import numpy as np
import pytest

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from tests.campaigns.faults.calls import CALLS
from tests.campaigns.faults.campaign import attack, interrupt
from tests.campaigns.faults.injection import call_with_fault

# Spread over the inner calls; the campaign raises at all of them.
N_FAULTS = 3


@pytest.mark.parametrize("name", CALLS)
def test_a_fault_anywhere_changes_nothing_and_the_call_may_be_repeated(name):
    count = attack(name, n_places=N_FAULTS)
    assert count.n_faults >= N_FAULTS
    assert count.traces == []


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_at_any_line_is_before_or_after_the_change(name):
    count = interrupt(name, n_places=2 * N_FAULTS)
    assert count.n_faults == 2 * N_FAULTS
    assert count.traces == []


def test_callbacks_of_the_garbage_collector_are_no_inner_calls():
    """Hypothesis registers one; an error raised in it is lost, and pytest reports that."""

    def learn():
        IncrementalDiscriminantAnalysis(shared_band_size=5).partial_fit(np.eye(3), [0, 1, 2])

    collections = []

    def callback(phase, info):
        collections.append(phase)

    expected = call_with_fault(learn).n_calls
    thresholds = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(1)
    try:
        assert call_with_fault(learn).n_calls == expected
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(callback)
    assert gc.isenabled()
    assert collections
