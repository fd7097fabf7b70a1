"""What all classifiers learn bit by bit: labels, tasks, outputs, attributes, transactions."""

import copy
from functools import cache

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.preprocessing import Normalizer

from ffnb_sklearn import (
    OpenSetClassifier,
    make_continual_pipeline,
)
from ffnb_sklearn.core import prediction
from tests.separated_classes import (
    CODES,
    N_FEATURES,
    NAMES,
    X,
    discriminant,
    ffnb,
    learned,
    naive,
    of,
    unchanged,
)

of_all = pytest.mark.parametrize("make", [ffnb, discriminant, naive])
of_both = pytest.mark.parametrize("make", [ffnb, discriminant])


# ---- labels


@cache
def learned_by_code(make, tasks):
    """Return a model that has learned the numbers of the classes as labels."""
    return learned(make(), *tasks)


# The network draws neurons in the order of arrival, which labels change within a task.
@pytest.mark.parametrize(
    ("make", "tasks"),
    [
        (ffnb, ((0, 1), (2,), (3, 4, 5), (6, 7))),
        (discriminant, ((0, 1), (2,), (3, 4, 5), (6, 7))),
        (naive, tuple((code,) for code in range(8))),
    ],
    ids=["ffnb", "discriminant", "naive"],
)
@pytest.mark.parametrize(
    "labels",
    [
        NAMES,
        NAMES.astype(object),
        np.array([9, 2, 7, 0, -3, 5, 1, 4]),
        np.array([9, 2, 7, 0, 3, 5, 1, 4], dtype=np.uint8),
        np.array([9.0, 2.0, 7.0, 0.0, -3.0, 5.0, 1.0, 4.0]),
    ],
    ids=["strings", "objects", "integers", "unsigned", "floats"],
)
def test_labels_in_any_order_give_what_codes_give(make, tasks, labels):
    by_code, model = learned_by_code(make, tasks), learned(make(), *tasks, y=labels[CODES])
    assert_array_equal(model.classes_, np.unique(labels))
    assert_array_equal(model.predict(X), labels[by_code.predict(X)])
    # Column j is the label classes_[j].
    assert_allclose(
        model.decision_function(X)[:, np.argsort(np.argsort(labels))],
        by_code.decision_function(X),
        rtol=1e-9,
    )
    assert [task.tolist() for task in model.task_classes_] == [
        sorted(labels[list(task)].tolist()) for task in tasks
    ]


@of_both
def test_a_label_that_arrives_later_and_sorts_first_moves_the_columns(make):
    model = learned(make(classifier="ovo", shrinkage=0.0), [3, 4])
    before = model.decision_function(X)
    learned(model, [1])
    assert_array_equal(model.classes_, [1, 3, 4])
    scores = model.decision_function(X)
    # With class covariances the pair of two classes does not depend on a third, and each of the
    # two lost what the new class won from it.
    pair = 0.5 * (scores[:, 2] - scores[:, 1])
    assert scores.shape == (160, 3)
    assert_allclose(scores.sum(axis=1), 0.0, atol=1e-9)
    assert np.mean(np.sign(pair) == np.sign(before)) > 0.9
    assert_array_equal(model.predict(of(1)), np.full(20, 1))
    assert_array_equal(model.predict(of(3)), np.full(20, 3))


@of_both
def test_strings_longer_than_before_are_not_cut(make):
    model = learned(make(), [0], [1], y=NAMES[CODES])
    assert_array_equal(model.classes_, ["a rather long name", "m"])
    assert_array_equal(np.unique(model.predict(of(0, 1))), ["a rather long name", "m"])


@of_all
def test_booleans(make):
    model = learned(make(), [0, 3], y=CODES == 3)
    assert model.classes_.dtype == bool
    assert_array_equal(model.predict(of(0, 3)), np.repeat([False, True], 20))


@of_both
def test_numbers_of_another_dtype_are_the_same_labels(make):
    model = learned(make(), [0, 1])
    for dtype in (float, np.uint8, np.int8):
        learned(model, [1], y=CODES.astype(dtype))
    learned(model, [2], y=CODES.astype(np.float32))
    assert_array_equal(model.classes_, [0, 1, 2])
    assert model.n_tasks_ == 2


KINDS = {"numbers": CODES, "strings": NAMES[CODES], "booleans": CODES % 2 == 0}


@pytest.mark.parametrize("later", KINDS)
@pytest.mark.parametrize("first", KINDS)
@of_all
def test_a_change_of_kind_is_an_error(make, first, later):
    model = learned(make(), [0, 1], y=KINDS[first])
    if first == later:
        learned(model, [2], y=KINDS[later])
        return
    message = "y must hold labels of the kind seen before"
    with unchanged(model), pytest.raises(ValueError, match=message):
        learned(model, [2], y=KINDS[later])
    # Not so for fit, which starts anew.
    model.fit(of(0, 1), KINDS[later][np.isin(CODES, [0, 1])])


# ---- tasks


@of_both
def test_one_class_and_one_sample(make):
    model = make().partial_fit(X[:1], ["only"])
    assert_array_equal(model.classes_, ["only"])
    assert_array_equal(model.predict(X), np.full(160, "only"))
    assert_array_equal(model.predict_proba(X), np.ones((160, 1)))
    assert model.decision_function(X).shape == (160, 1)
    model.partial_fit(X[-1:], ["other"])
    assert_array_equal(model.predict(X[[0, -1]]), ["only", "other"])


# ---- declared classes


HEADS = [
    *((ffnb, {"classifier": head}) for head in ("gaussian", "ovo", "ova")),
    *((discriminant, {"classifier": head}) for head in ("gaussian", "ovo", "ova")),
    (naive, {}),
]


@pytest.mark.parametrize(("make", "parameters"), HEADS)
def test_declared_classes_have_columns_and_are_never_predicted(make, parameters):
    model = learned(make(**parameters), [2, 5], classes=[1, 9])
    assert_array_equal(model.classes_, [1, 2, 5, 9])
    scores, probabilities = model.decision_function(X), model.predict_proba(X)
    seen = scores[:, 1:3]
    margin = np.maximum(36.0, np.ptp(seen, axis=1))
    assert (scores[:, [0, 3]] <= (seen.min(axis=1) - margin)[:, None]).all()
    assert np.isfinite(scores).all()
    assert (probabilities[:, [0, 3]] == 0.0).all()
    assert_array_equal(model.predict_log_proba(X)[:, [0, 3]], np.log(1e-280))
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert set(model.predict(X)) <= {2, 5}
    assert model.n_tasks_ == 1
    # When it arrives it is a new task like any other, and the columns stay.
    arrived = learned(model, [1])
    plain = learned(make(**parameters), [2, 5], [1])
    assert_array_equal(arrived.classes_, [1, 2, 5, 9])
    assert_array_equal(arrived.predict_proba(X)[:, :3], plain.predict_proba(X))


@pytest.mark.parametrize(("seen", "sign"), [(0, -1.0), (1, 1.0)])
@of_all
def test_one_of_two_declared_classes(make, seen, sign):
    model = learned(make(), [seen], classes=[0, 1])
    # All samples have the same score, so a curve over the scores is that of chance.
    scores = model.decision_function(X)
    assert_allclose(scores, sign * 18.0, rtol=0.01)
    assert len(set(scores.tolist())) == 1
    assert_array_equal(model.predict_proba(X), np.eye(2)[[seen] * 160])
    assert_array_equal(model.predict(X), np.full(160, seen))


@of_both
def test_declared_classes_add_up_and_keep_their_kind(make):
    model = learned(make(), [2], classes=[]).partial_fit(of(3), [3] * 20, classes=[8, 7])
    assert_array_equal(model.classes_, [2, 3, 7, 8])
    assert model.classes_.dtype == CODES.dtype
    names = learned(make(), [0], y=NAMES[CODES], classes=["a much longer name than before"])
    assert_array_equal(names.classes_, ["a much longer name than before", "m"])


# ---- outputs


@pytest.mark.parametrize("n_classes", [1, 2, 3, 8])
@pytest.mark.parametrize(("make", "parameters"), HEADS)
def test_scores_probabilities_and_predictions_agree(make, parameters, n_classes):
    model = learned(make(**parameters), *[[code] for code in range(n_classes)])
    scores, probabilities = model.decision_function(X), model.predict_proba(X)
    assert scores.shape == ((160,) if n_classes == 2 else (160, n_classes))
    assert probabilities.shape == (160, n_classes)
    best = (scores > 0).astype(int) if n_classes == 2 else scores.argmax(axis=1)
    assert_array_equal(model.predict(X), best)
    assert_array_equal(model.predict(X), probabilities.argmax(axis=1))
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities >= 0.0).all()
    if parameters.get("classifier") == "ovo" and n_classes > 2:
        assert (np.abs(scores) < n_classes - 1 + 1e-9).all()
        assert_allclose(scores.sum(axis=1), 0.0, atol=1e-9)


@of_both
def test_two_classes_have_the_probabilities_of_their_pair(make):
    # Close together, so that probabilities are neither 0 nor 1.
    near = np.vstack([of(0), of(0) + 0.5])
    model = make(classifier="ovo").partial_fit(near, np.repeat([0, 1], 20))
    output = model.decision_function(near)
    assert np.ptp(output) > 0.5
    # By the rule of succession, 1 / 42 is the share of samples unlike the 40 that were learned.
    expected = 41 / 42 * 0.5 * (1.0 + output) + 1 / 84
    assert_allclose(model.predict_proba(near)[:, 1], expected, atol=0.01)


def test_names_of_the_features_begin_with_those_of_the_inputs():
    model = ffnb(shared_band_size=1, n_layers=2).partial_fit(X, np.minimum(CODES, 1))
    inputs = [f"x{number}" for number in range(N_FEATURES)]
    neurons = ["shared0", "trained0", "trained1"]
    assert list(model.get_feature_names_out()) == [*inputs, *neurons]
    assert list(model.get_feature_names_out(list("abcdef"))) == [*"abcdef", *neurons]
    with pytest.raises(ValueError, match="input_features should have length equal"):
        model.get_feature_names_out(["a"])


@pytest.mark.parametrize(("shared_band_size", "name"), [(0, "x0"), (1, "projection0")])
def test_names_of_wide_sparse_features(shared_band_size, name):
    rows = sparse.eye_array(6, 2001, format="csr")
    model = discriminant(shared_band_size=shared_band_size).partial_fit(rows, [0, 0, 0, 1, 1, 1])
    names = model.get_feature_names_out()
    assert names[0] == name
    assert len(names) == model.transform(rows).shape[1]


@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (ffnb, {}),
        (ffnb, {"skip_connection": False}),
        (ffnb, {"band_size": 3}),
        (ffnb, {"n_layers": 2}),
        (discriminant, {}),
        (ffnb, {"skip_connection": False, "shared_band_size": 0}),
        (ffnb, {"bands__init": "random", "random_state": None}),
    ],
)
def test_columns_of_transform_never_change(make, parameters):
    model, maps = make(**parameters), []
    for task in ([0, 1], [2], [3, 4], [0], [5, 6, 7]):
        maps.append(learned(model, task).transform(X))
        assert len(model.get_feature_names_out()) == maps[-1].shape[1]
    for one in maps:
        assert_array_equal(maps[-1][:, : one.shape[1]], one)
    settings = {"skip_connection": True, "band_size": 0, **model.get_params()}
    n_fixed = N_FEATURES * settings["skip_connection"] + model.shared_band_size
    assert maps[-1].shape[1] == n_fixed + 8 * settings["band_size"]
    if settings["skip_connection"]:
        assert_array_equal(maps[-1][:, :N_FEATURES], X)


def test_names_of_the_features():
    pandas = pytest.importorskip("pandas")
    model = ffnb(skip_connection=False, shared_band_size=3)
    frame = pandas.DataFrame(X, columns=list("abcdef"))
    model.partial_fit(frame[:60], CODES[:60])
    assert list(model.feature_names_in_) == list("abcdef")
    # Three random neurons, and a neuron for each of three classes.
    neurons = ["shared0", "shared1", "shared2", "trained0", "trained1", "trained2"]
    assert list(model.get_feature_names_out()) == neurons
    out = model.set_output(transform="pandas").transform(frame)
    assert list(out.columns) == list(model.get_feature_names_out())
    before = model.predict_proba(frame)
    for wrong in (frame[list("fedcba")], frame.rename(columns={"a": "z"})):
        with pytest.raises(ValueError, match="feature names should match"):
            model.partial_fit(wrong, CODES)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(wrong)
    assert_array_equal(model.predict_proba(frame), before)
    assert list(model.feature_names_in_) == list("abcdef")


@pytest.mark.parametrize(
    "make",
    [
        discriminant,
        ffnb,
        naive,
        lambda: OpenSetClassifier(discriminant()),
        lambda: make_continual_pipeline(Normalizer(), discriminant()),
        lambda: OpenSetClassifier(make_continual_pipeline(discriminant())),
    ],
)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_tools_that_explain_predictions_may_remove_the_names_from_a_copy(copied, make):
    """As shap.KernelExplainer does, which then passes arrays."""
    pd = pytest.importorskip("pandas")
    model = make().fit(pd.DataFrame(X, columns=list("abcdef")), CODES)
    nameless = copied(model)
    nameless.feature_names_in_ = None
    # No warning that the array has no names.
    predictions = nameless.predict(X)
    assert list(model.feature_names_in_) == list("abcdef")
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        assert_array_equal(model.predict(X), predictions)


# ---- parameters


@of_all
def test_forms_of_random_state(make):
    def scores(random_state):
        return learned(make(random_state=random_state), [0, 1], [2]).decision_function(X)

    assert_array_equal(scores(3), scores(np.int64(3)))
    assert_array_equal(scores(np.random.RandomState(3)), scores(np.random.RandomState(3)))
    assert not np.array_equal(scores(3), scores(4))
    assert not np.array_equal(scores(None), scores(None))


@of_all
def test_the_device_is_chosen_at_each_call(monkeypatch, make):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    model = learned(make(device="cpu"), [0, 1])
    expected = model.predict_proba(X)
    assert_array_equal(model.set_params(device="auto").predict_proba(X), expected)
    with pytest.raises(ValueError, match="got 'cuda', which is not available"):
        model.set_params(device="cuda").predict(X)
    assert_array_equal(model.set_params(device="cpu").predict_proba(X), expected)


# ---- attributes


@pytest.mark.parametrize(
    ("make", "parameters", "n_parameters"),
    [
        # Per pair of classes a plane over the features seen, and its offset.
        (discriminant, {"shared_band_size": 0}, 3 * (6 + 1)),
        # Shared band of 10 neurons with 6 weights each, two of them with a bias.
        (discriminant, {}, 10 * 6 + 2 + 3 * (16 + 1)),
        # A neuron for each of three classes.
        (ffnb, {}, 10 * 6 + 2 + 3 * 6 + 3 * (16 + 3 + 1)),
        (ffnb, {"band_size": 2}, 10 * 6 + 2 + 6 * 6 + 3 * (16 + 6 + 1)),
        # The first task's band of the second layer sees 2 neurons, the second task's sees 3.
        (ffnb, {"n_layers": 2}, 10 * 6 + 2 + 3 * 6 + 2 * 2 + 1 * 3 + 3 * (16 + 3 + 1)),
        (ffnb, {"skip_connection": False, "shared_band_size": 0}, 3 * 6 + 3 * (3 + 1)),
        # Per class a plane and its offset, and 19 axes of 16 + 1 samples' features; one centre.
        (discriminant, {"classifier": "gaussian"}, 10 * 6 + 2 + (3 + 3 * 16) * (16 + 1) + 16),
        (ffnb, {"classifier": "ova"}, 10 * 6 + 2 + 3 * 6 + 3 * (16 + 3 + 1)),
    ],
)
def test_number_of_parameters(make, parameters, n_parameters):
    parameters = {"classifier": "ovo", **parameters}
    assert learned(make(**parameters), [0, 1], [2]).n_parameters_ == n_parameters


def test_attributes_of_tasks():
    model = learned(ffnb(p=2), [0, 1], [2], [3, 4])
    assert model.n_tasks_ == 3
    assert [task.tolist() for task in model.task_classes_] == [[0, 1], [2], [3, 4]]
    # All six axes are open to the first task, and all but two to later ones.
    assert model.null_space_dims_ == [(6,), (4,), (4,)]
    assert (model.n_iter_, model.loss_curve_) == (0, [])
    assert model.n_features_in_ == N_FEATURES
    assert learned(ffnb(bands__null_space=False), [0], [1]).null_space_dims_ == [(6,), (6,)]
    # A second layer of three inputs, two of which are kept.
    two = learned(ffnb(n_layers=2, p=(1, 2)), [0, 1, 2], [3])
    assert two.null_space_dims_[0] == (6, 3)


def test_attributes_of_earlier_tasks_are_not_changed_in_place():
    model = learned(ffnb(), [0, 1])
    kept = model.task_classes_, model.null_space_dims_, model.classes_
    learned(model, [2])
    assert [len(one) for one in kept] == [1, 1, 2]


@of_both
def test_automatic_width_of_the_shared_band(make):
    model = learned(make(shared_band_size="auto"), [0, 1])
    n_trained = 2 if make is ffnb else 0
    assert model.transform(X).shape[1] == 6 + 500 + n_trained


# ---- transactions


def test_the_classifier_is_solved_once_at_the_first_prediction(monkeypatch):
    solved, solve = [], prediction.solve
    monkeypatch.setattr(
        prediction, "solve", lambda *of, **how: solved.append(of) or solve(*of, **how)
    )
    model = ffnb(classes_per_task=1).fit(of(0, 1, 2), np.repeat([0, 1, 2], 20))
    model = learned(model, [3]).forget(3)
    assert model.n_tasks_ == 3
    assert not solved
    same = copy.deepcopy(model)
    assert_array_equal(model.predict(X), same.predict(X))
    model.predict_proba(X)
    assert len(solved) == 1
