"""Faults at a few inner calls; python -m tests.campaigns.faults raises at every inner call."""

import gc

import numpy as np
import pytest

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from tests.campaigns.faults.calls import CALLS
from tests.campaigns.faults.campaign import attack, interrupt
from tests.campaigns.faults.injection import call_with_fault

# Half of them at the end of each call; the campaign raises at all inner calls and lines.
N_PLACES = 2

# Calls draw different places, so that the sample is spread over the lines that they share.
SEEDS = {name: seed for seed, name in enumerate(CALLS)}


@pytest.mark.parametrize("name", CALLS)
def test_a_fault_anywhere_changes_nothing_and_the_call_may_be_repeated(name):
    count = attack(name, n_places=N_PLACES, seed=SEEDS[name], n_seconds=1)
    assert count.n_faults == N_PLACES
    assert count.traces == []


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_at_any_line_is_before_or_after_the_change(name):
    count = interrupt(name, n_places=N_PLACES, seed=SEEDS[name])
    assert count.n_faults == N_PLACES
    assert count.traces == []


def test_callbacks_of_the_garbage_collector_are_no_inner_calls():
    """Hypothesis registers one; an error raised in it is lost, and pytest reports that."""

    def learn():
        IncrementalDiscriminantAnalysis(shared_band_size=5).partial_fit(np.eye(3), [0, 1, 2])

    collections = []

    def callback(phase, info):
        collections.append(phase)

    # The first call looks for devices.
    learn()
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
