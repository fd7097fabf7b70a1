"""The benchmark of what matters: its tables, its figures, and the numbers of the guide."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "docs" / "benchmarks" / "what_matters.csv"
PAGE = (ROOT / "docs" / "user_guide" / "what_matters.rst").read_text(encoding="utf-8")


def recorded(bench, setting):
    with open(RECORDED, encoding="utf-8", newline="") as file:
        return bench("what_matters").means(list(csv.DictReader(file)), setting)


def accuracy(found, curve, value):
    """Mean accuracy as the recorded table prints it."""
    return round(found[curve][value][0], 1)


def test_run_prints_a_table_and_draws_a_figure(run_script, tmp_path):
    options = ["--settings", "columns", "--seeds", "1", "--plots", str(tmp_path)]
    printed, records = run_script("what_matters", *options)

    assert "| columns | wine | breast cancer | digits |" in printed
    assert len(records) == 6
    assert (tmp_path / "matters_columns.png").stat().st_size > 5_000


def test_figures_are_drawn_from_the_recorded_runs(bench, tmp_path):
    bench("what_matters").main(["--from", str(RECORDED), "--plots", str(tmp_path)])
    drawn = {path.name for path in tmp_path.glob("*.png")}
    assert drawn == set(re.findall(r"images/(matters_\w+\.png)", PAGE))


def test_means_are_over_seeds(bench):
    keys = {"setting": "rank", "value": "2", "curve": "a", "state_mb": 3.0}
    records = [{**keys, "accuracy": value} for value in (80.0, 90.0)]
    assert bench("what_matters").means(records, "rank") == {"a": {"2": (85.0, 3.0, 5.0)}}


@pytest.mark.parametrize("setting", ["shared_band_size", "rank"])
def test_descriptions_of_the_curves_are_those_of_the_record(bench, setting):
    found = recorded(bench, setting)
    (text,) = re.findall(rf"{setting}\.png\n   :alt: (.*?)\n\n", PAGE, re.DOTALL)
    ends = {"shared_band_size": ("0", "2000"), "rank": ("2", "128")}[setting]
    for value in ends:
        assert str(accuracy(found, "clusters", value)) in text


def test_differences_in_the_guide_are_those_of_the_record(bench):
    text = " ".join(PAGE.split())
    shared, rank = recorded(bench, "shared_band_size"), recorded(bench, "rank")
    gains = [
        accuracy(shared, curve, "2000") - accuracy(shared, curve, "0")
        for curve in ("clusters", "digits")
    ]
    assert "They gain {:.1f} points on clusters and {:.1f} on the digits".format(*gains) in text
    loss = accuracy(shared, "digits", "2000") - accuracy(shared, "digits", "100")
    states = [shared["digits"][value][1] for value in ("100", "2000")]
    assert "take {:.1f} MB instead of {:.1f}, for {:.1f} points".format(*states, loss) in text
    change, loss = (
        accuracy(rank, curve, "64") - accuracy(rank, curve, "16")
        for curve in ("digits", "clusters")
    )
    expected = f"accuracy by {abs(change):.1f} points; on clusters it loses {loss:.1f}"
    assert expected in text


def test_distance_of_the_automatic_choice_is_that_of_the_record(bench):
    found = recorded(bench, "shrinkage")
    below = [
        max(accuracy(found, curve, value) for value in found[curve] if value != "auto")
        - accuracy(found, curve, "auto")
        for curve in reversed(list(found))
    ]
    text = " ".join(PAGE.split())
    assert "is {:.1f}, {:.1f} and {:.1f} points below the best".format(*below) in text
