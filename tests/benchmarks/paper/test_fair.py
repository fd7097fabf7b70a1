"""Settings that are chosen on held-out training rows."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from benchmarks.lib.data import Split
from benchmarks.paper import fair
from benchmarks.paper.data_sets import SBU, held_out
from benchmarks.paper.runs import Plan, Run, Runner
from benchmarks.paper.tables import CLOSED
from benchmarks.paper.verdicts import RESULTS, SEEDS

DOCS = Path(__file__).resolve().parents[3] / "docs" / "benchmarks"


def test_held_out_rows_are_a_quarter_of_the_training_rows_of_each_class():
    X = np.arange(24.0)[:, None]
    y = np.repeat([0, 1, 2], 8)
    split = Split("official", X, y, X + 100.0, y)
    found = held_out(split, seed=0)
    assert_array_equal(np.bincount(found.y), [6, 6, 6])
    assert_array_equal(np.bincount(found.y_test), [2, 2, 2])
    assert_array_equal(np.sort(np.concatenate([found.X, found.X_test])[:, 0]), X[:, 0])
    assert not np.array_equal(found.X_test, held_out(split, seed=1).X_test)


def _run(final):
    return Run(np.array([1.0, final]), np.empty((0, 0)), np.array([1, 2]), np.array([0, 0]))


def test_test_rows_take_no_part_in_the_choice():
    model = fair.MODELS[1]
    runner = Runner(Plan(Path(), (0, 1)))
    settings = fair.grid(model, SBU)
    for k, setting in enumerate(settings):
        for is_held_out, best in ((True, 7), (False, 3)):
            row = fair.row_of(model, SBU, setting, modes=(CLOSED,), held_out=is_held_out)
            for seed in (0, 1):
                key = runner.key(row, CLOSED, SBU.split, seed)
                runner._runs[key] = _run(0.9 if k == best else 0.5)
    assert fair.chosen_setting(runner, model, SBU) == settings[7]


def test_without_a_layer_only_the_ridge_of_the_pairs_is_chosen():
    assert {tuple(setting) for setting in fair.grid(fair.MODELS[0], SBU)} == {("epsilon",)}


def test_without_a_layer_the_settings_of_all_rows_of_images_reach_65_percent():
    runner = Runner(Plan(Path(), SEEDS), RESULTS / "cifar.csv")
    setting = fair.chosen_setting(runner, fair.MODELS[0], fair.CIFAR_ALL)
    row, _ = fair.final_rows(fair.MODELS[0], fair.CIFAR_ALL, setting)
    assert np.mean(fair.scores(runner, row, CLOSED)) >= 65.0


@pytest.mark.parametrize("name", list(fair.SETS))
def test_the_page_has_the_tables_of_the_recorded_runs(name):
    page = (DOCS / "paper_fair.md").read_text(encoding="utf-8")
    runner = Runner(Plan(Path(), SEEDS), RESULTS / f"{name}.csv")
    for data_set in fair.SETS[name]:
        assert "\n".join(fair.part(runner, data_set)) in page


def test_the_page_of_the_paper_has_the_summary_of_the_recorded_runs():
    page = (DOCS / "paper.rst").read_text(encoding="utf-8")
    plan = Plan(Path(), SEEDS)
    by_set = {name: Runner(plan, RESULTS / f"{name}.csv") for name in fair.SETS}
    assert "\n".join(f"   {line}" for line in fair.summary(by_set)) in page
