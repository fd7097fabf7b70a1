"""The speed benchmark: its floors, the published algorithms, and the command lines."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        300,
        n_features=10,
        n_informative=8,
        n_classes=4,
        n_clusters_per_class=1,
        class_sep=0.8,
        random_state=0,
    )
    return X[:240] + 2.0, y[:240], X[240:] + 2.0


def within_scatter(X, y):
    means = np.stack([X[y == label].mean(axis=0) for label in np.unique(y)])
    return (X - means[y]).T @ (X - means[y])


def test_alternate_runs_every_candidate_in_every_round(bench):
    calls = []
    candidates = {
        "floor": lambda: calls.append("floor") or 1.0,
        "method": lambda: calls.append("method") or {"fit": 2.0, "predict": 3.0},
    }
    seconds = bench("_speed_clock").alternate(candidates, repeats=3)
    assert calls == ["floor", "method"] * 3
    assert {name: values.tolist() for name, values in seconds.items()} == {
        "floor": [1.0] * 3,
        "fit": [2.0] * 3,
        "predict": [3.0] * 3,
    }


def test_comparison_takes_the_ratio_of_medians(bench):
    numbers = bench("_speed_clock").comparison(np.array([1.0, 4.0, 9.0]), np.array([2.0, 1.0, 3.0]))
    assert numbers == {
        "seconds": 4.0,
        "reference_s": 2.0,
        "ratio": 2.0,
        "ratio_min": 0.5,
        "ratio_max": 4.0,
    }


def test_peak_of_step_sees_what_a_step_holds_for_a_moment(bench):
    # A matrix of 20 MB is doubled and forgotten: 20 MB more at the peak, and some slack.
    clock = bench("_speed_clock")
    numbers = clock.apart(clock.peak_of_step, np.tile, np.ones(2_500_000), 2)
    assert 35.0 < numbers["added_mb"] < 60.0
    assert numbers["peak_mb"] == pytest.approx(numbers["before_mb"] + numbers["added_mb"])


def test_errors_of_a_process_of_its_own_are_raised(bench):
    with pytest.raises(ValueError, match="cannot reshape"):
        bench("_speed_clock").apart(np.reshape, np.ones(3), (2, 2))


@pytest.mark.parametrize(("width", "n_neurons"), [(6, 0), (9, 3), (4, 0)])
def test_task_floor_has_the_shapes_of_the_task(bench, width, n_neurons):
    floor = bench("_speed_floor").TaskFloor(20, 6, width)
    assert floor.neurons.shape == (n_neurons, 6)
    factor = floor.run()
    assert factor.shape == (width, width)
    expected = floor.features.T @ floor.features + 20.0 * torch.eye(width)
    assert_allclose(factor @ factor.T, expected, rtol=1e-12)
    assert floor() > 0.0


def test_null_space_floor_decomposes_a_second_moment(bench):
    floor = bench("_speed_floor").NullSpaceFloor(6)
    axes = floor.run()
    turned = axes.T @ floor.moment @ axes
    assert_allclose(turned, torch.diag(turned.diagonal()), atol=1e-12 * float(turned.max()))
    assert floor() > 0.0


@pytest.mark.parametrize("n_axes", [3, 12])
def test_solution_floor_whitens_means_and_axes(bench, n_axes):
    floor = bench("_speed_floor").SolutionFloor(n_axes, 2, 5)
    axes, vectors = floor.axes, floor.vectors
    assert len(vectors) == n_axes + 2
    if n_axes < 5:
        expected = (axes @ vectors.T).T @ torch.linalg.solve(
            axes @ axes.T + torch.eye(n_axes), axes @ vectors.T
        )
    else:
        expected = vectors @ torch.linalg.solve(axes.T @ axes + torch.eye(5), vectors.T)
    solved = floor.run()
    assert_allclose(solved.T @ solved, expected, rtol=1e-10, atol=1e-12)
    assert floor() > 0.0


def test_prediction_floor_has_a_column_per_mean_and_axis(bench):
    floor = bench("_speed_floor").PredictionFloor(1030, n_features=5, n_axes=11, n_classes=4)
    assert_allclose(floor.run(), floor.features[1024:] @ floor.rows.T)
    assert floor.run().shape == (6, 15)
    assert floor() > 0.0


def test_generated_classes_are_the_same_in_any_company(bench):
    draw = bench("_speed_cases").gaussian_classes
    X, y = draw(4, 12, 5)
    alone, labels = draw(1, 12, 5, first=2)
    assert_array_equal(X[y == 2], alone)
    assert_array_equal(labels, [2] * 5)


def test_case_starts_from_the_classes_it_says(bench):
    cases = bench("_speed_cases")
    case = cases.Case(n_samples=40, n_inputs=9, seen=4, new=2, shared=7, n_test=10)
    known = pickle.loads(cases.learned(case))
    assert_array_equal(known.classes_, np.arange(4))
    assert known.band_size == 0
    records = cases.run_case(case, repeats=1)
    assert {record["step"] for record in records} >= {"partial_fit", "first prediction"}
    assert {record["width"] for record in records} == {16}
    alone = "an eigendecomposition alone"
    assert alone not in {record["step"] for record in records}
    with_bands = cases.run_case(replace(case, settings=()), repeats=1)
    (record,) = [record for record in with_bands if record["step"] == alone]
    assert record["seconds"] > 0.0


@pytest.mark.parametrize("kind", ["PerSampleSLDA", "RankOneSLDA"])
def test_slda_with_class_counts_has_the_batch_covariance(bench, data, kind):
    X, y, _ = data
    head = getattr(bench("_speed_published"), kind)(10, class_counts=True).partial_fit(X, y)
    assert_allclose(head.covariance_, within_scatter(X, y) / len(X), rtol=1e-10, atol=1e-12)
    assert_allclose(head.means_[2], X[y == 2].mean(axis=0))


@pytest.mark.parametrize("kind", ["PerSampleSLDA", "RankOneSLDA"])
def test_slda_as_published_has_the_batch_covariance_of_one_class(bench, data, kind):
    X, y, _ = data
    own = X[y == 1]
    head = getattr(bench("_speed_published"), kind)(10).partial_fit(own, y[y == 1])
    assert_allclose(head.covariance_, np.cov(own.T, bias=True), rtol=1e-10, atol=1e-12)


def test_slda_recursions_agree_as_published(bench, data):
    X, y, _ = data
    published = bench("_speed_published")
    first = published.PerSampleSLDA(10).partial_fit(X, y)
    second = published.RankOneSLDA(10).partial_fit(X, y)
    assert_allclose(first.covariance_, second.covariance_, rtol=1e-10, atol=1e-12)


def test_slda_predicts_as_the_fast_version(bench, data):
    X, y, X_test = data
    head = bench("_speed_published").PerSampleSLDA(10, class_counts=True).partial_fit(X, y)
    expected = bench("peers").StreamingLDA().fit(X, y).predict(X_test)
    assert_array_equal(head.predict(X_test), expected)


def test_moments_have_the_covariance_of_slda(bench, data):
    X, y, _ = data
    peers = bench("_speed_peers")
    covariance = peers.within_covariance(peers.class_moments(X, y))
    assert peers.relative_gap(covariance, within_scatter(X, y) / len(X)) < 1e-12
    truncated = peers.within_covariance(peers.class_moments(X, y, rank=2))
    assert_allclose(np.diag(truncated), np.diag(covariance))


@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_fecam_inverting_at_every_batch_scores_as_the_fast_version(bench, data, offset):
    X, y, X_test = data
    published = bench("_speed_published").PerBatchFeCAM().fit(X + offset, y)
    fast = bench("peers").FeCAM().fit(X + offset, y)
    scores = published.decision_function(X_test + offset)
    assert_allclose(scores, fast.decision_function(X_test + offset), rtol=1e-7)


def test_ranpac_solving_for_every_ridge_is_the_fast_version(bench, data):
    X, y, X_test = data
    published = bench("_speed_published").PerRidgeRanPAC(width=60, random_state=0)
    fast = bench("lifted_peers").RanPAC(width=60, random_state=0)
    for task in (y < 2, y >= 2):
        published.partial_fit(X[task], y[task])
        fast.partial_fit(X[task], y[task])
        assert published.ridge_ == fast.ridge_
        assert 1e-8 < fast.ridge_ < 1e8
    assert_allclose(published.decision_function(X_test), fast.decision_function(X_test))


def test_cholesky_per_pair_gives_the_hyperplanes_of_all_pairs(bench):
    pairs = bench("_speed_pairs")
    gaussians = pairs.class_gaussians(5, 12, 30, None)
    naive = pairs.CholeskyPerPair(gaussians, **pairs.SETTINGS)
    chosen = np.array([[1, 0], [4, 2], [3, 1]])
    planes = pairs.fit_pairwise(gaussians, covariance="class", **pairs.SETTINGS).planes
    assert_allclose(naive.planes(chosen), planes[pairs.pair_index(chosen)], rtol=1e-8, atol=1e-10)
    assert_array_equal(pairs.pair_index(chosen), [0, 8, 4])


def test_exponent_of_a_power_law(bench):
    classes = np.arange(10.0, 210.0, 10.0)
    seconds = 0.01 * classes**1.5
    seconds[:5] = 3.0
    fitted_exponent = bench("many_classes").fitted_exponent
    assert fitted_exponent(classes, seconds) == pytest.approx(1.5)
    assert np.isnan(fitted_exponent(classes[:3], seconds[:3]))


def test_stream_of_many_classes_repeats_and_keeps_test_rows_apart(bench):
    stream = bench("many_classes").GaussianStream(20, 0.7)
    X, y = stream.task([3, 4], 6)
    assert X.shape == (12, 20)
    assert_array_equal(y, [3] * 6 + [4] * 6)
    assert_array_equal(stream.rows(4, 6), X[6:])
    assert not np.isin(stream.rows(4, 6, test=True), X).any()


def test_quick_many_classes_prints_every_measurement(run_script):
    printed, records = run_script("many_classes", "--quick", "--classes", "20", "--threads", "1")
    for name in (
        "total of partial_fit",
        "exponent of time",
        "first prediction",
        "predictions per second",
        "accuracy",
        "peak of the process, prediction included",
    ):
        assert f"| {name}" in printed
    assert len(records) == 20 // 10


def test_quick_run_prints_every_case_and_writes_both_files(bench, run_script):
    speed = bench("speed")
    # What a process of its own costs is tested above.
    parts = [part for part in speed.PARTS if part != "memory"]
    printed, records = run_script("speed", "--quick", "--repeats", "1", "--parts", *parts)
    for part in parts:
        assert f"## {speed.TITLES[part]}" in printed
    cases = [*speed.QUICK_TASKS, *speed.QUICK_SWEEP]
    # One of them has trained bands, whose eigendecomposition is a step more.
    n_steps = [4 if dict(case.settings) else 5 for case in cases]
    assert [printed.count(f"| {case.label} |") for case in cases] == n_steps
    for name in ("per-sample SLDA", "FeCAM, inverses per batch", "RanPAC, 17 solutions"):
        assert f"| {name} |" in printed
    assert list(records[0])[:7] == [
        "part",
        "case",
        "step",
        "against",
        "seconds",
        "reference_s",
        "ratio",
    ]
    assert len(records) == sum(n_steps) + 1 + 8


def test_devices_are_compared_by_step_and_type_of_samples(run_script):
    options = ["--device", "cpu", "--quick", "--repeats", "1", "--size", "16"]
    printed, records = run_script("devices", *options)
    assert "cpu float32" in printed
    steps = ["partial_fit", "first prediction", "later prediction"]
    assert [(r["samples"], r["step"]) for r in records] == [
        (kind, step) for kind in ("float64", "float32") for step in steps
    ]
    for record in records:
        # A device beside itself.
        assert (float(record["same_predictions"]), float(record["score_gap"])) == (1.0, 0.0)
        seconds, floor = float(record["device_s"]), float(record["floor_s"])
        assert float(record["over_floor"]) == pytest.approx(seconds / floor)
        assert float(record["speed_up"]) == pytest.approx(float(record["cpu_s"]) / seconds)


def test_memory_is_measured_for_every_size_of_chunks(run_script, tmp_path):
    options = ["--samples", "2000", "--features", "20", "--shared", "30", "--classes", "3"]
    options += ["--chunks", "100", "--folder", str(tmp_path)]
    printed, records = run_script("out_of_core", *options)
    assert "| 100 |" in printed
    assert len(records) == 1
    # The samples are gone.
    assert {path.name for path in tmp_path.iterdir()} == {"out_of_core.md", "out_of_core.csv"}


def test_samples_on_disk_are_those_of_their_labels(bench, tmp_path):
    disk = bench("out_of_core")
    labels = disk.write_samples(tmp_path / "X.dat", 25_000, 4, 2)
    X = np.fromfile(tmp_path / "X.dat", dtype=np.float32).reshape(25_000, 4)
    gap = X[labels == 0].mean(axis=0) - X[labels == 1].mean(axis=0)
    means = np.random.default_rng(0).standard_normal((2, 4), dtype=np.float32)
    assert_allclose(gap, 0.3 * (means[0] - means[1]), atol=0.05)


def test_quick_first_prediction_prints_its_ratios(bench, capsys):
    bench("first_prediction").main(["--quick"])

    row = capsys.readouterr().out.splitlines()[-1].strip("|").split("|")
    assert row[0].strip() == "6x8x10"
    assert all(float(cell.split()[0]) > 0.0 for cell in row[2:])
