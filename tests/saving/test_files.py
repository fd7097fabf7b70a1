"""What is loaded is what was saved: parameters, predictions, and all that is learned later."""

import io
import pickle
from dataclasses import replace
from enum import Enum, IntEnum
from functools import partial
from inspect import signature
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    StandardScaler,
)
from torch import nn

from ffnb_sklearn import (
    ContinualPipeline,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    SkeletonDescriptor,
    TorchFeatureExtractor,
    load,
    make_continual_pipeline,
    save,
)
from ffnb_sklearn.backbones import ConvNet, FlipCrop, Jitter, MirrorShift
from ffnb_sklearn.core.bands.band_settings import Descent
from ffnb_sklearn.exceptions import ModelFileError
from ffnb_sklearn.saving import _files
from ffnb_sklearn.saving._container import write_container
from tests.saving.model_files import classifier, discriminant, saved, scores, without_choice
from tests.separated_classes import CODES, NAMES, X, learned

SETTINGS = {
    "default": {},
    "no bands": {},
    "no bands, pairs": {"classifier": "ovo", "shrinkage": 0.5, "epsilon": 0.1},
    "no bands, few axes": {"rank": 2},
    "bands alone": {"shared_band_size": 0, "skip_connection": False, "band_size": 3},
    "three layers": {"n_layers": 3, "p": [2, 0.5, 0.9], "bands__activation": "tanh"},
    "random": {"bands__init": "random", "bands__activation": "sigmoid"},
    "batch norm": {"bands__batch_norm": True, "n_layers": 2},
    "one against all": {"classifier": "ova", "covariance": "identity"},
    "exact": {"rank": None},
    "zero": {"bands__old_statistics": "zero", "bands__null_space": False, "bands__init": "mono"},
    "as published": {"bands__max_epochs": 3, "bands__weight_decay": 0.1},
    "NumPy values": {
        "band_size": np.int64(2),
        "bands__gamma": np.float32(0.5),
        "verbose": np.False_,
    },
}


def unfitted(settings):
    """Return an unfitted classifier with some of the settings above."""
    make = discriminant if settings.startswith("no bands") else classifier
    if settings == "as published":
        make = partial(FFNBClassifier.as_published, random_state=0)
    return make(**SETTINGS[settings])


def naive(**parameters):
    """Return an unfitted naive classifier of few epochs."""
    return NaiveIncrementalClassifier(**{"max_epochs": 2, "random_state": 0, **parameters})


def round_trip(estimator, tmp_path, **keywords):
    path = tmp_path / "model.ffnb"
    save(estimator, path)
    return load(path, **keywords)


def same_values(one, other):
    """Whether two parameters are equal in type and value."""
    if isinstance(one, np.random.RandomState):
        return same_values(one.get_state(legacy=False), other.get_state(legacy=False))
    if hasattr(one, "get_params"):
        return type(one) is type(other) and same_values(one.get_params(), other.get_params())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_values(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and all(map(same_values, one, other))
    return type(one) is type(other) and bool(np.all(one == other))


def check_equal(one, other):
    """Check that parameters, labels and predictions are the same, bit for bit."""
    assert same_values(one, other)
    assert same_values(clone(one), clone(other))
    assert one.classes_.dtype == other.classes_.dtype
    assert_array_equal(one.classes_, other.classes_)
    assert_array_equal(scores(one), scores(other))
    assert_array_equal(one.predict(X), other.predict(X))
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))


@pytest.mark.filterwarnings("ignore:Trained neurons keep a trace:UserWarning")
@pytest.mark.filterwarnings("ignore:Merging is not exact:UserWarning")
@pytest.mark.parametrize("settings", SETTINGS)
def test_classifier_goes_on_as_if_it_had_not_been_saved(settings, tmp_path):
    model = learned(unfitted(settings), [4, 1], [6, 0])
    loaded = round_trip(model, tmp_path)
    check_equal(model, loaded)

    others = [learned(unfitted(settings), [2, 7]) for _ in range(2)]
    for one, other in zip((model, loaded), others, strict=True):
        learned(one, [3, 4]).forget([1])
        if settings != "batch norm":
            one.merge(other)
        learned(one, [1])
    check_equal(model, loaded)
    # What was forgotten and merged leaves a state that can be saved too.
    check_equal(model.forget([6]).forget([0]), round_trip(loaded, tmp_path).forget([6]).forget([0]))


@pytest.mark.parametrize(
    "labels",
    [
        CODES,
        CODES.astype(np.uint8),
        CODES.astype(np.float32),
        CODES.astype(">i4") - 4,
        NAMES[CODES],
        NAMES.astype(object)[CODES],
        np.array(["\ud800", "a\0b", "", "é"], dtype=object)[CODES % 4],
        CODES % 2 == 0,
    ],
    ids=["int", "uint8", "float", "big-endian", "str", "object", "odd strings", "bool"],
)
@pytest.mark.parametrize("make", [without_choice, naive])
def test_labels_keep_their_kind(make, labels, tmp_path):
    model = make()
    learned(model, [0, 1], [2], y=labels)
    loaded = round_trip(model, tmp_path)
    check_equal(model, loaded)
    assert all(map(np.array_equal, model.task_classes_, loaded.task_classes_))
    learned(model, [3], y=labels)
    check_equal(model, learned(loaded, [3], y=labels))


def test_declared_classes_and_names_of_features_are_kept(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"column {i}" for i in range(X.shape[1])])
    model = classifier().set_output(transform="pandas")
    model.partial_fit(frame, CODES % 3, classes=[7, 8])
    loaded = round_trip(model, tmp_path)
    assert_array_equal(loaded.feature_names_in_, model.feature_names_in_)
    assert_array_equal(loaded.classes_, [0, 1, 2, 7, 8])
    pandas.testing.assert_frame_equal(loaded.transform(frame), model.transform(frame))


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize("make", [classifier, discriminant, naive])
def test_random_state_goes_on_where_it_was(make, is_fitted, tmp_path):
    model = make(random_state=np.random.RandomState(3))
    model.random_state.standard_normal()
    if is_fitted:
        model.fit(X, CODES)
    loaded = round_trip(model, tmp_path)
    if not is_fitted:
        with pytest.raises(NotFittedError):
            loaded.predict(X)
    check_equal(model.fit(X, CODES), loaded.fit(X, CODES))
    assert model.random_state.standard_normal() == loaded.random_state.standard_normal()


@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(),
        StandardScaler(with_mean=False, with_std=False),
        MinMaxScaler((-1, 1), clip=True),
        MaxAbsScaler(),
        Normalizer("max"),
        "passthrough",
        None,
        FrozenEstimator(StandardScaler().fit(X)),
        ContinualPipeline([("a", StandardScaler()), ("b", MinMaxScaler())]),
        Pipeline([("a", StandardScaler()), ("b", None)], transform_input=["X_val"]),
    ],
    ids=str,
)
def test_pipeline_goes_on(transformer, tmp_path):
    model = clone(ContinualPipeline([("first", transformer), ("clf", without_choice())]))
    learned(model, [0, 1])
    loaded = round_trip(model, tmp_path)
    check_equal(model, loaded)
    check_equal(learned(model, [2]), learned(loaded, [2]))


@pytest.mark.parametrize("transformer", [StandardScaler(), MinMaxScaler()], ids=str)
def test_pipeline_of_single_precision_goes_on(transformer, tmp_path):
    model = ContinualPipeline([("first", transformer), ("clf", without_choice())])
    now = np.isin(CODES, [0, 1])
    model.partial_fit(X[now].astype(np.float32), CODES[now])
    loaded = round_trip(model, tmp_path)
    check_equal(model, loaded)
    check_equal(learned(model, [2]), learned(loaded, [2]))


def test_missing_values_of_a_scaler_are_kept(tmp_path):
    scaler = StandardScaler().fit(np.where(X > 0.0, X, np.nan))
    scaler.mean_[0] = np.nan
    loaded = round_trip(scaler, tmp_path)
    assert_array_equal(loaded.mean_, scaler.mean_)
    assert_array_equal(loaded.n_samples_seen_, scaler.n_samples_seen_)


def test_skeleton_descriptor(tmp_path):
    model = SkeletonDescriptor(n_chunks=2)
    rng = np.random.default_rng(0)
    sequences = [rng.standard_normal((9, 5, 3)) for _ in range(3)]
    expected = model.fit(sequences).transform(sequences)
    assert_array_equal(round_trip(model, tmp_path).transform(sequences), expected)


def small_network(n_out=4):
    """Make a network by a factory that files only name."""
    return nn.Sequential(nn.Linear(X.shape[1], n_out), nn.BatchNorm1d(n_out), nn.ReLU())


FACTORY = f"{small_network.__module__}:small_network"


def test_network_needs_its_factory(tmp_path):
    extractor = TorchFeatureExtractor(
        small_network,
        backbone_params={"n_out": 3},
        epochs=2,
        augment=None,
        dtype="float64",
        random_state=0,
    )
    model = make_continual_pipeline(extractor, classifier())
    model.partial_fit(X[CODES < 3], CODES[CODES < 3])
    with pytest.raises(ModelFileError, match=r"factories=\{'.*small_network': factory\}"):
        round_trip(model, tmp_path)
    loaded = round_trip(model, tmp_path, factories={FACTORY: small_network})
    check_equal(model, loaded)
    assert loaded[0].loss_curve_ == model[0].loss_curve_
    check_equal(learned(model, [4]), learned(loaded, [4]))


def test_dotted_name_of_a_network_is_refused_unless_it_is_given(tmp_path):
    weights = {"weight": torch.ones(2, 6), "bias": np.zeros(2)}
    extractor = TorchFeatureExtractor(
        "torch.nn:Linear",
        backbone_params={"in_features": 6, "out_features": 2},
        weights=weights,
        augment=FlipCrop(),
    )
    name = "torch.nn:Linear"
    with pytest.raises(ModelFileError, match=name):
        round_trip(extractor, tmp_path)
    loaded = round_trip(extractor, tmp_path, factories={name: name})
    assert (loaded.backbone, loaded.augment) == (name, FlipCrop())
    assert_array_equal(loaded.fit_transform(X), extractor.fit_transform(X))


def test_own_network_is_known(tmp_path):
    extractor = TorchFeatureExtractor(ConvNet, input_shape=(3, 8, 8))
    rows = np.random.default_rng(0).random((3, 192))
    expected = extractor.fit_transform(rows)
    assert_array_equal(round_trip(extractor, tmp_path).transform(rows), expected)


def test_several_heads_are_kept(tmp_path):
    names = [name for name, _ in ConvNet().named_children()][-2:]
    extractor = TorchFeatureExtractor(ConvNet, input_shape=(3, 8, 8), head=names)
    rows = np.random.default_rng(0).random((3, 192))
    expected = extractor.fit_transform(rows)
    assert_array_equal(round_trip(extractor, tmp_path).transform(rows), expected)


# Parameters of a network that is much smaller than the default one.
SMALL = {"stem_width": 4, "widths": (4, 6), "blocks": (1, 1)}


def test_layers_and_views_are_kept(tmp_path):
    names = [name for name, _ in ConvNet().named_children()][:2]
    extractor = TorchFeatureExtractor(
        ConvNet,
        backbone_params=SMALL,
        input_shape=(3, 8, 8),
        layers=names,
        views=MirrorShift(shift=1),
    )
    images = np.random.default_rng(0).integers(256, size=(4, 8, 8, 3), dtype=np.uint8)
    expected = extractor.fit_transform(images)

    loaded = round_trip(extractor, tmp_path)

    assert_array_equal(loaded.transform(images), expected)
    assert loaded.layer_scales_ == extractor.layer_scales_
    assert loaded.get_feature_names_out().tolist() == extractor.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    "parameters",
    [
        {"input_shape": tuple(np.array([3, 8, 8]))},
        {"input_shape": torch.Size([3, 8, 8])},
        {"layers": list(np.array(["stem"]))},
        {"layers": ("stem",), "pooling": "max"},
        {"layers": ("stem",), "channel_axis": np.int64(1)},
        {"weights": {k: v.bfloat16() for k, v in ConvNet(**SMALL).state_dict().items()}},
    ],
    ids=["NumPy shape", "torch shape", "NumPy names", "maximum", "NumPy axis", "half precision"],
)
def test_whatever_fit_accepts_is_kept(parameters, tmp_path):
    images = np.random.default_rng(0).integers(256, size=(4, 3, 8, 8), dtype=np.uint8)
    if "layers" in parameters:
        name = next(iter(ConvNet().named_children()))[0]
        parameters["layers"] = type(parameters["layers"])([type(parameters["layers"][0])(name)])
    extractor = TorchFeatureExtractor(ConvNet, backbone_params=SMALL, **parameters)
    expected = extractor.fit_transform(images)
    assert_array_equal(round_trip(extractor, tmp_path).transform(images), expected)


def test_priors_of_whole_floats_are_kept(tmp_path):
    model = classifier(priors={0.0: 1, 1.0: 3}).fit(X[:6], [0.0, 1.0] * 3)
    loaded = round_trip(model, tmp_path)
    assert loaded.priors == {0.0: 1, 1.0: 3}
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_metadata_requests_are_left_out(tmp_path):
    with config_context(enable_metadata_routing=True):
        model = classifier().set_fit_request(sample_weight=True).fit(X[:6], [0, 1] * 3)
        loaded = round_trip(model, tmp_path)
    assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("factories", [ConvNet, [ConvNet]])
def test_factories_must_have_names(factories, tmp_path):
    save(classifier(), tmp_path / "model.ffnb")
    with pytest.raises(TypeError, match="factories must be a dictionary"):
        load(tmp_path / "model.ffnb", factories=factories)


def test_priors_of_labels_are_kept(tmp_path):
    model = learned(classifier(), [0, 1, 2])
    model.set_params(priors={label: 1.0 + k for k, label in enumerate(model.classes_)})

    loaded = round_trip(model, tmp_path)

    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            make_continual_pipeline(HashingVectorizer(tokenizer=str.split), classifier()),
            r"Pipeline.steps\[0\]\[1\].HashingVectorizer.tokenizer cannot be saved",
        ),
        (TorchFeatureExtractor(nn.Linear(6, 2)), "Linear"),
        (TorchFeatureExtractor(ConvNet, augment=np.sin), "TorchFeatureExtractor.augment cannot"),
        ([classifier()], "must be an estimator"),
        (3, "must be an estimator"),
    ],
    ids=str,
)
def test_other_types_are_refused(estimator, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        save(estimator, tmp_path / "model.ffnb")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (classifier(bands__gamma=-1.0), "gamma"),
        (classifier(random_state=np.random.RandomState(np.random.PCG64(0))), "another generator"),
        (ContinualPipeline([("clf", classifier())], memory="cache"), "memory"),
    ],
    ids=["invalid", "generator", "memory"],
)
def test_values_that_cannot_be_stored_are_refused(estimator, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        save(estimator, tmp_path / "model.ffnb")
    assert not list(tmp_path.iterdir())


def test_loaded_arrays_are_those_of_the_file_alone(tmp_path):
    model = learned(classifier(), [0, 1])
    first = round_trip(model, tmp_path)
    second = round_trip(model, tmp_path)
    assert not np.shares_memory(first._state.model.moments[0].mean, second._state.arrived)
    assert first._state.model.moments[0].mean.flags.writeable


def test_numpy_reads_the_arrays(tmp_path):
    path = tmp_path / "model.npz"
    save(learned(classifier(), [0, 1]), path)
    with np.load(path, allow_pickle=False) as archive:
        assert {"model.json", "arrays/0"} <= set(archive.files)
        arrays = [archive[name] for name in archive.files if name != "model.json"]
    assert any(np.array_equal(array, [0, 1]) for array in arrays)


@pytest.mark.parametrize("kind", ["gaussian", "ovo", "ova"])
@pytest.mark.parametrize("novelty", [False, True])
def test_a_file_holds_nothing_that_is_derived(kind, novelty, tmp_path):
    model = learned(classifier(classifier=kind, novelty=novelty), [0, 1, 2])
    before = saved(model, tmp_path / "model.ffnb")
    pickled = pickle.dumps(model)
    expected = model.predict_proba(X)

    assert saved(model, tmp_path / "model.ffnb") == before
    assert len(pickle.dumps(model)) == len(pickled)
    loaded = load(tmp_path / "model.ffnb")
    assert loaded._state.model.solution is None
    assert_array_equal(loaded.predict_proba(X), expected)
    assert loaded.shrinkage_ == model.shrinkage_


@pytest.mark.parametrize(
    "transformer",
    [
        HashingVectorizer(n_features=64, dtype=np.float32),
        FeatureHasher(64, input_type="string", dtype=np.float64),
    ],
    ids=lambda one: type(one).__name__,
)
def test_hashers_are_kept(transformer, tmp_path):
    texts = ["late parcel", "no parcel", "wrong invoice", "invoice due"]
    if isinstance(transformer, FeatureHasher):
        texts = [text.split() for text in texts]
    pipe = make_continual_pipeline(transformer, classifier())
    pipe.partial_fit(texts, [0, 0, 1, 1])
    loaded = round_trip(pipe, tmp_path)
    assert same_values(pipe, loaded)
    assert_array_equal(loaded.predict_proba(texts), pipe.predict_proba(texts))


class Name(str, Enum):  # noqa: UP042
    """Strings that parameters accept."""

    RELU = "relu"
    AUTO = "auto"
    PAIRS = "ovo"


class Number(IntEnum):
    """Integers that parameters accept."""

    TWO = 2


class Word(str):
    """A string of another type."""


# Parameters that a classifier takes at once, by the types of their values.
ACCEPTED = {
    "Booleans": {
        **{"band_size": True, "n_layers": True, "p": True, "shared_band_size": True, "rank": True},
        **{"bands__gamma": True, "bands__max_epochs": True, "bands__batch_size": True},
        **{"shrinkage": True, "epsilon": True, "chunk_size": True},
    },
    "NumPy": {
        **{"band_size": np.int8(1), "bands__gamma": np.float16(0.5), "rank": np.uint8(2)},
        **{"novelty": np.True_, "scale": np.False_, "bands__batch_norm": np.True_, "p": [True]},
        **{"bands__init": np.str_("mono")},
    },
    "enumerations": {
        **{"rank": Number.TWO, "classifier": Name.PAIRS, "bands__activation": Name.RELU},
        **{"covariance": Word("identity")},
    },
    "automatic rank": {"rank": Name.AUTO},
}


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize("parameters", ACCEPTED.values(), ids=ACCEPTED)
def test_numbers_and_strings_of_any_type_are_kept(parameters, tmp_path):
    model = learned(classifier(**parameters), [0, 1], [2])
    loaded = round_trip(model, tmp_path)
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    for name, value in parameters.items():
        assert loaded.get_params()[name] == value
    # The learned state holds plain values, which every file can hold.
    settings = model._state.model.settings
    bands = model._state.model.trained.settings
    values = (*vars(settings).values(), *vars(bands).values(), *vars(bands.descent).values())
    for value in (*values, *bands.p):
        assert type(value) in (bool, int, float, str, tuple, type(None), Descent)
    check_equal(learned(model, [3]).set_params(**loaded.get_params()), learned(loaded, [3]))


@pytest.mark.parametrize(
    "parameters",
    [{"band_size": True, "max_epochs": True}, {"activation": Name.RELU, "learning_rate": True}],
    ids=str,
)
def test_numbers_of_any_type_are_kept_by_the_naive_classifier(parameters, tmp_path):
    model = learned(naive(**parameters), [0, 1])
    assert {type(band.activation) for band in model._state.model.hidden.bands} == {str}
    assert_array_equal(round_trip(model, tmp_path).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "value",
    [
        *(FlipCrop(padding=True), FlipCrop(flip=np.True_), FlipCrop(cutout=np.int64(3))),
        *(MirrorShift(shift=True, mirror=1), Jitter(noise=True), Jitter(scale=np.float32(0.5))),
    ],
    ids=str,
)
def test_numbers_of_any_type_are_kept_by_augmentations(value, tmp_path):
    loaded = round_trip(TorchFeatureExtractor(ConvNet, augment=value), tmp_path)
    assert loaded.augment == value
    assert {type(one) for one in vars(loaded.augment).values()} <= {bool, int, float}


def test_a_file_that_load_would_refuse_replaces_no_file(tmp_path):
    model = learned(classifier(), [0, 1])
    before = saved(model, tmp_path / "model.ffnb")
    moments = replace(model._state.model.moments[0], weight=True)
    broken = replace(model._state.model, moments=(moments, *model._state.model.moments[1:]))
    model._state = replace(model._state, model=broken)
    with pytest.raises(ValueError, match=r"cannot be saved, because load would refuse.*weight"):
        save(model, tmp_path / "model.ffnb")
    assert [path.name for path in tmp_path.iterdir()] == ["model.ffnb"]
    assert (tmp_path / "model.ffnb").read_bytes() == before


@pytest.mark.parametrize("position", [200, -2000, -100, -30])
def test_bytes_that_the_disk_has_changed_are_noticed(position, tmp_path, monkeypatch):
    def write_and_damage(file, content, arrays):
        write_container(file, content, arrays)
        file.seek(position, 0 if position > 0 else 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
        file.seek(0, 2)

    monkeypatch.setattr(_files, "write_container", write_and_damage)
    with pytest.raises(ValueError, match="the file is damaged"):
        save(learned(classifier(), [0, 1]), tmp_path / "model.ffnb")
    assert not list(tmp_path.iterdir())


def test_missing_file_is_no_damage(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "model.ffnb")
    with pytest.raises(FileNotFoundError):
        save(classifier(), tmp_path / "missing" / "model.ffnb")


@pytest.mark.parametrize("function", [save, load])
def test_arguments_and_results_have_types(function):
    types = get_type_hints(function)
    assert types.keys() == {*signature(function).parameters, "return"}
    assert Any not in types.values()


def test_a_file_object_holds_the_bytes_of_the_file(tmp_path):
    clf = learned(IncrementalDiscriminantAnalysis(random_state=0), [0, 1], [2])
    path = tmp_path / "model.ffnb"
    save(clf, path)
    buffer = io.BytesIO(b"header")
    buffer.seek(0, 2)
    save(clf, buffer)
    assert buffer.getvalue() == b"header" + path.read_bytes()
    buffer.seek(len(b"header"))
    assert_array_equal(load(buffer).predict_proba(X), clf.predict_proba(X))
    with open(path, "rb") as file:
        assert_array_equal(load(file).predict_proba(X), clf.predict_proba(X))


class Pipe:
    """Pipe that knows neither its position nor its end."""

    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += bytes(data)

    def read(self):
        return self.data


def test_a_pipe_without_seek_is_written_and_read():
    clf = learned(IncrementalDiscriminantAnalysis(random_state=0), [0, 1], [2])
    pipe = Pipe()
    save(clf, pipe)
    assert_array_equal(load(pipe).predict_proba(X), clf.predict_proba(X))


def test_errors_of_file_objects_name_the_reason(tmp_path):
    clf = learned(IncrementalDiscriminantAnalysis(random_state=0), [0, 1], [2])
    for wrong in (None, 3, io.StringIO()):
        with pytest.raises(TypeError, match="path must be a path or a binary file object"):
            save(clf, wrong)
        with pytest.raises(TypeError, match="path must be a path or a binary file object"):
            load(wrong)
    with pytest.raises(ModelFileError, match="the file object: the file is cut short"):
        load(io.BytesIO(b"some bytes"))
    texts = Pipe()
    texts.data = "text"
    with pytest.raises(TypeError, match="read returns bytes; got str"):
        load(texts)


def test_a_file_object_that_takes_a_part_of_the_bytes_is_an_error():
    class FullDisk(io.BytesIO):
        def write(self, data):
            return super().write(data[:10])

    with pytest.raises(OSError, match="has written 10 of"):
        save(learned(IncrementalDiscriminantAnalysis(random_state=0), [0, 1]), FullDisk())
