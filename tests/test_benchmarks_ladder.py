"""The ladder from the published model to the default: its rungs, its table, and a quick run."""

import csv
from pathlib import Path

import numpy as np
import pytest

from ffnb_sklearn import BandTraining, FFNBClassifier


@pytest.fixture(scope="module")
def rungs(bench):
    return bench("_ladder_rungs")


@pytest.mark.parametrize("name", ["fpha", "sbu", "cifar"])
def test_the_ladder_leads_from_the_published_model_to_the_default(rungs, name):
    first, _ = rungs.settings_of(rungs.START, name)
    last, features = rungs.settings_of(rungs.LAST, name)

    ends = rungs.build(first, 0).get_params(), rungs.build(last, 0).get_params()
    published = FFNBClassifier.as_published(**rungs.PUBLISHED[name])
    for ours, theirs in zip(
        ends, (published, FFNBClassifier(training=BandTraining())), strict=True
    ):
        expected = theirs.set_params(random_state=0, device="cpu").get_params()
        assert {k: v for k, v in ours.items() if k != "training"} == {
            k: v for k, v in expected.items() if k != "training"
        }
    assert features == "gcn"


def test_each_kept_rung_changes_only_what_it_names(rungs):
    before, features = rungs.settings_of(rungs.START, "fpha")
    kept = [one for one in rungs.RUNGS if one.kept]
    for rung in kept[kept.index(rungs.START) + 1 :]:
        after, wider = rungs.settings_of(rung, "fpha")
        changed = {name for name in after if after[name] != before[name]}
        assert changed or wider != features
        assert changed <= {*rung.to_default, *rung.changes}
        before, features = after, wider


def test_rungs_in_brackets_are_left_again(rungs):
    several, _ = rungs.settings_of(rungs.SEVERAL_LAYERS, "fpha")
    last, _ = rungs.settings_of(rungs.LAST, "fpha")

    assert several["n_layers"] == len(several["p"]) == 3
    assert last["n_layers"] == 1
    assert last["half_bias"]


def record(rung, name, final, **changes):
    return {
        "set": name, "split": "official", "rung": rung, "seed": 0, "max_epochs": 0, "final": final
    } | changes  # fmt: skip


def test_steps_are_means_over_sets_against_the_kept_rung_below(bench, rungs):
    slip, start, larger, units = (one.label for one in rungs.RUNGS[:4])
    records = [
        record(slip, "fpha", 0.4),
        record(start, "fpha", 0.5, seed=0),
        record(start, "fpha", 0.7, seed=1),
        record(larger, "fpha", 0.55),
        record(units, "fpha", 0.7),
        *(record(start, "sbu", 0.5, split=f"fold {k}") for k in (3, 4)),
        record(units, "sbu", 0.2, split="fold 3"),
        record(units, "sbu", 0.4, split="fold 4"),
        record(start, "fpha", 0.9, max_epochs=3),
    ]

    lines = bench("_ladder_table").table_lines(records)

    rows = {line.split(" | ")[0][2:]: line.split(" | ")[1:] for line in lines if "| " in line}
    assert rows[start][:3] == ["60.00 ± 10.00", "90.00", "50.00"]
    assert rows["the paper, backbone pretrained"][:2] == ["63.30", "67.47"]
    assert rows[f"[{slip}]"][-2] == "-20.00"
    assert rows[f"[{larger}]"][-2] == "-5.00"
    assert rows[units][2] == "40.00"
    assert rows[units][-2] == "-5.00"
    assert any(f"{units} (-5.00)" in line for line in lines if "do not pay" in line)


def test_a_set_without_a_row_of_the_rung_below_is_compared_with_the_last_it_has(bench, rungs):
    kept = [one.label for one in rungs.RUNGS if one.kept]
    first, between, later = kept[0], kept[-3], kept[-2]
    records = [
        *(record(label, "fpha", final) for label, final in ((first, 0.5), (between, 0.6))),
        record(later, "fpha", 0.62),
        *(record(label, "cifar", final) for label, final in ((first, 0.3), (later, 0.4))),
    ]

    lines = bench("_ladder_table").table_lines(records)

    steps = {line.split(" | ")[0][2:]: line.split(" | ")[-1] for line in lines if "| " in line}
    assert steps[between] == "+10.00 |"
    assert steps[later] == "+6.00 |"


def test_quick_run_prints_a_row_per_rung_and_writes_both_files(
    bench, shared_data, capsys, tmp_path
):
    paths = [tmp_path / "ladder.md", tmp_path / "ladder.csv"]
    bench("ladder").main(
        ["--quick", "--sets", "sbu", "--data", str(shared_data), "--out", *map(str, paths)]
    )

    printed = capsys.readouterr().out
    assert paths[0].read_text(encoding="utf-8") == printed
    assert "quick run" in printed
    assert "| [printed bias, without the factor 1/2] |" in printed
    with paths[1].open(encoding="utf-8") as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == 3
    assert all(0.0 < float(one["final"]) <= 1.0 for one in runs)
    assert np.isfinite([float(one["seconds"]) for one in runs]).all()

    again = ["--quick", "--sets", "sbu", "--data", "nowhere", "--from", str(paths[1])]
    bench("ladder").main(again)
    repeated = capsys.readouterr().out
    assert "- runs of an earlier command: ladder.csv" in repeated
    assert repeated[repeated.index("| rung") :] == printed[printed.index("| rung") :]


def test_fine_tuning_stops_below_the_wide_features(bench):
    ladder = bench("ladder")
    runs = list(ladder.runs_of(ladder.parse(["--sets", "fpha", "--seeds", "7", "--epochs", "4"])))

    assert {seed for _, _, seed, _ in runs} == {7}
    assert sorted({epochs for *_, epochs in runs}) == [0, 4]
    assert "draws of old classes" in {rung.label for _, rung, _, _ in runs}
    assert "wide features" not in {rung.label for _, rung, _, _ in runs}


def test_chosen_rungs_alone_run_and_the_report_names_the_others(bench, rungs):
    ladder = bench("ladder")
    kept = [rungs.START.label, rungs.LARGER_RIDGE.label]
    options = ladder.parse(["--sets", "fpha", "--rungs", *kept])

    assert {rung.label for _, rung, _, _ in ladder.runs_of(options)} == set(kept)
    (left_out,) = [line for line in ladder.settings_lines(options, []) if "rungs left out" in line]
    assert all((rung.label in left_out) == (rung.label not in kept) for rung in rungs.RUNGS)


def test_the_recorded_command_quotes_its_words(bench, monkeypatch):
    report = bench("_report")
    script = str(Path(report.__file__).with_name("ladder.py"))
    monkeypatch.setattr("sys.argv", [script, "--rungs", "epsilon of 0.1"])

    lines = report.environment_lines("1.0", "cpu")

    assert lines[0] == "- command: `python benchmarks/ladder.py --rungs 'epsilon of 0.1'`"


def test_a_run_in_several_files_is_that_of_the_first(bench, tmp_path):
    ladder = bench("ladder")
    paths = tmp_path / "new.csv", tmp_path / "old.csv"
    for path, finals in zip(paths, ({0: 0.5}, {0: 0.3, 1: 0.4}), strict=True):
        lines = [f"fpha,official,a,{seed},0,{final},10,1.0" for seed, final in finals.items()]
        header = "set,split,rung,seed,max_epochs,final,n_test,seconds"
        path.write_text("\n".join([header, *lines]) + "\n")
    found = {one["seed"]: one["final"] for one in ladder.earlier_records(paths)}
    assert found == {0: 0.5, 1: 0.4}
