"""No parameter is idle in silence: every parameter of every classifier changes what it should."""

import inspect
from contextlib import redirect_stdout
from functools import cache
from io import StringIO

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import Bands, FFNBClassifier, IncrementalDiscriminantAnalysis
from ffnb_sklearn.core.features import FeatureMap

# Three classes that overlap, of unequal sizes; a few further samples of the first two.
RNG = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], [30, 40, 20])
X = 0.5 * RNG.standard_normal((3, 6))[Y]
X += RNG.standard_normal((90, 6)) * [1.0, 2.0, 0.5, 1.0, 1.0, 1.0]
MORE = np.arange(60)


# ---- what a parameter can change. Each function takes an estimator that has learned nothing.


def scores(clf):
    return clf.fit(X, Y).decision_function(X).tolist()


def features(clf):
    return clf.fit(X, Y).transform(X).tolist()


def number_of_tasks(clf):
    return clf.fit(X, Y).n_tasks_


def scores_after_more_samples(clf):
    """Predict, learn a few more samples of known classes, and predict again."""
    clf.fit(X, Y).predict(X)
    clf.partial_fit(X[MORE] + 0.5, Y[MORE])
    return clf.decision_function(X).tolist()


def threshold(clf):
    clf.fit(X, Y)
    try:
        return clf.novelty_threshold(0.1)
    except ValueError as error:
        return str(error)


def sizes_of_chunks(clf):
    clf.fit(X, Y)
    sizes = []
    compute = FeatureMap.__call__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            FeatureMap, "__call__", lambda self, x: sizes.append(len(x)) or compute(self, x)
        )
        clf.predict(X)
    return sizes


def error_of_a_device(clf):
    try:
        clf.fit(X, Y)
    except ValueError as error:
        return str(error)
    return None


def bound(clf):
    """Return the bound on forgetting, which depends on how new neurons are confined."""
    clf.fit(X, Y)
    return clf.forgetting_bound(X[Y < 2]).bound


# ---- a change of each parameter: values of other parameters, the new value, and what differs

COMMON = {
    "shared_band_size": ({}, 9, features),
    "classifier": ({}, "ova", scores),
    "shrinkage": ({}, 0.7, scores),
    "epsilon": ({}, 5.0, scores),
    "rank": ({}, 1, scores),
    "priors": ({}, "empirical", scores),
    "scale": ({}, True, scores),
    "novelty": ({}, True, threshold),
    "refresh": ({}, 10.0, scores_after_more_samples),
    "chunk_size": ({}, 7, sizes_of_chunks),
    "device": ({}, "cuda:99", error_of_a_device),
    "random_state": ({}, 1, features),
    # The lines that are printed are read in the test.
    "verbose": ({}, True, number_of_tasks),
}

TRAINED = {
    **COMMON,
    "band_size": ({}, 2, features),
    "p": ({}, 1, features),
    "n_layers": ({}, 2, features),
    "bands": ({}, Bands(activation="tanh"), features),
    "classes_per_task": ({}, None, number_of_tasks),
    "skip_connection": ({}, False, scores),
    "covariance": ({}, "identity", scores),
}

PUBLISHED = {
    **TRAINED,
    "shared_band_size": ({}, 9, features),
    "bands": ({}, Bands(activation="tanh", left_out=False, learning_rate=0.001), features),
    "skip_connection": ({}, True, features),
    # Pairs of classes keep the automatic shrinkage alone.
    "refresh": ({"shrinkage": "auto"}, 10.0, scores_after_more_samples),
    "random_state": ({"shared_band_size": 9}, 1, features),
    "units": ({}, "absolute", scores),
    "half_bias": ({}, False, scores),
}

# All classes in one task have samples with a loss.
ONE_TASK = {"classes_per_task": None}
DESCENT = {**ONE_TASK, "bands__max_epochs": 3, "bands__learning_rate": 0.1}

OPTIONS = {
    "activation": ({}, "tanh", features),
    "init": ({}, "random", features),
    "gamma": ({}, 1.0, features),
    "null_space": ({}, False, features),
    # With few samples the automatic classifier may use no trained neuron.
    "old_statistics": ({"shrinkage": 0.3}, "zero", scores),
    "batch_norm": ({}, True, features),
    "max_epochs": (ONE_TASK, 3, features),
    "learning_rate": (DESCENT, 0.01, features),
    "momentum": (DESCENT, 0.1, features),
    "weight_decay": (DESCENT, 5.0, features),
    "batch_size": (DESCENT, 7, features),
    # A large ridge fits no single samples.
    "left_out": ({"bands__gamma": 0.1}, False, scores),
    "adaptive_rate": (DESCENT, False, features),
}

SMALL = {"shared_band_size": 8, "random_state": 0, "device": "cpu"}


def discriminant(**parameters):
    return IncrementalDiscriminantAnalysis(**{**SMALL, **parameters})


def ffnb(**parameters):
    return FFNBClassifier().set_params(**{**SMALL, **parameters})


def published(**parameters):
    values = {"bands": None, "random_state": 0, "device": "cpu", **parameters}
    return FFNBClassifier.as_published(**values).set_params(bands__max_epochs=0)


CHANGES = {discriminant: COMMON, ffnb: TRAINED, published: PUBLISHED}


def cases():
    """Return (constructor, name, other values, new value, reading) of all parameters."""
    found = []
    for make, changes in CHANGES.items():
        for name, change in changes.items():
            found.append(pytest.param(make, name, *change, id=f"{make.__name__}-{name}"))
    for name, change in OPTIONS.items():
        found.append(pytest.param(ffnb, f"bands__{name}", *change, id=f"ffnb-bands__{name}"))
    return found


@pytest.mark.parametrize("make", CHANGES)
def test_every_parameter_has_a_change(make):
    assert set(inspect.signature(type(make())).parameters) == set(CHANGES[make])


def test_every_option_of_the_bands_has_a_change():
    assert set(inspect.signature(Bands).parameters) == set(OPTIONS)


def outcome(make, parameters, read):
    """Return the value that a function reads from an estimator, and the printed text."""
    with redirect_stdout(StringIO()) as printed:
        found = read(make(**parameters))
    return found, printed.getvalue()


@cache
def outcome_before(make, others, read):
    """Return the outcome of some values, which another run repeats."""
    before = outcome(make, dict(others), read)
    assert outcome(make, dict(others), read) == before
    return before


# Warnings are errors: a parameter without effect would fail here even if it warned.
@pytest.mark.parametrize(("make", "name", "others", "value", "read"), cases())
def test_a_changed_value_changes_what_it_should(make, name, others, value, read):
    before = outcome_before(make, tuple(others.items()), read)
    assert outcome(make, {**others, name: value}, read) != before


# ---- the search that a reader of the paper would do first


def test_a_search_over_p_and_the_size_of_bands_has_scores_that_differ():
    digits, labels = load_digits(return_X_y=True)
    clf = FFNBClassifier(shared_band_size=50, random_state=0)
    pipeline = make_pipeline(StandardScaler(), clf)
    grid = {"ffnbclassifier__p": [0.5, 0.9, 0.99], "ffnbclassifier__band_size": [1, 3]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise")
    search.fit(digits[:300], labels[:300])
    folds = [search.cv_results_[f"split{number}_test_score"] for number in range(3)]
    # Rows are sizes of bands, and columns values of p.
    by_size_and_p = np.stack(folds, axis=-1).reshape(2, 3, 3)
    assert len({tuple(each) for each in by_size_and_p.reshape(6, 3)}) > 3
    assert np.ptp(by_size_and_p, axis=0).any()
    assert np.ptp(by_size_and_p, axis=1).any()
    assert search.best_estimator_[-1].n_tasks_ == 10


@pytest.mark.filterwarnings("ignore:These parameters have no effect, because fit:UserWarning")
@pytest.mark.parametrize("classes_per_task", [1, None])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_p_is_compared_with_the_number_of_columns(method, classes_per_task):
    digits, labels = load_digits(return_X_y=True)
    clf = FFNBClassifier(p=200, classes_per_task=classes_per_task, random_state=0)
    with pytest.raises(ValueError, match=r"p=200 leaves no axis .* 64"):
        getattr(clf, method)(digits[:600], labels[:600])
    assert not hasattr(clf, "classes_")
