"""Public cases about torch networks, their weights, layers, batches and copies."""

import io
import pickle
import sys
import warnings

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

from ffnb_sklearn import (
    Bands,
    FFNBClassifier,
    TorchFeatureExtractor,
    make_continual_pipeline,
)
from tests.public_cases.flowers import NAMES, X, Y, small

RNG = np.random.default_rng(0)
IMAGES = RNG.normal(size=(6, 3 * 6 * 6))
ROWS = X.astype(np.float32)


def network(n_classes=3, in_place=False):
    """Small network of named layers with batch normalisation, dropout and a head."""
    modules = {
        "conv": nn.Conv2d(3, 4, 3),
        "norm": nn.BatchNorm2d(4),
        "act": nn.ReLU(inplace=in_place),
        "deep": nn.Conv2d(4, 5, 3),
        "drop": nn.Dropout(0.5),
        "pool": nn.AdaptiveAvgPool2d(1),
        "flat": nn.Flatten(),
        "head": nn.Linear(5, n_classes),
    }
    made = nn.Sequential()
    for name, module in modules.items():
        made.add_module(name, module)
    return made


def weights(**parameters):
    """State dict of the network, with numbers from a seed."""
    state = network(**parameters).state_dict()
    rng = np.random.default_rng(1)
    return {key: torch.tensor(rng.uniform(0.1, 1.0, tuple(v.shape))) for key, v in state.items()}


def extractor(**parameters):
    values = {"input_shape": (3, 6, 6), "weights": weights(), "dtype": "float64"}
    return TorchFeatureExtractor(network, **{**values, **parameters})


def two_outputs():
    class TwoOutputs(nn.Linear):
        def forward(self, values):
            return super().forward(values), values

    return TwoOutputs(4, 2)


def rows_network():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3))


def seven_inputs():
    return nn.Sequential(nn.Linear(7, 5), nn.Tanh())


# ---- inference


@pytest.mark.parametrize("layers", [None, ["act", "deep"]])
def test_features_of_a_sample_do_not_depend_on_its_batch(layers):
    """timm #2107."""
    model = extractor(layers=layers).fit(IMAGES)
    together = model.transform(IMAGES)
    alone = np.vstack([model.transform(image[None]) for image in IMAGES])
    assert_allclose(alone, together, rtol=1e-12)
    assert_array_equal(model.set_params(batch_size=1).transform(IMAGES), alone)


def test_layers_come_in_the_order_in_which_they_are_named():
    """timm #2239."""
    first, second = (extractor(layers=layers) for layers in (["deep", "conv"], ["conv", "deep"]))
    ones, others = first.fit_transform(IMAGES), second.fit_transform(IMAGES)
    assert first.get_feature_names_out()[0] == "deep_0"
    assert_array_equal(ones, np.hstack([others[:, 4:], others[:, :4]]))


def test_a_layer_is_read_before_an_activation_in_place_overwrites_it():
    """PyTorch #95617."""
    both = [
        extractor(layers=["norm"], backbone_params={"in_place": in_place}).fit_transform(IMAGES)
        for in_place in (False, True)
    ]
    assert both[0].min() < 0
    assert_array_equal(*both)


def test_layers_of_a_network_without_its_pooled_head_are_small():
    """timm #1293."""
    assert extractor(head="head").fit_transform(IMAGES).shape == (6, 5)
    state = {key: value for key, value in weights().items() if not key.startswith("head.")}
    maps = extractor(head="head", weights=state, layers=["deep"]).fit_transform(IMAGES)
    assert maps.shape == (6, 5)


def test_means_and_deviations_are_those_of_each_channel():
    """timm #905."""
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]
    scaled = (IMAGES.reshape(-1, 3, 36) - np.array(mean)[:, None]) / np.array(std)[:, None]
    expected = extractor().fit(IMAGES).transform(scaled.reshape(6, -1))
    assert_allclose(extractor(mean=mean, std=std).fit_transform(IMAGES), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="mean"):
        extractor(mean=[0.4, 0.5]).fit(IMAGES)


def test_a_network_of_two_outputs_is_refused():
    """skorch #420."""
    with pytest.raises(TypeError, match=r"must return a tensor .* got tuple"):
        TorchFeatureExtractor(two_outputs).fit(ROWS)


# ---- weights


def test_the_head_of_other_classes_is_left_out_or_named():
    """timm #43, timm #540."""
    trained = weights(n_classes=9)
    assert extractor(weights=trained, head="head").fit_transform(IMAGES).shape == (6, 5)
    with pytest.raises(ValueError, match=r"size mismatch for head.weight: .*\[9, 5\]"):
        extractor(weights=trained).fit(IMAGES)


def test_weights_without_a_head_need_a_network_without_one():
    """timm #2332."""
    state = {key: value for key, value in weights().items() if not key.startswith("head.")}
    assert extractor(weights=state, head="head").fit_transform(IMAGES).shape == (6, 5)
    with pytest.raises(
        ValueError, match=r"Missing key\(s\) in state_dict: .head.weight., .head.bias"
    ):
        extractor(weights=state).fit(IMAGES)


def test_weights_of_another_network_are_never_skipped_in_silence():
    """timm #1045."""
    other = {f"backbone.{key}": value for key, value in weights().items()}
    with pytest.raises(
        ValueError, match=r"Missing key\(s\) in state_dict: .conv.weight.*Unexpected key"
    ):
        extractor(weights=other).fit(IMAGES)


def test_weights_of_another_shape_are_named():
    """timm #1344."""
    wider = {**weights(), "deep.weight": torch.zeros(5, 4, 5, 5)}
    with pytest.raises(ValueError, match=r"size mismatch for deep\.weight"):
        extractor(weights=wider).fit(IMAGES)


def test_a_file_of_safetensors_without_its_package_names_the_package(tmp_path, monkeypatch):
    """timm #1677."""
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.delitem(sys.modules, "safetensors.torch", raising=False)
    path = tmp_path / "model.safetensors"
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ImportError, match=r"safetensors cannot .*; install it: python"):
        extractor(weights=path).fit(IMAGES)


# ---- kinds of numbers


def test_double_precision_of_transformers_meets_a_network_in_single_precision():
    """skorch #414, skorch #518."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(name=NAMES)
    columns = make_column_transformer(
        (StandardScaler(), list("abcd")), (OneHotEncoder(sparse_output=False), ["name"])
    )
    features = TorchFeatureExtractor(seven_inputs)
    pipe = make_continual_pipeline(columns, features, small())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Random weights, and a scaler of the first task.
        pipe.partial_fit(frame, NAMES)
    assert pipe[:-1].transform(frame).dtype == np.float32
    assert pipe.score(frame, NAMES) == 1.0


def test_arrays_that_cannot_be_written_to_draw_no_warning_of_torch():
    """pandas #52823."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS)
    rows = np.asarray(frame)
    assert not rows.flags.writeable
    model = TorchFeatureExtractor(rows_network, epochs=1, random_state=0)
    usual = clone(model).fit(ROWS, Y).transform(ROWS)
    assert_array_equal(model.fit(rows, np.asarray(pd.Series(Y))).transform(rows), usual)
    assert_array_equal(rows, ROWS)


def test_a_last_batch_of_one_sample_passes_batch_normalisation():
    """skorch #477."""
    model = TorchFeatureExtractor(rows_network, epochs=2, train_batch_size=32, random_state=0)
    model.fit(ROWS[:65], Y[:65])
    assert np.isfinite(model.loss_curve_).all()
    assert np.isfinite(model.transform(ROWS[:1])).all()


# ---- copies


class WithoutTorch(pickle.Unpickler):
    """Reader of pickles on a machine whose torch is another one, or has no GPU."""

    def find_class(self, module, name):
        assert not module.startswith("torch"), f"{module}.{name}"
        return super().find_class(module, name)


@pytest.mark.parametrize(
    "model",
    [
        FFNBClassifier(
            band_size=1,
            shared_band_size=5,
            random_state=0,
            bands=Bands(max_epochs=1, weight_decay=0.1),
        ),
        FFNBClassifier(
            band_size=1,
            shared_band_size=5,
            classifier="ovo",
            random_state=0,
            bands=Bands(batch_norm=True),
        ),
        TorchFeatureExtractor(rows_network, epochs=1, random_state=0),
    ],
)
def test_pickles_hold_no_tensor_of_any_device(model):
    """skorch #426, skorch #1096."""
    model = clone(model).fit(ROWS, Y)
    expected = model.transform(ROWS)
    copy = WithoutTorch(io.BytesIO(pickle.dumps(model))).load()
    assert_array_equal(copy.transform(ROWS), expected)


def test_a_clone_of_a_fitted_pipeline_is_not_fitted_at_any_step():
    """skorch #521."""
    pipe = make_continual_pipeline(TorchFeatureExtractor(rows_network, random_state=0), small())
    copy = clone(pipe.partial_fit(ROWS, Y))
    for step in (copy, *copy.named_steps.values()):
        assert not [name for name in vars(step) if name.endswith("_") and name[0] != "_"]
        assert not hasattr(step, "n_features_in_")


class Interrupted(StandardScaler):
    """Scaler that is interrupted from the keyboard when it is told to be."""

    now = False

    def transform(self, X, copy=None):
        if Interrupted.now:
            raise KeyboardInterrupt
        return super().transform(X, copy=copy)


def test_an_interruption_from_the_keyboard_loses_no_task(monkeypatch):
    """skorch #387."""
    pipe = make_continual_pipeline(Interrupted(), small()).partial_fit(X[Y < 2], Y[Y < 2])
    before = pipe.predict_proba(X)
    with monkeypatch.context() as patch:
        patch.setattr(Interrupted, "now", True)
        with pytest.raises(KeyboardInterrupt):
            pipe.partial_fit(X[Y == 2], Y[Y == 2])
        with pytest.raises(KeyboardInterrupt):
            pipe.fit(X, Y)
    assert_array_equal(pipe.predict_proba(X), before)
    assert pipe.partial_fit(X[Y == 2], Y[Y == 2]).classes_.tolist() == [0, 1, 2]
