"""Recorded cells that are made again."""

import numpy as np
import pytest

from benchmarks.paper import again
from benchmarks.paper.runs import Plan, Runner
from benchmarks.paper.verdicts import RESULTS


def test_recorded_cells_do_not_depend_on_the_order_of_the_rows(shared_data, capsys):
    again.main(["--data", str(shared_data), "--results", str(RESULTS), "--cells", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    for line in lines[2:]:
        *_, recorded, new = line.strip("| ").split(" | ")
        assert recorded == new


def test_a_changed_record_is_reported(shared_data, tmp_path):
    text = (RESULTS / "fpha.csv").read_text(encoding="utf-8")
    header, *rows = text.splitlines()
    recorded = Runner(Plan(shared_data, again.SEEDS), RESULTS / "fpha.csv")
    cells = again.drawn_cells("fpha", 1, np.random.default_rng(0), recorded)
    row, seed = cells[0]
    final = again.final_accuracy(recorded, row, seed) / 100
    changed = [line.replace(f"{final:.6f}", "0.123456") for line in rows]
    (tmp_path / "fpha.csv").write_text("\n".join([header, *changed]), encoding="utf-8")
    with pytest.raises(SystemExit, match="accuracies differ"):
        again.main(["--data", str(shared_data), "--results", str(tmp_path), "--cells", "1"])
