"""A hundred and more kinds of bad or unusual input.

Each is either learnt, with finite scores and labels that were seen, or refused by an error of a
stated type that names the argument. Refused as a first call, it leaves the estimator unfitted;
refused between tasks, the estimator predicts as before, bit for bit.
"""

from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import DataConversionWarning, NotFittedError

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis

N_FEATURES = 6


def samples(labels, width=N_FEATURES, n=12, seed=0):
    """Well separated classes of n samples, whatever the labels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(labels, n)
    centres = 6.0 * rng.standard_normal((len(labels), width))
    return np.repeat(centres, n, axis=0) + rng.standard_normal((len(y), width)), y


X, Y = samples([2, 3], seed=1)


def ffnb():
    return FFNBClassifier(band_size=1, shared_band_size=10, random_state=0)


def discriminant():
    return IncrementalDiscriminantAnalysis(shared_band_size=10, random_state=0)


@dataclass(frozen=True)
class Case:
    """One call of `partial_fit`, and what is to come of it: None, or an error and its message."""

    call: dict
    parameters: dict
    first: tuple | None = None
    later: tuple | None = None
    # Least accuracy on the task itself, and on earlier ones.
    accuracy: float = 0.9
    old_accuracy: float = 0.9
    width: int = N_FEATURES
    warning: type | None = None

    def learn(self, model):
        model.set_params(**self.parameters)
        model.partial_fit(**self.call)


def case(first, later, **changes):
    names = ("X", "y", "classes", "sample_weight")
    call = {"X": X, "y": Y, **{name: changes.pop(name) for name in names if name in changes}}
    extra = {name: changes.pop(name) for name in Case.__dataclass_fields__ if name in changes}
    return Case(call, changes, first, later, **extra)


def refused(error, message, **changes):
    return case((error, message), (error, message), **changes)


def refused_later(error, message, **changes):
    return case(None, (error, message), **changes)


def learnt(**changes):
    return case(None, None, **changes)


def form(**changes):
    """Form of the same values: shrinkage and ridge need no search."""
    return learnt(shrinkage=0.5, epsilon=0.1, **changes)


def put(value, dtype=np.float64, at=(3, 2)):
    """X with one entry replaced."""
    changed = X.astype(dtype)
    changed[at] = value
    return changed


def column(values):
    """X with one column replaced."""
    changed = X.copy()
    changed[:, 2] = values
    return changed


def labels(*values):
    """Y with its two labels replaced, one object per sample."""
    y = np.empty(len(Y), dtype=object)
    y[:] = [values[0]] * 12 + [values[1]] * 12
    return y


ONES = np.ones(len(Y))
TWO_ROWS = X[[0, -1]]
NO_NUMBER = "could not convert string to float"
LENGTHS = "inconsistent numbers of samples"
MIXED = "must hold numbers, strings or booleans, all of one kind"
UNKNOWN = "Unknown label type: y must hold numbers, strings or booleans"
MAGNITUDE = "X must have magnitudes of at most"
Y_KIND = "y must hold labels of the kind seen before, number"
CLASSES_KIND = "classes must hold labels of the kind seen before, number"

SAMPLES = {
    # What X is.
    "NaN in X": refused(ValueError, "Input X contains NaN", X=put(np.nan)),
    "infinity in X": refused(ValueError, "Input X contains infinity", X=put(np.inf)),
    "minus infinity in X": refused(ValueError, "Input X contains infinity", X=put(-np.inf)),
    "NaN in objects": refused(ValueError, "Input X contains NaN", X=put(np.nan, object)),
    "None in X": refused(ValueError, "Input X contains NaN", X=put(None, object)),
    "a word in X": refused(ValueError, NO_NUMBER, X=put("seven", object)),
    "words for X": refused(ValueError, NO_NUMBER, X=np.full(X.shape, "seven")),
    "a list in X": refused(ValueError, "setting an array element", X=put([1.0, 2.0], object)),
    "a dict in X": refused(TypeError, "float.* must be .* a real number", X=put({}, object)),
    "complex X": refused(ValueError, "Complex data not supported", X=X + 1j),
    "complex objects": refused(TypeError, "complex", X=put(1j, object)),
    "sparse CSR X": form(X=scipy.sparse.csr_matrix(X)),
    "sparse COO X": form(X=scipy.sparse.coo_array(X)),
    "NaN in sparse X": refused(
        ValueError, "Input X contains NaN", X=scipy.sparse.csr_array(put(np.nan))
    ),
    "sparse X of 1e200": refused(ValueError, MAGNITUDE, X=scipy.sparse.csr_array(1e200 * X)),
    "too wide sparse X": refused_later(
        ValueError, "X has 12 features, but .* 6", X=scipy.sparse.csr_array(np.hstack([X, X]))
    ),
    "flat X": refused(ValueError, "Expected 2D array, got 1D array", X=X[:, 0]),
    "3-d X": refused(ValueError, "Found array with dim 3", X=X[:, :, None]),
    "a number for X": refused(TypeError, "Expected sequence or array-like", X=3.0),
    "None for X": refused(ValueError, "Expected 2D array, got scalar", X=None),
    "a dict for X": refused(ValueError, LENGTHS, X={"a": [1.0]}),
    "a text for X": refused(ValueError, LENGTHS, X="X"),
    "a generator for X": refused(TypeError, "Expected sequence or array-like", X=(x for x in X)),
    "ragged X": refused(ValueError, "inhomogeneous", X=[[1.0, 2.0], [3.0]] * 12),
    "no sample": refused(ValueError, "0 sample", X=X[:0], y=Y[:0]),
    "no feature": refused(ValueError, r"0 feature\(s\)", X=X[:, :0]),
    "too narrow X": refused_later(ValueError, "X has 5 features, but .* 6", X=X[:, 1:]),
    "too wide X": refused_later(ValueError, "X has 12 features, but .* 6", X=np.hstack([X, X])),
    "transposed X": refused(ValueError, LENGTHS, X=X.T),
    "X of 1e200": refused(ValueError, MAGNITUDE, X=1e200 * X),
    "one entry of 1e200": refused(ValueError, MAGNITUDE, X=put(1e200)),
    # Forms of X that are good.
    "X in lists": form(X=X.tolist()),
    "X in objects": form(X=X.astype(object)),
    "numbers as text": form(X=X.astype(str)),
    "float32 X": form(X=X.astype(np.float32)),
    "float16 X": form(X=X.astype(np.float16)),
    "integer X": form(X=X.astype(int)),
    "byte X": form(X=np.abs(X).astype(np.uint8)),
    "boolean X": form(X=X > 0),
    "big-endian X": form(X=X.astype(">f8")),
    "Fortran X": form(X=np.asfortranarray(X)),
    "X with negative strides": form(X=X[::-1, ::-1], y=Y[::-1], old_accuracy=0.0),
    "a tensor for X": form(X=torch.tensor(X)),
    "a matrix of masked entries": form(X=np.ma.masked_array(X)),
    # Values of X that are hard.
    "X of 1e12": learnt(X=1e12 * X, old_accuracy=0.0),
    "X of 1e-12": learnt(X=1e-12 * X, accuracy=0.2),
    "X of 1e60": learnt(X=1e60 * X, old_accuracy=0.0),
    "X of 1e-60": learnt(X=1e-60 * X, accuracy=0.5),
    "X of 1e100": refused(ValueError, MAGNITUDE, X=1e100 * X),
    "one entry of 1e100": refused(ValueError, MAGNITUDE, X=put(1e100)),
    "one entry of 1e12": learnt(X=put(1e12), accuracy=0.0, old_accuracy=0.0),
    "columns of many scales": learnt(
        X=X * np.logspace(-12, 12, 6),
        accuracy=0.5,
        old_accuracy=0.0,
    ),
    "an offset of 1e12": learnt(X=column(1e12 + X[:, 2]), accuracy=0.0, old_accuracy=0.0),
    "a constant column": learnt(X=column(7.0)),
    "a column of zeros": learnt(X=column(0.0)),
    "a repeated column": learnt(X=column(X[:, 1])),
    "collinear columns": learnt(X=column(X[:, 0] - 2.0 * X[:, 1])),
    "only zeros": learnt(X=np.zeros_like(X), accuracy=0.5),
    "only ones": learnt(X=np.ones_like(X), accuracy=0.5),
    "one sample, repeated in both classes": learnt(X=np.tile(X[0], (24, 1)), accuracy=0.5),
    "one sample, repeated in each class": learnt(X=np.repeat(TWO_ROWS, 12, axis=0)),
    "a sample in both classes": learnt(X=np.vstack([X[:12], X[:12]]), accuracy=0.5),
    "more features than samples": learnt(
        X=samples([2, 3], 300, 3, seed=1)[0], y=np.repeat([2, 3], 3), width=300
    ),
    "one feature": learnt(
        X=np.r_[X[:12, :1] - 40.0, X[12:, :1] + 40.0], width=1, p=0, old_accuracy=0.7
    ),
    # How many samples there are.
    "one sample": learnt(X=X[:1], y=Y[:1]),
    "one sample per class": learnt(X=TWO_ROWS, y=[2, 3]),
    "one class": learnt(X=X[:12], y=Y[:12]),
    "a sample per class of many": learnt(
        X=samples(range(2, 30), n=1, seed=1)[0], y=[*range(2, 30)]
    ),
    "one sample against a thousand": learnt(
        X=np.vstack([np.repeat(X[:12], 84, axis=0), X[-1:]]), y=np.repeat([2, 3], [1008, 1])
    ),
}

TARGETS = {
    "too few labels": refused(ValueError, LENGTHS, y=Y[1:]),
    "too many labels": refused(ValueError, LENGTHS, y=[*Y, 3]),
    "no labels": refused(ValueError, "y.* None", y=None),
    "an empty list of labels": refused(ValueError, LENGTHS, y=[]),
    "one label for all": refused(ValueError, "y should be a 1d array", y=2),
    "a text for y": refused(ValueError, "y should be a 1d array", y="ab"),
    "NaN in y": refused(ValueError, "Input y contains NaN", y=np.where(Y == 2, np.nan, 3.0)),
    "infinity in y": refused(
        ValueError, "Input y contains infinity", y=np.where(Y == 2, np.inf, 3)
    ),
    "continuous y": refused(ValueError, "Unknown label type: continuous", y=Y + 0.5),
    "indicators for y": refused(ValueError, "y should be a 1d array", y=np.eye(2)[Y - 2]),
    "3-d y": refused(ValueError, "Found array with dim 3", y=Y[:, None, None]),
    "ragged y": refused(ValueError, f"{UNKNOWN}.* got list", y=[[1], [1, 2]] * 12),
    "complex y": refused(ValueError, f"{UNKNOWN}|Complex data", y=Y + 1j),
    "bytes in y": refused(ValueError, UNKNOWN, y=np.where(Y == 2, b"a", b"b")),
    "None in y": refused(ValueError, "Input y contains NaN", y=labels(None, 3)),
    "NaN in objects of y": refused(ValueError, "Input y contains NaN", y=labels(np.nan, 3)),
    "numbers and words": refused(ValueError, UNKNOWN, y=labels(2, "three")),
    "numbers and booleans": refused(ValueError, UNKNOWN, y=labels(2, True)),
    "words and booleans": refused(ValueError, UNKNOWN, y=labels("two", True)),
    "words and None": refused(ValueError, "Input y contains NaN", y=labels("two", None)),
    "tuples in y": refused(ValueError, UNKNOWN, y=labels((1, 2), (3, 4))),
    "dates in y": refused(ValueError, "y must not hold times", y=Y.astype("M8[Y]")),
    "numbers as objects": form(y=labels(2, 3)),
    "a list of numbers and words": refused(ValueError, f"y {MIXED}", y=[*Y[1:], "three"]),
    "a list of numbers and booleans": refused(ValueError, f"y {MIXED}", y=[*Y[1:], True]),
    "words after numbers": refused_later(ValueError, Y_KIND, y=np.where(Y == 2, "two", "three")),
    "digits as words after numbers": refused_later(ValueError, Y_KIND, y=Y.astype(str)),
    "words as objects after numbers": refused_later(ValueError, Y_KIND, y=labels("two", "three")),
    "booleans after numbers": refused_later(ValueError, Y_KIND, y=Y == 3),
    "labels in a column": form(y=Y[:, None], warning=DataConversionWarning),
    "labels in a list": form(y=Y.tolist()),
    "whole floats as labels": form(y=Y.astype(float)),
    "small unsigned labels": form(y=Y.astype(np.uint8)),
    "large unsigned labels": form(y=Y.astype(np.uint64)),
    "negative labels": form(y=-Y),
    "labels beyond 32 bits": form(y=Y + 2**62),
}

WEIGHTS = {
    "negative weight": refused(
        ValueError, "Negative values in data passed to `sample_weight`", sample_weight=-ONES
    ),
    "weights of zero": refused(ValueError, "(?i)weights? .*(zero|0)", sample_weight=0 * ONES),
    "NaN in weights": refused(
        ValueError, "Input sample_weight contains NaN", sample_weight=np.nan * ONES
    ),
    "infinite weights": refused(
        ValueError, "Input sample_weight contains infinity", sample_weight=np.inf * ONES
    ),
    "too few weights": refused(ValueError, "sample_weight.shape == ", sample_weight=ONES[1:]),
    "too many weights": refused(ValueError, "sample_weight.shape == ", sample_weight=[*ONES, 1.0]),
    "weights in a column": refused(
        ValueError, "Sample weights must be 1D", sample_weight=ONES[:, None]
    ),
    "words as weights": refused(ValueError, NO_NUMBER, sample_weight=["heavy"] * len(Y)),
    "complex weights": refused(ValueError, "Complex data not supported", sample_weight=ONES + 1j),
    "a dict of weights": refused(
        TypeError, "float.* argument must be .*dict", sample_weight={2: 1.0}
    ),
    "weights of 1e20 and features of 1e65": learnt(
        sample_weight=1e20 * ONES, X=1e65 * X, old_accuracy=0.0, accuracy=0.0
    ),
    "weights of 1e-20 and of 1e20": learnt(
        sample_weight=np.where(Y == 2, 1e-20, 1e20), old_accuracy=0.0, accuracy=0.0
    ),
    "weights of 1e-20": learnt(sample_weight=1e-20 * ONES, accuracy=0.0),
    "one weight for all": learnt(sample_weight=2.0),
    "weights of 1e12": learnt(sample_weight=1e12 * ONES, old_accuracy=0.0),
    "weights of 1e-12": learnt(sample_weight=1e-12 * ONES, old_accuracy=0.0),
    "boolean weights": learnt(sample_weight=np.arange(len(Y)) % 2 == 0),
    "weights that leave out a class": learnt(sample_weight=Y == 2, accuracy=0.5),
}

DECLARED = {
    "classes of words": refused(ValueError, CLASSES_KIND, classes=["two", "three"]),
    "classes of booleans": refused(ValueError, CLASSES_KIND, classes=[True, False]),
    "classes of both": refused(ValueError, f"classes {MIXED}", classes=[2, "three"]),
    "NaN in classes": refused(ValueError, "Input classes contains NaN", classes=[2.0, np.nan]),
    "continuous classes": refused(ValueError, "Unknown label type: continuous", classes=[2.5, 3.0]),
    "a number for classes": refused(ValueError, "classes must be one-dimensional", classes=4),
    "2-d classes": refused(ValueError, "classes must be one-dimensional", classes=[[2, 3], [4, 5]]),
    "a dict for classes": refused(ValueError, "classes must be one-dimensional", classes={2: 3}),
    "no class": form(classes=[]),
    "classes twice": form(classes=[2, 3, 2, 3]),
    "classes that leave some out": form(classes=[2, 9]),
    "a thousand classes": form(classes=np.arange(1000)),
    "whole floats as classes": form(classes=[2.0, 7.0]),
}

# Values that a parameter must not have, by name; the message names the parameter.
WRONG = {
    "p": [-1, 1.0, 0.0, -0.5, np.nan, "auto", None, (), (2, 3), [0.5, 0.5], ["a"], [1.0]],
    "band_size": [0, -1, 1.5, "auto", None],
    "n_layers": [0, 1.0, "two", None],
    "shared_band_size": [-1, 10.0, "all", None],
    "skip_connection": [1, "yes", None],
    "bands__activation": ["gelu", 1, None],
    "bands__init": ["zeros", None],
    "bands__gamma": [0.0, -1.0, np.nan, np.inf, "small", None],
    "bands__null_space": [1, "yes", None],
    "covariance": ["tied", None],
    "shrinkage": [-0.1, 1.1, np.nan, "automatic", None],
    "epsilon": [0.0, -1.0, np.nan, np.inf, "small", None],
    "rank": [0, -3, 2.5, "full"],
    "bands": ["multi", {"gamma": 1.0}, 3],
    "bands__left_out": ["no"],
    "bands__adaptive_rate": [None],
    "chunk_size": [0, -1, 2.5, None],
    "classifier": ["svm", None],
    "bands__old_statistics": ["replay", None],
    "bands__max_epochs": [-1, 0.5, None],
    "bands__learning_rate": [0.0, -0.1, "fast", None],
    "bands__momentum": [-0.1, 1.0, None],
    "bands__weight_decay": [-1e-3, None],
    "bands__batch_size": [0, 2.5, None],
    "bands__batch_norm": [1, "no", None],
    "classes_per_task": [0, 1.5, "all"],
    "device": ["gpu", "cuda:99", "", 0, None],
    "random_state": [-1, 0.5, "seed"],
    "verbose": [-1, "loud", None],
}

PARAMETERS = {
    f"{name}={value!r}": refused(
        (TypeError, ValueError), name.removeprefix("bands__"), **{name: value}
    )
    for name, values in WRONG.items()
    for value in values
} | {
    "p as wide as X": refused(ValueError, "p=6 leaves no axis", p=6),
    "p wider than X": refused(ValueError, "p=100 leaves no axis", p=100),
    "p for another number of layers": refused(
        ValueError, "p must have one entry per layer", p=(0.5,), n_layers=2
    ),
    "p wider than a layer": case(
        None,
        (ValueError, "n_layers cannot change between tasks"),
        p=4,
        n_layers=2,
    ),
    "the largest p": learnt(p=5),
    "almost all energy": learnt(p=1.0 - 1e-12),
    "a rank above the number of samples": learnt(rank=10**6),
    "NumPy scalars": learnt(
        p=np.float64(0.5), band_size=np.int64(2), bands__null_space=np.bool_(True)
    ),
    "a ridge of 1e-300 for the bands": learnt(bands__gamma=1e-300),
    "a ridge of 1e300": learnt(epsilon=1e300, bands__gamma=1e300, accuracy=0.0, old_accuracy=0.0),
}

CASES = SAMPLES | TARGETS | WEIGHTS | DECLARED | PARAMETERS


# A classifier without bands learns the cases without parameters of bands. Samples, labels and
# weights are refused by the common base.
CASES_BY_KIND = [(ffnb, name) for name in CASES]
for case_name, one_case in CASES.items():
    is_learnt = one_case.first is None or one_case.later is None
    has_parameters = set(one_case.parameters) <= set(discriminant().get_params())
    if has_parameters and (is_learnt or case_name in PARAMETERS):
        CASES_BY_KIND.append((discriminant, case_name))
of_all_cases = pytest.mark.parametrize(("make", "name"), CASES_BY_KIND)


def test_there_are_a_hundred():
    assert len(CASES) >= 100
    assert len(SAMPLES | TARGETS | WEIGHTS | DECLARED) >= 100


def seen_labels(one):
    """Labels of the samples that have a weight."""
    y = np.ravel(one.call["y"])
    return np.unique(y[np.broadcast_to(one.call.get("sample_weight", 1.0), y.shape) > 0])


def assert_sensible(model, one, seen):
    """Finite scores, probabilities that add up, labels that were seen, columns for all."""
    given = one.call["X"]
    # Labels whose samples all weigh 0 count as declared.
    declared = [*np.unique(one.call["y"]), *one.call.get("classes", [])]
    assert_array_equal(model.classes_, np.union1d(seen, declared))
    known = np.isin(model.classes_, seen)
    scores = model.decision_function(given)
    assert np.isfinite(scores).all()
    if scores.ndim == 2 and not known.all():
        assert (scores[:, ~known].max(axis=1) < scores[:, known].min(axis=1)).all()
    probabilities = model.predict_proba(given)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities >= 0.0).all()
    assert (probabilities[:, ~known] == 0.0).all()
    assert np.isfinite(model.transform(given)).all()
    predicted = model.predict(given)
    assert np.isin(predicted, seen).all()
    assert np.mean(predicted == np.ravel(one.call["y"])) >= one.accuracy


@cache
def learned_before(make, width):
    """Return an estimator with two classes of samples of a width, which has predicted."""
    old_X, old_y = samples([0, 1], width)
    model = make()
    if make is ffnb and width == 1:
        model.set_params(p=0)
    model.partial_fit(old_X, old_y)
    model.predict(old_X)
    return model


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning")
@of_all_cases
def test_as_a_first_call(make, name):
    one, model = CASES[name], make()
    if one.first is None:
        with pytest.warns(one.warning) if one.warning else nullcontext():
            one.learn(model)
        assert_sensible(model, one, seen_labels(one))
        return
    parameters, before = model.get_params(), vars(model).copy()
    with pytest.raises(one.first[0], match=one.first[1]):
        one.learn(model)
    assert vars(model).keys() == before.keys()
    with pytest.raises(NotFittedError):
        model.predict(X)
    # All attributes are the same, so the refused call has left no trace.
    model.set_params(**parameters)
    assert vars(model) == before


@of_all_cases
def test_between_tasks(make, name):
    one = CASES[name]
    old_X, old_y = samples([0, 1], one.width)
    model = deepcopy(learned_before(make, one.width))
    if one.later is None:
        with pytest.warns(one.warning) if one.warning else nullcontext():
            one.learn(model)
        assert_sensible(model, one, np.union1d([0, 1], seen_labels(one)))
        assert model.score(old_X, old_y) >= one.old_accuracy
        return
    parameters, expected = model.get_params(), model.predict_proba(old_X)
    before = vars(model).copy()
    with pytest.raises(one.later[0], match=one.later[1]):
        one.learn(model)
    model.set_params(**parameters)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items() if key not in parameters)
    assert_array_equal(model.predict_proba(old_X), expected)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "transform"])
@pytest.mark.parametrize(
    "name", ["NaN in X", "a word in X", "NaN in sparse X", "flat X", "no sample", "too wide X"]
)
def test_samples_to_predict_are_checked_too(name, method):
    model = ffnb().partial_fit(X, Y)
    error, message = CASES[name].later
    with pytest.raises(error, match=message):
        getattr(model, method)(CASES[name].call["X"])


TABLE = np.array([["red", 1.0], ["blue", 2.0]], dtype=object)


@pytest.mark.parametrize("given", [TABLE, pd.DataFrame(TABLE), ["some text", "more"]], ids=type)
def test_text_is_told_of_encoders(given):
    with pytest.raises(ValueError, match=r"could not convert string to float|1D array") as caught:
        ffnb().fit(given, [0, 1])
    assert np.ndim(given) == 1 or "OneHotEncoder" in caught.value.__notes__[0]


def test_missing_values_name_a_pipeline_with_an_imputer():
    rows = X.copy()
    rows[3, 2] = np.nan
    with pytest.raises(ValueError, match="contains NaN") as caught:
        IncrementalDiscriminantAnalysis().fit(rows, Y)
    assert "make_continual_pipeline(SimpleImputer(), classifier)" in caught.value.__notes__[0]


def test_an_impossible_p_is_told_that_it_may_be_an_int():
    with pytest.raises(ValueError, match=r"'p' parameter .* instance of 'int'"):
        FFNBClassifier(p="auto").fit(X, Y)
