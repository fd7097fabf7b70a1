"""Baselines in files: what is loaded goes on as what was saved, and forged numbers are refused."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from ffnb_sklearn import load, save
from ffnb_sklearn.exceptions import ModelFileError
from tests.baselines.small_problem import HEADS, five_classes, stream
from tests.saving.model_files import closed, load_bytes, opened, saved

X, Y, X_TEST, _ = five_classes()
NAMES = np.array(["b", "c", "d", "e", "aardvark"])


def head_of(name):
    """Return a head of two classes; a generator draws its numbers."""
    head = clone(HEADS[name])
    if "random_state" in head.get_params():
        head.set_params(random_state=np.random.RandomState(4))
    if name == "RanPAC":
        head.set_params(alpha=None)
    return stream(head, X, NAMES[Y], NAMES[:2])


@pytest.mark.parametrize("name", HEADS)
def test_baseline_goes_on_as_if_it_had_not_been_saved(name, tmp_path):
    head = head_of(name).partial_fit(X[:20], NAMES[Y[:20]], classes=["declared"])
    save(head, tmp_path / "head.ffnb")
    loaded = load(tmp_path / "head.ffnb")
    assert_array_equal(loaded.classes_, head.classes_)
    assert_array_equal(loaded.decision_function(X_TEST), head.decision_function(X_TEST))
    for each in (head, loaded):
        stream(each, X, NAMES[Y], NAMES[2:])
    assert_array_equal(loaded.decision_function(X_TEST), head.decision_function(X_TEST))
    for each in (head, loaded):
        each.fit(X, Y)
    assert_array_equal(loaded.decision_function(X_TEST), head.decision_function(X_TEST))


@pytest.mark.parametrize("name", HEADS)
def test_arrays_of_another_form_are_refused(name, tmp_path):
    content, arrays = opened(saved(head_of(name), tmp_path / "head.ffnb"))
    fitted = content["estimator"][name]["fitted"]
    n_checked = 0
    for attribute, value in fitted.items():
        if attribute == "classes_" or not isinstance(value, dict) or "array" not in value:
            continue
        index = value["array"]
        array = arrays[index]
        not_finite = array.copy()
        not_finite.flat[-1] = np.inf
        longer = np.concatenate([array, array[..., :1]], axis=-1)
        for forged in (array[None], array.astype(int), array.astype("U9"), longer, not_finite):
            changed = [*arrays[:index], forged, *arrays[index + 1 :]]
            with pytest.raises(ModelFileError):
                load_bytes(closed(content, changed), tmp_path / "forged.ffnb")
            n_checked += 1
    assert n_checked >= 10


FIELDS = {
    "NearestClassMean": {
        "classes_": [None, [], {"strings": ["b", "a"]}, {"strings": ["a", "a"]}, "ab"],
        "n_features_in_": [11, -1, "12", None, 2**31],
        "class_counts_": [None, [1.0, 2.0]],
    },
    "FeCAM": {"power_": [0, "x", float("inf"), float("nan"), -0.5, None]},
    "RanPAC": {"alpha_": [None, True, "1", -1.0, float("inf")]},
    "AnaCP": {"draw_seed_": [-1, 0.5, None, True], "sums_": [None]},
}


@pytest.mark.parametrize("name", FIELDS)
def test_numbers_of_another_type_are_refused(name, tmp_path):
    content, arrays = opened(saved(head_of(name), tmp_path / "head.ffnb"))
    for attribute, values in FIELDS[name].items():
        for value in values:
            forged = copy.deepcopy(content)
            forged["estimator"][name]["fitted"][attribute] = value
            with pytest.raises(ModelFileError):
                load_bytes(closed(forged, arrays), tmp_path / "forged.ffnb")


def test_counts_of_no_sample_are_refused(tmp_path):
    content, arrays = opened(saved(head_of("NearestClassMean"), tmp_path / "head.ffnb"))
    index = content["estimator"]["NearestClassMean"]["fitted"]["class_counts_"]["array"]
    for counts in ([0.0, 0.0], [1.0, -1.0]):
        changed = [*arrays[:index], np.array(counts), *arrays[index + 1 :]]
        with pytest.raises(ModelFileError, match="class_counts_"):
            load_bytes(closed(content, changed), tmp_path / "forged.ffnb")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_draws", 10**9, "the solution of AnaCP would take"),
        ("n_layers", 10**7, "n_layers of AnaCP must be at most 1024"),
    ],
)
def test_draws_and_layers_of_a_file_count_as_memory(name, value, message, tmp_path):
    content, arrays = opened(saved(head_of("AnaCP"), tmp_path / "head.ffnb"))
    content["estimator"]["AnaCP"]["parameters"][name] = value
    with pytest.raises(ModelFileError, match=message):
        load_bytes(closed(content, arrays), tmp_path / "forged.ffnb")
