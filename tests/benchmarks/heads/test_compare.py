"""The comparison of classifiers: figures, reports, records of earlier runs, and its options."""

import csv
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.svm import SVC

from benchmarks.heads import compare
from benchmarks.heads.methods import METHODS, ChosenBlocks, Context, setting
from benchmarks.lib.sets import Problem, load_group, table_splits
from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    class_incremental_tasks,
)

# Recorded by an earlier script.
OLD_RUNS = str(Path(compare.__file__).parents[1] / "results" / "settings" / "what_matters.csv")

IRIS = Problem("iris", "", lambda seed: table_splits(load_iris, True, seed))


def records_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "name", ["ida-bare", "ida-empirical", "ffnb", "published", "slda", "logistic"]
)
def test_figures_are_those_of_the_learned_estimator(name):
    (split,) = IRIS.splits(0)
    found = compare.measure(METHODS[name], IRIS, split, Context(0), average=True)
    clf = METHODS[name].build(Context(0))
    if METHODS[name].joint:
        clf.fit(split.X, split.y)
    else:
        for task in compare.tasks_of(IRIS, split.y, Context(0)):
            clf.partial_fit(split.X[task], split.y[task])
    predicted = clf.predict(split.X_test)
    assert list(found) == [*compare.FIGURES, compare.CURVE]
    assert_allclose(found["accuracy"], 100.0 * np.mean(predicted == split.y_test))
    assert_allclose(found["balanced"], 100.0 * balanced_accuracy_score(split.y_test, predicted))
    assert found["state_mb"] > 0
    if name == "slda":
        assert np.isnan(found["log_loss"])
    else:
        # The classes have twenty test rows each, so weights change nothing.
        expected = log_loss(split.y_test, clf.predict_proba(split.X_test))
        assert_allclose(found["log_loss"], expected, rtol=1e-6)
    assert found["average"] >= found["accuracy"]


def test_settings_of_the_block_are_chosen_on_held_out_rows(monkeypatch):
    (split,) = IRIS.splits(0)
    chosen = ChosenBlocks(random_state=0).fit(split.X, split.y)
    assert chosen.best_params_.keys() == {"p", "bands__gamma", "epsilon"}
    model = FFNBClassifier.as_published(
        units="relative", bands__max_epochs=0, random_state=0, device="cpu", **chosen.best_params_
    )
    model.fit(split.X, split.y)
    assert_allclose(chosen.predict_proba(split.X_test), model.predict_proba(split.X_test))
    # A worse ridge is not chosen.
    monkeypatch.setattr(ChosenBlocks, "EPSILONS", (1e6, chosen.best_params_["epsilon"]))
    again = ChosenBlocks(random_state=0).fit(split.X, split.y)
    assert again.best_params_["epsilon"] < 1e6


def test_state_of_a_joint_method_holds_the_rows_once():
    (split,) = IRIS.splits(0)
    rows = (split.X.nbytes + split.y.nbytes) / 1e6
    states = {
        name: compare.measure(METHODS[name], IRIS, split, Context(0))["state_mb"]
        for name in ("logistic", "neighbour")
    }
    assert states["logistic"] > rows
    # The neighbours are the rows, with a few hundred bytes around them.
    assert rows < states["neighbour"] < 2 * rows


def test_joint_methods_are_refitted_with_all_rows_so_far(monkeypatch):
    (split,) = IRIS.splits(0)
    fitted = []
    fit = LogisticRegression.fit
    monkeypatch.setattr(
        LogisticRegression, "fit", lambda self, X, y: fitted.append(list(y)) or fit(self, X, y)
    )
    for average, n_classes in ((False, [3]), (True, [2, 3])):
        fitted.clear()
        compare.measure(METHODS["logistic"], IRIS, split, Context(0), average=average)
        assert [len(set(y)) for y in fitted] == n_classes
        assert len(fitted[-1]) == len(split.y)


def test_calibration_error_is_the_gap_of_confidence_and_accuracy():
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.35, 0.65]])
    error = compare.calibration_error(probabilities, np.array([0, 1, 1, 1]))
    assert_allclose(error, (abs(1.8 - 1) + abs(1.25 - 2)) / 4)


def test_every_method_builds_with_its_seed():
    for name, method in METHODS.items():
        estimator = method.build(Context(seed=3, width=50))
        assert hasattr(estimator, "fit" if method.joint else "partial_fit"), name
        if name.startswith(("ida", "ffnb", "published")):
            assert estimator.random_state == 3


def test_a_setting_is_a_list_of_known_parameters_with_literal_values():
    clf = setting("rank=16, priors='empirical', shared_band_size=0").build(Context(seed=2))
    expected = IncrementalDiscriminantAnalysis(
        rank=16, priors="empirical", shared_band_size=0, random_state=2
    )
    assert clf.get_params() == {**expected.get_params(), "device": "cpu"}
    bands = setting("band_size=1, bands__gamma=10.0")
    assert bands.label == "FFNB, band_size=1, bands__gamma=10.0"
    assert bands.build(Context()).bands.gamma == 10.0
    for wrong in ("rank", "rang=2", "rank=print(1)", "1", "", "rank=1)+f(rank=2"):
        with pytest.raises(ValueError, match=r"a setting (is|names)"):
            setting(wrong)


def test_report_compares_with_the_first_method_and_with_another_version(tmp_path, capsys):
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    quick = ["--quick", "--sets", "iris", "--methods", "slda", "ncm"]
    first = compare.main([*quick, "--out", str(old)])
    assert [one["method"] for one in first] == ["slda", "ncm"]
    written = records_of(old)
    assert list(written[0]) == [*compare.KEYS, *compare.FIGURES, compare.CURVE]
    text = old.read_text(encoding="utf-8").replace(written[0]["balanced"], "50.0")
    old.write_text(text, encoding="utf-8")
    capsys.readouterr()

    compare.main([*quick, "--against", str(old), "--out", str(new), str(tmp_path / "new.md")])

    printed = capsys.readouterr().out
    assert printed == (tmp_path / "new.md").read_text(encoding="utf-8")
    gap = 50.0 - first[0]["balanced"]
    assert f"| slda before | {gap:+.2f} (iris {gap:+.2f}), x" in printed
    assert "## study: means over 1 sets" in printed
    methods = [one["method"] for one in records_of(new)]
    assert methods == ["slda before", "ncm before", "slda", "ncm"]


def test_page_shows_the_charts_of_each_group(tmp_path):
    page = tmp_path / "pages" / "page.md"
    plots = tmp_path / "plots"
    page.parent.mkdir()
    plots.mkdir()
    quick = ["--quick", "--sets", "iris", "--methods", "slda", "lda"]
    slda, lda = compare.main([*quick, "--plots", str(plots), "--out", str(page)])
    text = page.read_text(encoding="utf-8")
    assert "](../plots/study_megabytes.png)" in text
    assert "](../plots/study_seconds.png)" in text
    stored = f"SLDA {slda['balanced']:.1f} at {slda['state_mb']:.3g}; "
    assert stored in text
    assert f"{lda['balanced']:.1f} at {lda['state_mb']:.3g}." in text
    pictures = sorted(path.name for path in plots.iterdir())
    assert pictures == ["study_megabytes.png", "study_seconds.png"]


def test_runs_of_an_earlier_file_are_not_made_again(tmp_path, monkeypatch):
    path = tmp_path / "runs.csv"
    arguments = ["--sets", "wine", "--seeds", "0", "1", "--methods", "ncm"]
    first = compare.main([*arguments, "--out", str(path)])
    monkeypatch.setattr(compare, "measure", lambda *_, **__: pytest.fail("measured again"))
    again = compare.main([*arguments, "--resume", str(path)])
    assert [one["balanced"] for one in again] == [one["balanced"] for one in first]
    with pytest.raises(pytest.fail.Exception, match="measured again"):
        compare.main([*arguments, "--resume", str(path), "--again", "ncm"])


def test_means_weigh_sets_alike_and_costs_geometrically():
    base = {"split": "", "group": "g", "method": "m"} | dict.fromkeys(compare.FIGURES, 0.0)
    records = [
        base | {"set": "a", "seed": "0", "balanced": 80.0, "state_mb": 1.0},
        base | {"set": "a", "seed": "1", "balanced": 90.0, "state_mb": 1.0},
        base | {"set": "b", "seed": "0", "balanced": 65.0, "state_mb": 100.0},
    ]
    found = compare.group_means(compare.means(records), "g", "m")
    assert_allclose([found["balanced"], found["state_mb"]], [75.0, 10.0])


def test_own_features_and_tables_of_a_file_are_streamed(tmp_path, capsys):
    X, y = load_iris(return_X_y=True)
    np.savez(tmp_path / "mine.npz", X=X, y=y, train=np.arange(len(y)) % 3 > 0)
    np.savez(tmp_path / "mytables.npz", one_X=X, one_y=y, two_X=X[:, :2], two_y=y)
    compare.main(["--features", str(tmp_path / "mine.npz"), "--methods", "ncm", "--seeds", "0"])
    assert "| mine | nearest class mean |" in capsys.readouterr().out
    tables = ["--sets", "mytables", "--tables", str(tmp_path), "--hold-out", "--seeds", "0"]
    records = compare.main([*tables, "--methods", "ncm"])
    assert [one["set"] for one in records] == ["one", "two"]
    assert records[0]["split"] == "split 0, hold-out 0"


def test_own_rows_without_a_split_are_split_by_the_seed(tmp_path, capsys):
    X, y = load_iris(return_X_y=True)
    np.savez(tmp_path / "bare.npz", X=X, y=y)
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    np.save(tmp_path / "y.npy", y.astype(str))
    options = ["--methods", "ncm", "--seeds", "0", "1"]
    records = compare.main(["--features", str(tmp_path / "bare.npz"), *options])
    files = [str(tmp_path / "X.npy"), str(tmp_path / "y.npy")]
    others = compare.main(["--features", *files, *options, "--average"])
    assert "rows of X.npy, y.npy" in capsys.readouterr().out
    assert [one["split"] for one in records] == ["split 0", "split 1"]
    assert_allclose([one["accuracy"] for one in records], [one["accuracy"] for one in others])
    (split,) = table_splits(lambda return_X_y: (X, y), False, 0)
    expected = METHODS["ncm"].build(Context()).fit(split.X, split.y)
    assert_allclose(records[0]["accuracy"], 100 * expected.score(split.X_test, split.y_test))


def test_own_estimators_join_the_methods(capsys):
    own = [
        "sklearn.svm:SVC(C=10)",
        "sklearn.linear_model:SGDClassifier",
        "sklearn.dummy:DummyClassifier()",
    ]
    quick = ["--sets", "iris", "--seeds", "3", "--methods", "ncm", "--method", *own]
    records = compare.main(quick)
    printed = capsys.readouterr().out
    assert [one["method"] for one in records] == ["ncm", *own]
    assert "- SVC, joint: sklearn.svm:SVC(C=10)" in printed
    assert "| iris | SGDClassifier |" in printed
    (split,) = IRIS.splits(3)
    svc = SVC(C=10).fit(split.X, split.y)
    assert_allclose(records[1]["accuracy"], 100 * svc.score(split.X_test, split.y_test))
    # It learns the classes in a stream, needs their declaration, and gets the seed.
    sgd = SGDClassifier(random_state=3)
    for label in range(3):
        rows = split.y == label
        sgd.partial_fit(split.X[rows], split.y[rows], classes=[0, 1, 2])
    assert_allclose(records[2]["accuracy"], 100 * sgd.score(split.X_test, split.y_test))


def test_class_orders_are_those_of_the_streams(tmp_path, capsys):
    (split,) = IRIS.splits(0)
    for order, seed in (("sorted", 5), ("random", 5), (1993, 5)):
        tasks = compare.tasks_of(IRIS, split.y, Context(seed, class_order=order))
        options = {}
        if order != "sorted":
            options = {"class_order": "random", "random_state": 5 if order == "random" else order}
        expected = class_incremental_tasks(split.y, **options)
        assert [task.tolist() for task in tasks] == [task.tolist() for task in expected]
    path = tmp_path / "runs.csv"
    quick = ["--sets", "iris", "--methods", "ncm", "--seeds", "0", "1", "--class-order"]
    sorted_runs = compare.main([*quick, "sorted", "--out", str(path)])
    assert "- class order: sorted\n" in capsys.readouterr().out
    assert {one["class_order"] for one in sorted_runs} == {"sorted"}
    compare.main([*quick, "random"])
    assert "- class order: random, each seed draws it; " in capsys.readouterr().out
    # Runs in another order are made again.
    runs = compare.main([*quick, "1993", "--resume", str(path)])
    assert "- class order: random, the seed 1993 draws it for all runs; " in capsys.readouterr().out
    assert {one["class_order"] for one in runs} == {"1993"}


def test_deviations_over_seeds_and_accuracies_after_each_task(capsys):
    quick = ["--sets", "iris", "--methods", "slda", "lda", "--average", "--seeds"]
    records = compare.main([*quick, "0", "1", "2"])
    printed = capsys.readouterr().out
    slda = [one for one in records if one["method"] == "slda"]
    accuracies = [one["accuracy"] for one in slda]
    shown = f"{np.mean(accuracies):.2f} ± {np.std(accuracies, ddof=1):.2f}"
    assert f"| iris | SLDA | {shown} | {shown} | - | - |" in printed
    assert "± is the standard deviation over seeds" in printed
    curves = [[float(text) for text in one["after_tasks"].split()] for one in slda]
    assert np.shape(curves) == (3, 3)
    assert_allclose(np.mean(curves, axis=1), [one["average"] for one in slda], atol=0.01)
    assert_allclose(np.array(curves)[:, -1], accuracies, atol=0.01)
    cells = [
        f"{mean:.2f} ± {deviation:.2f}"
        for mean, deviation in zip(
            np.mean(curves, axis=0), np.std(curves, axis=0, ddof=1), strict=True
        )
    ]
    assert "## iris: accuracy % after each task" in printed
    assert f"| SLDA | {' | '.join(cells)} |" in printed
    assert "| LDA, joint | - | " in printed
    compare.main([*quick, "0"])
    assert "±" not in capsys.readouterr().out


def test_deviations_average_splits_and_sets_first():
    base = {"split": "", "group": "g", "method": "m"} | dict.fromkeys(compare.FIGURES, 0.0)
    records = [
        base | {"set": "a", "seed": "0", "balanced": 80.0},
        base | {"set": "a", "seed": "0", "balanced": 90.0, "split": "other"},
        base | {"set": "a", "seed": "1", "balanced": 87.0},
        base | {"set": "b", "seed": "0", "balanced": 60.0},
        base | {"set": "b", "seed": "1", "balanced": 62.0},
    ]
    found = compare.deviations(records)
    assert_allclose(found["g", "a", "m"]["balanced"], np.std([85.0, 87.0], ddof=1))
    assert_allclose(found["g", None, "m"]["balanced"], np.std([72.5, 74.5], ddof=1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sets", "nothing"], "nothing.npz"),
        (["--settings", "rang=2"], "parameters of IncrementalDiscriminantAnalysis"),
        (["--methods"], "must name a method"),
        (["--sets", "wine", "--against", "none.csv"], "none.csv"),
        (["--sets", "wine", "--resume", OLD_RUNS], "of this script"),
        (["--out", "table.txt"], ".md or .csv"),
        (["--features", "rows.npy"], "two .npy files of rows and labels; got rows.npy"),
        (["--features", "rows.npy", "rows.npy"], "need a label each; got labels of (3, 3)"),
        (["--class-order", "1993.5"], "invalid class_order value"),
        (["--method", "sklearn.svm:SVCC"], "got 'sklearn.svm:SVCC' (AttributeError"),
        (["--method", "sklearn.svm.SVC"], "--method takes module:Class"),
        (["--method", "sklearn.svm:SVC(D=1)"], "--method takes module:Class"),
        (["--method", "json:JSONDecoder"], "--method takes module:Class"),
        (["--sets", "rows", "--tables", "."], "rows.npz must be a .npz file"),
        (["--sets", "wine", "--resume", "rows.npy"], "take .csv files of this script"),
    ],
)
def test_wrong_options_are_refused_before_any_run(
    arguments, message, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.eye(3))
    Path("rows.npy").with_suffix(".npz").write_bytes(Path("rows.npy").read_bytes())
    with pytest.raises(SystemExit):
        compare.main(["--data", str(tmp_path), *arguments])
    assert message in capsys.readouterr().err


def test_a_problem_of_a_group_can_be_named_alone(tmp_path):
    options = compare.parse(["--sets", "clusters", "3-quantiles-2", "--data", str(tmp_path)])
    assert [(group, one.name) for group, one in options.problems] == [
        ("generated", "clusters"),
        ("surrounding", "3-quantiles-2"),
    ]
    assert_array_equal(
        list(load_group("study", tmp_path, tmp_path))[-3:], ["breast-cancer", "wine", "iris"]
    )
