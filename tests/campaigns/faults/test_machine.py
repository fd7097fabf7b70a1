"""Short random sequences of calls; python -m tests.campaigns.faults fuzz makes long ones."""

import pytest

from tests.campaigns.faults.machine import BandCalls, Calls, ExactCalls, OpenSetCalls, run


@pytest.mark.filterwarnings("ignore:Trained neurons keep a trace:UserWarning")
@pytest.mark.filterwarnings("ignore:Merging is not exact:UserWarning")
@pytest.mark.parametrize("machine", [ExactCalls, BandCalls, OpenSetCalls])
def test_any_sequence_of_calls_agrees_with_its_model(machine):
    n_before = Calls.n_steps
    run(machine, 3, 12, derandomize=True)
    assert Calls.n_steps > n_before + 10
