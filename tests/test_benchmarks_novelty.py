"""The benchmark of novelty: its rows, and a quick run."""


def test_quick_run_prints_a_row_per_case_and_writes_both_files(bench, run_script):
    printed, records = run_script("novelty", "--quick")

    (row,) = [line for line in printed.splitlines() if line.startswith("| digits without")]
    values = [float(value) for value in row.strip("| ").split(" | ")[1:]]
    assert len(values) == len(bench("novelty").SCORES)
    # Unseen digits are told from known ones by every score, and best by that of the package.
    assert min(values) > 0.5
    assert values[0] > 0.95
    assert len(records) == len(values)
