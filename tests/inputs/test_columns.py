"""Columns of unlike units or far from zero are standardised by the first call, or named."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_circles

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    load,
    partial_fit_shards,
    save,
)
from ffnb_sklearn._base.task_learning import samples_of_moments
from ffnb_sklearn._inputs.columns import ColumnSpreads, ColumnUnits, spreads_by_label
from ffnb_sklearn.exceptions import ColumnUnitsWarning

IRIS, SPECIES = load_iris(return_X_y=True)
TASKS = [SPECIES < 2, SPECIES == 2]
HEADS = ["gaussian", "ovo", "ova"]
UNITS = np.array([1.0, 3e4, 1.0, 1.0])


def classifier(**parameters):
    return IncrementalDiscriminantAnalysis(
        **{"shared_band_size": 20, "random_state": 0, **parameters}
    )


def ffnb(**parameters):
    """Return a classifier with bands of one neuron; `fit` learns one task."""
    defaults = {"band_size": 1, "classes_per_task": None, "shared_band_size": 20}
    defaults |= {"scale": False, "random_state": 0}
    return FFNBClassifier(**{**defaults, **parameters})


both = pytest.mark.parametrize("make", [classifier, ffnb])


def streamed(X, make=classifier, **parameters):
    estimator = make(**parameters)
    for task in TASKS:
        estimator.partial_fit(X[task], SPECIES[task])
    return estimator


def deviations_within(X, y):
    """Return the standard deviation of each column within the classes."""
    deviations = X - np.stack([X[y == label].mean(axis=0) for label in y])
    return deviations.std(axis=0)


def warnings_of(X, y, make=classifier, **parameters):
    """Return the messages about columns of one fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make(**parameters).fit(X, y)
    assert {each.category for each in caught} <= {ColumnUnitsWarning}
    return [str(each.message) for each in caught]


# ---- the warning


@pytest.mark.parametrize("data", [load_iris, load_digits])
@pytest.mark.parametrize("factor", [1e-40, 1.0, 1e40])
def test_columns_of_one_unit_are_silent_and_stay(data, factor):
    X, y = data(return_X_y=True)
    for make in (classifier, ffnb):
        assert warnings_of(factor * X, y, make, scale=False) == []
        stayed = make(scale="auto").fit(factor * X, y)
        assert (stayed.offset_, stayed.scale_) == (None, None)
        plain = make(scale=False).fit(factor * X, y)
        assert_array_equal(stayed.decision_function(X), plain.decision_function(X))


def test_columns_far_from_zero_are_named():
    X, y = make_circles(400, noise=0.05, factor=0.5, random_state=0)
    (message,) = warnings_of(X + np.array([1000.0, 0.0]), y)
    assert "The mean of column 0 is far from 0: the samples are at least 20 times" in message
    assert "standard deviation of" not in message
    for remedy in ("known constants", "FrozenEstimator(scaler)", 'scale="auto"'):
        assert remedy in message
    assert warnings_of(X + 5.0, y) == []


@pytest.mark.parametrize("offset", [200.0, 1e4, 1e6])
def test_circles_far_from_zero_are_learned_as_if_near(offset):
    X, y = make_circles(400, noise=0.05, factor=0.5, random_state=0)
    given = {"shared_band_size": 200, "scale": "auto"}
    for make in (classifier, ffnb):
        assert make(**given).fit(X[:200] + offset, y[:200]).score(X[200:] + offset, y[200:]) == 1.0
    plain = classifier(shared_band_size=200)
    with pytest.warns(ColumnUnitsWarning, match="columns 0, 1 is far from 0"):
        plain.fit(X[:200] + offset, y[:200])
    assert plain.score(X[200:] + offset, y[200:]) < 0.8


@pytest.mark.parametrize(
    ("scale", "size"),
    [
        # Frequencies of radios, metres from the centre of the earth, nanoseconds of an hour.
        (1e-8, 2.4e9),
        (1e-7, 6.4e6),
        (1e-9, 1.8e18),
    ],
)
def test_columns_that_vary_by_less_than_single_precision_are_named(scale, size):
    X = size * (1.0 + scale * IRIS)
    (message,) = warnings_of(X, SPECIES)
    assert "columns 0, 1, 2, 3 is far from 0" in message


def test_columns_of_unlike_units_are_named():
    X, y = load_breast_cancer(return_X_y=True)
    (message,) = warnings_of(X, y)
    assert "columns 0, 4, 5, 6, 7 and 18 more within classes is at most a 100th" in message
    assert "of that of column 23" in message
    frame = pytest.importorskip("pandas").DataFrame(IRIS * UNITS, columns=list("abcd"))
    (message,) = warnings_of(frame, SPECIES)
    assert (
        "columns 'a', 'c', 'd' within classes is at most a 100th of that of column 'b'" in message
    )


def test_a_few_small_columns_of_many_are_no_reason():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 20)) * np.where(np.arange(20) == 3, 1e-4, 1.0)
    assert warnings_of(X, np.arange(60) % 3) == []


def test_small_constant_columns_are_no_reason():
    for value in (0.0, 1.0, -10.0):
        assert warnings_of(np.column_stack([IRIS, np.full(150, value)]), SPECIES) == []
    assert warnings_of(np.full((20, 2), 7.0), np.arange(20) % 2) == []


@pytest.mark.parametrize("value", [1e4, -1e9, 1.7e18, 1e40])
@pytest.mark.parametrize("data", [load_iris, load_wine, load_digits])
def test_a_large_constant_column_is_named_and_no_other(data, value):
    X, y = data(return_X_y=True)
    value = value * max(1.0, X.std(axis=0).max())
    X = np.insert(X, 2, value, axis=1)
    for make in (classifier, ffnb):
        (message,) = warnings_of(X, y, make, scale=False)
        assert "constant column 2 is large" in message
        assert "The mean of" not in message
        assert ("standard deviation" in message) == (data is load_wine)


def test_a_constant_column_becomes_zero_where_columns_are_standardised():
    X = np.column_stack([IRIS, np.full(150, 1.7e18)])
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 150)
    estimator = classifier(scale=True).fit(X, SPECIES, sample_weight=weights)
    assert estimator.offset_[4] == 1.7e18
    parts = [ColumnSpreads.of(X[rows], weights[rows]) for rows in (slice(7), slice(7, 150))]
    units = ColumnUnits.of([ColumnSpreads.merged(parts)])
    assert (units.mean[4], units.deviation[4]) == (1.7e18, 0.0)


def test_the_warning_comes_once_and_after_ten_degrees_of_freedom():
    X = 1e4 + IRIS
    estimator = classifier()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.partial_fit(X[100:101], SPECIES[100:101])
        for row in range(10):
            estimator.partial_fit(X[row : row + 1], SPECIES[row : row + 1])
    before = estimator.decision_function(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ColumnUnitsWarning):
            estimator.partial_fit(X[10:11], SPECIES[10:11])
    # The call has changed nothing.
    assert_array_equal(estimator.decision_function(X), before)
    with pytest.warns(ColumnUnitsWarning):
        estimator.partial_fit(X[10:11], SPECIES[10:11])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.partial_fit(X, SPECIES)


def test_the_warning_points_to_the_caller():
    with pytest.warns(ColumnUnitsWarning) as caught:
        classifier().fit(1e4 + IRIS, SPECIES)
    assert caught[0].filename == __file__


def test_the_warning_changes_nothing_and_true_is_silent():
    X, y = IRIS * UNITS, SPECIES
    with pytest.warns(ColumnUnitsWarning):
        found = classifier().fit(X, y)
    assert (found.offset_, found.scale_) == (None, None)
    assert_array_equal(found.transform(X)[:, :4], X)
    assert warnings_of(X, y, scale=True) == []


def test_shards_are_checked_together():
    shards = [(1e4 + IRIS[n::3], SPECIES[n::3]) for n in range(3)]
    with pytest.warns(ColumnUnitsWarning, match="columns 0, 1, 2, 3 is far"):
        partial_fit_shards(classifier(), shards)


# ---- scale=True


@pytest.mark.parametrize("head", HEADS)
@both
def test_the_model_is_that_of_standardised_columns(make, head):
    X = IRIS * UNITS + 1e3
    found = streamed(X, make, scale=True, classifier=head)
    known = (X - found.offset_) / found.scale_
    expected = streamed(known, make, classifier=head)
    assert (expected.offset_, expected.scale_) == (None, None)
    for method in ("decision_function", "transform", "predict_proba", "score_samples"):
        assert_array_equal(getattr(found, method)(X), getattr(expected, method)(known))
    if make is ffnb:
        first = TASKS[0]
        assert found.forgetting_bound(X[first]) == expected.forgetting_bound(known[first])


def test_the_first_call_decides():
    first, _ = TASKS
    found = streamed(IRIS, scale=True)
    assert_allclose(found.scale_, deviations_within(IRIS[first], SPECIES[first]))
    assert_allclose(found.offset_, IRIS[first].mean(axis=0))
    by_two = ffnb(scale=True, classes_per_task=2).fit(IRIS, SPECIES)
    by_hand = streamed(IRIS, ffnb, scale=True)
    assert_array_equal(by_two.decision_function(IRIS), by_hand.decision_function(IRIS))
    # A new fit decides afresh.
    whole = found.fit(IRIS, SPECIES)
    assert_allclose(whole.scale_, deviations_within(IRIS, SPECIES))
    constant = np.column_stack([IRIS, np.full(150, 7.1)])
    assert classifier(scale=True).fit(constant, SPECIES).scale_[-1] == 1.0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("head", HEADS)
def test_calls_without_a_spread_wait_for_one(head, form):
    equal = np.repeat(IRIS[:1], 3, axis=0)
    found = classifier(scale=True, classifier=head, rank=None)
    found.partial_fit(form(equal[:2]), [0, 0]).partial_fit(form(equal[2:]), [2])
    assert found.offset_ is None
    assert set(found.predict(form(IRIS))) <= {0, 2}
    found.partial_fit(form(IRIS), SPECIES)
    rows, labels = np.vstack([equal, IRIS]), np.concatenate([[0, 0, 2], SPECIES])
    assert_allclose(found.scale_, deviations_within(rows, labels))
    known = (rows - found.offset_) / found.scale_
    expected = classifier(classifier=head, rank=None).partial_fit(known, labels)
    new = (IRIS - found.offset_) / found.scale_
    assert_allclose(found.decision_function(IRIS), expected.decision_function(new), atol=1e-9)
    assert [labels.tolist() for labels in found.task_classes_] == [[0], [2], [1]]


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix, np.asfortranarray])
def test_weights_containers_and_precisions_decide_alike(container):
    weights = np.arange(150) % 3 + 1
    counts = np.repeat(np.arange(150), weights)
    expected = classifier(scale=True).fit(IRIS[counts], SPECIES[counts])
    found = classifier(scale=True).fit(container(IRIS), SPECIES, sample_weight=weights)
    assert_allclose(found.offset_, expected.offset_)
    assert_allclose(found.scale_, expected.scale_)
    assert_allclose(found.predict_proba(container(IRIS)), expected.predict_proba(IRIS), atol=1e-8)
    single = classifier(scale=True)
    single.fit(container(IRIS.astype(np.float32)), SPECIES, sample_weight=weights)
    assert_allclose(single.scale_, expected.scale_, rtol=1e-4)


@pytest.mark.parametrize("ratio", [1e8, 1e13, 1e18])
def test_ratios_beyond_double_precision(ratio):
    factors = np.array([1.0, ratio, 1.0, 1.0])
    expected = classifier(scale=True).fit(IRIS, SPECIES)
    found = classifier(scale=True).fit(IRIS * factors, SPECIES)
    assert_allclose(found.scale_, expected.scale_ * factors)
    assert_allclose(
        found.decision_function(IRIS * factors), expected.decision_function(IRIS), rtol=1e-6
    )


@both
def test_wide_sparse_samples_are_scaled_and_not_centred(make):
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 3000), density=0.02, rng=rng, format="csr")
    X = sparse.csr_array(X @ sparse.diags_array(np.where(np.arange(3000) < 1500, 1.0, 1e4)))
    y = np.arange(60) % 3
    given = {"shared_band_size": 0, "rank": None}
    found = make(scale=True, **given).fit(X, y)
    assert found.offset_ is None
    known = sparse.csr_array(X @ sparse.diags_array(1.0 / found.scale_))
    expected = make(**given).fit(known, y)
    scores = expected.decision_function(known)
    assert_allclose(found.decision_function(X), scores, rtol=1e-9, atol=1e-9)
    assert_array_equal(found.decision_function(X.toarray()), found.decision_function(X))


def test_samples_come_in_chunks(monkeypatch):
    weights = np.arange(150) % 3 + 1.0
    whole = spreads_by_label(IRIS, SPECIES, weights)
    monkeypatch.setattr("ffnb_sklearn._inputs.columns._CHUNK_SIZE", 40)
    chunks = spreads_by_label(IRIS, SPECIES, weights)
    for label in range(3):
        assert_allclose(chunks[label].mean, whole[label].mean)
        assert_allclose(chunks[label].scatter, whole[label].scatter)
        assert chunks[label].degrees_of_freedom == whole[label].degrees_of_freedom


def test_shards_decide_together():
    X, y = IRIS * UNITS, SPECIES
    rows = np.random.default_rng(0).permutation(150)
    empty = X[:0], y[:0]
    shards = [empty, *((X[part], y[part]) for part in np.array_split(rows, 4)), empty]
    found = partial_fit_shards(classifier(scale=True), shards)
    expected = classifier(scale=True).fit(X, y)
    assert_allclose(found.offset_, expected.offset_)
    assert_allclose(found.scale_, expected.scale_)
    assert_allclose(found.decision_function(X), expected.decision_function(X), rtol=1e-6)
    # A call without a spread leaves the decision to the shards.
    start = classifier(scale=True).partial_fit(X[:1], y[:1])
    later = partial_fit_shards(start, [(X[1::2], y[1::2]), (X[2::2], y[2::2])])
    assert_allclose(later.scale_, expected.scale_)


# ---- scale="auto"


def test_only_the_classifier_that_depends_on_the_order_scales_by_default():
    assert FFNBClassifier().scale == "auto"
    assert IncrementalDiscriminantAnalysis().scale is False
    assert FFNBClassifier.as_published().scale is False


@both
@pytest.mark.parametrize("change", [lambda X: X * UNITS, lambda X: X + 1e3])
def test_unlike_units_and_far_columns_are_standardised(make, change):
    X = change(IRIS)
    found = streamed(X, make, scale="auto")
    expected = streamed(X, make, scale=True)
    assert_array_equal(found.scale_, expected.scale_)
    assert_array_equal(found.decision_function(X), expected.decision_function(X))
    assert warnings_of(X, SPECIES, make, scale="auto") == []


def test_calls_with_few_samples_wait_for_ten_degrees_of_freedom():
    given = {"shared_band_size": 0, "rank": None}
    X = IRIS * UNITS
    found = classifier(scale="auto", **given)
    for rows in (slice(0, 4), slice(50, 51), slice(4, 10)):
        found.partial_fit(X[rows], SPECIES[rows])
    assert found.offset_ is None
    assert found.score(X[:50], SPECIES[:50]) == 1.0
    learned = np.r_[0:10, 50:51, 51:53]
    found.partial_fit(X[51:53], SPECIES[51:53])
    assert_allclose(found.scale_, deviations_within(X[learned], SPECIES[learned]))
    # The mean and the scatter of each class are exact, though the samples are gone.
    known = (X - found.offset_) / found.scale_
    expected = classifier(**given)
    expected.fit(known[learned], SPECIES[learned])
    assert_allclose(found.decision_function(X), expected.decision_function(known), atol=1e-9)
    assert_allclose(found.class_counts_, expected.class_counts_)
    assert [labels.tolist() for labels in found.task_classes_] == [[0], [1]]
    # Later calls change nothing.
    before = found.scale_
    found.partial_fit(X[100:], SPECIES[100:])
    assert_array_equal(found.scale_, before)


@both
def test_columns_that_have_shown_one_unit_stay_for_good(make):
    found = make(scale="auto").partial_fit(IRIS[TASKS[0]], SPECIES[TASKS[0]])
    found.partial_fit(IRIS[TASKS[1]] * UNITS, SPECIES[TASKS[1]])
    assert (found.offset_, found.scale_) == (None, None)


def test_samples_of_moments_have_their_mean_and_scatter():
    model = classifier(rank=None).fit(IRIS[:7], SPECIES[:7], sample_weight=np.arange(1.0, 8.0))
    (moments,) = model._state.model.moments
    samples = samples_of_moments(moments, 4)
    assert_allclose(samples.mean(axis=0), moments.mean[:4])
    scatter = moments.weight * np.cov(samples.T, bias=True)
    assert_allclose(scatter, moments.scatter()[:4, :4], atol=1e-12)


def test_shards_decide_together_whether_columns_stay():
    X = IRIS * UNITS
    shards = [(X[part], SPECIES[part]) for part in np.array_split(np.arange(150), 30)]
    found = partial_fit_shards(classifier(scale="auto"), shards)
    expected = classifier(scale="auto").fit(X, SPECIES)
    assert_allclose(found.scale_, expected.scale_)
    assert_allclose(found.decision_function(X), expected.decision_function(X), rtol=1e-6)
    stayed = partial_fit_shards(classifier(scale="auto"), [(IRIS, SPECIES)])
    assert stayed.scale_ is None
    # Few samples leave the decision to later shards.
    few = partial_fit_shards(classifier(scale="auto"), [(X[:5], SPECIES[:5]), (X[5:8], [0] * 3)])
    assert few.scale_ is None
    later = partial_fit_shards(few, [(X[8::2], SPECIES[8::2]), (X[9::2], SPECIES[9::2])])
    assert_allclose(later.scale_, expected.scale_)


@both
def test_wide_sparse_columns_stay(make):
    rng = np.random.default_rng(0)
    X = sparse.random_array((60, 3000), density=0.02, rng=rng, format="csr")
    X = sparse.csr_array(X @ sparse.diags_array(np.where(np.arange(3000) < 1500, 1.0, 1e4)))
    found = make(scale="auto", shared_band_size=0).fit(X, np.arange(60) % 3)
    assert found.scale_ is None


def test_a_class_that_is_constant_in_a_column_takes_the_deviation_of_all_samples():
    X = np.column_stack([IRIS, 1e5 * SPECIES])
    found = classifier(scale="auto").fit(X, SPECIES)
    assert_allclose(found.scale_[:4], deviations_within(IRIS, SPECIES))
    assert_allclose(found.scale_[4], X[:, 4].std())


# ---- what is kept of the first call


def test_a_merge_needs_equal_scales():
    mine, theirs = (classifier(scale=True).fit(IRIS[task], SPECIES[task]) for task in TASKS)
    with pytest.raises(ValueError, match=r"differs in offset_, scale_"):
        mine.merge(theirs)
    plain = classifier().fit(IRIS[TASKS[1]], SPECIES[TASKS[1]])
    for first, second in [(mine, plain), (plain, mine)]:
        with pytest.raises(ValueError, match=r"differs in .*offset_, scale_"):
            first.merge(second)


def test_forget_warns_of_the_trace_that_stays():
    estimator = streamed(IRIS, scale=True)
    with pytest.warns(UserWarning, match=r"trace of the classes \[0\]"):
        estimator.forget([0, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Class 2 came later, and nothing stays if all is forgotten.
        streamed(IRIS, scale=True).forget(2)
        streamed(IRIS, scale=True).forget([0, 1, 2])
        streamed(IRIS).forget(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused = streamed(IRIS, scale=True)
        with pytest.raises(UserWarning):
            refused.forget(0)
    assert refused.classes_.tolist() == [0, 1, 2]


def test_forgetting_files_and_copies_keep_the_scale(tmp_path):
    X = IRIS * UNITS
    estimator = streamed(X, scale=True)
    with pytest.warns(UserWarning, match="trace"):
        estimator.forget([0])
    known = (X - estimator.offset_) / estimator.scale_
    alone = classifier().fit(known[SPECIES > 0], SPECIES[SPECIES > 0])
    assert_allclose(estimator.decision_function(X), alone.decision_function(known), rtol=1e-7)
    save(estimator, tmp_path / "model.ffnb")
    for copied in (load(tmp_path / "model.ffnb"), pickle.loads(pickle.dumps(estimator))):
        assert_array_equal(copied.decision_function(X), estimator.decision_function(X))
        assert_array_equal(copied.offset_, estimator.offset_)
        with pytest.warns(UserWarning, match=r"trace of the classes \[1\]"):
            copied.forget(1)


def test_the_parameter_holds_from_the_first_task():
    estimator = classifier().partial_fit(IRIS[TASKS[0]], SPECIES[TASKS[0]])
    with pytest.raises(ValueError, match="scale cannot change between tasks"):
        estimator.set_params(scale=True).partial_fit(IRIS[TASKS[1]], SPECIES[TASKS[1]])
    for value in ("std", 2, None):
        with pytest.raises(ValueError, match="'scale' parameter"):
            classifier(scale=value).fit(IRIS, SPECIES)


@pytest.mark.parametrize("ratio", [1.0, 1e8, 1e18])
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
def test_without_neurons_the_order_of_the_inputs_hardly_counts(head, ratio):
    given = {"shared_band_size": 0, "rank": None}
    X, order = IRIS - IRIS.mean(axis=0), [3, 1, 2, 0]
    Z = X * [ratio, 1.0, 1.0, 1.0]
    first = classifier(classifier=head, **given).fit(Z, SPECIES)
    last = classifier(classifier=head, **given).fit(Z[:, order], SPECIES)
    # The draws that judge the choice go with the columns.
    assert_allclose(first.predict_proba(Z), last.predict_proba(Z[:, order]), atol=0.01)
    assert first.score(Z, SPECIES) > 0.82
