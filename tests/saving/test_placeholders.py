"""Every meta-estimator of scikit-learn is kept with the estimators of this package inside it."""

import inspect
import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import all_estimators

from ffnb_sklearn import (
    ContinualPipeline,
    IncrementalDiscriminantAnalysis,
    OpenSetClassifier,
    load,
    make_continual_pipeline,
    save,
)
from ffnb_sklearn.exceptions import ModelFileError
from tests.saving import model_files
from tests.saving.model_files import closed, load_bytes, opened, with_text, without_choice
from tests.separated_classes import CODES, X

skops = pytest.importorskip("skops.io")

# Some of the samples suffice.
ROWS, CODES = X[::2], CODES[::2]

# Two classes, because some meta-estimators take no more.
LABELS = CODES % 2
TARGET = ROWS[:, 0] + 0.5 * ROWS[:, 1]
PAIRS = np.stack([LABELS, CODES % 3 == 0], axis=1)

# Parameters by which a constructor takes other estimators.
PARAMETERS = {"estimator", "estimators", "regressor", "steps", "transformer_list", "transformers"}


def discriminant(**parameters):
    """Return an unfitted classifier without bands that makes no choice, which takes time."""
    return model_files.discriminant(**{"shrinkage": 0.5, "epsilon": 0.1, **parameters})


def regressor():
    """Return a regressor whose outermost estimator is of this package."""
    return make_continual_pipeline(StandardScaler(), Ridge())


def scaler():
    """Return a transformer whose outermost estimator is of this package."""
    return make_continual_pipeline(StandardScaler())


def importances(fitted):
    """Return a weight for each column."""
    return np.arange(fitted.n_features_in_)


GRID = {"shrinkage": [0.1, 0.5]}
GETTER = f"{__name__}.importances"

# The parameters and the targets of a meta-estimator, by its name.
CASES = {
    "AdaBoostClassifier": ({"estimator": discriminant(), "n_estimators": 2}, LABELS),
    "AdaBoostRegressor": ({"estimator": regressor(), "n_estimators": 2}, TARGET),
    "BaggingClassifier": ({"estimator": discriminant(), "n_estimators": 2}, LABELS),
    "BaggingRegressor": ({"estimator": regressor(), "n_estimators": 2}, TARGET),
    "CalibratedClassifierCV": ({"estimator": discriminant(), "cv": 2}, LABELS),
    "ClassifierChain": ({"estimator": discriminant()}, PAIRS),
    "ColumnTransformer": ({"transformers": [("a", scaler(), [0, 1])]}, LABELS),
    "FeatureUnion": ({"transformer_list": [("a", scaler()), ("b", scaler())]}, LABELS),
    "FixedThresholdClassifier": ({"estimator": discriminant()}, LABELS),
    "FrozenEstimator": ({"estimator": discriminant().fit(ROWS, LABELS)}, LABELS),
    "GridSearchCV": ({"estimator": discriminant(), "param_grid": GRID, "cv": 2}, LABELS),
    "HalvingGridSearchCV": ({"estimator": discriminant(), "param_grid": GRID, "cv": 2}, LABELS),
    "HalvingRandomSearchCV": (
        {"estimator": discriminant(), "param_distributions": GRID, "n_candidates": 2, "cv": 2},
        LABELS,
    ),
    "IterativeImputer": ({"estimator": regressor(), "max_iter": 1}, LABELS),
    "MultiOutputClassifier": ({"estimator": discriminant()}, PAIRS),
    "MultiOutputRegressor": ({"estimator": regressor()}, ROWS[:, :2]),
    "OneVsOneClassifier": ({"estimator": discriminant()}, CODES % 3),
    "OneVsRestClassifier": ({"estimator": discriminant()}, CODES),
    "OutputCodeClassifier": ({"estimator": discriminant(), "random_state": 0}, CODES),
    "Pipeline": ({"steps": [("a", scaler()), ("b", discriminant())]}, CODES),
    "RANSACRegressor": ({"estimator": regressor(), "min_samples": 20}, TARGET),
    "RFE": ({"estimator": discriminant(), "importance_getter": importances}, LABELS),
    "RFECV": ({"estimator": discriminant(), "importance_getter": importances, "cv": 2}, LABELS),
    "RandomizedSearchCV": (
        {"estimator": discriminant(), "param_distributions": GRID, "n_iter": 2, "cv": 2},
        LABELS,
    ),
    "RegressorChain": ({"estimator": regressor()}, ROWS[:, :2]),
    "SelectFromModel": ({"estimator": discriminant(), "importance_getter": importances}, LABELS),
    "SelfTrainingClassifier": (
        {"estimator": discriminant()},
        np.where(np.arange(len(LABELS)) % 3, LABELS, -1),
    ),
    "SequentialFeatureSelector": (
        {"estimator": discriminant(), "n_features_to_select": 1, "cv": 2},
        LABELS,
    ),
    "StackingClassifier": (
        {"estimators": [("a", discriminant())], "final_estimator": discriminant(), "cv": 2},
        LABELS,
    ),
    "StackingRegressor": ({"estimators": [("a", regressor())], "cv": 2}, TARGET),
    "TransformedTargetRegressor": ({"regressor": regressor()}, TARGET),
    "TunedThresholdClassifierCV": (
        {"estimator": discriminant(), "cv": 2, "thresholds": 5},
        LABELS,
    ),
    "VotingClassifier": ({"estimators": [("a", discriminant())]}, CODES),
    "VotingRegressor": ({"estimators": [("a", regressor())]}, TARGET),
}

META_ESTIMATORS = {}
for _name, _class in all_estimators():
    if PARAMETERS & inspect.signature(_class).parameters.keys():
        META_ESTIMATORS[_name] = _class


def answers(estimator):
    """Return what an estimator makes of the samples, by method."""
    found = {}
    for method in ("predict", "predict_proba", "decision_function", "transform"):
        if hasattr(estimator, method):
            found[method] = getattr(estimator, method)(ROWS)
    assert found
    return found


def assert_kept(estimator, path, **keywords):
    """Save and load an estimator, compare all that it returns, and return what was loaded."""
    save(estimator, path)
    loaded = load(path, **keywords)
    assert type(loaded) is type(estimator)
    expected = answers(estimator)
    for method, values in answers(loaded).items():
        assert_array_equal(values, expected.pop(method))
    assert not expected
    return loaded


@pytest.mark.parametrize("name", META_ESTIMATORS)
def test_a_meta_estimator_is_kept(name, tmp_path):
    parameters, target = CASES[name]
    estimator = META_ESTIMATORS[name](**parameters)
    keywords = {}
    if "importance_getter" in parameters:
        # The estimators of this package have no importances, and functions need trust.
        keywords["trusted"] = [GETTER]
    loaded = assert_kept(estimator.fit(ROWS, target), tmp_path / "model.ffnb", **keywords)
    again = loaded.fit(ROWS, target)
    assert answers(again).keys() == answers(estimator).keys()


@pytest.mark.parametrize("name", META_ESTIMATORS)
def test_an_unfitted_meta_estimator_is_kept(name, tmp_path):
    parameters, _ = CASES[name]
    trusted = [GETTER] if "importance_getter" in parameters else []
    save(META_ESTIMATORS[name](**parameters), tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb", trusted=trusted)
    assert loaded.get_params(deep=True).keys() >= parameters.keys()


VARIANTS = {
    "open set": lambda: BaggingClassifier(OpenSetClassifier(discriminant(novelty=True)), 2),
    "trained bands": lambda: VotingClassifier([("a", without_choice())], voting="soft"),
    "scores": lambda: GridSearchCV(
        discriminant(), GRID, scoring=["f1_macro", "roc_auc"], refit="f1_macro", cv=2
    ),
    "splits": lambda: GridSearchCV(discriminant(), GRID, cv=StratifiedKFold(2)),
    "values of a grid": lambda: GridSearchCV(
        BaggingClassifier(n_estimators=2),
        {"estimator": [discriminant(), without_choice()]},
        cv=2,
    ),
    "isotonic": lambda: CalibratedClassifierCV(discriminant(), method="isotonic", cv=2),
    "temperature": lambda: CalibratedClassifierCV(discriminant(), method="temperature", cv=2),
    "meta in meta": lambda: make_pipeline(
        StandardScaler(), BaggingClassifier(CalibratedClassifierCV(discriminant(), cv=2), 2)
    ),
    "within our pipeline": lambda: ContinualPipeline(
        [("votes", VotingClassifier([("a", discriminant())], voting="soft"))]
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_are_kept(variant, tmp_path):
    assert_kept(VARIANTS[variant]().fit(ROWS, LABELS), tmp_path / "model.ffnb")


def search():
    """Return a fitted search."""
    return GridSearchCV(discriminant(), GRID, cv=2).fit(ROWS, LABELS)


def test_saving_changes_nothing_and_a_shared_estimator_stays_shared(tmp_path):
    votes = VotingClassifier([("a", discriminant())]).fit(ROWS, LABELS)
    (inner,) = votes.estimators_
    before = inner._state
    save(votes, tmp_path / "model.ffnb")
    assert votes.estimators_ == [inner]
    assert inner._state is before
    loaded = load(tmp_path / "model.ffnb")
    assert loaded.named_estimators_["a"] is loaded.estimators_[0]
    assert type(loaded.estimators_[0]) is IncrementalDiscriminantAnalysis


def test_a_loaded_inner_estimator_learns_on(tmp_path):
    model = search()
    save(model, tmp_path / "model.ffnb")
    task = (ROWS[:9] + 40.0, np.full(9, 7))
    learned = load(tmp_path / "model.ffnb").best_estimator_.partial_fit(*task)
    expected = model.best_estimator_.partial_fit(*task)
    assert_array_equal(learned.predict_proba(ROWS), expected.predict_proba(ROWS))


def forged(change_content, change_bytes=None):
    """Return a file with a search whose content was changed."""
    file = io.BytesIO()
    save(search(), file)
    content, arrays = opened(file.getvalue())
    stored = content["estimator"]["skops"]
    change_content(stored)
    if change_bytes is not None:
        index = stored[1]["array"]
        arrays[index] = np.frombuffer(change_bytes(arrays[index].tobytes()), np.uint8)
    return closed(content, arrays)


def other_numbers(schema):
    """Let all placeholders have a number that no estimator has."""
    parts = schema.values() if isinstance(schema, dict) else schema
    for part in parts:
        if isinstance(part, dict) and part.get("__class__") == "Placeholder":
            (number,) = part["content"]["content"]
            number["content"] = "99"
        elif isinstance(part, dict | list):
            other_numbers(part)


FORGED = {
    "missing": (lambda stored: stored[2].clear(), None, "IndexError"),
    "no list": (lambda stored: stored.__setitem__(2, {"dict": []}), None, "must be a list"),
    "number": (lambda stored: None, with_text(other_numbers), "IndexError"),
    "state": (
        lambda stored: stored[2][0]["IncrementalDiscriminantAnalysis"]["parameters"].update(
            shrinkage=7.0
        ),
        None,
        "shrinkage",
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_estimators_inside_are_refused(what, tmp_path):
    change_content, change_bytes, message = FORGED[what]
    content = forged(change_content, change_bytes)
    with pytest.raises(ModelFileError, match=message):
        load_bytes(content, tmp_path / "forged.ffnb")
