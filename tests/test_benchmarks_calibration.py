"""The benchmark of the calibration: its measures, and a quick run."""

import numpy as np
import pytest


def test_quick_run_prints_a_row_per_head_and_writes_both_files(bench, capsys, tmp_path):
    paths = [tmp_path / "calibration.md", tmp_path / "calibration.csv"]
    bench("calibration").main(["--quick", "--out", *map(str, paths)])

    printed = capsys.readouterr().out
    assert paths[0].read_text(encoding="utf-8") == printed
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| iris |")]
    assert [row[2] for row in rows] == ["gaussian", "LDA"]
    assert all(float(row[5]) <= float(row[4]) for row in rows)
    assert len(paths[1].read_text(encoding="utf-8").splitlines()) == 1 + 2


def test_calibration_error_is_that_of_known_bins(bench):
    sure, doubtful = np.log([0.95, 0.05]), np.log([0.55, 0.45])
    logs, y = np.stack([sure] * 4 + [doubtful] * 4), np.array([0, 0, 0, 1, 0, 0, 0, 0])

    error = bench("calibration").expected_calibration_error(logs, y)

    assert error == pytest.approx((0.95 - 0.75 + 1.0 - 0.55) / 2.0)


def test_the_best_temperature_mends_probabilities_that_are_too_sure(bench):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 3))
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    right = scores - np.logaddexp.reduce(scores, axis=1)[:, None]
    sure = 4.0 * scores - np.logaddexp.reduce(4.0 * scores, axis=1)[:, None]

    log_loss, best = bench("calibration").log_loss, bench("calibration").best_log_loss

    assert log_loss(sure, y) > log_loss(right, y) + 0.3
    assert best(sure, y) == pytest.approx(log_loss(right, y), abs=0.01)
