"""Public cases about torch networks: their weights and their copies."""

import io
import pickle
import sys

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from torch import nn

from ffnb_sklearn import (
    Bands,
    FFNBClassifier,
    TorchFeatureExtractor,
)
from tests.public_cases.flowers import X, Y

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


def rows_network():
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.3))


def seven_inputs():
    return nn.Sequential(nn.Linear(7, 5), nn.Tanh())


# ---- weights


def test_a_file_of_safetensors_without_its_package_names_the_package(tmp_path, monkeypatch):
    """timm #1677."""
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.delitem(sys.modules, "safetensors.torch", raising=False)
    path = tmp_path / "model.safetensors"
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ImportError, match=r"safetensors cannot .*; install it: python"):
        extractor(weights=path).fit(IMAGES)


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
