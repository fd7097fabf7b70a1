"""The peers of the benchmarks against independent computations, and the command line itself."""

import csv
import pickle
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import sqrtm
from scipy.special import erf
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import LabelBinarizer
from sklearn.svm import SVC


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        400,
        n_features=12,
        n_informative=8,
        n_classes=5,
        n_clusters_per_class=1,
        class_sep=0.7,
        random_state=0,
    )
    return X[:300] + 3.0, y[:300], X[300:] + 3.0, y[300:]


def stream(head, X, y, order):
    for label in order:
        head.partial_fit(X[y == label], y[y == label])
    return head


def heads_of(bench):
    peers, lifted = bench("peers"), bench("lifted_peers")
    return {
        "ncm": peers.NearestClassMean(),
        "slda": peers.StreamingLDA(),
        "ridge": peers.IncrementalRidge(),
        "fecam": peers.FeCAM(),
        "rgda": peers.RegularizedGaussians(),
        "ranpac": lifted.RanPAC(width=60, alpha=10.0, random_state=0),
        "anacp": bench("analytic_projection").AnaCP(width=60, n_draws=20, random_state=0),
    }


@pytest.mark.parametrize("name", ["ncm", "slda", "ridge", "fecam", "rgda", "ranpac", "anacp"])
def test_order_and_partition_of_the_tasks_do_not_matter(bench, data, name):
    X, y, X_test, _ = data
    head = heads_of(bench)[name]
    joint = head.fit(X, y).decision_function(X_test)
    head = heads_of(bench)[name]
    half = np.arange(len(X)) % 2 == 0  # every class comes back once
    stream(head, X[half], y[half], [3, 0, 4, 1, 2])
    stream(head, X[~half], y[~half], [2, 4, 3, 1, 0])
    assert_array_equal(head.classes_, np.arange(5))
    assert_allclose(head.decision_function(X_test), joint, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["slda", "fecam", "rgda", "ranpac", "anacp"])
def test_pickle_between_tasks_predicts_the_same_and_leaves_solutions_out(bench, data, name):
    X, y, X_test, _ = data
    head = stream(heads_of(bench)[name], X, y, [0, 1, 2])
    loaded = pickle.loads(pickle.dumps(head))
    assert "_solution" not in vars(loaded)
    assert "_solution" in vars(head)
    for each in (head, loaded):
        stream(each, X, y, [3, 4])
    assert_allclose(loaded.decision_function(X_test), head.decision_function(X_test), rtol=1e-9)


def test_string_labels_that_sort_first_and_grow_longer(bench, data):
    X, y, X_test, _ = data
    names = np.array(["b", "c", "d", "e", "aardvark"])
    head = stream(heads_of(bench)["slda"], X, names[y], names)
    plain = heads_of(bench)["slda"].fit(X, y)
    assert_array_equal(head.predict(X_test), names[plain.predict(X_test)])


def test_nearest_class_mean_is_nearest_centroid(bench, data):
    X, y, X_test, _ = data
    head = stream(bench("peers").NearestClassMean(), X, y, [4, 2, 0, 1, 3])
    assert_array_equal(head.predict(X_test), NearestCentroid().fit(X, y).predict(X_test))


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_slda_with_scaled_ridge_is_sklearn_lda(bench, data, shrinkage):
    X, y, X_test, _ = data
    # scikit-learn weighs class covariances by the priors: equal priors need equal counts.
    rows = np.concatenate([np.flatnonzero(y == label)[:40] for label in range(5)])
    head = bench("peers").StreamingLDA(alpha=200 * shrinkage / (1 - shrinkage))
    stream(head, X[rows], y[rows], [1, 0, 4, 3, 2])
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage, priors=np.full(5, 0.2))
    expected = lda.fit(X[rows], y[rows]).decision_function(X_test)
    # Scores are defined up to a constant per row, and a convex combination scales them.
    gaps = np.diff(head.decision_function(X_test)) / (1 - shrinkage)
    assert_allclose(gaps, np.diff(expected), rtol=1e-7, atol=1e-9)
    assert_array_equal(head.predict(X_test), lda.predict(X_test))


def test_slda_published_shrinkage_is_towards_the_identity(bench, data):
    X, y, X_test, _ = data
    head = bench("peers").StreamingLDA(shrinkage=0.2).fit(X, y)
    means = np.stack([X[y == label].mean(axis=0) for label in range(5)])
    within = (X - means[y]).T @ (X - means[y]) / len(X)
    precision = np.linalg.inv(0.8 * within + 0.2 * np.eye(12))
    gaps = X_test[:, None, :] - means
    distances = np.einsum("ncd,de,nce->nc", gaps, precision, gaps)
    assert_array_equal(head.predict(X_test), np.argmin(distances, axis=1))


def test_ridge_is_sklearn_ridge_on_one_hot_labels(bench, data):
    X, y, X_test, _ = data
    alpha = 15.0
    head = stream(bench("peers").IncrementalRidge(alpha=alpha), X, y, [3, 1, 0, 4, 2])
    centred = X - X.mean(axis=0)
    penalty = alpha * np.mean(centred**2)
    model = Ridge(alpha=penalty).fit(X, LabelBinarizer().fit_transform(y))
    assert_allclose(head.decision_function(X_test), model.predict(X_test), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_fecam_is_its_formula(bench, data, offset):
    X, y, X_test, _ = data
    X, X_test = X + offset, X_test + offset
    lift = np.sqrt if X.min() >= 0 else np.asarray
    head = bench("peers").FeCAM().fit(X, y)
    rows = lift(np.maximum(X_test, 0)) if offset else X_test
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    distances = []
    for label in range(5):
        covariance = np.cov(lift(X[y == label]).T)
        for _ in range(2):
            variance = np.mean(np.diag(covariance))
            shared = np.mean(covariance[~np.eye(12, dtype=bool)])
            covariance = covariance + variance * np.eye(12) + shared * (1 - np.eye(12))
        correlation = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        mean = lift(X[y == label].mean(axis=0))
        gap = rows - mean / np.linalg.norm(mean)
        distances.append(np.sum(gap @ np.linalg.pinv(correlation) * gap, axis=1))
    assert_allclose(-head.decision_function(X_test), np.transpose(distances), rtol=1e-8)


def test_regularized_gaussians_are_their_densities(bench, data):
    X, y, X_test, _ = data
    head = bench("peers").RegularizedGaussians(weights=(0.3, 1.5, 0.2)).fit(X, y)
    covariances = [np.cov(X[y == label].T, bias=True) for label in range(5)]
    mean = np.mean(covariances, axis=0)
    ridge = 0.2 * np.mean(np.diag(mean)) * np.eye(12)
    densities = [
        multivariate_normal(X[y == label].mean(axis=0), 0.3 * own + 1.5 * mean + ridge)
        for label, own in enumerate(covariances)
    ]
    expected = np.transpose([one.logpdf(X_test) for one in densities]) + 6.0 * np.log(2.0 * np.pi)
    assert_allclose(head.decision_function(X_test), expected, rtol=1e-9)


def test_anacp_regresses_on_spread_means_and_then_on_draws(bench, data):
    X, y, X_test, _ = data
    head = bench("analytic_projection").AnaCP(width=40, n_heads=2, alpha=3.0, random_state=0)
    head.set_params(n_draws=4000, spread=0.5).fit(X, y)

    def unit(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def gelu(rows):
        return 0.5 * rows * (1.0 + erf(rows / np.sqrt(2.0)))

    rows = unit(X)
    means = np.array([rows[y == label].mean(axis=0) for label in range(5)])
    covariance = np.cov((rows - means[y]).T, bias=True) + 1e-4 * np.eye(12)
    whitening = np.real(sqrtm(np.linalg.inv(covariance)))
    left, singular, right = np.linalg.svd((means - means.mean(axis=0)) @ whitening, False)
    # The fifth direction of five centred means is undefined.
    moved = left[:, :4] @ np.diag(singular[:4] + 0.5) @ right[:4]
    targets = unit(moved @ whitening + means.mean(axis=0))

    def ridge(neurons, outputs):
        return np.linalg.solve(neurons.T @ neurons + 3.0 * np.eye(40), neurons.T @ outputs)

    maps = [ridge(gelu(rows @ layer), targets[y]) for layer in head.layers_]
    assert_allclose(head._solution[0], maps, rtol=1e-7, atol=1e-10)

    def neurons_of(rows):
        heads = zip(head.layers_, maps, strict=True)
        return gelu(np.mean([unit(gelu(rows @ a) @ b) for a, b in heads], 0) @ head.last_layer_)

    draws = head._draw(covariance).reshape(5, 4000, 12)
    assert_allclose(draws.mean(axis=1), means, atol=0.02)
    assert_allclose(np.cov((draws[0] - means[0]).T), covariance, atol=0.02)
    readout = ridge(neurons_of(draws.reshape(-1, 12)), np.repeat(np.eye(5), 4000, axis=0))
    expected = neurons_of(unit(X_test)) @ readout
    assert_allclose(head.decision_function(X_test), expected, rtol=1e-7, atol=1e-10)


def test_tables_of_one_file_are_read_and_standardised_by_their_training_rows(bench, tmp_path):
    rng = np.random.default_rng(0)
    X, y, train = rng.normal(3.0, 2.0, (30, 4)), np.arange(30) % 3, np.arange(30) < 20
    np.savez(tmp_path / "tables.npz", segment_X=X, segment_y=y, segment_train=train)

    (split,) = bench("_data").known_problems(tmp_path)["segment"].splits()

    assert_allclose(split.X, (X[train] - X[train].mean(0)) / X[train].std(0))
    assert_allclose(split.X_test, (X[~train] - X[train].mean(0)) / X[train].std(0))
    assert_array_equal(split.y_test, y[~train])


def test_fecam_learns_a_class_of_one_sample(bench, data):
    X, y, X_test, _ = data
    head = bench("peers").FeCAM().partial_fit(X[:1], y[:1]).partial_fit(X, y)
    assert np.isfinite(head.decision_function(X_test)).all()
    alone = bench("peers").FeCAM().partial_fit(X[:1], y[:1])
    assert_array_equal(alone.predict(X_test), np.repeat(y[:1], len(X_test)))


def test_inverse_root_of_a_singular_matrix_is_the_pseudo_inverse(bench):
    factor = np.random.default_rng(0).standard_normal((6, 3))
    matrix = factor @ factor.T
    root = bench("peers").inverse_root(matrix)
    assert_allclose(root @ root.T, np.linalg.pinv(matrix, hermitian=True), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_fit", [30, 150])
def test_ridge_path_errors_match_sklearn_in_either_space(bench, n_fit):
    random = np.random.default_rng(1)
    Z, targets = random.standard_normal((200, 60)), random.standard_normal((200, 3))
    ridges = [1e-2, 1.0, 1e3]
    fit, held_out = np.arange(n_fit), np.arange(n_fit, 200)
    errors = bench("lifted_peers").ridge_path_errors(Z, targets, fit, held_out, ridges)
    for ridge, error in zip(ridges, errors, strict=True):
        model = Ridge(alpha=ridge, fit_intercept=False).fit(Z[fit], targets[fit])
        assert_allclose(error, np.mean((model.predict(Z[held_out]) - targets[held_out]) ** 2))


def test_ranpac_chooses_a_ridge_of_the_published_grid_and_solves_with_it(bench, data):
    X, y, X_test, _ = data
    head = bench("lifted_peers").RanPAC(width=80, random_state=0).fit(X, y)
    assert head.ridge_ in 10.0 ** np.arange(-8, 9)
    lifted = np.maximum(X @ head.projection_, 0)
    model = Ridge(alpha=head.ridge_, fit_intercept=False)
    model.fit(lifted, LabelBinarizer().fit_transform(y))
    expected = model.predict(np.maximum(X_test @ head.projection_, 0))
    assert_allclose(head.decision_function(X_test), expected, rtol=1e-5, atol=1e-6)


def test_ranpac_learns_a_task_of_one_sample(bench, data):
    X, y, X_test, _ = data
    head = bench("lifted_peers").RanPAC(width=40, random_state=0).partial_fit(X[:1], y[:1])
    assert_array_equal(head.predict(X_test), np.repeat(y[:1], len(X_test)))


def test_kernel_lda_approximates_its_kernel(bench, data):
    X = data[0]
    head = bench("lifted_peers").KernelLDA(width=20_000, bandwidth=0.5, random_state=0)
    head._start(X[:100])
    Z = head._lift(X[:100])
    squared = np.sum((X[:100, None] - X[:100]) ** 2, axis=2)
    median = np.median(squared[np.triu_indices(100, 1)])
    assert_allclose(Z @ Z.T, np.exp(-0.5 * squared / median), atol=0.04)


@pytest.mark.parametrize("n_search", [120, 5000])
def test_joint_svm_searches_few_rows_and_fits_all(bench, data, n_search):
    X, y, X_test, _ = data
    model = bench("joint").JointSVM(n_search=n_search, random_state=0).fit(X, y)
    scaler = model.best_params_["scale"]
    rows = (X, X_test)
    if scaler != "passthrough":
        rows = [(part - X.mean(axis=0)) / X.std(axis=0) for part in rows]
    svm = SVC(gamma="scale", C=model.best_params_["svm__C"]).fit(rows[0], y)
    assert_array_equal(model.predict(X_test), svm.predict(rows[1]))


@pytest.mark.parametrize("layout", ["train", "split", "fold", "named"])
def test_feature_files_of_every_layout(bench, data, layout, tmp_path):
    X, y, X_test, y_test = data
    both = {"X": np.vstack([X, X_test]), "y": np.concatenate([y, y_test])}
    is_test = np.arange(len(both["y"])) >= len(y)
    arrays = {
        "train": {**both, "train": ~is_test},
        "split": {**both, "split": is_test.astype(int)},
        "fold": {**both, "fold": is_test.astype(int)},
        "named": {"x_train": X, "y_train": y, "x_test": X_test, "y_test": y_test},
    }[layout]
    np.savez(tmp_path / "rows.npz", **arrays)
    splits = bench("_data").read_features(tmp_path / "rows.npz")
    assert len(splits) == (2 if layout == "fold" else 1)
    assert_array_equal(splits[-1].X, X)
    assert_array_equal(splits[-1].y_test, y_test)


def test_feature_files_that_cannot_be_read(bench, tmp_path):
    read = bench("_data").read_features
    with pytest.raises(FileNotFoundError, match=r"none\.npz"):
        read(tmp_path / "none.npz")
    np.savez(tmp_path / "bare.npz", X=np.zeros((2, 2)), y=np.zeros(2))
    with pytest.raises(ValueError, match="one of train, split and fold"):
        read(tmp_path / "bare.npz")
    np.savez(tmp_path / "empty.npz", X=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="needs X and y"):
        read(tmp_path / "empty.npz")


def test_class_orders_keep_the_base_task_and_repeat_by_seed(bench):
    problem = bench("_data").known_problems(Path("."))["cifar"]
    y = np.repeat(np.arange(100), 2)
    assert_array_equal(problem.class_order(y, 0), np.arange(100))
    order = problem.class_order(y, 3)
    assert_array_equal(order[:50], np.arange(50))
    assert not np.array_equal(order, np.arange(100))
    assert_array_equal(np.sort(order), np.arange(100))
    assert_array_equal(order, problem.class_order(y, 3))


def test_report_averages_folds_before_seeds(bench):
    base = {"method": "ncm", "fit_s": 1.0, "predict_s": 0.1, "state_mb": 2.0, "joint": False}
    finals = {(0, "fold 0"): 0.5, (0, "fold 1"): 0.7, (1, "fold 0"): 0.6, (1, "fold 1"): 1.0}
    records = [
        {**base, "seed": seed, "split": fold, "final": final, "average": 0.9, "n_test": 10}
        for (seed, fold), final in finals.items()
    ]
    row = bench("_report").set_table(records, {"ncm": "NCM"})[-1]
    # Seed means 0.6 and 0.8; the last fold is right on 7 and 10 of its 10 rows.
    assert row == "| NCM | **70.00 ± 10.00** | 90.00 ± 0.00 | 1 | 0.1 | 2 | 8.5 / 10 |"


def test_quick_run_prints_a_table_and_writes_both_files(bench, run_script):
    printed, records = run_script("heads", "--quick", "--width", "64")
    methods = bench("heads").METHODS
    for method in methods.values():
        assert f"| {method.label} | " in printed
    assert "scikit-learn" in printed
    assert [one["method"] for one in records] == list(methods)
    assert list(records[0])[:7] == ["set", "split", "seed", "method", "final", "average", "fit_s"]


def test_own_features_are_streamed(bench, capsys, tmp_path):
    X, y = load_digits(return_X_y=True)
    np.savez(tmp_path / "mine.npz", X=X, y=y, train=np.arange(len(y)) % 3 > 0)
    arguments = ["--features", str(tmp_path / "mine.npz"), "--classes-per-task", "5"]
    bench("heads").main([*arguments, "--methods", "ncm", "slda", "--seeds", "0", "1"])
    printed = capsys.readouterr().out
    assert "## mine" in printed
    assert "5 new classes per task" in printed
    assert "| nearest class mean | " in printed


def test_rows_of_an_earlier_run_stand_beside_those_of_this_one(run_script, tmp_path):
    _, earlier = run_script("heads", "--quick", "--methods", "ncm", "slda")
    path = tmp_path / "earlier.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, earlier[0])
        writer.writeheader()
        writer.writerows([{**one, "final": 0.25} for one in earlier])
    printed, records = run_script("heads", "--quick", "--methods", "slda", "--from", str(path))
    assert [one["method"] for one in records] == ["ncm", "slda"]
    assert "| nearest class mean | 25.00 | " in printed
    assert "| SLDA | **95.93** | " in printed
    assert "rows of an earlier run, perhaps on another machine: nearest class mean\n" in printed


@pytest.mark.parametrize("script", ["heads", "speed", "many_classes", "devices", "out_of_core"])
def test_output_names_are_checked_before_any_run(bench, capsys, script):
    with pytest.raises(SystemExit):
        bench(script).main(["--quick", "--out", "table.txt"])
    assert ".md or .csv" in capsys.readouterr().err


def test_choice_of_settings_never_scores_a_row_it_learned(bench):
    choose, problem = bench("choose_settings"), bench("_data").known_problems(Path("."))["digits"]
    training = problem.splits()[0].X
    known = {row.tobytes() for row in training}
    for X, _, X_test, _ in choose.hold_outs(problem):
        assert len(X_test) > 0
        assert {row.tobytes() for row in X_test} <= known
        assert len(X) + len(X_test) <= len(training)
    accuracy = choose.held_out_accuracy(bench("peers").NearestClassMean(), problem)
    assert 0.8 < accuracy < 1.0
