"""Bands: the options of the bands in one object, which is reached by name from everywhere."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import ffnb_sklearn
from ffnb_sklearn import (
    Bands,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    make_continual_pipeline,
)
from tests.separated_classes import CODES, X

SMALL = {
    "band_size": 1,
    "classes_per_task": None,
    "shared_band_size": 5,
    "shrinkage": 0.5,
    "epsilon": 0.1,
    "random_state": 0,
}


def by_set_params():
    return FFNBClassifier(**SMALL).set_params(bands__activation="tanh", bands__gamma=1.0)


def by_pipeline():
    pipe = make_continual_pipeline(FFNBClassifier(**SMALL))
    names = {f"ffnbclassifier__bands__{name}": value for name, value in OPTIONS.items()}
    return pipe.set_params(**names)


def by_grid():
    grid = {f"bands__{name}": [value] for name, value in OPTIONS.items()}
    return GridSearchCV(FFNBClassifier(**SMALL), grid, cv=2).fit(X, CODES).best_estimator_


OPTIONS = {"activation": "tanh", "gamma": 1.0}
ROUTES = {
    "set_params": by_set_params,
    "another object": lambda: FFNBClassifier(**SMALL, bands=Bands()).set_params(
        bands=Bands(activation="tanh"), bands__gamma=1.0
    ),
    "pipeline": by_pipeline,
    "grid": by_grid,
    "clone": lambda: clone(by_set_params()),
}


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("route", ROUTES)
def test_options_are_set_by_name(route, method):
    expected = FFNBClassifier(**SMALL, bands=Bands(**OPTIONS))
    found = clone(ROUTES[route]())
    scores = [getattr(one, method)(X, CODES).decision_function(X) for one in (found, expected)]
    assert_array_equal(*scores)
    plain = getattr(FFNBClassifier(**SMALL), method)(X, CODES).decision_function(X)
    assert np.abs(plain - scores[0]).max() > 1e-9


def test_options_are_set_by_name_in_the_published_model():
    model = FFNBClassifier.as_published(p=75, bands__max_epochs=0)
    assert (model.p, model.bands.max_epochs, model.bands.gamma) == (75, 0, 0.001)


def test_no_estimator_changes_the_defaults():
    FFNBClassifier().set_params(bands__gamma=5.0)
    assert FFNBClassifier().set_params(bands__max_epochs=1).bands.gamma == Bands().gamma


@pytest.mark.parametrize("bands", ["multi", {"gamma": 1.0}, Bands])
def test_another_object_is_refused_by_every_call_that_learns(bands):
    model = FFNBClassifier(**SMALL).fit(X, CODES)
    scores = model.decision_function(X)
    model.set_params(bands=bands)
    for call in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match="The 'bands' parameter of FFNBClassifier must be"):
            call(X, CODES)
    # Predictions do not read the options of the bands.
    assert_array_equal(model.decision_function(X), scores)


def test_constructors_and_the_package_have_few_names():
    of_both = [
        *("classifier", "shrinkage", "epsilon", "rank", "priors", "scale", "novelty", "refresh"),
        *("chunk_size", "device", "random_state", "verbose"),
    ]
    discriminant = list(inspect.signature(IncrementalDiscriminantAnalysis).parameters)
    assert discriminant == ["shared_band_size", *of_both]
    of_bands = ["band_size", "p", "n_layers", "bands", "classes_per_task"]
    of_both.insert(1, "covariance")
    ffnb = list(inspect.signature(FFNBClassifier).parameters)
    assert ffnb == [*of_bands, "shared_band_size", "skip_connection", *of_both]
    assert len(ffnb_sklearn.__all__) <= 20
