"""The benchmark of classes of unequal size: a quick run."""

import numpy as np
import pytest


def test_quick_run_prints_a_row_per_head_and_writes_both_files(bench, capsys, tmp_path):
    paths = [tmp_path / "priors.md", tmp_path / "priors.csv"]
    bench("priors").main(["--quick", "--out", *map(str, paths)])

    printed = capsys.readouterr().out
    assert paths[0].read_text(encoding="utf-8") == printed
    lines = [line for line in printed.splitlines() if line.startswith("| 2, 5, 93 % |")]
    rows = {head: list(map(float, figures)) for _, head, *figures in map(cells, lines)}
    assert list(rows) == list(bench("priors").HEADS)
    assert len(paths[1].read_text(encoding="utf-8").splitlines()) == 1 + len(rows)
    # Empirical priors make fewer errors in total, and more errors in rare classes.
    uniform, empirical = rows["gaussian, uniform priors"], rows["gaussian"]
    assert empirical[0] > uniform[0]
    assert empirical[1] < uniform[1]
    assert all(50.0 < row[1] <= row[0] for row in rows.values())


def test_unknown_sets_are_refused(bench, capsys):
    with pytest.raises(SystemExit):
        bench("priors").main(["--sets", "shuttle"])
    assert "must name some of ['2, 5, 93 %'" in capsys.readouterr().err


def test_draws_have_the_given_shares(bench):
    shares, options = bench("priors").GENERATED["2, 5, 93 %"]
    (split,) = bench("priors").generated_splits(shares, options, 1)

    _, counts = np.unique(np.concatenate([split.y, split.y_test]), return_counts=True)
    np.testing.assert_allclose(counts / counts.sum(), shares, atol=0.005)


def cells(line):
    return line.strip("| ").split(" | ")
