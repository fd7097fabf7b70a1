"""Verdicts on the claims of the paper, computed from the recorded runs."""

import csv
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import verdicts
from benchmarks.paper.runs import Run

PAGE = Path(__file__).resolve().parents[3] / "docs" / "benchmarks" / "paper.rst"


@pytest.fixture(scope="module")
def lines():
    """Return the lines of the table of the recorded runs."""
    return verdicts.lines(verdicts.RESULTS)


def test_the_page_has_the_verdicts_of_the_recorded_runs(lines):
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(f"   {line}" for line in lines) in page


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ([1.0, 2.0, 3.0], "yes"),
        ([-1.0, -2.0, -3.0], "no"),
        ([-1.0, 1.0, 3.0], "open"),
        ([0.0, 0.0, 0.0], "open"),
        ([2.0, 2.0, 2.0], "yes"),
    ],
)
def test_a_verdict_needs_two_standard_errors(differences, verdict):
    assert verdicts.Judgement(np.array(differences)).verdict == verdict


def test_standard_error_is_that_of_the_mean_of_the_differences():
    found = verdicts.Judgement(np.array([1.0, 2.0, 3.0, 6.0]))
    # Deviations -2, -1, 0, 3: variance 14 / 3, standard error sqrt(14 / 12).
    assert found.mean == 3.0
    assert found.standard_error == pytest.approx(np.sqrt(14 / 12))


def test_a_run_collapses_below_half_of_its_closed_form():
    def runs(*finals):
        empty = np.empty(0)
        return [Run(np.array([final]), np.empty((0, 0)), empty, empty) for final in finals]

    trained = {0: runs(0.8, 0.1), 1: runs(0.3, 0.41), 2: runs(0.0, 0.0)}
    closed = {0: runs(0.7, 0.9), 1: runs(0.8, 0.8)}
    # Seed 2 has no closed form.
    assert sorted(verdicts.collapsed_runs(trained, closed)) == [False, False, True, True]


def test_a_cell_counts_the_runs_that_collapse():
    found = verdicts.Judgement(np.array([1.0, 2.0, 3.0]), n_collapsed=2, n_trained=3)
    assert str(found) == "+2.0 ± 0.6 yes (2 of 3 runs collapse)"


def test_every_claim_compares_rows_of_a_table(lines):
    _, *rows = csv.reader(lines)
    assert [claim for claim, *_ in rows] == [claim.text for claim in verdicts.CLAIMS]
    for claim, _, _, *found in rows:
        assert len(found) == len(verdicts.STREAMS)
        assert set(found) != {"-"}, claim
