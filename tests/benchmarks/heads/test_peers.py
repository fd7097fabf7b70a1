"""The heads of other papers against independent computations."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import sqrtm
from scipy.special import erf
from scipy.stats import multivariate_normal
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import LabelBinarizer
from sklearn.svm import SVC

from benchmarks.heads import lifted_peers, methods, peers


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


def heads_of():
    return {
        "ncm": peers.NearestClassMean(),
        "slda": peers.StreamingLDA(),
        "ridge": peers.IncrementalRidge(),
        "fecam": peers.FeCAM(),
        "rgda": peers.RegularizedGaussians(),
        "ranpac": lifted_peers.RanPAC(width=60, alpha=10.0, random_state=0),
        "anacp": lifted_peers.AnaCP(width=60, n_draws=20, random_state=0),
    }


@pytest.mark.parametrize("name", ["ncm", "slda", "ridge", "fecam", "rgda", "ranpac", "anacp"])
def test_order_and_partition_of_the_tasks_do_not_matter(data, name):
    X, y, X_test, _ = data
    head = heads_of()[name]
    joint = head.fit(X, y).decision_function(X_test)
    head = heads_of()[name]
    half = np.arange(len(X)) % 2 == 0  # every class comes back once
    stream(head, X[half], y[half], [3, 0, 4, 1, 2])
    stream(head, X[~half], y[~half], [2, 4, 3, 1, 0])
    assert_array_equal(head.classes_, np.arange(5))
    assert_allclose(head.decision_function(X_test), joint, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["slda", "fecam", "rgda", "ranpac", "anacp"])
def test_pickle_between_tasks_predicts_the_same_and_leaves_solutions_out(data, name):
    X, y, X_test, _ = data
    head = stream(heads_of()[name], X, y, [0, 1, 2])
    loaded = pickle.loads(pickle.dumps(head))
    assert "_solution" not in vars(loaded)
    assert "_solution" in vars(head)
    for each in (head, loaded):
        stream(each, X, y, [3, 4])
    assert_allclose(loaded.decision_function(X_test), head.decision_function(X_test), rtol=1e-9)


def test_string_labels_that_sort_first_and_grow_longer(data):
    X, y, X_test, _ = data
    names = np.array(["b", "c", "d", "e", "aardvark"])
    head = stream(heads_of()["slda"], X, names[y], names)
    plain = heads_of()["slda"].fit(X, y)
    assert_array_equal(head.predict(X_test), names[plain.predict(X_test)])


def test_nearest_class_mean_is_nearest_centroid(data):
    X, y, X_test, _ = data
    head = stream(peers.NearestClassMean(), X, y, [4, 2, 0, 1, 3])
    assert_array_equal(head.predict(X_test), NearestCentroid().fit(X, y).predict(X_test))


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_slda_with_scaled_ridge_is_sklearn_lda(data, shrinkage):
    X, y, X_test, _ = data
    # scikit-learn weighs class covariances by the priors: equal priors need equal counts.
    rows = np.concatenate([np.flatnonzero(y == label)[:40] for label in range(5)])
    head = peers.StreamingLDA(alpha=200 * shrinkage / (1 - shrinkage))
    stream(head, X[rows], y[rows], [1, 0, 4, 3, 2])
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage, priors=np.full(5, 0.2))
    expected = lda.fit(X[rows], y[rows]).decision_function(X_test)
    # Scores are defined up to a constant per row, and a convex combination scales them.
    gaps = np.diff(head.decision_function(X_test)) / (1 - shrinkage)
    assert_allclose(gaps, np.diff(expected), rtol=1e-7, atol=1e-9)
    assert_array_equal(head.predict(X_test), lda.predict(X_test))


def test_slda_published_shrinkage_is_towards_the_identity(data):
    X, y, X_test, _ = data
    head = peers.StreamingLDA(shrinkage=0.2).fit(X, y)
    means = np.stack([X[y == label].mean(axis=0) for label in range(5)])
    within = (X - means[y]).T @ (X - means[y]) / len(X)
    precision = np.linalg.inv(0.8 * within + 0.2 * np.eye(12))
    gaps = X_test[:, None, :] - means
    distances = np.einsum("ncd,de,nce->nc", gaps, precision, gaps)
    assert_array_equal(head.predict(X_test), np.argmin(distances, axis=1))


def test_ridge_is_sklearn_ridge_on_one_hot_labels(data):
    X, y, X_test, _ = data
    alpha = 15.0
    head = stream(peers.IncrementalRidge(alpha=alpha), X, y, [3, 1, 0, 4, 2])
    centred = X - X.mean(axis=0)
    penalty = alpha * np.mean(centred**2)
    model = Ridge(alpha=penalty).fit(X, LabelBinarizer().fit_transform(y))
    assert_allclose(head.decision_function(X_test), model.predict(X_test), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_fecam_is_its_formula(data, offset):
    X, y, X_test, _ = data
    X, X_test = X + offset, X_test + offset
    lift = np.sqrt if X.min() >= 0 else np.asarray
    head = peers.FeCAM().fit(X, y)
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


def test_regularized_gaussians_are_their_densities(data):
    X, y, X_test, _ = data
    head = peers.RegularizedGaussians(weights=(0.3, 1.5, 0.2)).fit(X, y)
    covariances = [np.cov(X[y == label].T, bias=True) for label in range(5)]
    mean = np.mean(covariances, axis=0)
    ridge = 0.2 * np.mean(np.diag(mean)) * np.eye(12)
    densities = [
        multivariate_normal(X[y == label].mean(axis=0), 0.3 * own + 1.5 * mean + ridge)
        for label, own in enumerate(covariances)
    ]
    expected = np.transpose([one.logpdf(X_test) for one in densities]) + 6.0 * np.log(2.0 * np.pi)
    assert_allclose(head.decision_function(X_test), expected, rtol=1e-9)


def test_anacp_regresses_on_spread_means_and_then_on_draws(data):
    X, y, X_test, _ = data
    head = lifted_peers.AnaCP(width=40, n_heads=2, alpha=3.0, random_state=0)
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


def test_fecam_learns_a_class_of_one_sample(data):
    X, y, X_test, _ = data
    head = peers.FeCAM().partial_fit(X[:1], y[:1]).partial_fit(X, y)
    assert np.isfinite(head.decision_function(X_test)).all()
    alone = peers.FeCAM().partial_fit(X[:1], y[:1])
    assert_array_equal(alone.predict(X_test), np.repeat(y[:1], len(X_test)))


def test_inverse_root_of_a_singular_matrix_is_the_pseudo_inverse():
    factor = np.random.default_rng(0).standard_normal((6, 3))
    matrix = factor @ factor.T
    root = peers.inverse_root(matrix)
    assert_allclose(root @ root.T, np.linalg.pinv(matrix, hermitian=True), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_fit", [30, 150])
def test_ridge_path_errors_match_sklearn_in_either_space(n_fit):
    random = np.random.default_rng(1)
    Z, targets = random.standard_normal((200, 60)), random.standard_normal((200, 3))
    ridges = [1e-2, 1.0, 1e3]
    fit, held_out = np.arange(n_fit), np.arange(n_fit, 200)
    errors = lifted_peers.ridge_path_errors(Z, targets, fit, held_out, ridges)
    for ridge, error in zip(ridges, errors, strict=True):
        model = Ridge(alpha=ridge, fit_intercept=False).fit(Z[fit], targets[fit])
        assert_allclose(error, np.mean((model.predict(Z[held_out]) - targets[held_out]) ** 2))


def test_ranpac_chooses_a_ridge_of_the_published_grid_and_solves_with_it(data):
    X, y, X_test, _ = data
    head = lifted_peers.RanPAC(width=80, random_state=0).fit(X, y)
    assert head.ridge_ in 10.0 ** np.arange(-8, 9)
    lifted = np.maximum(X @ head.projection_, 0)
    model = Ridge(alpha=head.ridge_, fit_intercept=False)
    model.fit(lifted, LabelBinarizer().fit_transform(y))
    expected = model.predict(np.maximum(X_test @ head.projection_, 0))
    assert_allclose(head.decision_function(X_test), expected, rtol=1e-5, atol=1e-6)


def test_ranpac_learns_a_task_of_one_sample(data):
    X, y, X_test, _ = data
    head = lifted_peers.RanPAC(width=40, random_state=0).partial_fit(X[:1], y[:1])
    assert_array_equal(head.predict(X_test), np.repeat(y[:1], len(X_test)))


def test_kernel_lda_approximates_its_kernel(data):
    X = data[0]
    head = lifted_peers.KernelLDA(width=4000, bandwidth=0.5, random_state=0)
    head._start(X[:100])
    Z = head._lift(X[:100])
    squared = np.sum((X[:100, None] - X[:100]) ** 2, axis=2)
    median = np.median(squared[np.triu_indices(100, 1)])
    assert_allclose(Z @ Z.T, np.exp(-0.5 * squared / median), atol=0.09)


@pytest.mark.parametrize("n_search", [120, 5000])
def test_joint_svm_searches_few_rows_and_fits_all(data, n_search):
    X, y, X_test, _ = data
    model = methods.JointSVM(n_search=n_search, random_state=0).fit(X, y)
    scaler = model.best_params_["scale"]
    rows = (X, X_test)
    if scaler != "passthrough":
        rows = [(part - X.mean(axis=0)) / X.std(axis=0) for part in rows]
    svm = SVC(gamma="scale", C=model.best_params_["svm__C"]).fit(rows[0], y)
    assert_array_equal(model.predict(X_test), svm.predict(rows[1]))
