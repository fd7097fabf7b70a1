"""A small file takes little memory, whatever it asks for: one budget for all its parts."""

import io
import json
import re
import zipfile
from functools import partial, reduce
from operator import getitem

import numpy as np
import pytest
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from ffnb_sklearn import TorchFeatureExtractor, load, make_continual_pipeline, save
from ffnb_sklearn.backbones import SkeletonGCN
from ffnb_sklearn.exceptions import ModelFileError
from ffnb_sklearn.saving._container import Budget, spend_on_text
from ffnb_sklearn.saving._foreign import spend_on_skops
from tests.saving.model_files import (
    classifier,
    closed,
    load_bytes,
    naive_classifier,
    opened,
    places,
    put,
    saved,
)
from tests.saving.test_parameters import fitted_descriptor, texts
from tests.separated_classes import CODES, NAMES, X, learned

BAND = {"n_neurons": 1 << 13, "n_inputs": 1 << 12, "mirrored": True, "seed": 0}


def check_refused(content, arrays, path, match):
    """Check that a forged file is refused."""
    with pytest.raises(ModelFileError, match=match):
        load_bytes(closed(content, arrays), path)


def several(content, arrays, n_copies):
    """Return content and arrays of a pipeline with several copies of an estimator."""
    text = json.dumps(content["estimator"])
    steps = []
    for i in range(n_copies):
        shifted = partial(_shifted, by=i * len(arrays))
        steps.append({"tuple": [f"s{i}", json.loads(re.sub(r'"array": (\d+)', shifted, text))]})
    parameters = {"steps": steps, "memory": None, "verbose": False}
    pipeline = {"ContinualPipeline": {"parameters": parameters, "fitted": {}}}
    return {"format": 1, "estimator": pipeline}, arrays * n_copies


def _shifted(found, by):
    """Return the text of the number of an array, which is larger by some."""
    return f'"array": {int(found[1]) + by}'


def test_shared_bands_of_a_file_count_together(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "ffnb_sklearn.saving._codec.draw_shared_band", lambda *args, **_: drawn.append(args)
    )
    forged = {"format": 1, "estimator": {"tuple": [{"drawn_band": BAND}] * 5}}
    check_refused(forged, [], tmp_path / "model.ffnb", "8192 shared neurons .*other parts")
    # Each takes 0.27 GB.
    assert len(drawn) == 3


@pytest.mark.parametrize(
    "band",
    [
        {**BAND, "n_neurons": 1 << 27},
        {**BAND, "n_inputs": 1 << 27},
        {**BAND, "n_neurons": 1 << 30, "n_inputs": 0},
        {**BAND, "n_neurons": 1 << 30, "n_inputs": -1},
        {**BAND, "n_neurons": -(1 << 30), "n_inputs": -(1 << 30)},
    ],
    ids=range(5),
)
def test_large_shared_band_is_refused(band, tmp_path):
    forged = {"format": 1, "estimator": {"drawn_band": band}}
    check_refused(forged, [], tmp_path / "model.ffnb", "shared (neurons|band)")


def test_an_array_has_one_reference(tmp_path):
    content, arrays = opened(saved(learned(classifier(), [0, 1]), tmp_path / "model.ffnb"))
    moments = next(path for path in places(content) if path[-1:] == ("moments",))
    (first, *_) = reduce(getitem, moments, content)["tuple"]
    forged = put(content, moments, {"tuple": [first, first]})
    check_refused(forged, arrays, tmp_path / "model.ffnb", "another reference")
    for number in (-1, len(arrays)):
        forged = put(content, (*moments, "tuple", 0, "ClassMoments", "mean", "array"), number)
        check_refused(forged, arrays, tmp_path / "model.ffnb", "missing")


def test_projections_of_a_file_count_together(tmp_path):
    content, arrays = opened(saved(texts(), tmp_path / "model.ffnb"))
    for path in list(places(content)):
        if path[-1:] == ("n_features_in",) or path[-2:] == ("RandomProjection", "n_features"):
            content = put(content, path, 1 << 24)
    content, arrays = several(content, arrays, 2)
    match = r"steps\[1\].*projection of 16777216 features .*bytes of memory"
    check_refused(content, arrays, tmp_path / "model.ffnb", match)


def test_labels_of_unequal_length_are_refused(tmp_path):
    model = learned(classifier(), [0], [1], y=NAMES[CODES])
    content, arrays = opened(saved(model, tmp_path / "model.ffnb"))
    tasks = next(path for path in places(content) if path[-1:] == ("task_classes",))
    first, second = (one["array"] for one in reduce(getitem, tasks, content)["tuple"])
    arrays[first] = np.array(["a" * 10**6])
    arrays[second] = np.arange(10**5).astype(str)
    check_refused(content, arrays, tmp_path / "model.ffnb", "100... labels of 4000000 bytes")


def test_descriptors_and_pairings_count(tmp_path):
    content, arrays = opened(saved(fitted_descriptor(), tmp_path / "model.ffnb"))
    path = next(path for path in places(content) if path[-1:] == ("frame_shape_",))
    forged = put(content, path, {"tuple": [1000, 3]})
    forged, arrays = several(forged, arrays, 4)
    check_refused(forged, arrays, tmp_path / "model.ffnb", "n_chunks times frame_shape_")
    network = TorchFeatureExtractor(
        SkeletonGCN, backbone_params={"n_nodes": 3, "n_node_features": 3}, input_shape=(3, 3)
    ).fit(np.zeros((2, 9)) + np.arange(9))
    content, arrays = opened(saved(network, tmp_path / "model.ffnb"))
    path = next(path for path in places(content) if path[-1:] == ("backbone_params",))
    arguments = [["n_nodes", 1024], ["n_node_features", 3], ["n_pairings", 512]]
    forged = put(content, path, {"dict": arguments})
    check_refused(forged, arrays, tmp_path / "model.ffnb", "512 pairings")


@pytest.mark.parametrize("n_layers", [0, 1, 3, 10**30])
def test_layers_of_a_naive_network_are_those_of_its_bands(n_layers, tmp_path):
    content, arrays = opened(saved(naive_classifier(), tmp_path / "model.ffnb"))
    path = next(path for path in places(content) if path[-2:] == ("NaiveNetwork", "n_layers"))
    assert reduce(getitem, path, content) == 2
    forged = put(content, path, n_layers)
    check_refused(forged, arrays, tmp_path / "model.ffnb", "n_layers must be the number of bands")
    bands = next(path for path in places(content) if path[-2:] == ("Layers", "bands"))
    outputs = next(path for path in places(content) if path[-2:] == ("NaiveNetwork", "outputs"))
    without_bands = put(put(forged, bands, {"tuple": []}), outputs, {"tuple": []})
    check_refused(without_bands, arrays, tmp_path / "model.ffnb", "n_layers must be")


@pytest.mark.parametrize("text", ["[],", '{"":0},', '"a",', "9.5,", "\\u20ac"])
def test_json_text_that_expands_is_refused(text, monkeypatch):
    monkeypatch.setattr("ffnb_sklearn.saving._container._ALLOWANCE", 10**6)
    whole = text.encode() * (200_000 // len(text))
    with pytest.raises(ValueError, match="JSON text"):
        spend_on_text(Budget(0), whole)


def test_json_text_is_counted_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("ffnb_sklearn.saving._container._ALLOWANCE", 1000)
    forged = {"format": 1, "estimator": [[]] * 1000}
    check_refused(forged, [], tmp_path / "model.ffnb", "the JSON text would take")


def skops_bytes(n_references, numbers, array):
    """Return bytes in the format of skops with an array that has several references."""
    content = [{"file": "0.npy", "__id__": number} for number in numbers[:n_references]]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("schema.json", json.dumps({"content": content}))
        archive.writestr("0.npy", array)
    return file.getvalue()


def packed(n_bytes):
    """Return the bytes of a sparse array that is compressed."""
    file = io.BytesIO()
    np.savez_compressed(file, data=np.zeros(n_bytes, np.uint8))
    return file.getvalue()


def test_arrays_in_skops_count_at_each_reference():
    array = bytes(10**6)
    shared = skops_bytes(4000, [7] * 4000, array)
    spend_on_skops(Budget(len(shared)), shared)
    for numbers in (range(1, 4001), [None] * 4000, [0] * 4000):
        data = skops_bytes(4000, list(numbers), array)
        with pytest.raises(ValueError, match="arrays of skops"):
            spend_on_skops(Budget(len(data)), data)
    data = skops_bytes(20, list(range(1, 21)), packed(10**8))
    with pytest.raises(ValueError, match="arrays of skops"):
        spend_on_skops(Budget(len(data)), data)


def test_forged_step_with_many_references_is_refused(tmp_path):
    pytest.importorskip("skops")
    step = FunctionTransformer(kw_args={"a": np.zeros(10**6), "b": np.ones(3)})
    content, arrays = opened(saved(make_continual_pipeline(step), tmp_path / "model.ffnb"))
    path = next(path for path in places(content) if path[-1:] == ("skops",))
    index = reduce(getitem, path, content)[1]["array"]
    data = arrays[index].tobytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    text = json.loads(members["schema.json"])
    arguments = text["content"]["content"]["kw_args"]["content"]
    for i in range(200):
        arguments[f"c{i}"] = {**arguments["a"], "__id__": i + 1}
    members["schema.json"] = json.dumps(text)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    arrays[index] = np.frombuffer(file.getvalue(), np.uint8)
    check_refused(content, arrays, tmp_path / "model.ffnb", "arrays of skops")


def test_ordinary_files_pass(tmp_path):
    model = make_continual_pipeline(StandardScaler(), classifier(shared_band_size=500))
    learned(model, range(8))
    save(model, tmp_path / "model.ffnb")
    np.testing.assert_array_equal(load(tmp_path / "model.ffnb").predict(X), model.predict(X))
