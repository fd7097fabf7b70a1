"""The table of columns with different units is made by its script."""

import re


def test_wine_gets_a_row_and_one_ridge_gains_nothing(bench, capsys, tmp_path):
    path = tmp_path / "columns.csv"
    bench("columns").main(["--sets", "wine", "--repeats", "1", "--out", str(path)])

    row = re.search(r"\| wine \| ([\d.]+) \| ([+-][\d.]+) ", capsys.readouterr().out)
    assert float(row[1]) > 90.0
    assert float(row[2]) <= 0.0
    assert len(path.read_text(encoding="utf-8").splitlines()) == 4
