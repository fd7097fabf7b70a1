"""The benchmark of the rank: its table, and a quick run."""

from pathlib import Path

import pytest


def test_quick_run_prints_a_row_per_rank_and_writes_both_files(run_script):
    printed, records = run_script("ranks", "--quick")

    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| clusters |")]
    assert [row[1] for row in rows] == ["32", "auto"]
    assert [row[2] for row in rows] == ["32", "64"]
    assert [one["rank"] for one in records] == ["32", "auto"]


def test_means_are_over_draws_and_then_over_sets(bench):
    ranks = bench("ranks")
    values = {"a": (80.0, 90.0), "b": (50.0, 60.0, 70.0)}
    records = [
        {"set": name, "rank": 64, **dict.fromkeys(ranks.COLUMNS, 1.0), "accuracy": accuracy}
        for name, accuracies in values.items()
        for accuracy in accuracies
    ]
    *_, first, second, mean = ranks.table_lines(records)
    assert [line.split(" | ")[3] for line in (first, second, mean)] == ["85.00", "60.00", "72.50"]


def test_the_command_line_names_all_kinds_of_ranks(bench):
    options = bench("ranks").parse(["--ranks", "16", "auto", "none"])
    assert options.ranks == [16, "auto", None]


@pytest.mark.parametrize("name", ["equal", "mixed"])
def test_draws_repeat(bench, name):
    load = bench("ranks").load
    first, again = (load(name, 1, Path("nowhere"), 20)[0] for _ in range(2))
    assert (first.X == again.X).all()
    assert (first.y_test == again.y_test).all()
