"""Samples drawn from a classifier, and a classifier moved to a new feature space."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis, load, save

DIGITS, LABELS = load_digits(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(LABELS))
DIGITS, LABELS = DIGITS[ORDER], LABELS[ORDER]
TRAIN, TEST = slice(0, 1000), slice(1000, None)

# A second network that computes features from the same digits.
RNG = np.random.default_rng(1)
NETWORK = RNG.standard_normal((64, 80)) / 8.0
NEW = np.maximum(DIGITS @ NETWORK, 0.0) + DIGITS @ RNG.standard_normal((64, 80)) / 8.0


def discriminant(**parameters):
    return IncrementalDiscriminantAnalysis(
        **{"shared_band_size": 100, "random_state": 0, **parameters}
    )


def ffnb(**parameters):
    return FFNBClassifier(**{"shared_band_size": 100, "random_state": 0, **parameters})


@pytest.fixture(scope="module", params=[discriminant, ffnb])
def learned(request):
    clf = request.param()
    for task in (range(5), range(5, 10)):
        now = np.isin(LABELS[TRAIN], task)
        clf.partial_fit(DIGITS[TRAIN][now], LABELS[TRAIN][now])
    return clf


# ---- samples


def test_samples_have_the_moments_of_the_classes_and_train_other_classifiers(learned):
    X, y = learned.sample(2000)
    assert X.shape == (2000, 64)
    assert_array_equal(np.unique(y, return_counts=True)[1], np.full(10, 200))
    for label in range(10):
        rows = DIGITS[TRAIN][LABELS[TRAIN] == label]
        assert_allclose(X[y == label].mean(axis=0), rows.mean(axis=0), atol=2.0)
        assert np.linalg.norm(X[y == label].std(axis=0) - rows.std(axis=0)) < 4.0
    other = LogisticRegression(max_iter=500).fit(X / 16.0, y)
    assert other.score(DIGITS[TEST] / 16.0, LABELS[TEST]) > 0.93


def test_samples_follow_the_seed_the_priors_and_the_classes(learned):
    X, y = learned.sample(7, classes=[3, 8])
    again, _ = learned.sample(7, classes=[3, 8])
    assert_array_equal(X, again)
    assert sorted(np.bincount(y)[[3, 8]].tolist()) == [3, 4]
    weighted = discriminant(priors={0: 3.0, 1: 1.0, 2: 0.0})
    few = np.isin(LABELS[TRAIN], [0, 1, 2])
    weighted.fit(DIGITS[TRAIN][few], LABELS[TRAIN][few])
    assert_array_equal(np.bincount(weighted.sample(400)[1]), [300, 100])
    # A background class is drawn if it is asked for.
    assert_array_equal(weighted.sample(4, classes=2)[1], [2, 2, 2, 2])


def test_samples_have_the_units_of_the_columns():
    clf = discriminant(scale=True).fit(1000.0 + 50.0 * DIGITS[TRAIN], LABELS[TRAIN])
    X, y = clf.sample(1000, classes=[4])
    rows = 1000.0 + 50.0 * DIGITS[TRAIN][LABELS[TRAIN] == 4]
    assert_allclose(X.mean(axis=0), rows.mean(axis=0), atol=50.0)
    assert_array_equal(y, np.full(1000, 4))


def test_a_single_sample_is_drawn_as_it_is():
    clf = discriminant().fit(DIGITS[:3], [0, 1, 2])
    X, _ = clf.sample(3)
    assert_allclose(X, DIGITS[:3], atol=1e-12)


def test_what_cannot_be_drawn():
    clf = (
        discriminant()
        .fit(DIGITS[:50], LABELS[:50])
        .partial_fit(DIGITS[50:60], LABELS[50:60], classes=[77])
    )
    with pytest.raises(ValueError, match=r"got \[77\], which were not"):
        clf.sample(2, classes=[77])
    with pytest.raises(ValueError, match="n_samples"):
        clf.sample(0)
    with pytest.raises(TypeError, match="n_samples"):
        clf.sample("all")
    wide = sparse.random_array((30, 3000), density=0.01, rng=0, format="csr")
    of_wide = discriminant().fit(wide, np.arange(30) % 3)
    for call in (of_wide.sample, lambda: of_wide.transfer(wide, DIGITS[:30])):
        with pytest.raises(ValueError, match="random projection of wide sparse samples"):
            call()
    with pytest.raises(NotFittedError):
        discriminant().sample(3)


# ---- a new feature space


def test_a_moved_classifier_is_nearly_as_accurate_and_learns_on(learned, tmp_path):
    pairs = slice(0, 400)
    moved, quality = learned.transfer(DIGITS[pairs], NEW[pairs], return_quality=True)
    assert type(moved) is type(learned)
    assert moved.get_params() == learned.get_params()
    assert moved.n_features_in_ == 80
    assert_array_equal(moved.classes_, learned.classes_)
    assert_allclose(moved.class_counts_, learned.class_counts_)
    assert [task.tolist() for task in moved.task_classes_] == [
        task.tolist() for task in learned.task_classes_
    ]
    assert moved.score(NEW[TEST], LABELS[TEST]) > 0.94
    assert quality.explained_variance > 0.9
    assert quality.expected_accuracy_old == pytest.approx(0.98, abs=0.03)
    assert quality.expected_accuracy_new == pytest.approx(0.98, abs=0.03)
    save(moved, tmp_path / "moved.ffnb")
    assert_array_equal(load(tmp_path / "moved.ffnb").predict(NEW[TEST]), moved.predict(NEW[TEST]))
    moved.partial_fit(NEW[TRAIN], LABELS[TRAIN])
    assert moved.score(NEW[TEST], LABELS[TEST]) > 0.96


def test_labels_of_the_pairs_are_not_needed_and_classes_may_be_absent():
    clf = discriminant().fit(DIGITS[TRAIN], LABELS[TRAIN])
    others = LABELS[TRAIN] < 5
    moved = clf.transfer(DIGITS[TRAIN][others], NEW[TRAIN][others])
    absent = LABELS[TEST] >= 5
    assert moved.score(NEW[TEST][absent], LABELS[TEST][absent]) > 0.85


def test_a_space_without_relation_is_recognised():
    clf = discriminant().fit(DIGITS[TRAIN], LABELS[TRAIN])
    noise = np.random.default_rng(0).standard_normal((300, 20))
    moved, quality = clf.transfer(DIGITS[:300], noise, return_quality=True)
    assert quality.explained_variance < 0.05
    assert quality.expected_accuracy_new < 0.5
    assert moved.score(np.random.default_rng(1).standard_normal((797, 20)), LABELS[TEST]) < 0.3


def test_the_same_space_changes_little():
    clf = discriminant().fit(DIGITS[TRAIN], LABELS[TRAIN])
    moved = clf.transfer(DIGITS[:400], DIGITS[:400])
    assert np.mean(moved.predict(DIGITS[TEST]) == clf.predict(DIGITS[TEST])) > 0.97
    # The number of samples decides how far covariances are trusted.
    for old, new in zip(clf._state.model.moments, moved._state.model.moments, strict=True):
        assert new.n_samples == pytest.approx(old.n_samples)


def test_pairs_that_do_not_fit():
    clf = discriminant().fit(DIGITS[:100], LABELS[:100])
    expected = clf.predict_proba(DIGITS)
    with pytest.raises(ValueError, match="at least 3, in both spaces; got 10 and 9"):
        clf.transfer(DIGITS[:10], NEW[:9])
    with pytest.raises(ValueError, match="got 2 and 2"):
        clf.transfer(DIGITS[:2], NEW[:2])
    with pytest.raises(ValueError, match="X_new contains NaN"):
        clf.transfer(DIGITS[:5], np.full((5, 3), np.nan))
    with pytest.raises(ValueError, match="64 features"):
        clf.transfer(NEW[:5], DIGITS[:5])
    assert_array_equal(clf.predict_proba(DIGITS), expected)
