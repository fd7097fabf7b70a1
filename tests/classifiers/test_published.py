"""The model of the paper: equal to its equations, an ordinary estimator, each addition a switch."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import Bands, FFNBClassifier
from ffnb_sklearn.core.bands.tuning.descent import MomentumSteps
from ffnb_sklearn.exceptions import EmptyNullSpaceWarning
from tests.dense_ffnb import READINGS, DenseFFNB

# In some tasks the closed form of the bands separates all samples.
pytestmark = pytest.mark.filterwarnings(
    "ignore:bands__max_epochs=.* has had no effect in a task:UserWarning"
)

SETTINGS = {"p": 20, "bands__gamma": 1.0, "epsilon": 0.1}


@pytest.fixture(scope="module")
def digits():
    """Training and test samples of ten classes, with entries in [0, 1]."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    return X[:500], y[:500], X[500:900], y[500:900]


@pytest.fixture(scope="module")
def few_digits(digits):
    """The samples of six classes, which come in six tasks or in two."""
    X, y, X_test, y_test = digits
    return X[y < 6], y[y < 6], X_test[y_test < 6], y_test[y_test < 6]


def as_printed(settings):
    """Return settings under the names of the dense model."""
    return {name.removeprefix("bands__"): value for name, value in settings.items()}


def published(**parameters):
    """Return the model in absolute units, in which the printed equations are."""
    parameters = {"random_state": 0, "units": "absolute", **SETTINGS, **parameters}
    if parameters.get("bands__max_epochs") != 0:
        parameters = {"bands__learning_rate": 0.01, **parameters}
    return FFNBClassifier.as_published(**parameters)


def tasks_of(X, y, size):
    for first in range(0, y.max() + 1, size):
        now = (y >= first) & (y < first + size)
        yield X[now], y[now]


# ---- against the printed equations


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"p": 5},
        {"p": 0},
        {"p": 0.9},
        {"p": 0.99},
        # More axes than the past has at first.
        {"p": 46},
        {"bands__gamma": 1e-3},
        {"bands__gamma": 100.0},
        {"epsilon": 1e-3},
        {"epsilon": 10.0},
        {"band_size": 1},
        {"band_size": 5},
        {"bands__init": "mono"},
        # The share of the energy is the default, and has no effect.
        {"bands__null_space": False, "p": 0.8},
        {"bands__null_space": False, "p": 0.8, "bands__init": "mono"},
        {"covariance": "identity"},
        {"bands__activation": "tanh"},
        {"half_bias": False},
        {"half_bias": False, "covariance": "identity", "p": 0.9, "band_size": 2},
        {"bands__activation": "sigmoid"},
        {"bands__batch_norm": True},
        {"n_layers": 2, "p": (20, 2)},
        {"n_layers": 2, "p": (20, 2), "bands__activation": "sigmoid", "bands__init": "mono"},
        {"n_layers": 2, "p": (0.9, 0.9), "bands__batch_norm": True},
        {"n_layers": 3, "p": (20, 2, 1), "bands__activation": "tanh"},
    ],
    ids=repr,
)
@pytest.mark.parametrize("size", [1, 3])
def test_closed_form_equals_the_printed_equations(few_digits, changes, size):
    X, y, X_test, _ = few_digits
    settings = {**SETTINGS, **changes}
    dense = DenseFFNB(**as_printed(settings))
    for task in tasks_of(X, y, size):
        dense.learn(*task)

    model = published(bands__max_epochs=0, classes_per_task=size, **changes).fit(X, y)

    assert_allclose(model.decision_function(X_test), dense.scores(X_test), atol=1e-9)


DESCENTS = [
    {},
    {"bands__momentum": 0.0},
    {"bands__weight_decay": 0.1},
    {"bands__batch_size": 7},
    {"bands__activation": "tanh"},
    {"half_bias": False},
    {"p": 0.9, "band_size": 1},
    {"bands__activation": "sigmoid"},
    {"bands__batch_norm": True},
    {"n_layers": 2, "p": (20, 2)},
    {"n_layers": 2, "p": (20, 2), "bands__activation": "sigmoid", "bands__weight_decay": 0.1},
    {"n_layers": 2, "p": (20, 2), "bands__batch_norm": True, "bands__batch_size": 7},
    # The loss is zero before the last epochs, in which the weight decay still moves the rows.
    {"bands__max_epochs": 20, "bands__weight_decay": 0.1, "epsilon": 0.01},
]
# Tasks of several classes: the plain descent, two layers, and batch normalisation in two layers.
LARGER_TASKS = [DESCENTS[0], DESCENTS[9], DESCENTS[11]]


@pytest.mark.parametrize(
    ("changes", "size"),
    [*((one, 1) for one in DESCENTS), *((one, 3) for one in LARGER_TASKS)],
    ids=repr,
)
def test_each_step_of_algorithm_2_equals_the_printed_one(few_digits, changes, size, monkeypatch):
    X, y, X_test, _ = few_digits
    descent = {
        "bands__max_epochs": 2,
        "bands__learning_rate": 0.01,
        "bands__momentum": 0.9,
        "bands__weight_decay": 0.0,
        "bands__batch_size": 50,
    }
    descent.update({name: value for name, value in changes.items() if name in descent})
    options = {name: value for name, value in changes.items() if name not in descent}
    options = {"epsilon": 1.0, **options}
    dense, model = DenseFFNB(**as_printed({**SETTINGS, **options})), published(**options, **descent)
    steps, step = [], MomentumSteps.__call__

    def recorded(self, loss):
        step(self, loss)
        steps.append([leaf.detach().numpy().copy() for leaf in self._parameters])

    monkeypatch.setattr(MomentumSteps, "__call__", recorded)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    for number, task in enumerate(tasks_of(X, y, size), start=1):
        dense.learn(
            *task,
            epochs=descent["bands__max_epochs"],
            rng=np.random.default_rng([seed, number, 1]),
            rate=descent["bands__learning_rate"],
            momentum=descent["bands__momentum"],
            decay=descent["bands__weight_decay"],
            batch=descent["bands__batch_size"],
        )
        model.partial_fit(*task)
        assert_allclose(model.loss_curve_, dense.losses, atol=1e-9)

    assert len(steps) == len(dense.trace) > 10
    for rows, dense_rows in zip(steps, dense.trace, strict=True):
        for rows_of_layer, dense_rows_of_layer in zip(rows, dense_rows, strict=True):
            assert_allclose(rows_of_layer, dense_rows_of_layer, atol=1e-9)
    assert_allclose(model.decision_function(X_test), dense.scores(X_test), atol=1e-9)


@pytest.mark.parametrize("name", [name for name, reading in READINGS.items() if reading])
def test_every_other_reading_of_the_printed_text_gives_other_scores(digits, name):
    X, y, X_test, _ = digits
    # The past has fewer axes than p at first.
    dense = DenseFFNB(**as_printed({**SETTINGS, "p": 46}), **READINGS[name])
    model = published(bands__max_epochs=0, classes_per_task=1, p=46).fit(X, y)
    for task in tasks_of(X, y, 1):
        dense.learn(*task)

    # Axes beyond the rank are rounding, so their effect differs from machine to machine.
    assert np.abs(model.decision_function(X_test) - dense.scores(X_test)).max() > 0.1


# ---- the defaults


SCALES = ("raw", "/ 16", "standardised")


def on_scale(scale, X, X_test):
    if scale == "standardised":
        scaler = StandardScaler().fit(X)
        return scaler.transform(X), scaler.transform(X_test)
    factor = 16.0 if scale == "raw" else 1.0
    return factor * X, factor * X_test


def accuracy(X, y, X_test, y_test, **parameters):
    model = FFNBClassifier.as_published(random_state=0, **parameters)
    for label in np.unique(y):
        model.partial_fit(X[y == label], y[y == label])
    return model.score(X_test, y_test)


def test_algorithm_2_keeps_the_accuracy_of_its_closed_form_on_any_scale(digits):
    X, y, X_test, y_test = digits
    few = y < 5
    seen = y_test < 5
    trained = []
    for scale in SCALES:
        rows, test_rows = on_scale(scale, X[few], X_test[seen])
        data = rows, y[few], test_rows, y_test[seen]
        closed = accuracy(*data, bands__max_epochs=0)
        trained.append(accuracy(*data, bands__max_epochs=30))
        assert trained[-1] >= closed - 0.02
    assert max(trained) - min(trained) <= 0.03


def test_the_default_closed_form_does_not_depend_on_the_unit(digits):
    X, y, X_test, _ = digits
    scores = []
    for unit in (1.0, 16.0, 1e-6):
        model = FFNBClassifier.as_published(random_state=0, bands__max_epochs=0)
        scores.append(model.fit(unit * X, y).decision_function(unit * X_test))
    assert_allclose(scores[1], scores[0], atol=1e-8)
    assert_allclose(scores[2], scores[0], atol=1e-8)


# ---- an ordinary estimator


def test_one_line_gives_the_printed_model(digits):
    X, y, X_test, y_test = digits
    model = FFNBClassifier.as_published(bands__max_epochs=1, classes_per_task=1).fit(X, y)

    layers = model._state.model.trained.layers
    assert [len(band) for band in layers.bands] == [3] * 10
    assert layers.n_neurons == 30 == model.transform(X_test).shape[1]
    assert model.score(X_test, y_test) > 0.75


def test_other_values_go_in_by_name_also_those_of_the_bands():
    model = FFNBClassifier.as_published(p=45, shrinkage=0.5, bands__momentum=0.5)

    changed = {name for name, value in model.get_params().items() if name != "bands"}
    plain = FFNBClassifier.as_published(bands__momentum=0.9).get_params()
    changed = {name for name in changed if model.get_params()[name] != plain[name]}
    assert changed == {"p", "shrinkage", "bands__momentum"}
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        FFNBClassifier.as_published(depth=3)


def test_two_presets_share_no_options():
    first, second = FFNBClassifier.as_published(), FFNBClassifier.as_published()
    first.set_params(bands__momentum=0.5)

    assert (first.bands.momentum, first.bands.max_epochs) == (0.5, 250)
    assert second.set_params(bands__gamma=2.0).bands.momentum == 0.9


def test_the_published_model_has_two_more_parameters():
    names = set(FFNBClassifier.as_published().get_params(deep=False))

    assert names - set(FFNBClassifier().get_params(deep=False)) == {"units", "half_bias"}
    assert names >= set(FFNBClassifier().get_params(deep=False))


def test_a_clone_has_options_of_its_own_and_learns_the_same(digits):
    X, y, X_test, _ = digits
    model = published(bands__max_epochs=2, classes_per_task=5)
    copy = clone(model)

    assert copy.bands is not model.bands
    assert_array_equal(
        copy.fit(X, y).decision_function(X_test), model.fit(X, y).decision_function(X_test)
    )


def test_options_of_bands_replace_those_of_a_default_estimator():
    clf = FFNBClassifier().set_params(bands__null_space=False, band_size=2)
    assert (clf.bands.null_space, clf.bands.left_out, clf.band_size) == (False, True, 2)
    clf.set_params(bands=Bands(batch_size=7), bands__null_space=True)
    assert (clf.bands.null_space, clf.bands.batch_size) == (True, 7)
    assert clf.set_params(bands=None, bands__batch_size=3).bands.batch_size == 3
    with pytest.raises(ValueError, match="Invalid parameter 'no_such'"):
        FFNBClassifier().set_params(bands__no_such=1)


def test_grid_search_reaches_the_options(digits):
    X, y, _, _ = digits
    grid = {"bands__left_out": [False, True], "bands__old_statistics": ["zero", "gaussian"]}

    search = GridSearchCV(published(bands__max_epochs=0, classes_per_task=5), grid, cv=2).fit(X, y)

    assert search.best_score_ > 0.6
    assert len(set(search.cv_results_["mean_test_score"])) > 1


def test_no_options_are_the_default_options(digits):
    X, y, X_test, _ = digits
    given = {
        "bands__max_epochs": 2,
        "classes_per_task": 5,
        "band_size": 1,
        "shared_band_size": 0,
        "random_state": 0,
    }
    plain = FFNBClassifier().set_params(**given).fit(X, y)

    explicit = FFNBClassifier().set_params(**given, bands=Bands()).fit(X, y)

    assert_array_equal(plain.decision_function(X_test), explicit.decision_function(X_test))


# ---- every improvement is a switch


# Parameters that both sides have, and the switch.
IMPROVEMENTS = {
    "more layers": ({"p": 0.9}, {"n_layers": 2}),
    "Gaussian moments": ({}, {"bands__old_statistics": "gaussian"}),
    "relative units": ({}, {"units": "relative"}),
    "shrinkage": ({}, {"shrinkage": 0.5}),
    "truncated moments": ({}, {"rank": 5}),
    "left-out responses": ({}, {"bands__left_out": True}),
    "fixed rate": ({}, {"bands__adaptive_rate": False}),
    "skip connection": ({}, {"skip_connection": True}),
    "shared band": ({}, {"shared_band_size": 50}),
    "distances": ({}, {"classifier": "gaussian"}),
    "printed bias": ({}, {"half_bias": False}),
}


@pytest.mark.parametrize("name", IMPROVEMENTS)
def test_each_switch_alone_changes_the_scores(few_digits, name):
    X, y, X_test, _ = few_digits
    common, switch = IMPROVEMENTS[name]
    common = {"bands__max_epochs": 2, "epsilon": 1.0, "classes_per_task": 3, **common}

    off, on = (published(**common, **changes).fit(X, y) for changes in ({}, switch))

    assert not np.array_equal(on.decision_function(X_test), off.decision_function(X_test))
    assert np.isfinite(on.decision_function(X_test)).all()


def test_every_epoch_runs(digits):
    X, y, _, _ = digits
    # At this rate the loss does not fall.
    wild = {"bands__max_epochs": 4, "epsilon": 1.0, "bands__learning_rate": 3.0}

    assert published(**wild).partial_fit(X, y).n_iter_ == 4


def test_the_rate_can_be_held_fixed(digits, monkeypatch):
    X, y, _, _ = digits
    rates = []
    original = MomentumSteps.epoch

    def recorded(self, *arguments):
        rates.append(self.rate)
        return original(self, *arguments)

    monkeypatch.setattr(MomentumSteps, "epoch", recorded)
    published(bands__max_epochs=4, epsilon=1.0).partial_fit(X, y)
    assert len(set(rates)) == len(rates) == 4
    rates.clear()
    published(bands__max_epochs=4, epsilon=1.0, bands__adaptive_rate=False).partial_fit(X, y)
    assert rates == [0.01] * 4


def test_an_absolute_ridge_cannot_be_automatic(digits):
    with pytest.raises(ValueError, match='units="absolute" needs a number'):
        published(epsilon="auto").fit(*digits[:2])


@pytest.mark.parametrize(("name", "value"), [("units", "cm"), ("half_bias", 2)])
def test_parameters_of_the_published_model_are_validated(digits, name, value):
    X, y, _, _ = digits
    with pytest.raises(ValueError, match=f"The '{name}' parameter of PublishedFFNBClassifier"):
        published(**{name: value}).fit(X, y)
    model = published(bands__max_epochs=0).fit(X, y)
    with pytest.raises(ValueError, match=f"The '{name}' parameter of PublishedFFNBClassifier"):
        model.set_params(**{name: value}).predict(X)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("left_out", "no"),
        ("max_epochs", -1),
        ("adaptive_rate", None),
    ],
)
def test_options_are_validated_when_they_are_used(digits, name, value):
    X, y, _, _ = digits
    model = published(**{f"bands__{name}": value})

    with pytest.raises(ValueError, match=f"The '{name}' parameter of Bands"):
        model.fit(X, y)
    assert not hasattr(model, "classes_")


# ---- nothing left in the null-space


def of_rank(rank, n_classes=4):
    """Classes in as many dimensions of ten, with their labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30 * n_classes, rank)) @ rng.normal(size=(rank, 10))
    return X, np.arange(n_classes).repeat(30)


@pytest.mark.parametrize(
    "make", [FFNBClassifier.as_published, FFNBClassifier(band_size=1).set_params]
)
def test_a_band_of_rounding_warns_with_task_layer_and_p(make):
    model = make(p=6, bands__max_epochs=0, random_state=0)
    X, y = of_rank(6)
    model.partial_fit(X[y < 2], y[y < 2])

    message = r"task 2 in layer 1 .* p=6 keeps 6 axes .* other 4 axes\."
    with pytest.warns(EmptyNullSpaceWarning, match=message) as caught:
        model.partial_fit(X[y == 2], y[y == 2])
    assert caught[0].filename == __file__
    assert "Set a smaller p, or use IncrementalDiscriminantAnalysis" in str(caught[0].message)
    # A smaller p helps: warnings are errors here.
    model.set_params(p=5).partial_fit(X[y == 3], y[y == 3])


def test_each_layer_is_named():
    X, y = of_rank(9)
    model = FFNBClassifier(band_size=1, n_layers=2, p=(9, 1), random_state=0)
    model.partial_fit(X[y == 0], y[y == 0])

    # The new neuron of the first layer is silent, so the second layer sees the old neuron alone.
    with pytest.warns(EmptyNullSpaceWarning) as caught:
        model.partial_fit(X[y == 1], y[y == 1])
    first, second = (str(one.message) for one in caught)
    assert "in layer 1 sees only rounding" in first
    assert "in layer 2 sees only rounding" in second


def test_samples_of_zeros_have_nothing_anywhere_and_warn_of_nothing():
    X, y = of_rank(6)
    model = published(p=3, bands__max_epochs=0).partial_fit(X, y)

    model.partial_fit(np.zeros((5, 10)), np.full(5, 9))


# ---- samples that are equal but for rounding


def with_twins(seed):
    """Return classes of three axes each in 14 dimensions, whose first two samples nearly agree."""
    rng = np.random.default_rng(0)
    noise = np.random.default_rng(seed)
    X = np.concatenate([rng.normal(size=(20, 3)) @ rng.normal(size=(3, 14)) for _ in range(4)])
    for first in range(0, 80, 20):
        X[first + 1] = X[first] + 1e-9 * noise.normal(size=14)
    return X, np.arange(4).repeat(20)


@pytest.mark.parametrize(
    "changed",
    [
        lambda X, y: (X[::-1], y[::-1]),
        lambda X, y: with_twins(seed=2),
        lambda X, y: (X.astype(np.float32).astype(np.float64), y),
    ],
    ids=["another order", "another rounding of the twins", "single precision"],
)
@pytest.mark.parametrize("p", [5, 10, 13])
def test_axes_of_rounding_are_not_kept_for_the_past(p, changed):
    # The past of the tasks has 3, 6 and 9 axes, and p is above the rank of some or all.
    X, y = with_twins(seed=1)
    dense = DenseFFNB(p=p, gamma=1.0, epsilon=0.1)
    for label in range(4):
        dense.learn(X[y == label], y[y == label])
    settings = {"p": p, "bands__max_epochs": 0, "classes_per_task": 1}

    scores = published(**settings).fit(X, y).decision_function(X)
    again = published(**settings).fit(*changed(X, y)).decision_function(X)

    assert_allclose(scores, dense.scores(X), atol=1e-6)
    assert_allclose(again, scores, atol=1e-5)


# ---- p wider than a layer


@pytest.mark.filterwarnings("ignore:These parameters have no effect, because fit:UserWarning")
@pytest.mark.parametrize("classes_per_task", [1, 5, None])
def test_p_as_wide_as_the_inputs_fails_at_once(digits, classes_per_task):
    X, y, _, _ = digits
    model = published(p=64, bands__max_epochs=0, classes_per_task=classes_per_task)
    for call in (model.fit, model.partial_fit):
        with pytest.raises(
            ValueError, match=r"p=64 leaves no axis .* layer 1, .* works there is 63"
        ):
            call(X, y)


def test_p_as_wide_as_the_inputs_fails_in_a_later_task(digits):
    X, y, _, _ = digits
    model = published(bands__max_epochs=0)
    model.partial_fit(X[y < 5], y[y < 5])
    before = model.decision_function(X)

    with pytest.raises(ValueError, match=r"p=64 leaves no axis .* layer 1, .* works there is 63"):
        model.set_params(p=64).partial_fit(X[y >= 5], y[y >= 5])
    assert_array_equal(model.decision_function(X), before)
    model.set_params(p=63).partial_fit(X[y >= 5], y[y >= 5])
    assert_array_equal(model.classes_, np.arange(10))


def test_p_of_the_first_layer_does_not_fail_in_a_narrow_second_one(digits):
    X, y, _, _ = digits
    model = published(p=20, n_layers=2, bands__max_epochs=0)
    model.partial_fit(X[y < 5], y[y < 5])

    # The second layer is 15 wide, and 30 with the new band: 20 axes are to be had there.
    model.partial_fit(X[y >= 5], y[y >= 5])
    assert model.null_space_dims_[1] == (44, 15)
