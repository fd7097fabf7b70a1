"""Every estimator in an estimator is found in its attributes, and a file nests them eight deep."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Bunch

from ffnb_sklearn import ContinualPipeline, load, save
from ffnb_sklearn.exceptions import ModelFileError
from ffnb_sklearn.saving._checks import nested_estimators
from tests.saving.model_files import classifier, closed, load_bytes, opened, saved
from tests.separated_classes import CODES, X

INNER = PCA()


def array_of(*values, shape=(-1,)):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)


PLACES = {
    "attribute": INNER,
    "list of tuples": [("a", INNER)],
    "dictionary": {"a": {"b": INNER}},
    "key": {INNER: 1},
    "bunch": Bunch(a=INNER),
    "set": {INNER},
    "array": array_of(INNER, INNER, shape=(2, 1))[:1],
    "array without axes": array_of(INNER, shape=()),
    "masked array": np.ma.MaskedArray(array_of(INNER), mask=[True]),
    "frozen": FrozenEstimator(INNER),
    "pipeline": Pipeline([("a", INNER)]),
    "object": SimpleNamespace(a=[INNER]),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_estimator_is_found_in_any_attribute(place):
    outer = BaseEstimator()
    vars(outer).update({"_get_param_names": list, "fitted_": PLACES[place]})
    found = list(nested_estimators(outer))
    assert found[0] is outer
    assert found.count(INNER) == 1


def test_a_repeated_estimator_counts_in_each_place():
    inner = PCA()
    for _ in range(3):
        inner = FeatureUnion([("a", inner)] * 10)
    assert sum(isinstance(one, PCA) for one in nested_estimators(inner)) == 1000
    for _ in range(4):
        inner = FeatureUnion([("a", inner)] * 10)
    with pytest.raises(ValueError, match="estimators must hold at most 1048576 objects"):
        list(nested_estimators(inner))


def nested(wrap, n_levels):
    """Return a fitted pipeline of some levels, which a classifier with its bands ends."""
    inner = StandardScaler()
    for _ in range(n_levels - 2):
        inner = wrap(inner)
    return ContinualPipeline([("first", inner), ("clf", classifier())]).fit(X, CODES % 3)


WRAPS = {
    "pipeline": lambda inner: Pipeline([("a", inner)]),
    "continual pipeline": lambda inner: ContinualPipeline([("a", inner)]),
    "frozen": lambda inner: FrozenEstimator(inner.fit(X, None)),
    "union": lambda inner: FeatureUnion([("a", inner)]),
    "columns": lambda inner: ColumnTransformer([("a", inner, slice(0, 6))]),
}


@pytest.mark.parametrize("wrap", WRAPS)
def test_estimators_are_nested_in_eight_levels_at_most(wrap, tmp_path):
    if wrap in ("union", "columns"):
        pytest.importorskip("skops.io")
    model = nested(WRAPS[wrap], 8)
    save(model, tmp_path / "model.ffnb")
    np.testing.assert_array_equal(load(tmp_path / "model.ffnb").predict(X), model.predict(X))
    with pytest.raises(ValueError, match="nested at most 8 levels deep"):
        save(nested(WRAPS[wrap], 9), tmp_path / "deeper.ffnb")
    assert not (tmp_path / "deeper.ffnb").exists()


def test_a_file_of_more_levels_is_refused(tmp_path):
    content, arrays = opened(saved(nested(WRAPS["pipeline"], 8), tmp_path / "model.ffnb"))
    content["estimator"] = {
        "Pipeline": {
            "parameters": {"steps": [{"tuple": ["a", content["estimator"]]}], "memory": None},
            "fitted": {},
        }
    }
    with pytest.raises(ModelFileError, match="nested at most 8 levels deep"):
        load_bytes(closed(content, arrays), tmp_path / "forged.ffnb")
