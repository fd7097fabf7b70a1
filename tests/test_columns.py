"""Columns of different units are named by a warning, once; rare and constant columns are not."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import (
    ColumnSpreadWarning,
    FFNBClassifier,
    JointClassifier,
    make_continual_pipeline,
)

IRIS, SPECIES = load_iris(return_X_y=True)


def classifier(**parameters):
    return FFNBClassifier(**{"shared_band_size": 20, "random_state": 0, **parameters})


def rescaled(factor, column=1):
    X = IRIS.copy()
    X[:, column] *= factor
    return X


@pytest.mark.parametrize("make", [FFNBClassifier, JointClassifier])
@pytest.mark.parametrize("band_size", [0, 1])
@pytest.mark.parametrize("rank", [None, 1])
def test_one_column_in_another_unit_is_named(make, band_size, rank):
    estimator = make(shared_band_size=20, band_size=band_size, rank=rank)
    message = r"in column 1, and less .* that in 3, 2, 0\. "
    with pytest.warns(ColumnSpreadWarning, match=message) as w:
        estimator.fit(rescaled(1e3), SPECIES)
    assert len(w) == 1
    assert w[0].filename == __file__
    with pytest.warns(ColumnSpreadWarning, match=r"in column 0, and less .* that in 1\. "):
        estimator.fit(rescaled(1e-3), SPECIES)


def test_only_the_first_task_warns():
    X, first = rescaled(1e3), SPECIES < 2
    estimator = classifier()
    with pytest.warns(ColumnSpreadWarning) as w:
        estimator.partial_fit(X[first], SPECIES[first])
    assert w[0].filename == __file__
    estimator.partial_fit(X[~first], SPECIES[~first])
    estimator.partial_fit(IRIS, SPECIES)
    with pytest.warns(ColumnSpreadWarning) as w:
        classifier(classes_per_task=1).fit(X, SPECIES)
    assert len(w) == 1


def test_columns_are_named_by_their_names():
    pandas = pytest.importorskip("pandas")
    names = ["sepal length", "sepal width" + "x" * 10**4, "petal length", "petal width"]
    with pytest.warns(ColumnSpreadWarning, match=r"that in 'petal width', 'petal length', ") as w:
        classifier().fit(pandas.DataFrame(rescaled(1e3), columns=names), SPECIES)
    assert len(str(w[0].message)) < 1000


def test_of_many_columns_some_are_named():
    with pytest.warns(ColumnSpreadWarning, match=r"that in 19, 14, 17, 9, 18 and 18 more"):
        classifier().fit(*load_breast_cancer(return_X_y=True))
    with pytest.warns(ColumnSpreadWarning, match=r"in column 12, and"):
        classifier().fit(*load_wine(return_X_y=True))


def test_a_scaler_is_the_remedy():
    for load in (load_wine, load_breast_cancer):
        X, y = load(return_X_y=True)
        make_continual_pipeline(StandardScaler(), classifier()).fit(X, y)


@pytest.mark.parametrize("factor", [1e-40, 1.0, 1e40])
def test_other_columns_do_not_warn(factor):
    digits, y = load_digits(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ColumnSpreadWarning)
        # Some pixels are constant, some are seldom other than zero.
        classifier().fit(factor * digits, y)
        classifier().fit(factor * np.column_stack([IRIS, np.full(150, 7.1), IRIS + 1e6]), SPECIES)
        classifier().fit(factor * IRIS[[0, 60, 120]], SPECIES[[0, 60, 120]])
        classifier().fit(factor * rescaled(50.0), SPECIES)
        classifier().fit(np.zeros((4, 2)), [0, 0, 1, 1])


def test_one_small_column_of_many_does_not_warn():
    X = np.random.default_rng(0).normal(size=(60, 20))
    X[:, 3] *= 1e-3
    classifier().fit(X, np.arange(60) % 3)
    with pytest.warns(ColumnSpreadWarning, match=r"that in 3, 5\. "):
        classifier().fit(X * np.where(np.arange(20) == 5, 2e-3, 1.0), np.arange(60) % 3)
