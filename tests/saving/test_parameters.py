"""No parameter of a file runs code, opens a path or allocates much at its first use."""

import copy
import pickle
from functools import reduce
from operator import getitem

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from torch import nn

from ffnb_sklearn import (
    SkeletonDescriptor,
    TorchFeatureExtractor,
    load,
    make_continual_pipeline,
    save,
)
from ffnb_sklearn.backbones import ConvNet, MirrorShift, SkeletonGCN
from ffnb_sklearn.exceptions import ModelFileError
from ffnb_sklearn.pipeline._fingerprint import give_same_output
from tests.saving.model_files import classifier, closed, load_bytes, opened, places, saved
from tests.separated_classes import X, learned

IMAGES = np.random.default_rng(0).integers(256, size=(4, 3, 8, 8), dtype=np.uint8)


def extractor(**parameters):
    small = {"stem_width": 2, "widths": (2, 3), "blocks": (1, 1)}
    return TorchFeatureExtractor(ConvNet, backbone_params=small, **parameters)


def fitted_extractor():
    return extractor(views=MirrorShift(1)).fit(IMAGES)


def layered_extractor():
    return extractor(layers=["0"]).fit(IMAGES)


def fitted_graph_network():
    parameters = {"n_nodes": 3, "n_node_features": 6, "pooled": True}
    rows = np.random.default_rng(0).random((4, 18))
    return TorchFeatureExtractor(SkeletonGCN, backbone_params=parameters, input_shape=(3, 6)).fit(
        rows
    )


def fitted_descriptor():
    return SkeletonDescriptor(n_chunks=2).fit(np.random.default_rng(0).random((2, 4, 5, 3)))


def texts():
    model = make_continual_pipeline(HashingVectorizer(n_features=4096), classifier())
    return model.partial_fit(["a parcel", "an invoice"], [0, 1])


def unfitted_texts():
    return make_continual_pipeline(HashingVectorizer(n_features=4096), classifier())


OWN = "ffnb_sklearn.backbones:ConvNet"


# Estimator, the key whose value is forged, and the value. A key that is written as an attribute,
# with an underscore at its end, belongs to the learned state.
FORGED = [
    # Dotted names.
    (fitted_extractor, "backbone", "subprocess:run"),
    (fitted_extractor, "backbone", {"factory": "subprocess:run"}),
    (fitted_extractor, "backbone", {"dtype": "float64"}),
    (texts, "tokenizer", {"factory": OWN}),
    (texts, "tokenizer", OWN),
    (texts, "dtype", {"dtype": "os.system"}),
    (fitted_extractor, "augment", {"ImageTransform": {"transform": OWN}}),
    # Paths.
    (texts, "input", "filename"),
    (texts, "input", "file"),
    (texts, "memory", "/tmp"),
    (fitted_extractor, "weights", "/etc/hostname"),
    # Memory at the first use.
    (texts, "ngram_range", {"tuple": [1, 10**9]}),
    (texts, "n_columns", 2**40),
    (texts, "n_features_in", 2**31),
    (fitted_extractor, "views", {"MirrorShift": {"shift": 20000}}),
    (fitted_extractor, "resize", 10**6),
    (texts, "n_layers", 10**9),
    (fitted_extractor, "backbone_params", {"dict": [["stem_width", 30000]]}),
    (fitted_extractor, "backbone_params", {"dict": [["stem_width", 3]]}),
    (fitted_extractor, "backbone_params", {"dict": [["blocks", [10**9] * 4]]}),
    (fitted_extractor, "backbone_params", {"dict": [["blocks", [1000] * 100]]}),
    (fitted_extractor, "backbone_params", {"dict": [["unknown", 3]]}),
    (fitted_graph_network, "backbone_params", {"dict": [["n_nodes", 10**6]]}),
    (fitted_extractor, "n_features_out_", 10**9),
    (fitted_extractor, "input_shape_", {"tuple": [3, 8, 9]}),
    (layered_extractor, "layer_widths_", {"dict": [["0", 10**9]]}),
    (fitted_descriptor, "n_chunks", 10**9),
    (fitted_descriptor, "frame_shape_", {"tuple": [1, 10**6, 3]}),
    (fitted_extractor, "n_features_in_", 2**40),
    (unfitted_texts, "n_features", 2**30),
]

# Texts in the messages that differ from the key.
NAMED = {
    "tokenizer": "tokenizer|kind",
    "augment": "augment|kind",
    "layer_widths_": "n_features_out_",
    "n_columns": "projection",
    "backbone_params": "backbone_params|unknown|state_dict_",
}


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize(
    ("make", "key", "value"), FORGED, ids=[f"{key}={value!s:.40}" for _, key, value in FORGED]
)
def test_hostile_value_is_refused_by_name(make, key, value, tmp_path):
    content, arrays = opened(saved(make(), tmp_path / "model.ffnb"))
    path = next(one for one in places(content) if one and one[-1] == key)
    forged = copy.deepcopy(content)
    reduce(getitem, path[:-1], forged)[key] = value
    with pytest.raises(ModelFileError, match=NAMED.get(key, key)):
        load_bytes(closed(forged, arrays), tmp_path / "forged.ffnb")


LINEAR = f"{nn.Linear.__module__}:Linear"
STATES = {
    "path": "/dev/zero",
    "nothing": None,
    "list": [1.0],
    "names of paths": {"dict": [["weight", "/dev/zero"], ["bias", "/dev/zero"]]},
    "texts": {"dict": [["weight", {"strings": ["/dev/zero"]}]]},
    "numbers": {"dict": [["weight", 1.0]]},
    "no names": {"dict": [[1, {"array": 0}]]},
}


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("state", STATES)
def test_the_state_of_any_network_maps_names_to_arrays_of_numbers(state, tmp_path):
    parameters = {"in_features": 6, "out_features": 2}
    network = TorchFeatureExtractor(nn.Linear, backbone_params=parameters).fit(X)
    content, arrays = opened(saved(network, tmp_path / "model.ffnb"))
    content["estimator"]["TorchFeatureExtractor"]["fitted"]["state_dict_"] = STATES[state]
    forged = closed(content, arrays)
    with pytest.raises(ModelFileError, match="state_dict_ must be a mapping of names to arrays"):
        load_bytes(forged, tmp_path / "forged.ffnb", factories={LINEAR: nn.Linear})
    network.state_dict_ = "/dev/zero"
    with pytest.raises(ValueError, match="state_dict_ must be a mapping of names to arrays"):
        save(network, tmp_path / "model.ffnb")


COPIES = {
    "itself": lambda one: one,
    "clone": clone,
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "fitted again": lambda one: one.fit(IMAGES),
    "frozen": FrozenEstimator,
    "step": lambda one: make_continual_pipeline(one, classifier()),
}


def image_file(folder):
    """Write an image, and return its path."""
    image = pytest.importorskip("PIL.Image")
    path = folder / "0.png"
    image.fromarray(IMAGES[0].transpose(1, 2, 0)).save(path)
    return path


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("forms", [list, np.array, lambda one: [(one[0], 0)]])
def test_no_text_is_a_path_for_an_extractor_from_a_file(how, forms, tmp_path):
    path = image_file(tmp_path)
    texts = forms([str(path)])
    original = extractor(input_shape=(3, 8, 8)).fit(texts)
    save(original, tmp_path / "model.ffnb")
    loaded = COPIES[how](load(tmp_path / "model.ffnb"))
    calls = [lambda: loaded.fit(texts, [0])]
    if how not in ("clone", "step"):
        calls += [lambda: loaded.transform(texts)]
    if how == "frozen":
        calls = calls[1:]
    for call in calls:
        with pytest.raises(ValueError, match=r"X\[0\] is a text.*pathlib\.Path"):
            call()


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_path_objects_are_paths_for_an_extractor_from_a_file(tmp_path):
    path = image_file(tmp_path)
    original = extractor().fit(IMAGES)
    save(original, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    expected = original.transform([str(path)])
    np.testing.assert_array_equal(loaded.transform([path]), expected)
    np.testing.assert_array_equal(loaded.transform(IMAGES[:1]), expected)
    # Later files and merges do not depend on it.
    save(loaded, tmp_path / "model.ffnb")
    assert give_same_output(loaded, original)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("is_fitted", [False, True])
def test_a_forged_first_step_opens_no_text_of_a_service(is_fitted, tmp_path):
    path = image_file(tmp_path)
    model = make_continual_pipeline(extractor(), classifier())
    if is_fitted:
        model.partial_fit(IMAGES, [0, 1, 0, 1])
    save(model, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    texts = [str(path), str(path)]
    calls = [lambda: loaded.partial_fit(texts, [0, 1]), lambda: loaded.fit(texts, [0, 1])]
    if is_fitted:
        calls += [lambda: loaded.predict(texts), lambda: loaded.predict_proba(texts)]
    for call in calls:
        with pytest.raises(ValueError, match=r"X\[0\] is a text"):
            call()


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (HashingVectorizer(n_features=2**30), "n_features of HashingVectorizer"),
        (HashingVectorizer(input="filename"), "input of HashingVectorizer .*'content'"),
        (HashingVectorizer(ngram_range=(1, 99)), "ngram_range .*at most 16"),
        (extractor(weights="a.pt"), "TorchFeatureExtractor.weights cannot be saved before fit"),
        (SkeletonDescriptor(n_chunks=10**9), "n_chunks .*at most 1024"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("is_step", [False, True])
def test_values_that_no_file_holds_are_not_saved(estimator, message, is_step, tmp_path):
    if is_step:
        estimator = make_continual_pipeline(estimator, classifier())
    with pytest.raises(ValueError, match=message):
        save(estimator, tmp_path / "model.ffnb")
    assert not list(tmp_path.iterdir())


def test_numbers_of_any_size_are_kept(tmp_path):
    model = learned(classifier(bands__batch_size=2**70, bands__batch_norm=True), [0, 1])
    save(model, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    assert loaded.bands.batch_size == 2**70
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("parameters", [{"stem_width": 3}, {"unknown": 3}, {"blocks": (1,)}])
def test_parameters_of_the_next_fit_are_not_saved(parameters, tmp_path):
    model = fitted_extractor()
    expected = model.backbone_params
    save(model.set_params(backbone_params=parameters), tmp_path / "model.ffnb")
    assert load(tmp_path / "model.ffnb").backbone_params == expected


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_paths_are_left_out(tmp_path):
    torch.save(ConvNet().state_dict(), tmp_path / "weights.pt")
    model = TorchFeatureExtractor(ConvNet, weights=tmp_path / "weights.pt").fit(IMAGES)
    save(model, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    assert loaded.weights is None
    np.testing.assert_array_equal(loaded.transform(IMAGES), model.transform(IMAGES))
    # The estimator that was saved keeps its path.
    assert model.weights == tmp_path / "weights.pt"
