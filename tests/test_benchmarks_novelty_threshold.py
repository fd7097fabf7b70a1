"""The benchmark of thresholds for new samples: its rows, and a quick run."""

import pytest


def test_quick_run_prints_the_rates_of_false_alarms(run_script):
    printed, records = run_script("novelty_threshold", "--quick")

    (row,) = [line for line in printed.splitlines() if line.startswith("| iris")]
    values = [float(value) for value in row.strip("| ").split(" | ")[1:]]
    at_once, in_tasks = values[:3], values[5:8]
    for rates in (at_once, in_tasks):
        assert rates == sorted(rates)
        assert rates[1] < 30.0
    assert [one["way"] for one in records] == ["at once", "in tasks"]
    assert at_once[1] == pytest.approx(float(records[0]["alarms 5%"]), abs=0.06)
