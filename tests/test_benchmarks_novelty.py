"""The benchmark of novelty: its rows, and a quick run."""


def test_quick_run_prints_a_row_per_case_and_writes_both_files(bench, capsys, tmp_path):
    paths = [tmp_path / "novelty.md", tmp_path / "novelty.csv"]
    bench("novelty").main(["--quick", "--out", *map(str, paths)])

    printed = capsys.readouterr().out
    assert paths[0].read_text(encoding="utf-8") == printed
    (row,) = [line for line in printed.splitlines() if line.startswith("| digits without")]
    values = [float(value) for value in row.strip("| ").split(" | ")[1:]]
    assert len(values) == len(bench("novelty").SCORES)
    # Unseen digits are told from known ones by every score, and best by that of the package.
    assert min(values) > 0.5
    assert values[0] > 0.95
    assert len(paths[1].read_text(encoding="utf-8").splitlines()) == 1 + len(values)
