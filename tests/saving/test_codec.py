"""Values of a file have the types of their fields; forged JSON raises no other error."""

import copy
import io
import zipfile
from functools import reduce
from operator import getitem
from typing import Any, TypeVar

import numpy as np
import pytest
from typing_extensions import TypeAliasType

from ffnb_sklearn.exceptions import ModelFileError
from ffnb_sklearn.saving._codec import fits
from tests.saving.model_files import (
    check_refused,
    closed,
    file_of,
    load_bytes,
    opened,
    places,
    signed,
)

FIELDS = {
    "n_features_in": [-1, 0, 7, 2**31, "6", None, 6.0],
    "classes": [None, [], {"strings": ["a", "b", "b"]}, {"array": 10**6}, {"array": 1.5}],
    "task_classes": [{"tuple": []}, [], None],
    "moments": [{"tuple": []}, [], {"tuple": [None]}],
    "weight": [0.0, -1.0, float("nan"), "1", True],
    "layer": [1.0, None, 0, 3, 2**70],
    "trained": [None, 3, {"Layers": {"n_inputs": 6, "bands": {"tuple": []}}}, {"tuple": []}],
    "owners": [None, {"tuple": [0, 1, 2, 3]}, {"array": 10**6}],
    "layers": [None, 3, {"Layers": {"n_inputs": 6, "bands": {"tuple": []}}}],
    "null_space_dims": [None, {"tuple": []}, {"tuple": [3]}],
    "n_newest": [-1, 5, 1.0, None],
    "settings": [None, {"Settings": {}}, {"StandardScaler": {"parameters": {}, "fitted": {}}}],
    "drawn_band": [[], None, {}],
    "n_neurons": [10**9, -1, 8],
    "n_inputs": [10**9, -1, 5],
    "model": [None, 3, {"Bands": {"parameters": {}, "fitted": {}}}],
    "gamma": [-1.0, "x", [1.0]],
    "random_state": [-1, {"generator": {"dict": []}}, {"number": 0}],
    "parameters": [None, [], {"another": 1}],
    "fitted": [None, {"state": 3}, {"_state": None}],
}


@pytest.mark.parametrize("name", FIELDS)
def test_field_of_another_type_or_size_is_refused(name, tmp_path):
    content, arrays = opened(file_of("deep"))
    path = min((path for path in places(content) if path[-1:] == (name,)), key=len)
    for value in FIELDS[name]:
        forged = copy.deepcopy(content)
        reduce(getitem, path[:-1], forged)[name] = value
        check_refused(closed(forged, arrays), tmp_path / "model.ffnb")


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[" * 100_000 + b"]" * 100_000,
        b'{"format": NaN, "estimator": 3}',
        b'{"format": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b'{"format": 0, "estimator": null}',
        b'{"format": 1, "estimator": {"Unknown": {}}}',
        b'{"format": "1"}',
        b'{"format": 1, "estimator": {}}',
        b'{"format": 1, "estimator": {"tuple": []}}',
        b"[1]",
    ],
    ids=range(11),
)
def test_forged_json_is_refused(text, tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("model.json", text)
        archive.comment = b"ffnb_sklearn model, sha256 " + b"0" * 64
    check_refused(signed(file.getvalue()), tmp_path / "model.ffnb")


def test_nested_estimators_are_refused(tmp_path):
    nested = {"parameters": {}, "fitted": "wrong"}
    for _ in range(150):
        nested = {"parameters": {"estimator": {"FrozenEstimator": nested}}, "fitted": {}}
    content = {"format": 1, "estimator": {"FrozenEstimator": nested}}
    check_refused(closed(content, []), tmp_path / "model.ffnb")


def test_fields_may_be_annotated_with_a_named_alias():
    # `NDArray` is one since NumPy 2.5.
    number = TypeVar("number", bound=np.generic)
    array = np.ndarray[tuple[Any, ...], np.dtype[number]]
    alias = TypeAliasType("alias", array, type_params=(number,))[np.float64]
    assert fits(np.zeros(2), alias)
    assert not fits(np.zeros(2, dtype=int), alias)
    assert not fits(np.array([np.nan]), alias)


@pytest.mark.parametrize("kind", ["strings", "tuple", "dict"])
def test_a_string_is_no_list(kind, tmp_path):
    forged = {"format": 1, "estimator": {kind: "a" * 100}}
    with pytest.raises(ModelFileError, match="must be a list"):
        load_bytes(closed(forged, []), tmp_path / "model.ffnb")


@pytest.mark.parametrize("content", [{"scalar": 3}, {"skops": ["PCA", "bytes", []]}])
def test_a_number_or_a_step_without_its_array_is_refused(content, tmp_path):
    forged = {"format": 1, "estimator": content}
    with pytest.raises(ModelFileError, match="the content must be an array"):
        load_bytes(closed(forged, []), tmp_path / "model.ffnb")
