"""The benchmark of tables with unequal classes: its table, and the factor it leaves out."""

import numpy as np


def test_quick_run_compares_two_heads_on_wine(run_script):
    printed, records = run_script("more_tables", "--quick")

    assert "| wine |" in printed
    assert [one["method"] for one in records] == ["default", "without overlap", "slda"]
    assert all(float(one["balanced"]) > 85.0 for one in records)
    assert [one["log_loss"] == "" for one in records] == [False, False, True]


def test_without_overlap_noisy_classes_keep_their_own_covariances(bench):
    module, data = bench("more_tables"), bench("_data")
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [900, 300])
    X = rng.standard_t(3, (len(y), 12)) + 0.4 * y[:, None]
    split = data.Split("own", X[::2], y[::2], X[1::2], y[1::2])

    with_factor, without = (module.measure(split, name, 0) for name in ("default", module.WITHOUT))

    assert with_factor["log_loss"] < without["log_loss"] - 0.01
