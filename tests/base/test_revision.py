"""Both classifiers: forget, decay, merge and rename."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from ffnb_sklearn import (
    IncrementalDiscriminantAnalysis,
    load,
    make_continual_pipeline,
    save,
)
from tests.separated_classes import (
    CODES,
    NAMES,
    X,
    discriminant,
    failing,
    ffnb,
    learned,
    of,
    unchanged,
)

both = pytest.mark.parametrize("estimator", [discriminant, ffnb])


def merge(first, second):
    """Merge estimators; trained bands give a warning."""
    if isinstance(first, IncrementalDiscriminantAnalysis):
        return first.merge(second)
    with pytest.warns(UserWarning, match="Merging is not exact with trained bands"):
        return first.merge(second)


def test_forgetting_strings_and_declared_classes():
    model = learned(discriminant(), [0, 1], y=NAMES[CODES], classes=["later"])
    expected = model.predict_proba(X)
    assert_array_equal(model.forget("later").classes_, ["a rather long name", "m"])
    assert_array_equal(model.predict_proba(X), expected[:, [0, 2]])
    assert_array_equal(model.forget("m").classes_, ["a rather long name"])


@both
def test_forgetting_all_leaves_an_unfitted_estimator(estimator):
    model = learned(estimator(), [0, 1], [2]).forget([0, 1, 2])
    assert vars(model) == {**vars(estimator()), "_state": None}
    assert not hasattr(model, "classes_")
    with pytest.raises(NotFittedError):
        model.predict(X)
    learned(model, [3, 4])
    fresh = learned(estimator(), [3, 4])
    assert_array_equal(model.predict_proba(X), fresh.predict_proba(X))


@both
def test_forgetting_what_is_not_known(estimator, monkeypatch):
    with pytest.raises(NotFittedError):
        estimator().forget([0])
    model = learned(estimator(), [0, 1])
    for classes, message in [
        ([0, 7], r"classes must be labels in classes_; got \[7\], known are \[0, 1\]"),
        ("m", "classes must hold labels of the kind seen before"),
        ([[0, 1]], "classes must be one-dimensional"),
        ([0.5], "continuous"),
    ]:
        with unchanged(model), pytest.raises(ValueError, match=message):
            model.forget(classes)
    monkeypatch.setattr("ffnb_sklearn.core.merge_and_forget.replace", failing)
    with unchanged(model), pytest.raises(RuntimeError, match="told to fail"):
        model.forget([0])


@pytest.mark.parametrize(
    "parameters",
    [{}, {"classifier": "ovo"}, {"classifier": "ova"}, {"priors": "empirical"}, {"shrinkage": 0.0}],
    ids=repr,
)
@pytest.mark.parametrize("fading", [None, [1], [0, 2]], ids=repr)
def test_decay_is_learning_with_smaller_weights(parameters, fading):
    exact = {"rank": None, **parameters}
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    old = np.arange(len(X)) % 2 == 0
    model = discriminant(**exact).fit(X[old], CODES[old], sample_weight=weights[old])
    model.decay(0.5).decay(0.3, fading).partial_fit(
        X[~old], CODES[~old], sample_weight=weights[~old]
    )
    counts = fading is None or np.isin(CODES, fading)
    weights = np.where(old, 0.5 * np.where(counts, 0.3, 1.0) * weights, weights)
    joint = discriminant(**exact).fit(X, CODES, sample_weight=weights)
    for method in ("decision_function", "predict_proba", "score_samples"):
        assert_allclose(getattr(model, method)(X), getattr(joint, method)(X), rtol=1e-8, atol=1e-8)


@both
def test_endless_decay_leaves_a_finite_model(estimator):
    model = learned(estimator(), [0, 1], [2], classes=[9])
    for _ in range(200):
        model.decay(0.5, [0, 9])
    assert np.isfinite(model.decision_function(X)).all()
    weights = [one.weight for one in model._state.model.moments]
    assert 1e-20 <= weights[0] < 2e-20
    assert weights[1:] == [20.0, 20.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0,), "factor == 0.0, must be > 0.0"),
        ((1.5,), "factor == 1.5, must be <= 1.0"),
        (("half",), "factor must be an instance of float, not str"),
        ((0.5, [0, 7]), r"classes must be labels in classes_; got \[7\], known are \[0, 1\]"),
        ((0.5, "m"), "classes must hold labels of the kind seen before"),
    ],
)
@both
def test_decay_refuses_by_name_and_changes_nothing(estimator, arguments, message):
    with pytest.raises(NotFittedError):
        estimator().decay(0.5)
    model = learned(estimator(), [0, 1])
    with unchanged(model), pytest.raises((TypeError, ValueError), match=message):
        model.decay(*arguments)


@both
def test_merging_strings_of_other_lengths(estimator):
    y = NAMES[CODES]
    first, second = learned(estimator(), [0], y=y), learned(estimator(), [1], y=y)
    assert_array_equal(merge(first, second).classes_, ["a rather long name", "m"])
    assert first.score(of(0, 1), y[:40]) == 1.0


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        (lambda estimator: "model", TypeError, "other must be a fitted {name}; got str"),
        (lambda estimator: estimator(), NotFittedError, "{name}"),
        (
            lambda estimator: learned(estimator(random_state=1), [2]),
            ValueError,
            "differs in random_state",
        ),
        (
            lambda estimator: learned(estimator(), [2], y=NAMES[CODES]),
            ValueError,
            "other.classes_ must hold",
        ),
        (
            lambda estimator: estimator().fit(X[:, 1:], CODES),
            ValueError,
            "differs in n_features_in_",
        ),
    ],
)
@both
def test_what_cannot_be_merged(estimator, other, error, message):
    model = learned(estimator(), [0, 1])
    message = message.format(name=type(model).__name__)
    with unchanged(model), pytest.raises(error, match=message):
        model.merge(other(estimator))
    with pytest.raises(NotFittedError):
        estimator().merge(model)


def test_classifiers_of_the_two_kinds_are_not_merged():
    models = [learned(discriminant(), [0]), learned(ffnb(), [1])]
    for model, other in (models, models[::-1]):
        message = f"must be a fitted {type(model).__name__}; got {type(other).__name__}"
        with unchanged(model), pytest.raises(TypeError, match=message):
            model.merge(other)


@pytest.mark.parametrize(
    ("estimator", "parameters"), [(ffnb, {}), (discriminant, {}), (ffnb, {"rank": None})]
)
@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_samples_that_both_have_learned_are_not_merged(estimator, parameters, form, tmp_path):
    def model(*codes):
        now = np.isin(CODES, codes)
        return estimator(**parameters).partial_fit(form(X[now]), CODES[now])

    first, now = model(0, 1), np.isin(CODES, [2, 3])
    save(first, tmp_path / "first.ffnb")
    more = copy.deepcopy(first).partial_fit(form(X[now]), CODES[now])
    same = (first, copy.deepcopy(first), pickle.loads(pickle.dumps(first)), more)
    message = r"moments of classes \[0, 1\] are the same in both"
    for other in (*same, load(tmp_path / "first.ffnb")):
        with unchanged(first), pytest.raises(ValueError, match=message):
            first.merge(other)
    # A file is merged once.
    hub = merge(model(4), load(tmp_path / "first.ffnb"))
    with unchanged(hub), pytest.raises(ValueError, match=message):
        hub.merge(load(tmp_path / "first.ffnb"))
    # The remedy of the message.
    if estimator is discriminant:
        more.forget([0, 1])
    else:
        with pytest.warns(UserWarning, match=r"trace of the classes \[0, 1\]"):
            more.forget([0, 1])
    assert_array_equal(merge(hub, more).classes_, range(5))


@both
def test_a_pipeline_is_not_merged_with_its_copy(estimator):
    pipeline = make_continual_pipeline(estimator()).partial_fit(X, CODES)
    for other in (pipeline, copy.deepcopy(pipeline)):
        with unchanged(pipeline), pytest.raises(ValueError, match="count the same samples twice"):
            pipeline.merge(other)


@both
def test_merging_other_feature_names(estimator):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    model = estimator().fit(frame, CODES)
    other = estimator().fit(frame.rename(columns={"a": "z"}), CODES)
    with pytest.raises(ValueError, match="differs in feature_names_in_"):
        model.merge(other)


@both
def test_a_merge_that_fails_inside_changes_nothing(estimator, monkeypatch):
    model, other = (learned(estimator(scale=False), some) for some in ([0, 1], [2]))
    monkeypatch.setattr("ffnb_sklearn.core.merge_and_forget.merge_classes", failing)
    with unchanged(model), pytest.raises(RuntimeError, match="told to fail"):
        model.merge(other)


@both
def test_rename_moves_the_columns_of_text_labels_and_quantiles(estimator):
    clf = learned(estimator(novelty=True), [0, 1], [2], y=NAMES[CODES])
    probabilities = clf.predict_proba(X)
    threshold = clf.novelty_threshold(0.1)
    assert_array_equal(clf.classes_, ["a rather long name", "m", "z"])
    clf.rename({"m": "the longest of all the names", "z": "b"})
    assert_array_equal(clf.classes_, ["a rather long name", "b", "the longest of all the names"])
    assert_allclose(clf.predict_proba(X), probabilities[:, [0, 2, 1]], rtol=1e-9)
    assert clf.novelty_threshold(0.1) == pytest.approx(threshold, rel=1e-9)


@both
def test_rename_refuses_labels_and_changes_nothing(estimator):
    clf = learned(estimator(), [0, 1, 2])
    for mapping, message in [
        ({7: 8}, r"labels in classes_; got \[7\], known are \[0, 1, 2\]"),
        ({0: 1}, r"must not be labels of other classes; got \[1\]"),
        ({0: "a"}, "of the kind seen before, number"),
        ({"a": 3}, "of the kind seen before, number"),
        ({0: 0.5}, "continuous"),
        ({0: None}, "contains NaN"),
    ]:
        with unchanged(clf), pytest.raises(ValueError, match=message):
            clf.rename(mapping)


@both
def test_rename_needs_a_dictionary(estimator):
    clf = learned(estimator(), [0, 1, 2])
    with unchanged(clf), pytest.raises(TypeError, match="mapping must be a dictionary"):
        clf.rename([(0, 3)])


@both
def test_rename_needs_priors_of_the_new_labels(estimator):
    clf = learned(estimator(priors={0: 1, 1: 2}), [0, 1])
    with unchanged(clf), pytest.raises(ValueError, match=r"none for \[3\]"):
        clf.rename({0: 3})
    clf.set_params(priors={0: 1, 1: 2, 3: 1}).rename({0: 3})
    assert_array_equal(clf.classes_, [1, 3])


@both
def test_pipeline_renames_in_its_last_step(estimator):
    pipeline = make_continual_pipeline(estimator())
    learned(pipeline, [0, 1]).rename({0: 3})
    assert_array_equal(pipeline.classes_, [1, 3])
