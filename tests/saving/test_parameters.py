"""No parameter of a file runs code, opens a path, hangs or allocates much at its first use."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer

from ffnb_sklearn import (
    SkeletonDescriptor,
    TorchFeatureExtractor,
    load,
    make_continual_pipeline,
    save,
)
from ffnb_sklearn.backbones import ConvNet, MirrorShift, SkeletonGCN
from ffnb_sklearn.exceptions import ModelFileError
from ffnb_sklearn.saving._estimators import _KINDS
from ffnb_sklearn.saving._parameters import check_parameter
from tests.saving.model_files import classifier, closed, load_bytes, opened, places, put, saved
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
    parameters = {"n_nodes": 3, "n_node_features": 6}
    rows = np.random.default_rng(0).random((4, 18))
    return TorchFeatureExtractor(SkeletonGCN, backbone_params=parameters, input_shape=(3, 6)).fit(
        rows
    )


def fitted_descriptor():
    return SkeletonDescriptor(n_chunks=2).fit(np.random.default_rng(0).random((2, 4, 5, 3)))


def texts():
    model = make_continual_pipeline(HashingVectorizer(n_features=4096), classifier(band_size=0))
    return model.partial_fit(["a parcel", "an invoice"], [0, 1])


# Estimator, the key whose value is forged, and the value. A key that is written as an attribute,
# with an underscore at its end, belongs to the learned state.
FORGED = [
    # Dotted names.
    (fitted_extractor, "backbone", "subprocess:run"),
    (fitted_extractor, "backbone", f"{ConvNet.__module__}:ConvNet"),
    (fitted_extractor, "backbone", {"factory": "subprocess:run"}),
    (texts, "tokenizer", {"factory": f"{ConvNet.__module__}:ConvNet"}),
    (texts, "analyzer", {"factory": f"{ConvNet.__module__}:ConvNet"}),
    (fitted_extractor, "augment", {"estimator": {}}),
    # Paths.
    (texts, "input", "filename"),
    (texts, "input", "file"),
    (fitted_extractor, "weights", "/etc/hostname"),
    (fitted_extractor, "weights", {"path": "/etc/hostname"}),
    (texts, "memory", "/tmp"),
    # Patterns and codecs.
    (texts, "token_pattern", "(a+)+$"),
    (texts, "token_pattern", "a*a*a*a*a*a*b"),
    (texts, "token_pattern", "[z-a]+"),
    (texts, "encoding", "punycode"),
    (texts, "encoding", "unicode_escape"),
    # Memory and time at the first use.
    (texts, "ngram_range", {"tuple": [1, 10**9]}),
    (texts, "n_features", 2**31 - 1),
    (texts, "n_columns", 2**40),
    (fitted_extractor, "views", {"augmentation": ["MirrorShift", {"dict": [["shift", 20000]]}]}),
    (fitted_extractor, "views", {"augmentation": ["MirrorShift", {"dict": [["shift", 100]]}]}),
    (fitted_extractor, "augment", {"augmentation": ["FlipCrop", {"dict": [["padding", 20000]]}]}),
    (fitted_extractor, "backbone_params", {"dict": [["stem_width", 30000]]}),
    (fitted_extractor, "backbone_params", {"dict": [["stem_width", 16000]]}),
    (fitted_extractor, "backbone_params", {"dict": [["blocks", [10**9] * 4]]}),
    (extractor, "backbone_params", {"dict": [["widths", [16000] * 4]]}),
    (fitted_graph_network, "backbone_params", {"dict": [["n_nodes", 10**6]]}),
    (fitted_extractor, "n_features_out_", 10**9),
    (fitted_extractor, "n_features_out_", 10**5),
    (fitted_extractor, "input_shape_", {"tuple": [3, 8, 9]}),
    (layered_extractor, "layer_widths_", {"dict": [["0", 10**9]]}),
    (fitted_descriptor, "n_chunks", 10**9),
    (fitted_descriptor, "frame_shape_", {"tuple": [1, 10**6, 3]}),
    (fitted_descriptor, "blocks", ["os:system"]),
    (classifier, "shared_band_size", 10**12),
    (classifier, "n_layers", 10**9),
    (classifier, "chunk_size", 2**63),
    (classifier, "device", "meta"),
]

# Texts in the messages about sizes that do not belong together.
NAMED = {
    "frame_shape_": "frame_shape",
    "input_shape_": "n_features_in_",
    "layer_widths_": "n_features_out_",
    "n_features_out_": "features",
}


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize(
    ("make", "key", "value"), FORGED, ids=[f"{key}={value!s:.40}" for _, key, value in FORGED]
)
def test_hostile_value_is_refused_by_name(make, key, value, tmp_path):
    content, arrays = opened(saved(make(), tmp_path / "model.ffnb"))
    (path,) = (one for one in places(content) if one and one[-1] == key)
    with pytest.raises(ModelFileError) as caught:
        load_bytes(closed(put(content, path, value), arrays), tmp_path / "forged.ffnb")
    assert NAMED.get(key, key) in str(caught.value)


def test_projection_of_too_many_features_is_refused(tmp_path):
    model = texts()
    content, arrays = opened(saved(model, tmp_path / "model.ffnb"))
    (path,) = (one for one in places(content) if one and one[-1] == "projection")
    content = put(content, (*path[:-1], "n_features_in"), 2**31)
    with pytest.raises(ModelFileError, match="projection must be None above 16777216"):
        load_bytes(closed(content, arrays), tmp_path / "forged.ffnb")


@pytest.mark.parametrize("kind", _KINDS)
def test_no_parameter_takes_a_free_name_or_code(kind):
    made = _KINDS[kind]
    names = inspect.signature(made).parameters
    free = {("TorchFeatureExtractor", "head"), ("TorchFeatureExtractor", "backbone")}
    values = ["subprocess:run", "/etc/hostname", len, Path("a"), b"a", {"a": len}, [len], object()]
    for name in names:
        for value in values:
            if (kind, name) in free:
                continue
            with pytest.raises(ValueError, match="in a file; got"):
                check_parameter(made, name, value)


@pytest.mark.parametrize("kind", _KINDS)
def test_defaults_can_be_saved(kind):
    made = _KINDS[kind]
    for name, one in inspect.signature(made).parameters.items():
        if one.default is not one.empty:
            check_parameter(made, name, one.default)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?u)\b\w\w+\b",
        r"\w+",
        r"\S+",
        r"(?u)\b\w+\b",
        r"[a-z]+",
        r"[A-Za-z0-9_'-]+",
        r"\b[a-zA-Z]{3,}\b",
        r"[^\s,]{2,9}",
        None,
    ],
)
def test_pattern_of_a_run_is_kept(pattern, tmp_path):
    hasher = HashingVectorizer(n_features=64, token_pattern=pattern)
    save(hasher, tmp_path / "model.ffnb")
    assert load(tmp_path / "model.ffnb").token_pattern == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        r"(\w+)+",
        r"(?:a|a)*",
        r"\w+\b",
        r"\w+\w+",
        r"\w*\S*",
        r"a+",
        r"(?=x)\w",
        r"\w+|\S",
        r"\w{999}",
    ],
)
def test_any_other_pattern_is_refused(pattern, tmp_path):
    with pytest.raises(ValueError, match=r"token_pattern .*cannot backtrack"):
        save(HashingVectorizer(token_pattern=pattern), tmp_path / "model.ffnb")


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (HashingVectorizer(input="filename"), "input of HashingVectorizer .*'content'"),
        (HashingVectorizer(ngram_range=(1, 99)), "ngram_range .*1 to 16"),
        (HashingVectorizer(encoding="idna"), "encoding .*utf-8"),
        (FeatureHasher(2**30), "n_features .*16777216"),
        (extractor(weights="a.pt"), "weights of TorchFeatureExtractor cannot be saved before fit"),
        (extractor(views=MirrorShift(999)), "views .*256 pixels"),
        (
            TorchFeatureExtractor(ConvNet, backbone_params={"widths": (2**20,)}),
            "widths in backbone_params",
        ),
        (SkeletonDescriptor(n_chunks=10**9), "n_chunks .*columns"),
        (classifier(bands__max_epochs=2**63), "max_epochs .*64 bits"),
        (classifier(rank=2**64), "rank .*64 bits"),
        (classifier(n_layers=10**4), "n_layers .*1024"),
        (classifier(priors={2**63: 1.0, 0: 1.0}), "priors .*64 bits"),
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


def test_settings_of_2_to_the_63_are_not_saved_after_learning(tmp_path):
    model = learned(classifier(bands__batch_size=2**63), [0, 1])
    model.set_params(bands__batch_size=50)
    with pytest.raises(ValueError, match=r"batch_size .*64 bits"):
        save(model, tmp_path / "model.ffnb")
    save(learned(model, [2]), tmp_path / "model.ffnb")
    assert load(tmp_path / "model.ffnb").predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("parameters", [{"stem_width": 3}, {"unknown": 3}, {"blocks": (1,)}])
def test_weights_of_another_network_are_not_saved(parameters, tmp_path):
    model = fitted_extractor().set_params(backbone_params=parameters)
    with pytest.raises(ValueError, match="TorchFeatureExtractor cannot be saved: "):
        save(model, tmp_path / "model.ffnb")


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_paths_are_left_out(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(ConvNet().state_dict(), tmp_path / "weights.pt")
    path = tmp_path / "weights.pt"
    model = TorchFeatureExtractor(ConvNet, weights=path).fit(IMAGES)
    save(model, tmp_path / "model.ffnb")
    loaded = load(tmp_path / "model.ffnb")
    assert loaded.weights is None
    np.testing.assert_array_equal(loaded.transform(IMAGES), model.transform(IMAGES))
    # The estimator that was saved keeps its path.
    assert model.weights == path
