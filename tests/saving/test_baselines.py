"""Baselines in files: what is loaded goes on as what was saved, and forged numbers are refused."""

import copy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from ffnb_sklearn import load, save
from ffnb_sklearn.exceptions import ModelFileError
from tests.baselines.small_problem import HEADS, five_classes, stream
from tests.saving.model_files import closed, load_bytes, opened, saved
from tests.separated_classes import NAMES as SEPARATED_NAMES
from tests.separated_classes import X as SEPARATED

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


def model_of(content):
    """Return the fields of the model in the content of a file."""
    ((_, estimator),) = content["estimator"].items()
    ((_, model),) = estimator["fitted"]["state"]["State"]["model"].items()
    return model


@pytest.mark.parametrize("name", HEADS)
def test_arrays_of_another_form_are_refused(name, tmp_path):
    content, arrays = opened(saved(head_of(name), tmp_path / "head.ffnb"))
    n_checked = 0
    for value in model_of(content).values():
        if not isinstance(value, dict) or "array" not in value:
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
    "NearestClassMean": {"counts": [None, [1.0, 2.0]]},
    "FeCAM": {"power": [0, "x", float("inf"), float("nan"), -0.5, 2.0, None]},
    "RanPAC": {"alpha": [None, True, "1", -1.0, float("inf")], "generator": [None, 3]},
    "AnaCP": {"draw_seed": [-1, 0.5, None, True, 2**31], "sums": [None]},
}


@pytest.mark.parametrize("name", FIELDS)
def test_numbers_of_another_type_are_refused(name, tmp_path):
    content, arrays = opened(saved(head_of(name), tmp_path / "head.ffnb"))
    for field, values in FIELDS[name].items():
        for value in values:
            forged = copy.deepcopy(content)
            model_of(forged)[field] = value
            with pytest.raises(ModelFileError):
                load_bytes(closed(forged, arrays), tmp_path / "forged.ffnb")


def test_counts_of_no_sample_are_refused(tmp_path):
    content, arrays = opened(saved(head_of("NearestClassMean"), tmp_path / "head.ffnb"))
    index = model_of(content)["counts"]["array"]
    for counts in ([0.0, 1.0], [1.0, -1.0]):
        changed = [*arrays[:index], np.array(counts), *arrays[index + 1 :]]
        with pytest.raises(ModelFileError, match="counts must be positive"):
            load_bytes(closed(content, changed), tmp_path / "forged.ffnb")


def test_a_model_of_another_baseline_is_refused(tmp_path):
    content, arrays = opened(saved(head_of("NearestClassMean"), tmp_path / "head.ffnb"))
    (state,) = (each["fitted"]["state"]["State"] for each in content["estimator"].values())
    content["estimator"] = {
        "FeCAM": {"parameters": {}, "fitted": {"state": {"State": state}}},
    }
    with pytest.raises(ModelFileError, match="model must be that of FeCAM"):
        load_bytes(closed(content, arrays), tmp_path / "forged.ffnb")


# Scores of the second class, for samples of three classes, in the first file of baselines: it holds
# fitted attributes instead of a state.
FIRST_SCORES = {
    "NearestClassMean": [6.003698357460864, -16.493316081779312, -4.723868631095309],
    "StreamingLDA": [6.980019969273741, -19.442559593025752, -7.725877510523801],
    "FeCAM": [-0.015169321347115064, -0.15513672590266434, -0.062311966106263],
    "RanPAC": [0.23022945870715664, 0.0, 0.0],
    "KernelLDA": [0.030859524659787002, -0.10734649587961617, -0.028541041055810373],
    "AnaCP": [0.0005659923983005144, 0.000387148464143415, 0.0005421816030603098],
}


def test_the_first_files_of_baselines_load():
    heads = dict(load(Path(__file__).parent / "baselines_1.ffnb").steps)
    assert heads.keys() == FIRST_SCORES.keys()
    rows = np.abs(SEPARATED[[20, 40, 80]])
    for name, scores in FIRST_SCORES.items():
        head = heads[name]
        assert_array_equal(head.classes_, np.unique(SEPARATED_NAMES[[0, 1, 2, 4]]))
        assert sorted(head.class_counts_) == [0.0, 20.0, 20.0, 20.0]
        assert_allclose(head.decision_function(rows)[:, 1], scores, rtol=1e-7, atol=1e-15)
        head.partial_fit(rows, SEPARATED_NAMES[[0, 2, 4]])
        assert head.class_counts_.sum() == 63.0


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
