"""Names in files: recorded, complete, and independent of the names in Python."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import HashingVectorizer

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    TorchFeatureExtractor,
    load,
    make_continual_pipeline,
)
from ffnb_sklearn.backbones import ConvNet, FlipCrop, Jitter, MirrorShift
from ffnb_sklearn.exceptions import ModelFileError
from ffnb_sklearn.saving import _codec, _schema
from ffnb_sklearn.saving._codec import Reader, Writer, field_types
from ffnb_sklearn.saving._schema import ESTIMATORS, RECORDS, RENAMED_FIELDS, UPGRADES
from tests.baselines.small_problem import HEADS
from tests.saving.model_files import (
    classifier,
    closed,
    deep_classifier,
    load_bytes,
    naive_classifier,
    open_set_classifier,
    opened,
    pipeline,
    places,
    put,
    saved,
)
from tests.saving.test_parameters import fitted_descriptor, layered_extractor
from tests.separated_classes import X, learned

# Names in the files of format 1, recorded by `python -m tests.saving.test_golden`.
KEYS = Path(__file__).parent / "keys_1.json"

# Names of scikit-learn, which may change with its version.
OWN = {name for name, one in ESTIMATORS.items() if one.__module__.startswith("ffnb_sklearn.")}
OWN -= {"ContinualPipeline"}


def wide_classifier():
    """Return a classifier with a projection."""
    model = make_continual_pipeline(HashingVectorizer(n_features=4096), classifier())
    return model.partial_fit(["a parcel", "an invoice"], [0, 1])


def repaired(kind):
    """Return a function that returns a classifier that divides its columns, with a form of outputs.

    `kind` is the class of the classifier.
    """

    def make():
        rows = X * np.array([1.0, 1e6, 1.0, 1.0, 1e6, 1.0])
        model = kind(scale=True, shared_band_size=7, random_state=0)
        model.fit(rows, np.arange(len(X)) % 2)
        return model.set_output(transform="default")

    return make


def published_classifier():
    """Return a classifier with the model printed in the paper."""
    model = FFNBClassifier.as_published(bands__max_epochs=2, random_state=0)
    return learned(model, [4, 1], [6])


def trained_extractor():
    """Return an extractor that was trained."""
    images = np.random.default_rng(0).integers(256, size=(8, 3, 8, 8), dtype=np.uint8)
    small = {"stem_width": 2, "widths": (2, 3), "blocks": (1, 1)}
    model = TorchFeatureExtractor(ConvNet, backbone_params=small, epochs=1, views=MirrorShift())
    return model.set_params(augment=FlipCrop()).fit(images, np.arange(8) % 2)


def jittered_extractor():
    """Return an extractor that is not fitted."""
    return TorchFeatureExtractor(ConvNet, augment=Jitter())


def baseline(name):
    """Return a function that returns a fitted baseline."""
    return lambda: clone(HEADS[name]).fit(X, np.arange(len(X)) % 3)


MODELS = [
    *(deep_classifier, naive_classifier, pipeline, wide_classifier),
    *map(repaired, (FFNBClassifier, IncrementalDiscriminantAnalysis)),
    *(
        published_classifier,
        trained_extractor,
        jittered_extractor,
        layered_extractor,
        fitted_descriptor,
    ),
    open_set_classifier,
    *map(baseline, HEADS),
]


def written_keys(folder):
    """Return the sorted keys of each kind of object in the files of all models."""
    found = {}
    for make in MODELS:
        content, _ = opened(saved(make(), folder / "model.ffnb"))
        found.setdefault("file", set()).update(content)
        _collect(content["estimator"], found)
    return {kind: sorted(found[kind]) for kind in sorted(found)}


def _collect(value, found):
    """Collect the keys of the objects in a value, by kind."""
    if isinstance(value, list):
        for part in value:
            _collect(part, found)
    if not isinstance(value, dict):
        return
    for part in value.values():
        _collect(part, found)
    if len(value) != 1:
        return
    ((kind, content),) = value.items()
    if kind in OWN:
        for place in ("parameters", "fitted"):
            found.setdefault(f"{kind}.{place}", set()).update(content[place])
    elif kind in (*RECORDS, "generator", "drawn_band"):
        found.setdefault(kind, set()).update(content)


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_keys_of_files_are_the_recorded_keys(tmp_path):
    recorded = json.loads(KEYS.read_text(encoding="utf-8"))
    assert written_keys(tmp_path) == recorded
    # The models above hold each record and each parameter.
    for name in RECORDS:
        assert recorded[name] == names_of_fields(name)
    for name in OWN:
        assert recorded[f"{name}.parameters"] == sorted(ESTIMATORS[name]._get_param_names())


def names_of_fields(name):
    """Return the sorted names in files of the fields of a dataclass."""
    names = {attribute: each for each, attribute in RENAMED_FIELDS.get(name, {}).items()}
    return sorted(names.get(attribute, attribute) for attribute in field_types(RECORDS[name]))


@pytest.mark.parametrize("name", RENAMED_FIELDS)
def test_names_that_differ_are_those_of_fields(name):
    renamed = RENAMED_FIELDS[name]
    attributes = set(field_types(RECORDS[name]))
    assert set(renamed.values()) <= attributes
    assert not attributes & renamed.keys()


def test_names_in_files_do_not_depend_on_names_in_python(tmp_path, monkeypatch):
    @dataclass
    class NewMoments:
        heaviness: float
        errors: np.ndarray | None = None

    monkeypatch.setitem(_codec._NAMES, NewMoments, "ClassMoments")
    monkeypatch.setitem(RECORDS, "ClassMoments", NewMoments)
    monkeypatch.setitem(RENAMED_FIELDS, "ClassMoments", {"weight": "heaviness"})
    written = Writer().write(NewMoments(2.0))
    assert written == {"ClassMoments": {"weight": 2.0, "errors": None}}
    assert Reader([], {}, set(), None).read(written) == NewMoments(2.0)
    for forged in ({"heaviness": 2.0, "weight": 2.0}, {"weight": 2.0, "rank": 3}):
        with pytest.raises(ValueError, match="unknown name"):
            Reader([], {}, set(), None).read({"ClassMoments": forged})


def in_format_0(content):
    """Return content in a made-up older format, with another name and without residuals."""
    older = json.loads(json.dumps(content).replace('"owners"', '"classes_of_neurons"'))
    older["format"] = 0
    for path in list(places(older)):
        if path[-2:] == ("ClassMoments", "residual"):
            older = put(older, path, None)
    return older


def upgrade_0(estimator, arrays):
    """Return the JSON of an estimator in format 1, with an array for each residual."""
    upgraded = json.loads(json.dumps(estimator).replace('"classes_of_neurons"', '"owners"'))
    for path in list(places(upgraded)):
        if path[-1:] == ("ClassMoments",):
            arrays.append(np.full(13, 0.5))
            upgraded = put(upgraded, (*path, "residual"), {"array": len(arrays) - 1})
    return upgraded


def test_older_formats_are_upgraded(tmp_path, monkeypatch):
    model = learned(classifier(), [1, 2])
    content, arrays = opened(saved(model, tmp_path / "model.ffnb"))
    file = closed(in_format_0(content), arrays)
    with pytest.raises(ModelFileError, match="the format must be 1"):
        load_bytes(file, tmp_path / "older.ffnb")
    monkeypatch.setitem(UPGRADES, 0, upgrade_0)
    loaded = load_bytes(file, tmp_path / "older.ffnb")
    for old, new in zip(model._state.model.moments, loaded._state.model.moments, strict=True):
        np.testing.assert_array_equal(new.factor, old.factor)
        np.testing.assert_array_equal(new.residual, np.full(13, 0.5))


def test_each_format_has_its_files_and_its_upgrade():
    assert sorted(UPGRADES) == list(range(1, _schema.FORMAT))
    for number in range(1, _schema.FORMAT + 1):
        load(KEYS.parent / f"golden_{number}.ffnb")


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_networks_of_this_package_have_public_names(tmp_path):
    content, _ = opened(saved(layered_extractor(), tmp_path / "model.ffnb"))
    parameters = content["estimator"]["TorchFeatureExtractor"]["parameters"]
    assert parameters["backbone"] == "ffnb_sklearn.backbones:ConvNet"
