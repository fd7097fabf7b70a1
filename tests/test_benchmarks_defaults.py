"""The study of the defaults: its generated sets, its arithmetic, and a quick run."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

from ffnb_sklearn import FFNBClassifier


@pytest.fixture
def sets(bench):
    """The sets by name; those of files are listed, not read."""
    return bench("_sets").study_sets(Path("nowhere"))


def covariances(population, n_per_class=20_000):
    X, y = population.draw(n_per_class, np.random.default_rng(1))
    return [np.cov(X[y == label].T) for label in np.unique(y)]


def test_equal_covariances_are_equal_and_span_the_range_asked_for(bench):
    make = bench("_mixtures").equal_covariances
    population = make(np.random.default_rng(0), n_classes=3, d=4, distance=2.0, smallest=0.1)
    first, *others = covariances(population)
    assert_allclose(np.linalg.eigvalsh(first)[[0, -1]], [0.1, 1.0], rtol=0.05)
    for other in others:
        assert_allclose(other, first, atol=0.04)


def test_unequal_covariances_share_their_spectrum_alone(bench):
    make = bench("_mixtures").unequal_covariances
    population = make(np.random.default_rng(0), n_classes=2, d=4, distance=1.0, smallest=0.1)
    first, second = covariances(population)
    assert_allclose(np.linalg.eigvalsh(first), np.linalg.eigvalsh(second), rtol=0.06)
    assert np.abs(first - second).max() > 0.2


def test_low_rank_covariances_have_few_long_axes_and_noise_elsewhere(bench):
    make = bench("_mixtures").low_rank_covariances
    population = make(np.random.default_rng(0), n_classes=2, d=6, distance=1.0, rank=2, noise=0.2)
    for covariance in covariances(population):
        expected = [0.2] * 4 + [1.2] * 2
        assert_allclose(np.linalg.eigvalsh(covariance), expected, rtol=0.07)


def test_clustered_classes_are_clusters_about_their_centres(bench):
    make = bench("_mixtures").clustered_classes
    population = make(np.random.default_rng(0), n_classes=2, d=3, distance=20.0, n_clusters=3)
    X, y = population.draw(900, np.random.default_rng(1))
    for label in range(2):
        gaps = np.linalg.norm(X[y == label][:, None] - population.means[label], axis=2)
        counts = np.bincount(gaps.argmin(axis=1), minlength=3)
        assert_allclose(counts, 300, atol=60)
        # A chi of three degrees of freedom.
        assert_allclose(gaps.min(axis=1).mean(), np.sqrt(8 / np.pi), rtol=0.05)


def test_sets_are_of_many_kinds(sets):
    assert len(sets) >= 10
    assert {"sbu", "fpha", "cifar-40", "digits"} <= set(sets)
    sizes = {}
    for name in ["equal", "few-shot", "many-shot"]:
        split = sets[name].splits()[0]
        assert_array_equal(np.unique(split.y), np.unique(split.y_test))
        sizes[name] = (len(split.y), *split.X.shape[1:], len(np.unique(split.y)))
    assert sizes["equal"] == (1200, 30, 20)
    assert sizes["few-shot"] == (500, 500, 100)
    assert sizes["many-shot"] == (5000, 12, 5)


def test_draws_of_a_generated_set_repeat_and_differ_from_each_other(sets):
    first, again = sets["clusters"].splits(), sets["clusters"].splits()
    assert_array_equal(first[1].X, again[1].X)
    assert not np.allclose(first[0].X, first[1].X)
    known = {row.tobytes() for row in first[0].X}
    assert not known & {row.tobytes() for row in first[0].X_test}


def test_tables_are_standardised_by_their_training_rows(sets):
    splits = sets["wine"].splits()
    assert len(splits) == 100
    for split in splits:
        assert_allclose(split.X.mean(axis=0), 0.0, atol=1e-12)
        assert_allclose(split.X.std(axis=0), 1.0)
    assert np.abs(splits[0].X_test.mean(axis=0)).max() > 0.01


def test_thinned_splits_keep_some_classes_and_all_their_test_rows(bench):
    split = bench("_data").Split(
        "official", np.arange(12.0)[:, None], np.arange(12) % 4, np.eye(8), np.arange(8) % 4
    )
    (thinned,) = bench("_sets").thin(lambda: [split], (1, 3), n_rows=2)
    assert_array_equal(thinned.X[:, 0], [1, 5, 2, 6])
    assert_array_equal(thinned.y, [1, 1, 2, 2])
    assert_array_equal(thinned.y_test, [1, 2, 1, 2])


def test_hold_outs_are_training_rows_and_never_learned(bench, sets):
    whole = sets["wine"].splits()[0]
    training = {row.tobytes() for row in whole.X}
    for split in bench("defaults").hold_outs(sets["wine"], 3):
        learned = {row.tobytes() for row in split.X}
        scored = {row.tobytes() for row in split.X_test}
        assert learned | scored <= training
        assert len(split.X) + len(split.X_test) == len(whole.X)


def test_widest_shared_band_is_left_out_of_large_sets(bench, sets):
    defaults = bench("defaults")
    small, large = sets["iris"].splits()[0], sets["many-shot"].splits()[0]
    assert defaults.fits({"shared_band_size": 8000}, small)
    assert not defaults.fits({"shared_band_size": 8000}, large)
    assert defaults.fits({"shared_band_size": 2000}, large)


def test_every_setting_differs_from_the_defaults(bench):
    defaults = bench("defaults")
    values = defaults.FFNBClassifier().get_params()
    for name, changes in defaults.SETTINGS.items():
        assert all(values[key] != value for key, value in changes.items()), name


def test_paired_difference_and_its_error(bench):
    difference = bench("_defaults_report").paired_difference
    reference = {("a", "0"): 80.0, ("b", "0"): 90.0, ("c", "0"): 70.0}
    mean, error = difference({("a", "0"): 81.0, ("b", "0"): 93.0}, reference)
    assert_allclose([mean, error], [2.0, 1.0])
    assert np.isnan(difference({("a", "0"): 81.0}, reference)[1])


def test_mean_ranks_share_ties(bench):
    means = {
        "one": {"a": 90.0, "b": 80.0, "c": 80.0},
        "two": {"a": 70.0, "b": 95.0, "c": 60.0},
    }
    assert bench("_defaults_report").mean_ranks(means) == {"a": 1.5, "b": 1.75, "c": 2.75}


def record(name, method, final, split="s"):
    return {"set": name, "split": split, "seed": 0, "method": method, "final": final}


def test_difference_table_follows_from_the_accuracies(bench, sets):
    report = bench("_defaults_report").study_report
    finals = {"default": [0.5, 0.7], "rank=16": [0.52, 0.74], "ncm": [0.4, 0.7]}
    records = [
        record("wine", method, final, split=f"s{k}")
        for method, pair in finals.items()
        for k, final in enumerate(pair)
    ]
    lines = report(records, [sets["wine"]], [], {"ncm": "NCM"}).splitlines()
    assert "| default, % | 60.00 | 60.00 |  |" in lines
    assert "| rank=16 | +3.00 ± 1.00 | +3.00 | +3.00 wine |" in lines
    assert "| NCM | -5.00 ± 5.00 | -5.00 | -5.00 wine |" in lines


def test_a_test_without_peers_is_refused_before_anything_runs(bench, capsys):
    with pytest.raises(SystemExit):
        bench("defaults").parse(["--test", "--peers"])

    assert "at least one is needed" in capsys.readouterr().err


@pytest.mark.parametrize(("peer", "behind"), [(0.904, 0), (0.906, 1)])
def test_bar_is_half_a_point_behind_the_best_peer(bench, sets, peer, behind):
    records = [record("wine", "default", 0.9), record("wine", "ncm", peer)]
    records += [record("iris", "default", 0.9), record("iris", "ncm", 0.5)]
    studies = [sets["wine"], sets["iris"]]
    text = bench("_defaults_report").test_report(records, studies, [], {"ncm": "NCM"})
    assert f"behind the best peer: {behind} of 2." in text
    assert "| FFNB, default | 1.50 |" in text


def test_quick_study_is_reported_and_can_be_reported_again(bench, capsys, tmp_path):
    defaults = bench("defaults")
    out = [tmp_path / "study.md", tmp_path / "study.csv"]
    defaults.main(["--quick", "--out", *map(str, out)])
    printed = capsys.readouterr().out
    assert out[0].read_text(encoding="utf-8") == printed
    rows = out[1].read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + 2 * 6
    defaults.main(["--from", str(out[1])])
    tables = capsys.readouterr().out.split("## Settings")[1]
    assert tables == printed.split("## Settings")[1]


def test_quick_test_scores_the_default_against_peers(bench, capsys):
    bench("defaults").main(["--quick", "--test", "--repeats", "1"])
    printed = capsys.readouterr().out
    assert "| FFNB, default | " in printed
    assert "| SLDA | " in printed
    assert "Mean rank of the default best: " in printed


def test_names_of_output_files_are_checked_before_any_run(bench, capsys):
    with pytest.raises(SystemExit):
        bench("defaults").main(["--quick", "--out", "table.txt"])
    assert ".md or .csv" in capsys.readouterr().err


def test_other_values_are_those_of_a_fit_with_them(bench):
    X, y = load_iris(return_X_y=True)
    default = FFNBClassifier(random_state=0, device="cpu").fit(X, y)
    fitted = FFNBClassifier(shrinkage=0.3, epsilon=0.5, random_state=0, device="cpu").fit(X, y)

    other = bench("sizes").with_values(default, 0.3, 0.5)

    assert_array_equal(other.predict_proba(X), fitted.predict_proba(X))
    assert default.shrinkage_ != other.shrinkage_ == 0.3


def test_quick_sweep_of_sizes_prints_a_row_per_size_and_draws_it(bench, capsys, tmp_path):
    paths = [tmp_path / "sizes.md", tmp_path / "sizes.csv"]
    picture = tmp_path / "sizes.png"
    bench("sizes").main(["--quick", "--out", *map(str, paths), "--plot", str(picture)])

    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if line.startswith("| clusters |")]
    assert [row.split("|")[2].strip() for row in rows] == ["5", "20"]
    assert all("rho=" in row and "SLDA" in row for row in rows)
    assert paths[0].read_text() == printed
    # The default, two fixed pairs and a peer, for each of two sizes.
    assert len(paths[1].read_text().splitlines()) == 1 + 2 * 4
    assert picture.stat().st_size > 1000


def test_the_sweep_reports_the_best_pair_and_the_best_peer_of_each_size(bench):
    def record(draw, method, accuracy):
        return {"kind": "equal", "n": 3, "draw": draw, "method": method, "accuracy": accuracy}

    values = {"default": (70.0, 72.0), "rho=0.1 epsilon=1.0": (60.0, 61.0)}
    values |= {"rho=1.0 epsilon=1.0": (71.0, 73.0), "slda": (50.0, 52.0), "klda": (49.0, 50.0)}
    records = [record(k, name, one[k]) for name, one in values.items() for k in (0, 1)]

    (row,) = bench("sizes").summary(records, ["slda", "klda"])

    assert row == ("equal", 3, 71.0, 1.0, "rho=1.0 epsilon=1.0", 72.0, "slda", 51.0)


def test_the_default_of_a_sweep_runs_again_beside_earlier_rows(run_script, tmp_path):
    _, first = run_script("sizes", "--quick")
    earlier = tmp_path / "earlier.csv"
    earlier.write_text((tmp_path / "sizes.csv").read_text())

    _, again = run_script("sizes", "--quick", "--from", str(earlier))

    def by_run(records):
        return {(one["n"], one["draw"], one["method"]): one["accuracy"] for one in records}

    assert by_run(again) == by_run(first)


def test_tables_of_a_file_are_the_only_sets(run_script, tmp_path):
    path, random = tmp_path / "tables.npz", np.random.default_rng(0)
    y = np.repeat(["b", "a", "c"], 20)
    X = random.normal(size=(60, 4)) + 4.0 * (y == "a")[:, None] - 4.0 * (y == "b")[:, None]
    # The second column is constant.
    X[:, 1] = 7.0
    np.savez(path, mine_X=X, mine_y=y)
    arguments = ["--tables", str(path), "--test", "--peers", "ncm", "--repeats", "2"]

    printed, records = run_script("defaults", *arguments)

    assert {one["set"] for one in records} == {"mine"}
    assert len(records) == 2 * 2
    assert min(float(one["final"]) for one in records) > 0.9
    assert "| mine | table, 3 classes, d = 4 | 60 rows, 10 stratified" in printed


def test_unknown_sets_are_named(bench, capsys):
    with pytest.raises(SystemExit):
        bench("defaults").main(["--sets", "wine", "letters", "--quick"])
    assert "unknown sets ['letters']; there are sbu, fpha" in capsys.readouterr().err
