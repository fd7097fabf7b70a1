"""The chart that opens the page of benchmarks, and the sentences under it."""

import csv
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
RECORDED = DOCS / "defaults_test.csv"
LINEAR = ["ncm", "slda", "slda-scaled", "ridge"]


@pytest.fixture
def found(bench):
    with open(RECORDED, encoding="utf-8", newline="") as file:
        return bench("overview").means(csv.DictReader(file))


def test_means_are_within_sets_first(bench):
    keys = {"method": "a", "predict_s": 0.0, "state_mb": 1.0}
    records = [
        {**keys, "set": name, "final": final, "fit_s": seconds}
        for name, final, seconds in [("x", 0.8, 1.0), ("x", 1.0, 3.0), ("y", 0.5, 8.0)]
    ]
    assert bench("overview").means(records) == {"a": pytest.approx((70.0, 4.0, 1.0))}


def test_chart_is_drawn_from_the_record(bench, capsys, tmp_path):
    target = tmp_path / "overview.png"
    bench("overview").main([str(RECORDED), str(target)])
    assert target.stat().st_size > 10_000
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].startswith("FFNB, default")
    assert len(rows) == 9


def test_sentences_are_those_of_the_record(found):
    text = " ".join((DOCS / "index.rst").read_text(encoding="utf-8").split())
    accuracy, seconds, state = found["default"]
    (_, best), (second, following), *_ = found.items()
    assert best == found["default"]
    assert f"with {accuracy:.1f} % beside {following[0]:.1f} % of the next, KLDA" in text
    assert second == "klda"
    for name in ("klda", "ranpac", "ranpac-fixed"):
        assert seconds / found[name][1] == pytest.approx(0.5, abs=0.15)
        assert found[name][2] / state == pytest.approx(4.0, rel=0.1)
    numbers = re.findall(
        r"at least (\d+) times as fast and (\d+) times as small, and at least (\d+) points", text
    )
    fast, small, points = map(int, numbers[0])
    for name in LINEAR:
        assert seconds / found[name][1] >= fast
        assert state / found[name][2] >= small
        assert accuracy - found[name][0] >= points
