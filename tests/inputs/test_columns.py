"""Columns far from zero or of unlike units are repaired at the first task; others never change."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_circles
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import FFNBClassifier, load, save
from ffnb_sklearn._inputs.columns import ColumnSpreads

IRIS, SPECIES = load_iris(return_X_y=True)
TASKS = [SPECIES < 2, SPECIES == 2]
HEADS = ["gaussian", "ovo", "ova"]


def classifier(**parameters):
    return FFNBClassifier(**{"shared_band_size": 20, "random_state": 0, **parameters})


def rescaled(factor=1e4, offset=1e3):
    X = IRIS.copy()
    X[:, 1] *= factor
    X[:, 2] += offset
    return X


def streamed(X, **parameters):
    estimator = classifier(**parameters)
    for task in TASKS:
        estimator.partial_fit(X[task], SPECIES[task])
    return estimator


def spreads_of(X, weights=None):
    return ColumnSpreads.of(X, np.ones(X.shape[0]) if weights is None else weights)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("offset", [10.0, 1e3, 1e6])
@pytest.mark.parametrize("classes_per_task", [None, 1])
def test_circles_far_from_zero_are_told_apart(head, offset, classes_per_task):
    X, y = make_circles(400, noise=0.05, factor=0.5, random_state=0)
    X_train, X_test, y_train, y_test = train_test_split(X + offset, y, random_state=0, stratify=y)
    estimator = classifier(
        classifier=head, shared_band_size=200, classes_per_task=classes_per_task
    ).fit(X_train, y_train)
    assert estimator.score(X_test, y_test) >= 0.98
    first = X_train if classes_per_task is None else X_train[y_train == 0]
    assert_allclose(estimator.offset_, first.mean(axis=0))
    assert estimator.scale_ is None


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("band_size", [0, 1])
def test_the_repaired_model_is_that_of_repaired_columns(head, band_size):
    X = rescaled()
    found = streamed(X, classifier=head, band_size=band_size)
    known = (X - found.offset_) / found.scale_
    expected = streamed(known, classifier=head, band_size=band_size, scale=False)
    assert (expected.offset_, expected.scale_) == (None, None)
    for method in ("decision_function", "transform", "predict_proba", "score_samples"):
        assert_array_equal(getattr(found, method)(X), getattr(expected, method)(known))
    if band_size:
        bounds = (
            one.forgetting_bound(rows[TASKS[0]]) for one, rows in ((found, X), (expected, known))
        )
        assert next(bounds) == next(bounds)


def test_the_first_task_decides():
    X, (first, second) = rescaled(), TASKS
    estimator = streamed(X)
    assert_allclose(estimator.scale_, X[first].std(axis=0))
    assert_allclose(estimator.offset_, [0.0, 0.0, X[first, 2].mean(), 0.0])
    by_two = classifier(classes_per_task=2).fit(X, SPECIES)
    assert_array_equal(by_two.decision_function(X), estimator.decision_function(X))
    # Such columns later change nothing.
    later = classifier().partial_fit(IRIS[first], SPECIES[first])
    later.partial_fit(X[second], SPECIES[second])
    assert (later.offset_, later.scale_) == (None, None)
    # A new fit decides afresh.
    assert estimator.fit(IRIS, SPECIES).scale_ is None


@pytest.mark.parametrize("factor", [1e-40, 1.0, 1e40])
def test_other_columns_stay_as_they_are(factor):
    digits, y = load_digits(return_X_y=True)
    narrow = np.random.default_rng(0).normal(size=(60, 20)) * np.where(np.arange(20) == 3, 1e-3, 1)
    for X, labels in [
        # Some pixels are constant, some are seldom other than zero.
        (digits, y),
        (IRIS, SPECIES),
        (np.column_stack([IRIS, np.full(150, 7.1)]), SPECIES),
        (IRIS * [50.0, 1.0, 1.0, 1.0], SPECIES),
        (IRIS[:1], SPECIES[:1]),
        (np.zeros((4, 2)), [0, 0, 1, 1]),
        # One small column of many may be small by chance.
        (narrow, np.arange(60) % 3),
    ]:
        estimator = classifier(band_size=0).fit(factor * X, labels)
        assert (estimator.offset_, estimator.scale_) == (None, None)
        unscaled = classifier(band_size=0, scale=False).fit(factor * X, labels)
        assert_array_equal(estimator.transform(factor * X), unscaled.transform(factor * X))


@pytest.mark.parametrize("ratio", [150.0, 1e8, 1e13, 1e18])
def test_columns_of_unlike_units_are_brought_to_one(ratio):
    X = StandardScaler().fit_transform(IRIS)
    expected = classifier().fit(X, SPECIES)
    found = classifier().fit(X * [1.0, ratio, 1.0, 1.0], SPECIES)
    assert_allclose(found.scale_, [1.0, ratio, 1.0, 1.0])
    assert found.offset_ is None
    scores = (
        one.decision_function(X * factors)
        for one, factors in ((expected, 1.0), (found, [1.0, ratio, 1.0, 1.0]))
    )
    assert_allclose(next(scores), next(scores), rtol=1e-6, atol=1e-8)


def test_tables_of_many_units():
    for data in (load_wine, load_breast_cancer):
        X, y = data(return_X_y=True)
        estimator = classifier().fit(X, y)
        assert (X / estimator.scale_).std(axis=0).max() < 1.0 + 1e-12


def test_true_standardises_and_false_does_nothing():
    scaler, (first, _) = StandardScaler(), TASKS
    expected = streamed(scaler.fit(IRIS[first]).transform(IRIS), scale=False)
    found = streamed(IRIS, scale=True)
    assert_allclose(found.scale_, scaler.scale_)
    assert_allclose(found.offset_, scaler.mean_)
    assert_allclose(
        found.decision_function(IRIS), expected.decision_function(scaler.transform(IRIS))
    )
    assert streamed(rescaled(), scale=False).scale_ is None
    constant = np.column_stack([IRIS, np.full(150, 7.1)])
    assert classifier(scale=True).fit(constant, SPECIES).scale_[-1] == 1.0


def test_constant_columns():
    # Far from zero, compared with the widest column; beside divided columns, compared with 1.
    far, near = (spreads_of(np.column_stack([IRIS, np.full(150, x)])) for x in (1e4, 7.1))
    assert_allclose(far.repair("auto").offset, [0.0, 0.0, 0.0, 0.0, 1e4])
    assert near.repair("auto") is None
    mixed = spreads_of(np.column_stack([rescaled(1e9), np.full(150, 1e5)])).repair("auto")
    assert (mixed.offset[-1], mixed.scale[-1]) == (1e5, 1.0)


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix, np.asfortranarray])
def test_weights_containers_and_precisions_decide_alike(container):
    weights = np.arange(150) % 3 + 1
    X, counts = rescaled(), np.repeat(np.arange(150), weights)
    expected = classifier().fit(X[counts], SPECIES[counts])
    found = classifier().fit(container(X), SPECIES, sample_weight=weights)
    assert_allclose(found.offset_, expected.offset_)
    assert_allclose(found.scale_, expected.scale_)
    assert_allclose(found.predict_proba(container(X)), expected.predict_proba(X), atol=1e-8)
    single = classifier().fit(container(X.astype(np.float32)), SPECIES, sample_weight=weights)
    assert_allclose(single.scale_, expected.scale_, rtol=1e-4)


@pytest.mark.parametrize("band_size", [0, 1])
def test_wide_sparse_samples_are_scaled_and_not_centred(band_size):
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 3000), density=0.02, rng=rng, format="csr")
    X = sparse.csr_array(X @ sparse.diags_array(np.where(np.arange(3000) < 1500, 1.0, 1e4)))
    y = np.arange(60) % 3
    found = classifier(band_size=band_size, shared_band_size=0, rank=None).fit(X, y)
    assert found.offset_ is None
    known = sparse.csr_array(X @ sparse.diags_array(1.0 / found.scale_))
    expected = classifier(band_size=band_size, shared_band_size=0, rank=None, scale=False)
    expected.fit(known, y)
    assert_allclose(found.decision_function(X), expected.decision_function(known), rtol=1e-9)
    assert_array_equal(found.decision_function(X.toarray()), found.decision_function(X))


def test_samples_come_in_chunks(monkeypatch):
    monkeypatch.setattr("ffnb_sklearn._inputs.columns._CHUNK_SIZE", 40)
    parts, X = spreads_of(rescaled()), rescaled()
    assert_allclose(parts.mean, X.mean(axis=0))
    assert_allclose(np.sqrt(parts.scatter / 150), X.std(axis=0))
    assert_array_equal([parts.lowest, parts.highest], [X.min(axis=0), X.max(axis=0)])


def test_shards_decide_together():
    pytest.importorskip("dask")
    from ffnb_sklearn.distributed import partial_fit_shards

    X, y = rescaled(), SPECIES
    rows = np.random.default_rng(0).permutation(150)
    empty = X[:0], y[:0]
    shards = [empty, *((X[part], y[part]) for part in np.array_split(rows, 4)), empty]
    found = partial_fit_shards(classifier(band_size=0), shards)
    expected = classifier(band_size=0).fit(X, y)
    assert_allclose(found.offset_, expected.offset_)
    assert_allclose(found.scale_, expected.scale_)
    assert_allclose(found.decision_function(X), expected.decision_function(X), rtol=1e-6)
    assert partial_fit_shards(classifier(scale=False, band_size=0), shards).scale_ is None


def test_a_merge_needs_equal_repairs():
    X, (first, second) = rescaled(), TASKS
    one, other = (classifier(band_size=0).fit(X[some], SPECIES[some]) for some in TASKS)
    with pytest.raises(ValueError, match=r"differs in offset_, scale_. Fit both with scale=False"):
        one.merge(other)
    plain = classifier(band_size=0, scale=False).fit(IRIS[second], SPECIES[second])
    for pair in [(one, plain), (plain, one)]:
        with pytest.raises(ValueError, match=r"differs in offset_, scale_"):
            pair[0].merge(pair[1])
    # Equal repairs merge, whatever asked for them.
    classifier(band_size=0).fit(IRIS[first], SPECIES[first]).merge(plain)
    halves = classifier(band_size=0).fit(X, SPECIES), classifier(band_size=0).fit(X, SPECIES)
    assert_array_equal(halves[0].merge(halves[1]).scale_, halves[1].scale_)


def test_forgetting_files_and_copies_keep_the_repair(tmp_path):
    X = rescaled()
    estimator = streamed(X, band_size=0).forget([0])
    alone = classifier(band_size=0, scale=False).fit(
        ((X - estimator.offset_) / estimator.scale_)[SPECIES > 0], SPECIES[SPECIES > 0]
    )
    known = (X - estimator.offset_) / estimator.scale_
    assert_allclose(estimator.decision_function(X), alone.decision_function(known), rtol=1e-7)
    save(estimator, tmp_path / "model.ffnb")
    for copied in (load(tmp_path / "model.ffnb"), pickle.loads(pickle.dumps(estimator))):
        assert_array_equal(copied.decision_function(X), estimator.decision_function(X))
        assert_array_equal(copied.offset_, estimator.offset_)


def test_the_parameter_holds_from_the_first_task():
    estimator = classifier().partial_fit(IRIS[TASKS[0]], SPECIES[TASKS[0]])
    with pytest.raises(ValueError, match="scale cannot change between tasks"):
        estimator.set_params(scale=False).partial_fit(IRIS[TASKS[1]], SPECIES[TASKS[1]])
    with pytest.raises(ValueError, match="'scale' parameter"):
        classifier(scale="std").fit(IRIS, SPECIES)


@pytest.mark.parametrize("ratio", [1.0, 1e8, 1e18])
@pytest.mark.parametrize("head", HEADS)
def test_without_a_repair_neither_the_order_nor_the_unit_of_the_inputs_counts(head, ratio):
    given = {"shared_band_size": 0, "band_size": 0, "rank": None, "scale": False}
    X, order = IRIS - IRIS.mean(axis=0), [3, 1, 2, 0]
    Z = X * [ratio, 1.0, 1.0, 1.0]
    first, last = (
        classifier(classifier=head, **given).fit(one, SPECIES) for one in (Z, Z[:, order])
    )
    assert_allclose(first.predict_proba(Z), last.predict_proba(Z[:, order]), atol=1e-9)
    assert first.score(Z, SPECIES) > 0.82
