"""Parameters that change after learning: they take effect, or are refused by name."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import (
    Bands,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    load,
    make_continual_pipeline,
    save,
)
from ffnb_sklearn.distributed import partial_fit_shards
from tests.parameter_rules import FIXED, NEXT_LEARNING, NEXT_PREDICTION, RULES

# Three classes that overlap, thirty samples each.
RNG = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], 30)
X = RNG.standard_normal((3, 4))[Y] + RNG.standard_normal((90, 4)) * [1.0, 2.0, 0.5, 1.0]
OLD, NEW = Y < 2, Y == 2

DESCENT = {
    "bands__max_epochs": 3,
    "bands__learning_rate": 0.1,
}
HEADS = [{"classifier": head} for head in ("gaussian", "ovo", "ova")]
NUMBERS = [{**head, "shrinkage": 0.1, "epsilon": 0.1} for head in HEADS]

# For each parameter: values of other parameters with which a change has an effect, and the change.
CHANGES = {
    "p": [({}, 1)],
    "band_size": [({}, 2)],
    "n_layers": [({}, 2)],
    "shared_band_size": [({}, 9), ({"shared_band_size": 0}, 9)],
    "skip_connection": [({}, False)],
    "scale": [({}, True)],
    "bands__activation": [({}, "tanh")],
    "bands__init": [({}, "random")],
    "bands__gamma": [({}, 0.1)],
    "bands__null_space": [({}, False)],
    "covariance": [(head, "identity") for head in NUMBERS[:2]],
    "shrinkage": [*((head, 0.7) for head in HEADS[:2]), (NUMBERS[0], "auto")],
    "epsilon": [*((head, 5.0) for head in NUMBERS), (NUMBERS[0], "auto")],
    "rank": [({}, 1)],
    "classifier": [(HEADS[0], "ovo"), (NUMBERS[1], "ova"), (NUMBERS[2], "gaussian")],
    "chunk_size": [({}, 7)],
    "bands__old_statistics": [(HEADS[1], "zero")],
    "units": [(head, "absolute") for head in NUMBERS],
    "half_bias": [(HEADS[1], False)],
    "bands__left_out": [({"bands__gamma": 0.1}, False)],
    "bands__adaptive_rate": [(DESCENT, False)],
    "bands__max_epochs": [({}, 3)],
    "bands__learning_rate": [(DESCENT, 0.01)],
    "bands__momentum": [(DESCENT, 0.1)],
    "bands__weight_decay": [(DESCENT, 5.0)],
    "bands__batch_size": [(DESCENT, 7)],
    "bands__batch_norm": [({}, True)],
    "classes_per_task": [({}, 1)],
    "device": [({"device": "auto"}, "cpu")],
    "random_state": [({}, 1)],
    "verbose": [({}, 1)],
    "priors": [(head, {0: 1.0, 1: 5.0, 2: 1.0}) for head in NUMBERS],
    "novelty": [({}, True)],
    "refresh": [({}, 0.5)],
}
# Parameters without effect on the scores.
SILENT = {"chunk_size", "device", "classes_per_task", "verbose", "novelty", "refresh"}


SMALL = {"shared_band_size": 8, "random_state": 0, "device": "cpu"}
SMALL_BANDS = {**SMALL, "band_size": 1, "classes_per_task": None}


def discriminant(**parameters):
    return IncrementalDiscriminantAnalysis(**{**SMALL, **parameters})


def ffnb(**parameters):
    return FFNBClassifier().set_params(**{**SMALL_BANDS, **parameters})


def published(**parameters):
    closed_form = {"units": "relative", "bands__max_epochs": 0}
    return FFNBClassifier.as_published(**{**SMALL_BANDS, **closed_form, **parameters})


BOTH = [discriminant, ffnb]


def naive(**parameters):
    return NaiveIncrementalClassifier(
        **{"band_size": 1, "max_epochs": 2, "random_state": 0, **parameters}
    )


def makers(name):
    """Return the functions that make the estimators with a parameter."""
    if name in discriminant().get_params():
        return BOTH
    return [ffnb] if name in ffnb(bands=Bands()).get_params() else [published]


def changes(rule):
    """Return (maker, name, other values, change) of all parameters with a rule."""
    return [
        (make, name, *one)
        for name, some in CHANGES.items()
        if RULES[name] == rule
        for make in makers(name)
        for one in some
    ]


def readings(one, rows=X):
    names = ("predict", "predict_proba", "predict_log_proba", "decision_function")
    return {name: getattr(one, name)(rows) for name in names}


# ---- the table


def test_every_parameter_has_a_rule_and_is_tested():
    names = set(published(bands=Bands()).get_params()) - {"bands"}
    assert names == set(RULES) == set(CHANGES)
    assert set(ffnb(bands=Bands()).get_params()) - {"bands"} == names - {"units", "half_bias"}
    assert set(discriminant().get_params()) <= names
    # Algorithm 1 alone has a patience, which every call that learns reads.
    names_of_naive = set(naive().get_params()) - {"patience"}
    assert names_of_naive <= {name.removeprefix("bands__") for name in names}
    assert set(RULES.values()) == {NEXT_PREDICTION, NEXT_LEARNING, FIXED}


# ---- the solution


def changes_by_call():
    """Return (method, function of rows, ...) of the changes, sparse rows without bands."""
    found = []
    for change in changes(NEXT_PREDICTION):
        found.append(("partial_fit", np.asarray, *change))
        if change[0] is discriminant:
            found.append(("fit", csr_array, *change))
    return found


@pytest.mark.parametrize(
    ("method", "convert", "make", "name", "others", "value"), changes_by_call()
)
def test_a_parameter_of_the_solution_takes_effect_at_the_next_prediction(
    method, convert, make, name, others, value, tmp_path
):
    rows = convert(X)
    before = getattr(make(**others), method)(rows, Y)
    old = readings(before, rows)
    now = readings(before.set_params(**{name: value}), rows)
    if name not in SILENT:
        assert np.abs(now["decision_function"] - old["decision_function"]).max() > 1e-6
    # The bands of an estimator that learns with other units differ.
    if name != "units":
        expected = getattr(make(**{**others, name: value}), method)(rows, Y)
        for reading, values in readings(expected, rows).items():
            assert_allclose(now[reading], values, rtol=1e-9, atol=1e-9)
        for attribute in ("shrinkage_", "epsilon_"):
            assert getattr(before, attribute) == pytest.approx(getattr(expected, attribute))
    save(before, tmp_path / "model.ffnb")
    loaded = readings(load(tmp_path / "model.ffnb"), rows)
    for reading, values in now.items():
        assert_array_equal(loaded[reading], values)


@pytest.mark.parametrize(
    "learn",
    [
        lambda **head: make_continual_pipeline(StandardScaler(), discriminant(**head)).fit(X, Y),
        lambda **head: make_continual_pipeline(discriminant(**head)).partial_fit(X, Y),
        lambda **head: make_continual_pipeline(partial_fit_shards(discriminant(**head), shards())),
        lambda **head: make_continual_pipeline(ffnb(**head)).partial_fit(X, Y),
    ],
    ids=["pipeline fit", "pipeline partial_fit", "shards", "pipeline with bands"],
)
@pytest.mark.parametrize("head", ["gaussian", "ovo"])
def test_it_does_so_however_the_samples_were_learned(learn, head):
    pipe = learn(classifier=head)
    step, old = pipe.steps[-1][0], pipe.predict_proba(X)
    changed = pipe.set_params(**{f"{step}__shrinkage": 0.9}).predict_proba(X)
    assert np.abs(changed - old).max() > 1e-6
    assert_array_equal(pipe.set_params(**{f"{step}__shrinkage": "auto"}).predict_proba(X), old)


def shards():
    dask = pytest.importorskip("dask")
    return [dask.delayed((X[::2], Y[::2])), dask.delayed((X[1::2], Y[1::2]))]


@pytest.mark.parametrize("make", BOTH)
def test_a_solution_is_computed_once_for_each_change(monkeypatch, make):
    one, solved = make().fit(X, Y), []
    from ffnb_sklearn.core import prediction as core

    solve = core.solve
    monkeypatch.setattr(core, "solve", lambda *a, **k: solved.append(1) or solve(*a, **k))
    for _ in range(3):
        one.predict(X)
    one.set_params(shrinkage=0.5)
    for _ in range(3):
        one.predict(X)
        one.predict_proba(X)
    assert len(solved) == 2


def test_models_whose_solutions_differ_are_merged():
    first = discriminant(rank=None).fit(X[OLD], Y[OLD])
    second = discriminant(rank=None, shrinkage=0.3, classifier="ova").fit(X[NEW], Y[NEW])
    both = discriminant(rank=None).fit(X, Y)
    assert_allclose(first.merge(second).predict_proba(X), both.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("make", BOTH)
def test_scores_and_thresholds_of_new_classes_are_those_of_the_last_call_that_learned(make):
    one = make(novelty=True).fit(X, Y)
    scores, threshold = one.score_samples(X), one.novelty_threshold(0.1)
    one.set_params(shrinkage=0.2, epsilon=3.0, classifier="ova")
    assert_array_equal(one.score_samples(X), scores)
    assert one.novelty_threshold(0.1) == threshold


@pytest.mark.parametrize("make", BOTH)
def test_the_choice_is_known_once_the_classifier_is_solved(make):
    one = make().fit(X, Y)
    for name in ("shrinkage_", "epsilon_"):
        with pytest.raises(AttributeError, match="exist after a prediction"):
            getattr(one, name)
    # Displaying the estimator solves nothing, and works whatever its parameters.
    assert "shrinkage_" not in one._repr_html_()
    one.predict(X)
    assert one.shrinkage_ > 0.0
    assert "shrinkage_" in one._repr_html_()
    assert "shrinkage_" not in one.set_params(classifier="best")._repr_html_()


@pytest.mark.parametrize("make", BOTH)
def test_equal_parameters_give_the_same_solved_model(make):
    clf = make(shrinkage=0.1).fit(X, Y)
    learned = clf._state.model
    clf.set_params(shrinkage=0.5)

    changed = clf._present_state().model
    clf.predict(X)

    assert changed.settings.shrinkage == 0.5
    assert clf._present_state().model is changed
    assert changed.solution is not None
    assert clf.set_params(shrinkage=0.1)._present_state().model is learned


# ---- the state


CALLS = {
    "partial_fit": lambda one: one.partial_fit(X, Y),
    "partial_fit_shards": lambda one: partial_fit_shards(one, shards()),
}


@pytest.mark.parametrize(
    ("make", "name", "others", "value"),
    [
        *changes(FIXED),
        *((naive, *change) for _, *change in changes(FIXED) if change[0] in naive().get_params()),
    ],
)
def test_a_parameter_that_shapes_the_state_is_refused_by_the_next_call_that_learns(
    make, name, others, value
):
    one = make(**others).fit(X, Y)
    old, before, state = readings(one), getattr(one, name), one._state
    one.set_params(**{name: value})
    for reading, values in readings(one).items():
        assert_array_equal(values, old[reading])
    message = rf"^{name}\b.* cannot change between tasks"
    for call_name, call in CALLS.items():
        if call_name == "partial_fit" or make is discriminant:
            with pytest.raises(ValueError, match=message):
                call(one)
    assert one._state is state
    clone(one).fit(X, Y).predict(X)
    one.set_params(**{name: before}).partial_fit(X, Y)


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(0)])
def test_a_random_state_without_a_seed_is_not_compared(random_state):
    one = discriminant(random_state=random_state).partial_fit(X[OLD], Y[OLD])
    one.predict(X)
    assert one.partial_fit(X[NEW], Y[NEW]).n_tasks_ == 2


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (discriminant, "shrinkage", 2.0),
        (discriminant, "classifier", "best"),
        (ffnb, "shrinkage", 2.0),
        (ffnb, "covariance", "best"),
        (published, "units", "cm"),
    ],
)
def test_an_invalid_value_is_refused_by_name_at_the_next_prediction(make, name, value):
    one = make().fit(X, Y)
    one.predict(X)
    class_name = type(one).__name__
    with pytest.raises(ValueError, match=f"The '{name}' parameter of {class_name}"):
        one.set_params(**{name: value}).predict(X)


# ---- the next task


def test_an_invalid_value_of_learning_is_refused_by_name_at_the_next_task():
    one = ffnb().partial_fit(X[OLD], Y[OLD])
    old = one.set_params(bands__gamma=-1.0).predict_proba(X)
    with pytest.raises(ValueError, match="The 'gamma' parameter of Bands"):
        one.partial_fit(X[NEW], Y[NEW])
    assert_array_equal(one.predict_proba(X), old)


@pytest.mark.parametrize(("make", "name", "others", "value"), changes(NEXT_LEARNING))
def test_a_parameter_of_learning_takes_effect_at_the_next_task(make, name, others, value, capsys):
    # The choice of shrinkage and ridge is no part of learning.
    others = {"shrinkage": 0.7, "epsilon": 1.0, **others}
    same = make(**others).partial_fit(X[OLD], Y[OLD])
    changed = make(**others).partial_fit(X[OLD], Y[OLD])
    old = readings(same)
    changed.set_params(**{name: value})
    for reading, values in readings(changed).items():
        assert_array_equal(values, old[reading])
    effect = {
        "classes_per_task": lambda one: one.fit(X, Y).n_tasks_,
        "verbose": lambda one: capsys.readouterr().out,
        "novelty": lambda one: len(one._state.model.left_out),
        "refresh": lambda one: one._state.model.settings.refresh,
    }.get(name, lambda one: one.decision_function(X).tolist())
    effects = [effect(one.partial_fit(X[NEW], Y[NEW])) for one in (same, changed)]
    assert effects[0] != effects[1]
