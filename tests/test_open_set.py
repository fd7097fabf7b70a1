"""A label for unknown samples: judged by class, in streams and pipelines, with any labels."""

import inspect
import re
import textwrap
import warnings
from copy import deepcopy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    OpenSetClassifier,
    evaluate_prequential,
    evaluate_stream,
    load,
    make_continual_pipeline,
    save,
)
from ffnb_sklearn._base.typicality import ScoreDistributions
from ffnb_sklearn.core import prediction
from ffnb_sklearn.exceptions import ConcurrentLearningError
from ffnb_sklearn.metrics import false_alarm_rate, unknown_recall
from tests.recording_callback import Recorder, needs_callbacks
from tests.separated_classes import CODES, NAMES, X, learned, of, unchanged

DIGITS = train_test_split(*load_digits(return_X_y=True), test_size=0.4, random_state=0)
PAGE = Path(__file__).parents[1] / "docs" / "user_guide" / "open_set.rst"


def small(**parameters):
    """Return a classifier of few neurons; shrinkage and ridge need no search."""
    defaults = {"shared_band_size": 10, "random_state": 0, "shrinkage": 0.5, "epsilon": 0.1}
    return IncrementalDiscriminantAnalysis(**{**defaults, **parameters})


def default():
    """Return a classifier of few neurons with the default choice of shrinkage and ridge."""
    return small(shrinkage="auto", epsilon="auto")


def open_set(estimator=None, **parameters):
    return OpenSetClassifier(estimator or small(), **parameters)


def known_labels(codes, known, unknown_label=-1):
    """Return labels in which those that are not known are replaced."""
    return np.where(np.isin(codes, known), codes, unknown_label)


# ---- what is predicted


@pytest.mark.filterwarnings("ignore:The novelty scores of other classes:UserWarning")
def test_unknown_classes_get_the_label_until_they_are_learned():
    clf = learned(open_set(default()), [0, 1], [2, 3])
    assert_array_equal(clf.classes_, [0, 1, 2, 3])
    predictions = clf.predict(X)
    assert false_alarm_rate(known_labels(CODES, range(4)), predictions) < 0.1
    assert unknown_recall(known_labels(CODES, range(4)), predictions) > 0.9
    learned(clf, [4, 5])
    assert_array_equal(clf.classes_, [0, 1, 2, 3, 4, 5])
    assert np.mean(clf.predict(of(4, 5)) == np.repeat([4, 5], 20)) > 0.9
    assert np.mean(clf.predict(of(6, 7)) == -1) > 0.9
    clf.estimator_.forget([4])
    assert_array_equal(clf.classes_, [0, 1, 2, 3, 5])
    assert np.mean(clf.predict(of(4)) == -1) > 0.7


def test_predictions_probabilities_and_scores_agree():
    clf = learned(open_set(), [0, 1], [2])
    shares = clf.score_samples(X)
    predictions = clf.predict(X)
    assert_array_equal(predictions == -1, shares < 0.05)
    is_known = predictions != -1
    probabilities = clf.predict_proba(X)
    assert_array_equal(predictions[is_known], clf.classes_[probabilities.argmax(axis=1)][is_known])
    assert_array_equal(probabilities, clf.estimator_.predict_proba(X))
    assert_array_equal(predictions[is_known], clf.estimator_.predict(X)[is_known])


@pytest.mark.parametrize("labels", [CODES % 3, NAMES[CODES % 3]], ids=["numbers", "texts"])
@pytest.mark.parametrize(
    "combine",
    [
        OneVsRestClassifier,
        OneVsOneClassifier,
        partial(OutputCodeClassifier, random_state=0),
        lambda clf: StackingClassifier([("first", clf)], final_estimator=GaussianNB()),
        lambda clf: VotingClassifier([("first", clf), ("second", GaussianNB())], voting="soft"),
        partial(BaggingClassifier, n_estimators=2, random_state=0),
        partial(AdaBoostClassifier, n_estimators=2, random_state=0),
        CalibratedClassifierCV,
    ],
)
def test_tools_that_combine_probabilities_are_right(combine, labels):
    model = combine(open_set(small(shrinkage=0)))
    assert model.fit(X, labels).score(X, labels) > 0.95
    assert_array_equal(model.classes_, np.unique(labels))


def test_hard_votes_do_not_count_unknown_samples():
    """The user guide recommends soft votes; scikit-learn counts labels from 0 on."""
    votes = VotingClassifier([("first", open_set())]).fit(X, CODES)
    with pytest.raises(ValueError, match="negative"):
        votes.predict(X + 100.0)


@pytest.mark.parametrize("arguments", [{}, {"cv": 3}, {"chain_method": "predict_proba"}])
def test_a_chain_of_classifiers_is_right(arguments):
    targets = np.stack([CODES % 2, CODES // 4], axis=1)
    chain = ClassifierChain(open_set(), **arguments).fit(X, targets)
    assert np.mean(chain.predict(X) == targets) > 0.9
    assert chain.predict_proba(X).shape == targets.shape


def test_scores_are_geometric_means_of_the_shares_of_the_classes():
    clf = learned(open_set(rate=0.1), [0, 1], [2])
    ffnb = clf.estimator_
    values = ffnb._state.left_out_scores()
    assert [len(scores.values) for scores in values] == [20, 20, 20]
    shares = ScoreDistributions.from_left_out(values).shares_below(ffnb.score_samples(X), 10.0)
    expected = np.prod(shares ** ffnb.predict_proba(X), axis=1)
    assert_allclose(clf.score_samples(X), expected, atol=1e-12)


@pytest.mark.parametrize("classifier", ["gaussian", "ovo", "ova"])
def test_labels_are_those_of_the_estimator_even_if_probabilities_are_equal(classifier):
    # Probabilities of samples far away are 0 or 1 up to rounding, and may be equal.
    clf = learned(open_set(small(classifier=classifier)), [1, 0], [3, 2])
    far = 1e6 * np.random.default_rng(0).standard_normal((200, X.shape[1]))
    shares = clf.score_samples(far)
    expected = np.where(shares < clf.rate, -1, clf.estimator_.predict(far))
    assert_array_equal(clf.predict(far), expected)
    clf.set_params(rate=1e-9)
    tolerant = clf.score_samples(far) >= 1e-9
    assert tolerant.any()
    assert_array_equal(clf.predict(far)[tolerant], clf.estimator_.predict(far)[tolerant])


def test_score_counts_labels_that_were_not_learned_as_unknown():
    clf = learned(open_set(), [0, 1])
    expected = np.mean(clf.predict(X) == known_labels(CODES, [0, 1]))
    assert clf.score(X, CODES) == pytest.approx(expected)
    assert expected > 0.9
    weights = np.where(CODES < 2, 1.0, 0.0)
    is_right = clf.predict(of(0, 1)) == CODES[CODES < 2]
    assert clf.score(X, CODES, weights) == pytest.approx(is_right.mean())
    assert clf.score(X, known_labels(CODES, [0, 1])) == clf.score(X, CODES)


def test_the_rate_may_change_after_learning():
    clf = learned(open_set(), [0, 1, 2])
    n_unknown = []
    for rate in (1e-6, 0.05, 0.5, 0.999):
        clf.set_params(rate=rate)
        n_unknown.append(np.sum(clf.predict(of(0, 1, 2)) == -1))
    assert n_unknown == sorted(n_unknown)
    assert n_unknown[0] == 0
    # The samples were learned, so that fewer than half of them are alarms.
    assert 5 < n_unknown[2] < 45
    assert n_unknown[3] > 55


@pytest.mark.parametrize("rate", [0.0, 1.0, np.nan, -0.1, "0.05"])
@pytest.mark.parametrize("method", ["predict", "score_samples"])
def test_a_rate_that_has_become_invalid_is_refused(method, rate):
    clf = learned(open_set(), [0, 1, 2]).set_params(rate=rate)
    with pytest.raises(ValueError, match="The 'rate' parameter of OpenSetClassifier must be"):
        getattr(clf, method)(X)


@pytest.mark.parametrize(("way", "most"), [("fit", 0.1), ("tasks", 0.15)])
def test_the_rate_holds_for_small_and_for_large_classes(way, most):
    """Classes of 5, 15 and 100 digits. Rows that are classified wrongly are left out."""
    digits, y = load_digits(return_X_y=True)
    sizes = dict(zip(range(8), [5, 15, 100] * 3, strict=False))
    alarms = {5: [], 15: [], 100: []}
    alarms_of_one_threshold = []
    found = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(y))
        train = np.concatenate([order[y[order] == c][:n] for c, n in sizes.items()])
        test = np.setdiff1d(order, train)
        clf = OpenSetClassifier(default())
        for task in [range(8)] if way == "fit" else [(0, 1), (2, 3, 4), (5, 6, 7)]:
            now = train[np.isin(y[train], task)]
            clf.partial_fit(digits[now], y[now])
        is_alarm = clf.predict(digits[test]) == -1
        is_right = clf.estimator_.predict(digits[test]) == y[test]
        found.append(is_alarm[y[test] > 7].mean())
        is_low = clf.estimator_.score_samples(digits[test]) < clf.estimator_.novelty_threshold(0.05)
        for label, size in sizes.items():
            members = (y[test] == label) & is_right
            alarms[size].append(is_alarm[members].mean())
            if size == 100:
                alarms_of_one_threshold.append(is_low[members].mean())
    assert 0.02 < np.mean(alarms[5]) < most
    assert 0.025 < np.mean(alarms[15]) < 0.1
    assert 0.025 < np.mean(alarms[100]) < 0.1
    assert np.mean(alarms_of_one_threshold) < 0.01
    assert np.mean(found) > 0.7


def test_the_rate_holds_for_classes_that_grow_in_small_calls():
    digits, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.array_split(order, 2)
    clf = open_set(default())
    for rows in np.array_split(train[y[train] < 8], 15):
        clf.partial_fit(digits[rows], y[rows])
    labels = known_labels(y[test], range(8))
    predicted = clf.predict(digits[test])
    assert 0.025 < false_alarm_rate(labels, predicted) < 0.1
    assert unknown_recall(labels, predicted) > 0.6


def test_nothing_is_unknown_before_a_class_has_two_samples():
    clf = open_set().partial_fit(X[:1], [3])
    assert_array_equal(clf.predict(X), 3)
    assert_array_equal(clf.score_samples(X), 1.0)
    clf.partial_fit(X[20:21], [1])
    assert -1 not in clf.predict(X)
    clf.partial_fit(X[1:20], np.full(19, 3))
    assert np.mean(clf.predict(of(4, 5, 6, 7)) == -1) > 0.5


# ---- background, and classes that are changed


def test_samples_of_background_classes_are_unknown():
    digits, y = load_digits(return_X_y=True)
    train = np.arange(len(y)) % 2 == 0
    priors = {digit: float(digit != 3) for digit in range(10)}
    clf = open_set(IncrementalDiscriminantAnalysis(random_state=0, priors=priors)).fit(
        digits[train], y[train]
    )
    predicted = clf.predict(digits[~train])
    labels = np.where(y[~train] == 3, -1, y[~train])
    assert unknown_recall(labels, predicted) > 0.95
    assert false_alarm_rate(labels, predicted) < 0.1
    assert 3 not in predicted
    # The share of each sample has the probability of its foreground, at equal priors, as a factor.
    plain = open_set(IncrementalDiscriminantAnalysis(random_state=0)).fit(digits[train], y[train])
    foreground = 1.0 - plain.estimator_.predict_proba(digits[~train])[:, 3]
    values = clf.estimator_._state.left_out_scores()
    scores = clf.estimator_.score_samples(digits[~train])
    shares = ScoreDistributions.from_left_out(values).shares_below(scores, 20.0)
    known = clf.estimator_.predict_proba(digits[~train])
    expected = np.prod(shares**known, axis=1) * foreground
    assert_allclose(clf.score_samples(digits[~train]), expected, atol=1e-12)


@pytest.mark.filterwarnings("ignore:The novelty scores of other classes:UserWarning")
@pytest.mark.parametrize(
    "estimator", [small(), make_continual_pipeline(Normalizer(), small())], ids=["alone", "last"]
)
def test_classes_are_forgotten_renamed_and_decayed(estimator):
    clf = learned(open_set(estimator), [0, 1], [2, 3])
    inner = deepcopy(clf.estimator_)
    assert clf.forget([0]) is clf
    assert clf.decay(0.5, [1]) is clf
    assert clf.rename({2: 7, 3: 7}) is clf
    inner.forget([0]).decay(0.5, [1]).rename({2: 7, 3: 7})
    assert_array_equal(clf.classes_, [1, 7])
    assert_array_equal(clf.class_counts_, [10.0, 40.0])
    assert_array_equal(clf.estimator_.predict_proba(X), inner.predict_proba(X))
    assert np.mean(clf.predict(of(0)) == -1) > 0.7
    clf.forget([1, 7])
    assert not hasattr(clf, "classes_")
    with pytest.raises(NotFittedError):
        clf.predict(X)
    assert_array_equal(learned(clf, [4, 5]).classes_, [4, 5])


@pytest.mark.filterwarnings("ignore:forget_samples deletes the novelty scores:UserWarning")
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_samples_are_forgotten_and_models_merged(in_pipeline):
    scale = FrozenEstimator(Normalizer().fit(X))

    def wrapped(*tasks):
        estimator = small(rank=None)
        if in_pipeline:
            estimator = make_continual_pipeline(scale, estimator)
        return learned(open_set(estimator), *tasks)

    clf = wrapped([0, 1])
    assert clf.merge(wrapped([2, 3])) is clf
    assert_allclose(clf.predict_proba(X), wrapped([0, 1, 2, 3]).predict_proba(X), atol=1e-9)
    some = of(3)[:15]
    assert clf.forget_samples(some, np.full(15, 3)) is clf
    assert_array_equal(clf.class_counts_, [20.0, 20.0, 20.0, 5.0])
    assert clf.solve() is clf
    shares = clf.estimate_priors(of(0))
    assert shares == clf.estimator_.estimate_priors(of(0))
    assert shares[0] > 0.9


PASSED_ON = ["forget", "forget_samples", "decay", "solve", "estimate_priors", "sample"]


@pytest.mark.parametrize("name", PASSED_ON)
def test_methods_of_the_estimator_are_passed_on(name):
    method = getattr(OpenSetClassifier, name)
    original = getattr(IncrementalDiscriminantAnalysis, name)
    assert inspect.signature(method) == inspect.signature(original)
    assert method.__qualname__ == f"OpenSetClassifier.{name}"
    summary, _, description = inspect.getdoc(original).partition("\n")
    assert method.__doc__.startswith(f"{summary}\n\nThis method of `estimator_` is")
    assert method.__doc__.endswith(description)
    assert hasattr(open_set(), name)
    # A pipeline of scikit-learn has none of them.
    assert not hasattr(open_set(make_pipeline(Normalizer(), small())), name)
    with pytest.raises(NotFittedError, match="This OpenSetClassifier instance is not fitted"):
        getattr(open_set(), name)()


def test_results_of_the_estimator_are_passed_on():
    clf = learned(open_set(), [0, 1])
    for samples, expected in zip(clf.sample(8), clf.estimator_.sample(8), strict=True):
        assert_array_equal(samples, expected)
    assert clf.decay(0.5, classes=[1]) is clf
    assert_array_equal(clf.class_counts_, [20.0, 10.0])


def test_classes_are_not_forgotten_while_others_are_learned():
    clf = learned(open_set(), [0, 1])

    def forget(rows):
        clf.forget([0])
        return rows

    clf.set_params(estimator=make_continual_pipeline(FunctionTransformer(forget), small()))
    with unchanged(clf), pytest.raises(ConcurrentLearningError, match="This OpenSetClassifier"):
        clf.fit(X, CODES)


def test_what_cannot_be_merged_is_refused():
    clf = learned(open_set(), [0, 1])
    with unchanged(clf.estimator_):
        with pytest.raises(TypeError, match="other must be a fitted OpenSetClassifier; got"):
            clf.merge(clf.estimator_)
        with pytest.raises(ValueError, match=r"which is in other\.classes_"):
            clf.merge(open_set(unknown_label=9).fit(X, CODES - 1))


def test_solve_leaves_nothing_to_solve(monkeypatch):
    clf = learned(open_set(), [0, 1]).solve()
    for name in ("solve", "fit_relative_distances"):
        monkeypatch.setattr(prediction, name, None)
    monkeypatch.setattr(ScoreDistributions, "from_left_out", None)
    assert_array_equal(clf.predict(of(0)), np.zeros(20))


@pytest.mark.filterwarnings("ignore:The novelty scores of other classes:UserWarning")
def test_trained_bands_forget_with_a_warning_and_join_no_classes():
    clf = learned(open_set(FFNBClassifier(shared_band_size=10, random_state=0)), [0, 1], [2, 3])
    predictions = clf.predict(X)
    assert false_alarm_rate(known_labels(CODES, range(4)), predictions) < 0.1
    assert unknown_recall(known_labels(CODES, range(4)), predictions) > 0.9
    with pytest.warns(UserWarning, match=r"neurons keep a trace of the classes \[0\]"):
        clf.forget([0])
    with unchanged(clf), pytest.raises(ValueError, match="a label of its own"):
        clf.rename({2: 7, 3: 7})
    assert_array_equal(clf.rename({2: 7}).classes_, [1, 3, 7])


def test_forget_warns_if_thresholds_keep_a_trace():
    clf = learned(open_set(), [0, 1], [2])
    expected = learned(open_set(), [0, 1]).score_samples(X)
    # The scores of the first classes were stored before.
    assert_allclose(clf.forget([2]).score_samples(X), expected, rtol=1e-9)
    with pytest.warns(UserWarning, match="OpenSetClassifier follow from these scores"):
        clf.forget([0])


@pytest.mark.filterwarnings("ignore:The novelty scores of other classes:UserWarning")
def test_forgotten_classes_leave_unknown_samples_as_easy_to_find_as_if_never_learned():
    rows, new, labels, new_labels = DIGITS
    expected = known_labels(new_labels, [0, 1])
    known = np.flatnonzero(labels < 2)
    results = []
    for beside in (np.flatnonzero(labels > 1), []):
        clf = open_set(IncrementalDiscriminantAnalysis(random_state=0))
        first = np.r_[known[:40], beside].astype(int)
        clf.partial_fit(rows[first], labels[first])
        clf.forget(np.setdiff1d(labels[first], [0, 1]))
        clf.partial_fit(rows[known[40:]], labels[known[40:]])
        predicted = clf.predict(new)
        recall = unknown_recall(expected, predicted)
        results.append((recall, false_alarm_rate(expected, predicted)))
    assert_allclose(*results, atol=0.01)
    assert results[0][0] > 0.99


def test_a_refused_change_changes_nothing():
    clf = learned(open_set(), [0, 1])
    with unchanged(clf), unchanged(clf.estimator_):
        with pytest.raises(ValueError, match=r"unknown_label must differ .* which is in mapping"):
            clf.rename({0: -1})
        with pytest.raises(ValueError, match="labels of mapping must hold labels of the kind"):
            clf.rename({0: "zero"})
        with pytest.raises(TypeError, match="mapping must be a dictionary"):
            clf.rename([0, 1])
        with pytest.raises(ValueError, match="got \\[5\\]"):
            clf.forget([5])
        with pytest.raises(ValueError, match="factor"):
            clf.decay(2.0)
    for change in (lambda: open_set().forget([0]), lambda: open_set().rename({})):
        with pytest.raises(NotFittedError):
            change()


# ---- labels


def test_a_float_as_unknown_label_rounds_no_label_in_the_score():
    labels = 2**60 + CODES
    clf = open_set(unknown_label=-1.0).fit(X, labels)
    assert clf.score(X, labels + 1) < 0.5


@pytest.mark.parametrize("method", ["predict", "predict_proba", "score_samples"])
def test_tensors_in_give_tensors_out_where_scikit_learn_dispatches(method, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    clf = learned(open_set(small(priors={0: 1.0, 1: 1.0, 2: 0.0})), [0, 1, 2])
    expected = getattr(clf, method)(X)
    rows = torch.tensor(X)
    with config_context(array_api_dispatch=True):
        result = getattr(clf, method)(rows)
        assert isinstance(result, torch.Tensor)
        assert clf.score(rows, torch.tensor(CODES)) == clf.score(X, CODES)
    assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize(
    ("labels", "unknown_label"),
    [
        (NAMES[CODES], "unknown, a label longer than others"),
        (NAMES.astype(object)[CODES], "?"),
        (CODES + 10, np.int64(3)),
        (CODES.astype(float), 99.0),
        (CODES > 100, True),
        (NAMES[CODES], None),
        (CODES.astype(float), None),
    ],
)
def test_labels_of_each_kind(labels, unknown_label):
    clf = learned(open_set(unknown_label=unknown_label), [0, 1], y=labels)
    known = np.unique(labels[CODES < 2])
    assert_array_equal(clf.classes_, known)
    if unknown_label is None:
        unknown_label = "unknown" if labels.dtype.kind == "U" else -1
    assert clf.unknown_label_ == unknown_label
    predictions = clf.predict(X)
    assert np.mean(predictions[CODES > 1] == unknown_label) > 0.9
    assert np.isin(predictions[CODES < 2], known).mean() > 0.9


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    ("labels", "unknown_label", "message"),
    [
        (CODES, 5, "unknown_label must differ from the labels of all classes; got 5, .* in y"),
        (NAMES[CODES], "Zoe", "unknown_label must differ .* got 'Zoe'"),
        (NAMES[CODES], -1, "unknown_label must hold labels of the kind seen before, str .*number"),
        (CODES, "?", "unknown_label must hold labels of the kind seen before, number .* str"),
        (CODES, 0.5, "unknown_label must hold whole numbers"),
        (CODES, (), "'unknown_label' parameter of OpenSetClassifier"),
        (CODES - 1, None, "unknown_label must differ .* got -1, which is in y"),
        (CODES > 1, None, "unknown_label must be True or False if the other labels are booleans"),
    ],
)
def test_an_unknown_label_that_is_no_label_of_its_own_is_refused(
    method, labels, unknown_label, message
):
    clf = open_set(unknown_label=unknown_label)
    with pytest.raises(ValueError, match=message):
        getattr(clf, method)(X, labels)
    assert not hasattr(clf, "estimator_")


def test_a_refused_task_changes_nothing():
    clf = learned(open_set(), [0, 1])
    with unchanged(clf), unchanged(clf.estimator_):
        with pytest.raises(ValueError, match=r"unknown_label must differ .* which is in y"):
            clf.partial_fit(X[:2], [7, -1])
        with pytest.raises(ValueError, match=r"unknown_label must differ .* which is in classes"):
            clf.partial_fit(X[:2], [7, 7], classes=[7, -1])
        with pytest.raises(ValueError, match="y must hold labels of the kind seen before"):
            clf.partial_fit(X[:2], ["a", "b"])
        with pytest.raises(ValueError, match="requires y to be passed"):
            clf.partial_fit(X[:2], None)
        with pytest.raises(ValueError, match="X has 2 features"):
            clf.partial_fit(X[:2, :2], [7, 7])
        with pytest.raises(ValueError, match="NaN"):
            clf.fit(np.full((2, 6), np.nan), [7, 7])


def test_an_unknown_label_that_becomes_a_class_is_noticed():
    clf = learned(open_set(), [0, 1]).set_params(unknown_label=1)
    with pytest.raises(ValueError, match="got 1, which is in the classes learned"):
        clf.predict(X)
    clf.set_params(unknown_label="?")
    with pytest.raises(ValueError, match="of the kind seen before, number as in"):
        clf.predict(X)
    assert -7 in clf.set_params(unknown_label=-7).predict(X)


def test_declared_labels_have_columns():
    clf = open_set().partial_fit(of(0, 1), CODES[CODES < 2], classes=[5])
    assert_array_equal(clf.classes_, [0, 1, 5])
    assert_array_equal(clf.predict_proba(X)[:, 2], 0.0)


# ---- estimators and parameters


@pytest.mark.parametrize(
    "estimator",
    [
        NaiveIncrementalClassifier(),
        GaussianNB(),
        make_pipeline(Normalizer(), GaussianNB()),
        make_continual_pipeline(NaiveIncrementalClassifier()),
    ],
)
def test_an_estimator_without_left_out_scores_is_refused(estimator):
    with pytest.raises(
        ValueError, match="an IncrementalDiscriminantAnalysis or FFNBClassifier, or a pipeline"
    ):
        open_set(estimator).fit(X, CODES)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rate": 0.0}, "'rate' parameter of OpenSetClassifier"),
        ({"rate": 1.0}, "'rate' parameter"),
        ({"rate": "auto"}, "'rate' parameter"),
        ({"estimator": Normalizer()}, "'estimator' parameter"),
    ],
)
def test_invalid_parameters_are_refused(parameters, message):
    clf = open_set().set_params(**parameters)
    with pytest.raises(ValueError, match=message):
        clf.fit(X, CODES)


def test_the_estimator_is_cloned_and_prepares_thresholds():
    estimator = make_continual_pipeline(Normalizer(), small())
    clf = open_set(estimator).fit(X, CODES)
    assert clf.estimator is estimator
    assert not hasattr(estimator, "classes_")
    assert estimator[-1].novelty is False
    assert clf.estimator_[-1].novelty is True
    assert clf.estimator_[-1].novelty_threshold(0.05) < 0.0
    first = clf.estimator_
    clf.fit(X[:, :4], CODES)
    assert clf.estimator_ is not first
    assert clf.n_features_in_ == 4


def test_it_is_not_fitted_at_first():
    clf = open_set()
    for name in ("predict", "predict_proba", "score_samples"):
        with pytest.raises(NotFittedError):
            getattr(clf, name)(X)
    with pytest.raises(NotFittedError):
        clf.score(X, CODES)
    assert not hasattr(clf, "classes_")
    assert not hasattr(clf, "n_features_in_")


def test_it_is_not_fitted_after_all_classes_were_forgotten():
    clf = learned(open_set(), [0, 1])
    clf.forget([0, 1])
    with pytest.raises(NotFittedError, match="This OpenSetClassifier instance is not fitted"):
        clf.predict(X)
    # So a pipeline fits its transformers again.
    pipeline = make_continual_pipeline(Normalizer(), clf)
    with pytest.raises(NotFittedError):
        check_is_fitted(pipeline)
    # The new labels may be of another kind.
    clf.set_params(unknown_label="?")
    assert_array_equal(learned(clf, [3], y=NAMES[CODES]).classes_, [NAMES[3]])


def test_copies_are_independent():
    clf = learned(open_set(), [0, 1])
    copy = deepcopy(clf)
    before = clf.predict_proba(X)
    learned(copy, [2, 3])
    assert_array_equal(clf.predict_proba(X), before)
    assert not hasattr(clone(clf), "estimator_")


def test_grid_search_over_the_rate_and_the_estimator():
    grid = {"rate": [0.01, 0.4], "estimator__shrinkage": [0.5, 1.0]}
    search = GridSearchCV(open_set(), grid, cv=2, error_score="raise").fit(X, CODES)
    # All rows are of known classes.
    assert search.best_params_["rate"] == 0.01
    assert search.best_estimator_.score(X, CODES) > 0.9


def test_names_of_features_and_sparse_rows():
    pandas = pytest.importorskip("pandas")
    names = [f"column {i}" for i in range(6)]
    clf = open_set().fit(pandas.DataFrame(X, columns=names), CODES)
    assert_array_equal(clf.feature_names_in_, names)
    dense = open_set().fit(X, CODES)
    assert not hasattr(dense, "feature_names_in_")
    rows = sparse.csr_array(X)
    assert_allclose(open_set().fit(rows, CODES).predict_proba(rows), dense.predict_proba(X))


# ---- pipelines, streams, files


@pytest.mark.parametrize("make", [make_continual_pipeline, make_pipeline])
def test_around_a_pipeline_and_in_a_pipeline(make):
    outer = make(Normalizer(), OpenSetClassifier(small()))
    inner = OpenSetClassifier(make(Normalizer(), small()))
    nested = OpenSetClassifier(
        make(FunctionTransformer(), make("passthrough", Normalizer(), small()))
    )
    now = CODES < 5
    expected = OpenSetClassifier(small()).fit(Normalizer().transform(X[now]), CODES[now])
    for model in (outer, inner, nested):
        model.fit(X[now], CODES[now])
        assert_array_equal(model.predict(X), expected.predict(Normalizer().transform(X)))
        assert_array_equal(
            model.predict_proba(X), expected.predict_proba(Normalizer().transform(X))
        )
        assert hasattr(model, "partial_fit") == (make is make_continual_pipeline)


def test_transformers_run_once_per_prediction():
    n_calls = 0

    def count(rows):
        nonlocal n_calls
        n_calls += 1
        return rows

    clf = open_set(make_continual_pipeline(FunctionTransformer(count), small())).fit(X, CODES)
    n_calls = 0
    clf.predict_proba(X)
    assert n_calls == 1


def test_a_stream_row_by_row():
    order = np.random.default_rng(0).permutation(len(X))
    result = evaluate_prequential(open_set(), X[order], CODES[order], batch_size=4)
    assert result.accuracy > 0.5
    assert_array_equal(result.estimator.classes_, range(8))
    late = result.is_correct[-40:]
    assert late.mean() > 0.85


class Wrapped(ClassifierMixin, BaseEstimator):
    """Estimator of another package around an estimator, with arguments of any names."""

    def __init__(self, estimator):
        self.estimator = estimator

    def partial_fit(self, X, y, **arguments):
        if not hasattr(self, "estimator_"):
            self.estimator_ = clone(self.estimator)
        self.estimator_.partial_fit(X, y, **arguments)
        return self

    def predict(self, X):
        return self.estimator_.predict(X)


@pytest.mark.parametrize(
    ("wrap", "unknown_label"),
    [
        (lambda model: model, "?"),
        (lambda model: model, None),
        (partial(make_continual_pipeline, Normalizer()), "?"),
        (lambda model: make_continual_pipeline(make_continual_pipeline(model)), None),
        (Wrapped, "?"),
    ],
)
def test_a_sample_of_a_new_class_is_right_if_it_is_predicted_as_unknown(wrap, unknown_label):
    now = CODES < 5
    model = wrap(open_set(default(), unknown_label=unknown_label))
    result = evaluate_prequential(model, X[now], NAMES[CODES[now]], batch_size=10)
    # The first batch of ten, of the twenty rows of each class.
    is_new = np.tile(np.repeat([True, False], 10), 5)[10:]
    assert result.is_correct[is_new].mean() > 0.8
    plain = evaluate_prequential(wrap(small()), X[now], NAMES[CODES[now]], batch_size=10)
    assert not plain.is_correct[is_new].any()


def test_an_estimator_within_another_gets_declared_classes():
    order = np.random.default_rng(0).permutation(len(X))
    model = Wrapped(SGDClassifier(random_state=0))
    result = evaluate_prequential(model, X[order], CODES[order], batch_size=10)
    assert result.accuracy > 0.5


def test_a_stream_of_tasks():
    digits, y = load_digits(return_X_y=True)
    result = evaluate_stream(
        open_set(default()), digits[:900], y[:900], digits[900:], y[900:], classes_per_task=2
    )
    assert result.final_accuracy > 0.8


def test_a_saved_classifier_goes_on(tmp_path):
    pipeline = make_continual_pipeline(StandardScaler(), small())
    with warnings.catch_warnings():
        # The scaler is frozen: here that is wanted.
        warnings.simplefilter("ignore")
        clf = learned(open_set(pipeline, unknown_label="?"), [0, 1], y=NAMES[CODES])
    save(clf, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    assert loaded.get_params()["unknown_label"] == "?"
    for model in (clf, loaded):
        learned(model, [2, 3], y=NAMES[CODES])
    assert_array_equal(loaded.predict_proba(X), clf.predict_proba(X))
    assert_array_equal(loaded.classes_, clf.classes_)
    save(open_set(), tmp_path / "fresh.ffnb")
    assert not hasattr(load(tmp_path / "fresh.ffnb"), "estimator_")


@pytest.mark.skipif(not PAGE.is_file(), reason="the package is installed without its documentation")
def test_the_script_of_the_guide_runs(capsys):
    (script,) = re.findall(
        r"^\.\. code-block:: python\n\n((?:(?: {3}.*)?\n)+)", PAGE.read_text("utf-8"), re.MULTILINE
    )
    exec(textwrap.dedent(script), {})
    *classes, accuracy = capsys.readouterr().out.split()
    assert " ".join(classes) == "['barbera', 'barolo', 'grignolino']"
    assert float(accuracy) > 0.93


# ---- weights and metadata


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "estimator", [small(), make_continual_pipeline(Normalizer(), small())], ids=["alone", "last"]
)
def test_weights_reach_the_last_step(method, estimator):
    weights = np.where(np.arange(160) % 2, 2.0, 1.0)
    clf = getattr(open_set(estimator), method)(X, CODES, sample_weight=weights)
    last = clf.estimator_[-1] if isinstance(estimator, Pipeline) else clf.estimator_
    assert_array_equal(last.class_counts_, np.full(8, 30.0))


def test_weights_are_routed_where_they_are_requested():
    weights = np.full(160, 2.0)
    with config_context(enable_metadata_routing=True):
        asking = small().set_fit_request(sample_weight=True)
        asking.set_partial_fit_request(sample_weight=True)
        for estimator in (asking, make_continual_pipeline(Normalizer(), asking)):
            clf = open_set(estimator).partial_fit(X, CODES, sample_weight=weights)
            last = clf.estimator_[-1] if isinstance(estimator, Pipeline) else clf.estimator_
            assert_array_equal(last.class_counts_, np.full(8, 40.0))
        with pytest.raises(ValueError, match=r"sample_weight.* are passed but are not explicitly"):
            open_set(small()).fit(X, CODES, sample_weight=weights)


# ---- scikit-learn's checks

EXPECTED_FAILURES = {
    "check_classifiers_train": "Samples that are predicted as unknown have no class of their own.",
    "check_classifiers_classes": "It has a class with the label -1.",
}


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
def test_check_estimator_around_a_pipeline():
    # tests/test_common.py has the estimator alone.
    estimator = make_continual_pipeline(Normalizer(), small())
    results = estimator_checks.check_estimator(
        OpenSetClassifier(estimator),
        expected_failed_checks=EXPECTED_FAILURES,
        on_fail=None,
        on_skip=None,
    )
    assert [one for one in results if one["status"] == "failed"] == []
    failed = {one["check_name"] for one in results if one["status"] == "xfail"}
    assert failed == set(EXPECTED_FAILURES)
    assert len(results) > 60
    name = "OpenSetClassifier"
    estimator_checks.check_param_validation(name, OpenSetClassifier(estimator))
    estimator_checks.check_dataframe_column_names_consistency(name, OpenSetClassifier(estimator))


# ---- callbacks of scikit-learn


@needs_callbacks
@pytest.mark.parametrize("wrap", [lambda model: model, make_continual_pipeline])
def test_callbacks_reach_the_estimator(wrap):
    recorder = Recorder()
    clf = open_set(wrap(small())).set_callbacks(recorder)
    learned(clf, [0, 1], [2])
    learner = "partial_fit 0/partial_fit 0"
    if wrap is make_continual_pipeline:
        inner = [learner, f"{learner}/partial_fit 0", f"{learner}/partial_fit 0/task 0"]
    else:
        inner = [learner, f"{learner}/task 0"]
    assert recorder.begun == ["partial_fit 0", *inner] * 2
    recorder.begun.clear()
    clf.fit(X, CODES)
    assert recorder.begun == [
        task.replace("partial_fit", "fit") for task in ["partial_fit 0", *inner]
    ]
    assert recorder.open == 0
    assert not hasattr(clf.estimator_, "_parent_callback_ctx")


@needs_callbacks
@pytest.mark.parametrize("place", ["begin", "end", "teardown"])
@pytest.mark.parametrize("wrap", [lambda model: model, make_continual_pipeline])
def test_callback_that_fails_changes_nothing(place, wrap):
    recorder = Recorder()
    clf = learned(open_set(wrap(small())).set_callbacks(recorder), [0, 1])
    recorder.fails_at = (place, "partial_fit")
    with unchanged(clf), unchanged(clf.estimator_), pytest.raises(RuntimeError, match="told"):
        learned(clf, [2])
    recorder.fails_at = ()
    assert_array_equal(learned(clf, [2]).classes_, [0, 1, 2])
