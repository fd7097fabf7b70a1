"""The benchmark of samples unlike all that were learned."""

import pytest


def test_the_default_share_is_that_of_the_predicted_probabilities(run_script):
    printed, records = run_script("unforeseen", "--quick")

    assert "| equal, 60 |" in printed
    assert "| largest |" in printed
    for one in records:
        assert float(one["predicted"]) == pytest.approx(float(one["log_loss default"]), rel=1e-9)
        losses = [float(one[f"log_loss {name}"]) for name in ("half", "default", "twice")]
        assert len(set(losses)) == 3
