"""The benchmark of linear scores: its table, and its splits."""

import numpy as np
import pytest


def test_quick_run_mixes_linear_scores_into_those_of_clusters_alone(run_script):
    printed, records = run_script("linear_scores", "--quick")

    assert "| clusters, 60 |" in printed
    assert "| equal, 60 |" not in printed
    assert {one["set"] for one in records} == {"equal, 60", "clusters, 60"}
    for one in records:
        gain = float(one["accuracy default"]) - float(one["accuracy without"])
        assert float(one["weight"]) > 0.03 if one["set"] == "clusters, 60" else gain == 0.0


def test_variants_change_the_weight_and_the_ridge(run_script):
    _, records = run_script("linear_scores", "--quick")

    entropies = [
        [float(one[key]) for key in one if key.startswith("log_loss")]
        for one in records
        if one["set"] == "clusters, 60"
    ]
    assert all(len(set(one)) == 6 for one in entropies)


def test_sets_without_linear_scores_leave_an_empty_table(bench, capsys):
    bench("linear_scores").main(["--sizes", "3", "--draws", "1", "--sets"])

    printed = capsys.readouterr().out
    assert "left out: 4 of 4" in printed
    assert "| mean |" not in printed


@pytest.mark.parametrize("n", [3, 5])
def test_so_many_rows_of_each_class_are_learned(bench, n):
    module = bench("linear_scores")
    X, y = np.arange(24.0)[:, None], np.repeat(["a", "b"], [20, 4])
    part = module.first_rows(module.Split("all", X, y, X, y), n, 0)

    if n == 5:
        assert part is None
    else:
        assert np.unique(part.y, return_counts=True)[1].tolist() == [3, 3]
        assert (part.y == y[part.X[:, 0].astype(int)]).all()
        assert len(part.X_test) == 24
