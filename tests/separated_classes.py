"""Classes that are far apart, and models of them, that tests of classifiers have in common."""

from contextlib import contextmanager

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
)

N_FEATURES = 6
N_SHARED = 10

# Eight classes, twenty samples each.
RNG = np.random.default_rng(0)
CODES = np.repeat(np.arange(8), 20)
X = 5.0 * RNG.standard_normal((8, N_FEATURES))[CODES] + RNG.standard_normal((160, N_FEATURES))
NAMES = np.array(["m", "a rather long name", "z", "b", "", "zz top", "k", "Zoe"])


def discriminant(**parameters):
    """Return an IncrementalDiscriminantAnalysis with few shared neurons."""
    return IncrementalDiscriminantAnalysis(
        **{"shared_band_size": N_SHARED, "random_state": 0, **parameters}
    )


def naive(**parameters):
    """Return a naive baseline of few epochs."""
    return NaiveIncrementalClassifier(**{"max_epochs": 30, "random_state": 0, **parameters})


def ffnb(**parameters):
    """Return an FFNBClassifier with bands of one neuron; `fit` learns one task."""
    return FFNBClassifier().set_params(
        **{
            "band_size": 1,
            "classes_per_task": None,
            "shared_band_size": N_SHARED,
            "random_state": 0,
            **parameters,
        }
    )


def learned(model, *tasks, y=CODES, **arguments):
    """Model that has learnt tasks, each given by the numbers of its classes."""
    for task in tasks:
        now = np.isin(CODES, task)
        model.partial_fit(X[now], y[now], **arguments)
    return model


def of(*codes):
    """Samples of some classes."""
    return X[np.isin(CODES, codes)]


def failing(*arguments, **keywords):
    """Take the place of a function that is to fail."""
    raise RuntimeError("told to fail")


@contextmanager
def unchanged(model, samples=X):
    """Check that a block leaves an estimator as it was: the same attributes and predictions."""
    before, expected = vars(model).copy(), model.predict_proba(samples)
    yield
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())
    assert_array_equal(model.predict_proba(samples), expected)


def check_that_a_failing_call_changes_nothing(monkeypatch, estimator, method, where):
    """Check a fresh and a taught estimator after a call in which one function failed.

    Parameters
    ----------
    monkeypatch : MonkeyPatch
        The fixture.
    estimator : callable
        Takes parameters, returns an estimator that knows nothing.
    method : {"fit", "partial_fit"}
        The call.
    where : str
        Full name of the function that fails in it.
    """
    streaming = {"classes_per_task": 1} if hasattr(estimator(), "classes_per_task") else {}
    fresh, model = estimator(**streaming), learned(estimator(**streaming), [0, 1])
    parameters = vars(fresh).copy()
    with unchanged(model), monkeypatch.context() as patch:
        patch.setattr(where, failing)
        for one in (model, fresh):
            with pytest.raises(RuntimeError, match="told to fail"):
                getattr(one, method)(of(2, 3), np.repeat([2, 3], 20))
    assert vars(fresh) == parameters
    with pytest.raises(NotFittedError):
        fresh.predict(X)
    assert_array_equal(
        learned(model, [2]).predict_proba(X), learned(estimator(), [0, 1], [2]).predict_proba(X)
    )
