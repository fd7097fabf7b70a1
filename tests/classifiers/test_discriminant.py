"""IncrementalDiscriminantAnalysis: forgetting, merging and joining of classes are exact."""

import warnings
from io import BytesIO

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError

from ffnb_sklearn import IncrementalDiscriminantAnalysis, load, save
from ffnb_sklearn.classifiers import discriminant
from ffnb_sklearn.core import prediction
from ffnb_sklearn.core.features import FixedFeatures
from tests.separated_classes import CODES, X, learned, of, unchanged


def estimator(**parameters):
    return IncrementalDiscriminantAnalysis(
        **{"shared_band_size": 10, "random_state": 0, **parameters}
    )


def exact(**parameters):
    return IncrementalDiscriminantAnalysis(
        **{"rank": None, "shared_band_size": 100, "random_state": 0, **parameters}
    )


# ---- forgetting and merging


def test_forgetting_is_exact():
    model = learned(estimator(rank=None), [0, 1], [2, 3], [4]).forget([1, 4])
    never = learned(estimator(rank=None), [0], [2, 3])
    assert_array_equal(model.classes_, [0, 2, 3])
    assert [task.tolist() for task in model.task_classes_] == [[0], [2, 3]]
    assert model.n_tasks_ == 2
    assert_allclose(model.decision_function(X), never.decision_function(X), atol=1e-9)
    learned(model, [1])
    learned(never, [1])
    assert_allclose(model.decision_function(X), never.decision_function(X), atol=1e-9)


def test_merging_is_learning_together():
    first = learned(estimator(rank=None), [5, 1], [2])
    second = learned(estimator(rank=None), [0], [7], classes=[6])
    # Class 2 has other samples here than there.
    more = 1.0 + of(2)
    second.partial_fit(more, np.full(len(more), 2))
    theirs = second.predict_proba(X)
    together = learned(estimator(rank=None), [5, 1], [2], [0], [7], classes=[6])
    together.partial_fit(more, np.full(len(more), 2))
    merged = first.merge(second)
    assert merged is first
    assert_array_equal(merged.classes_, [0, 1, 2, 5, 6, 7])
    assert [task.tolist() for task in merged.task_classes_] == [[1, 5], [2], [0], [7]]
    assert merged.n_tasks_ == 4
    assert_allclose(merged.predict_proba(X), together.predict_proba(X), atol=1e-9)
    assert_array_equal(second.predict_proba(X), theirs)


def test_models_merge_whatever_their_chunks():
    left, right = (learned(estimator(chunk_size=n), [n]) for n in (3, 5))
    both = learned(estimator(), [3], [5])
    assert_allclose(left.merge(right).decision_function(X), both.decision_function(X))


# ---- data on disk, and the size of a head


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_data_on_disk_is_read_in_chunks(dtype, tmp_path, monkeypatch):
    X.astype(dtype).tofile(tmp_path / "X.dat")
    on_disk = np.memmap(tmp_path / "X.dat", dtype=dtype, mode="r", shape=X.shape)
    seen, shared = [], []
    features = FixedFeatures.__call__
    learn = discriminant.learn

    def counted(self, values):
        seen.append(len(values))
        return features(self, values)

    def watched(model, task, *others):
        shared.append(np.shares_memory(task.samples.numpy(), on_disk))
        return learn(model, task, *others)

    monkeypatch.setattr(FixedFeatures, "__call__", counted)
    monkeypatch.setattr(discriminant, "learn", watched)
    model = estimator(chunk_size=15).partial_fit(on_disk, CODES)
    model.predict(on_disk)

    assert shared == [True]
    # Two chunks of each class of twenty samples in learning, eleven chunks in prediction.
    assert seen == 8 * [15, 5] + 10 * [15] + [10]


def test_a_head_of_one_covariance_has_no_weights_of_own_axes():
    clf = IncrementalDiscriminantAnalysis(shared_band_size=20, shrinkage=1.0, random_state=0)
    clf.fit(X, CODES).predict(X)
    head = prediction.solve_once(clf._state.model, torch.device("cpu")).head

    found = sum(one.size for one in (head.centre, head.planes, head.offsets, head.rows))

    assert clf.n_parameters_ - clf._state.model.features.n_weights == found


# ---- classes that are joined


def test_joined_classes_equal_classes_learned_under_one_label(tmp_path):
    clf = learned(exact(), [4, 1], [0, 3], [2])
    clf.rename({0: 9, 4: 9, 1: 3, 3: 1})
    names = np.array([9, 3, 2, 1, 9, 5, 6, 7])
    expected = learned(exact(), [4, 1], [0, 3], [2], y=names[CODES])
    assert_array_equal(clf.classes_, [1, 2, 3, 9])
    assert_array_equal(clf.class_counts_, [20.0, 20.0, 20.0, 40.0])
    assert [task.tolist() for task in clf.task_classes_] == [[3, 9], [1], [2]]
    assert_allclose(clf.decision_function(X), expected.decision_function(X), rtol=1e-9, atol=1e-9)
    save(clf, tmp_path / "model.ffnb")
    restored = load(tmp_path / "model.ffnb")
    assert_array_equal(restored.predict_proba(X), clf.predict_proba(X))
    for model in (restored, expected):
        learned(model, [5], y=names[CODES]).forget(2)
    scores = restored.decision_function(X)
    assert_allclose(scores, expected.decision_function(X), rtol=1e-9, atol=1e-9)


def test_a_declared_label_joins_a_class():
    clf = learned(IncrementalDiscriminantAnalysis(random_state=0), [0, 1], classes=[2])
    clf.rename({2: 0, 0: 0})
    assert_array_equal(clf.classes_, [0, 1])
    assert_array_equal(clf.class_counts_, [20.0, 20.0])


def test_declared_labels_are_renamed_and_joined():
    clf = learned(IncrementalDiscriminantAnalysis(random_state=0), [0, 1], classes=[2, 5, 6])
    clf.rename({2: 7, 5: 3, 6: 3})
    assert_array_equal(clf.classes_, [0, 1, 3, 7])
    assert_array_equal(clf.predict_proba(X)[:, 2:], 0.0)
    learned(clf, [7])
    assert_array_equal(clf.classes_, [0, 1, 3, 7])
    assert_array_equal(clf.predict(of(7)), 7)


# ---- samples that are forgotten


def test_forgotten_samples_leave_scores_as_if_never_learned():
    digits, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    is_gone = rng.random(len(labels)) < 0.2
    is_gone[labels == 9] = True
    clf = exact().fit(digits, labels).forget_samples(digits[is_gone], labels[is_gone])
    expected = exact().fit(digits[~is_gone], labels[~is_gone])
    assert_array_equal(clf.classes_, np.arange(9))
    assert_array_equal(clf.class_counts_, expected.class_counts_)
    scores = expected.decision_function(digits)
    tolerance = 1e-7 * np.abs(scores).max()
    assert_allclose(clf.decision_function(digits), scores, rtol=1e-7, atol=tolerance)


@pytest.mark.parametrize("load_table", [load_iris, load_wine, load_breast_cancer])
def test_samples_of_columns_of_unlike_units_are_forgotten(load_table):
    samples, labels = load_table(return_X_y=True)
    is_gone = np.random.default_rng(0).random(len(labels)) < 0.3
    clf = exact()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf.fit(samples, labels)
        expected = exact().fit(samples[~is_gone], labels[~is_gone])
    clf.forget_samples(samples[is_gone], labels[is_gone])
    scores = expected.decision_function(samples)
    tolerance = 1e-7 * np.abs(scores).max()
    assert_allclose(clf.decision_function(samples), scores, rtol=1e-7, atol=tolerance)


@pytest.mark.parametrize("n_gone", [5, 300])
def test_columns_in_which_a_class_is_constant_do_not_disturb_what_remains(n_gone):
    # Many pixels are constant in a class, but not zero once the columns are standardised.
    digits, labels = load_digits(return_X_y=True)
    digits = (digits - digits.mean(0)) / np.maximum(digits.std(0), 1e-3)
    clf = exact().fit(digits, labels).forget_samples(digits[:n_gone], labels[:n_gone])
    scores = exact().fit(digits[n_gone:], labels[n_gone:]).decision_function(digits)
    tolerance = 1e-7 * np.abs(scores).max()
    assert_allclose(clf.decision_function(digits), scores, rtol=1e-7, atol=tolerance)

    # The first pixel is constant in all classes.
    other = digits[n_gone : n_gone + 1].copy()
    other[0, 0] += 1.0
    remaining = clf.decision_function(digits)
    with pytest.raises(ValueError, match="differ in a column"):
        clf.forget_samples(other, labels[n_gone : n_gone + 1])
    assert_array_equal(clf.decision_function(digits), remaining)


def test_samples_are_forgotten_where_the_columns_are_standardised():
    digits, labels = load_digits(return_X_y=True)
    clf = exact(scale=True).fit(digits, labels)
    accuracy = clf.score(digits, labels)
    with pytest.warns(UserWarning, match="standardis"):
        clf.forget_samples(digits[:5], labels[:5])
    assert clf.score(digits, labels) > accuracy - 0.005


def test_samples_are_forgotten_with_their_weights_and_all_samples_leave_nothing():
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 40)
    now = CODES < 2
    clf = exact().fit(X[now], CODES[now], sample_weight=weights)
    clf.forget_samples(X[:10], CODES[:10], sample_weight=weights[:10])
    expected = exact().fit(X[10:40], CODES[10:40], sample_weight=weights[10:])
    assert_allclose(clf.decision_function(X), expected.decision_function(X), rtol=1e-7, atol=1e-7)
    clf.forget_samples(X[10:40], CODES[10:40], sample_weight=weights[10:])
    with pytest.raises(NotFittedError):
        clf.predict(X)


def test_forget_samples_refuses_what_was_not_learned():
    clf = learned(exact(), [0, 1], classes=[5])
    with unchanged(clf), pytest.raises(ValueError, match=r"learned; got \[5\], known are \[0, 1"):
        clf.forget_samples(X[:1], [5])
    with unchanged(clf), pytest.raises(ValueError, match=r"negative variance|outside"):
        clf.forget_samples(X[:1] + 100.0, [0])
    with unchanged(clf), pytest.raises(ValueError, match="larger than that of the class"):
        clf.forget_samples(X[:20], CODES[:20], sample_weight=np.full(20, 2.0))


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@pytest.mark.parametrize("size", [1e4, 1e6, 1e9])
@pytest.mark.parametrize("columns", [slice(None), slice(2, 3)], ids=["all", "one"])
def test_samples_beside_which_the_others_lose_their_digits_are_not_forgotten(columns, size):
    outlier = X[:1].copy()
    outlier[:, columns] *= size
    clf = exact().fit(np.vstack([X, outlier]), [*CODES, 0])
    if size == 1e4:
        scores = exact().fit(X, CODES).decision_function(X)
        clf.forget_samples(outlier, [0])
        assert_allclose(clf.decision_function(X), scores, rtol=1e-5, atol=1e-5)
        return
    with unchanged(clf), pytest.raises(ValueError, match=r"samples of classes \[0\] lie so far"):
        clf.forget_samples(outlier, [0])
    # Nothing is compared if the class goes with its samples.
    assert len(clf.forget_samples(np.vstack([of(0), outlier]), np.zeros(21)).classes_) == 7


@pytest.mark.parametrize("span", [1e5, 1e8, 1e10, 1e12])
def test_samples_beside_whose_weights_the_others_lose_their_digits_are_not_forgotten(span):
    now = CODES < 2
    rows, labels = X[now], CODES[now]
    is_heavy = np.arange(40) % 20 < 10
    weights = np.where(is_heavy, 1.0, 1.0 / span)
    clf = exact(shared_band_size=0).fit(rows, labels, sample_weight=weights)
    heavy = (rows[is_heavy], labels[is_heavy], weights[is_heavy])
    if span > 1e5:
        with unchanged(clf), pytest.raises(ValueError, match=r"classes \[0, 1\] .* larger weights"):
            clf.forget_samples(*heavy)
        return
    clf.forget_samples(*heavy)
    light = (rows[~is_heavy], labels[~is_heavy], weights[~is_heavy])
    expected = exact(shared_band_size=0).fit(*light[:2], sample_weight=light[2])
    assert_allclose(clf.class_counts_, expected.class_counts_, rtol=1e-9)
    assert_allclose(clf.decision_function(X), expected.decision_function(X), rtol=1e-3, atol=1e-3)


def test_fractional_weights_are_forgotten_until_nothing_is_left():
    order = np.random.default_rng(3).permutation(300)
    samples = np.random.default_rng(0).normal(size=(300, 2))
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 300)
    labels = np.zeros(300, dtype=int)
    clf = exact(shared_band_size=0).fit(samples, labels, sample_weight=weights)
    for row in order:
        clf.forget_samples(samples[[row]], labels[[row]], sample_weight=weights[[row]])
    with pytest.raises(NotFittedError):
        clf.predict(samples)


def test_equal_samples_may_remain_of_the_only_class():
    clf = exact().fit([[1.0, 2.0], [1.0, 2.0], [5.0, 0.0]], [0, 0, 0])
    clf.forget_samples([[5.0, 0.0]], [0])
    assert_allclose(clf.class_counts_, [2.0])


# Few axes depend more on the samples that are gone.
@pytest.mark.parametrize(("rank", "largest_error"), [("auto", 0.006), (12, 0.04)])
def test_samples_of_truncated_classes_are_nearly_forgotten(rank, largest_error):
    digits, labels = load_digits(return_X_y=True)
    gone, stay, new = slice(0, 300), slice(300, 1200), slice(1200, None)
    parameters = {"rank": rank, "shared_band_size": "auto"}
    clf = exact(**parameters).fit(digits[:1200], labels[:1200])
    kept = clf.predict_proba(digits[new])
    clf.forget_samples(digits[gone], labels[gone])
    never = exact(**parameters).fit(digits[stay], labels[stay])
    assert_allclose(clf.class_counts_, never.class_counts_)
    expected = never.predict_proba(digits[new])
    errors = np.abs(clf.predict_proba(digits[new]) - expected).max(axis=1)
    assert errors.mean() < largest_error
    assert errors.mean() < np.abs(kept - expected).max(axis=1).mean()
    assert np.mean(clf.predict(digits[new]) == never.predict(digits[new])) > 0.97


def test_truncated_classes_lose_all_samples_and_nothing_that_they_cannot_have():
    clf = learned(estimator(), [0, 1], [2])
    assert_array_equal(clf.forget_samples(of(1), np.full(20, 1)).classes_, [0, 2])
    with unchanged(clf), pytest.raises(ValueError, match="larger than that of the class"):
        clf.forget_samples(np.tile(of(0), (2, 1)), np.zeros(40))
    with unchanged(clf), pytest.raises(ValueError, match="negative variance"):
        clf.forget_samples(of(0)[:3] + 50.0, np.zeros(3))


# ---- samples that are forgotten in long sequences


def test_a_column_that_becomes_zero_lets_later_samples_go():
    rows = np.array([[0.0, 1.0], [0.0, 2.0], [0.0, 4.0], [0.7, 3.0], [5.0, 5.0], [6.0, 7.0]])
    labels = np.array([0, 0, 0, 0, 1, 1])
    clf = exact(shared_band_size=0).fit(rows, labels)
    clf.forget_samples(rows[3:4], labels[3:4])
    clf.forget_samples(rows[:1], labels[:1])
    moments = clf._state.model.moments[0]
    assert_allclose(moments.mean, [0.0, 3.0], rtol=1e-14)
    assert_allclose(moments.scatter(), [[0.0, 0.0], [0.0, 2.0]], rtol=1e-12)


@pytest.mark.parametrize(("n_persons", "shared_band_size"), [(3, 100), (20, 0), (20, 100)])
def test_persons_are_deleted_one_after_the_other(n_persons, shared_band_size):
    digits, labels = load_digits(return_X_y=True)
    digits, labels = digits[:600], labels[:600]
    person = np.arange(600) * n_persons // 600
    clf = exact(shared_band_size=shared_band_size).fit(digits, labels)
    order = np.random.default_rng(0).permutation(n_persons)
    for number, gone in enumerate(order[:-1]):
        clf.forget_samples(digits[person == gone], labels[person == gone])
        if number in (0, n_persons // 2, n_persons - 2):
            left = np.isin(person, order[number + 1 :])
            never = exact(shared_band_size=shared_band_size).fit(digits[left], labels[left])
            scores = never.decision_function(digits)
            tolerance = 1e-7 * np.abs(scores).max()
            assert_allclose(clf.decision_function(digits), scores, rtol=1e-7, atol=tolerance)
    last = person == order[-1]
    clf.forget_samples(digits[last], labels[last])
    with pytest.raises(NotFittedError):
        clf.predict(digits)
    clf.partial_fit(digits, labels)
    assert clf.score(digits, labels) > 0.99


def test_single_rows_are_forgotten_until_nothing_is_left():
    samples, labels = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    clf = exact(shared_band_size=50).fit(samples, labels)
    for number, row in enumerate(order[:-1], 1):
        clf.forget_samples(samples[[row]], labels[[row]])
        if number in (100, 130, 140):
            left = order[number:]
            never = exact(shared_band_size=50).fit(samples[left], labels[left])
            expected = never.predict_proba(samples)
            assert_allclose(clf.predict_proba(samples), expected, atol=1e-6)
    assert_allclose(clf.class_counts_, [1.0])
    clf.forget_samples(samples[order[-1:]], labels[order[-1:]])
    with pytest.raises(NotFittedError):
        clf.predict(samples)


def test_a_small_column_is_not_lost_in_silence_beside_a_large_one():
    """A typical variance, averaged over columns of unlike units, hid the loss."""
    rows = X * np.where(np.arange(X.shape[1]) == 0, 1e9, 1.0)
    outlier = rows[:1].copy()
    outlier[:, 2] *= 1e6
    clf = exact(shared_band_size=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        clf.fit(np.vstack([rows, outlier]), [*CODES, 0])
    with unchanged(clf), pytest.raises(ValueError, match=r"samples of classes \[0\] lie so far"):
        clf.forget_samples(outlier, [0])


def test_the_bound_on_rounding_errors_is_saved():
    digits, labels = load_digits(return_X_y=True)
    clf = exact().fit(digits[:100], labels[:100]).forget_samples(digits[:9], labels[:9])
    stream = BytesIO()
    save(clf, stream)
    stream.seek(0)
    loaded = load(stream)
    for found, expected in zip(loaded._state.model.moments, clf._state.model.moments, strict=True):
        assert_array_equal(found.error_energies, expected.error_energies)
    loaded.forget_samples(digits[9:20], labels[9:20])
    clf.forget_samples(digits[9:20], labels[9:20])
    assert_array_equal(loaded.decision_function(digits), clf.decision_function(digits))
