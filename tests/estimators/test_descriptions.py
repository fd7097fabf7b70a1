"""Describing, copying and saving an estimator never solves its classifier."""

import copy
import inspect
import pickle

import joblib
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr

from ffnb_sklearn import FFNBClassifier, make_continual_pipeline
from ffnb_sklearn.core import model as core_model
from tests.separated_classes import CODES, X, failing

DESCRIPTIONS = {
    "repr": repr,
    "str": str,
    "_repr_html_": lambda one: one._repr_html_(),
    "_repr_mimebundle_": lambda one: one._repr_mimebundle_(),
    "estimator_html_repr": estimator_html_repr,
    "dir": dir,
    "vars": lambda one: repr(vars(one)),
    "getmembers": inspect.getmembers,
    "get_params": lambda one: one.get_params(),
    "clone": clone,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "joblib.hash": joblib.hash,
    "n_features_in_": lambda one: one.n_features_in_,
}
ESTIMATORS = {
    "gaussian": FFNBClassifier,
    "pairs": lambda **parameters: FFNBClassifier(classifier="ovo", **parameters),
    "pipeline": lambda **parameters: make_continual_pipeline(FFNBClassifier(**parameters)),
}


def estimator(kind="gaussian"):
    return ESTIMATORS[kind](shared_band_size=10, random_state=0)


@pytest.fixture
def never_solved(monkeypatch):
    """Let any solution fail."""
    monkeypatch.setattr(core_model, "solve", failing)


@pytest.mark.usefixtures("never_solved")
@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_description_solves_nothing(kind, description):
    fitted = estimator(kind).fit(X, CODES)
    DESCRIPTIONS[description](fitted)
    with pytest.raises(RuntimeError, match="told to fail"):
        fitted.predict(X)


@pytest.mark.usefixtures("never_solved")
def test_number_of_parameters_solves_nothing_and_the_choice_does():
    fitted = estimator().fit(X, CODES)
    assert fitted.n_parameters_ > 0
    for name in ("shrinkage_", "epsilon_"):
        with pytest.raises(RuntimeError, match="told to fail"):
            getattr(fitted, name)


def test_the_choice_is_displayed_once_it_is_solved():
    model = estimator()
    with pytest.raises(NotFittedError):
        _ = model.shrinkage_
    model.fit(X, CODES)
    assert not {"shrinkage_", "epsilon_"} & set(dir(model))
    assert "n_parameters_" in dir(model)
    assert 0.0 < model.shrinkage_ <= 1.0
    assert model.epsilon_ > 0.0
    assert {"shrinkage_", "epsilon_"} <= set(dir(model))
