"""The benchmark of compact models: its arithmetic, and a quick run."""

import numpy as np
import pytest
from numpy.testing import assert_allclose


def record(n_shared, bands, accuracy, state, **others):
    return {"set": "wine", "shared": n_shared, "bands": bands, "accuracy": accuracy} | {
        "state_mb": state,
        **others,
    }


def test_quick_run_prints_three_tables_and_writes_both_files(run_script):
    printed, records = run_script("compact", "--quick")

    assert "hold-outs of a quarter" in printed
    assert "scikit-learn" in printed
    assert [line for line in printed.splitlines() if line.startswith("## ")] == [
        "## What trained bands add and cost",
        "## Accuracy against state",
        "## Energy of the bands",
    ]
    assert len(records) == 4
    columns = [
        "set",
        "split",
        "shared",
        "bands",
        "accuracy",
        "moved",
        "fit_s",
        "first_s",
        "state_mb",
    ]
    assert list(records[0])[:9] == columns


def test_test_rows_are_scored_only_on_request(run_script):
    printed, _ = run_script("compact", "--quick", "--test")
    assert "test rows" in printed.splitlines()[0]


def test_the_frontier_drops_models_that_a_smaller_one_matches(bench):
    models = {"small": (1.0, 80.0), "worse": (2.0, 79.0), "same": (3.0, 80.0), "best": (4.0, 90.0)}
    assert bench("compact").frontier(models) == ["small", "best"]
    assert bench("compact").frontier({"tie": (1.0, 70.0), "better": (1.0, 71.0)}) == ["better"]


def test_means_are_over_splits_set_by_set(bench):
    records = [record(0, 1, accuracy, 1.0) for accuracy in (80.0, 90.0)]
    found = bench("compact").means([*records, record(100, 1, 70.0, 2.0)], "accuracy")
    assert found == {(0, 1): {"wine": 85.0}, (100, 1): {"wine": 70.0}}


@pytest.mark.parametrize("bands", [0, 1])
def test_only_bands_make_predictions_depend_on_the_class_order(bench, bands):
    data, compact = bench("_data"), bench("compact")
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = np.arange(200) % 5
    X += y[:, None] / 3
    split = data.Split("own", X[:150], y[:150], X[150:], y[150:])
    study = data.Problem("own", "drawn", lambda: [split], classes_per_task=1)
    found = compact.measure(split, study, 0, 10, bands)
    assert found["moved"] >= 0.0
    assert bands or found["moved"] == 0.0
    # The package's own energy is the first.
    assert_allclose(found["energy 0.001"], found["accuracy"])
    accuracies = [found[f"energy {energy:g}"] for energy in compact.ENERGIES]
    assert found["energy chosen"] in accuracies
