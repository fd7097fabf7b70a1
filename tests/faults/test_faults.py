"""A short selection of the injected faults; python -m tests.faults raises at every inner call."""

import pytest

from tests.faults.calls import CALLS
from tests.faults.campaign import attack

# About as many faults as fit into a second, spread over the inner calls.
N_FAULTS = 5


@pytest.mark.parametrize("name", CALLS)
def test_a_fault_anywhere_changes_nothing_and_the_call_may_be_repeated(name):
    count = attack(name, n_places=N_FAULTS)
    assert count.n_faults >= N_FAULTS
    assert count.traces == []
