"""Mixed precision: the same network up to the digits of bfloat16, or a clear error."""

import pickle
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from ffnb_sklearn.backbones import ConvNet, TorchFeatureExtractor, _readout
from ffnb_sklearn.backbones._readout import training_arithmetic, transform_arithmetic
from tests.backbones.small_networks import X, Y, small

IMAGES = np.random.default_rng(0).integers(0, 256, size=(24, 3, 8, 8), dtype=np.uint8)


def images(**parameters):
    """Return an extractor of images, whose network has random weights of its own."""
    torch.manual_seed(0)
    backbone = ConvNet(stem_width=8, widths=(8, 16), blocks=(1, 1))
    values = {"mean": 127.5, "std": 60.0, "batch_size": 10, "device": "cpu"}
    return TorchFeatureExtractor(backbone, **{**values, **parameters})


def relative(found, expected):
    """Largest difference of two arrays, relative to the largest value."""
    return np.abs(found - expected).max() / np.abs(expected).max()


# Layers, and the views that flip the rows of a batch in memory.
READOUTS = [{}, {"layers": ["3", "4.c1"]}, {"layers": ["4"], "pooling": "max", "views": "mirror"}]


@pytest.mark.parametrize("readout", READOUTS, ids=str)
def test_features_are_those_of_float32_up_to_the_digits_of_bfloat16(readout):
    full = images(mixed_precision=False, **readout).fit_transform(IMAGES)
    extractor = images(mixed_precision=True, **readout)
    mixed = extractor.fit_transform(IMAGES)
    assert mixed.dtype == np.float32
    assert 1e-5 < relative(mixed, full) < 0.03
    assert_array_equal(extractor.transform(IMAGES), mixed)
    # The fitted network serves both: another setting needs no new fit, and leaves no trace.
    exact = extractor.set_params(mixed_precision=False).transform(IMAGES)
    assert relative(exact, full) < (0.01 if readout else 1e-6)
    assert_array_equal(extractor.set_params(mixed_precision=True).transform(IMAGES), mixed)


def test_means_over_space_are_not_rounded_to_bfloat16():
    parts = images(mixed_precision=True, layers=["4.c1"]).fit(IMAGES)
    features = parts.transform(IMAGES) / parts.layer_scales_["4.c1"]
    rounded = torch.from_numpy(features).bfloat16().float().numpy()
    assert (features != rounded).mean() > 0.9


def test_the_state_does_not_depend_on_the_layout_in_memory():
    parameters = {"epochs": 1, "layers": ["3"], "random_state": 0, "mixed_precision": True}
    extractor = images(**parameters).fit(IMAGES, np.arange(24) % 2)
    assert all(one.flags.c_contiguous for one in extractor.state_dict_.values())
    copy = pickle.loads(pickle.dumps(extractor))
    assert joblib.hash(copy.state_dict_) == joblib.hash(extractor.state_dict_)
    assert_array_equal(copy.transform(IMAGES), extractor.transform(IMAGES))


class Spy(nn.Module):
    """Remembers the memory layout of its inputs and the type of its products."""

    seen: list = []  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, bias=False)

    def forward(self, inputs):
        maps = self.conv(inputs)
        last = inputs.is_contiguous(memory_format=torch.channels_last)
        self.seen.append((last, self.conv.weight.is_contiguous(), maps.dtype))
        return maps.mean(dim=(2, 3))


@pytest.mark.parametrize("mixed", [True, False, "auto"])
def test_images_lie_with_the_channels_last_on_the_cpu(monkeypatch, mixed):
    monkeypatch.setattr(Spy, "seen", [])
    extractor = TorchFeatureExtractor(
        Spy, epochs=1, train_batch_size=8, device="cpu", mixed_precision=mixed, random_state=0
    )
    extractor.set_params(mean=127.5, std=60.0, batch_size=24)
    extractor.fit_transform(IMAGES, np.arange(24) % 2)
    seen = (True, False, torch.bfloat16 if mixed is True else torch.float32)
    exact = (True, False, torch.float32)
    # Two probes in full precision, three steps, two probes, one batch.
    assert Spy.seen == [exact] * 2 + [seen] * 3 + [exact] * 2 + [seen]


def test_volumes_have_no_such_layout():
    volumes = np.random.default_rng(0).normal(size=(6, 3 * 4 * 4 * 4))
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv3d(3, 2, 3), nn.Flatten())
    extractor = TorchFeatureExtractor(network, input_shape=(3, 4, 4, 4), device="cpu")
    expected = network(torch.as_tensor(volumes.reshape(6, 3, 4, 4, 4), dtype=torch.float32))
    assert_allclose(extractor.fit_transform(volumes), expected.detach().numpy(), atol=1e-6)


def arithmetic(monkeypatch, trained=None, **parameters):
    """Return the arithmetic on a device that this machine may lack."""
    monkeypatch.setattr(_readout, "resolve_device", torch.device)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    values = {"mixed_precision": "auto", "device": "cpu", "dtype": "float32", **parameters}
    if trained is None:
        return transform_arithmetic(SimpleNamespace(**values))
    return training_arithmetic(SimpleNamespace(**values), trained)


@pytest.mark.parametrize(
    ("device", "dtype", "mixed", "last"),
    [
        ("cpu", "float32", False, True),
        ("cpu", "float64", False, False),
        ("cuda", "float32", False, False),
        ("cuda", "float32", True, True),
    ],
)
def test_channels_stay_first_where_it_was_not_measured(monkeypatch, device, dtype, mixed, last):
    how = arithmetic(monkeypatch, device=device, dtype=dtype, mixed_precision=mixed)
    assert how.channels_last is last


@pytest.mark.parametrize(
    ("width", "stride", "device", "last"),
    [(4, 2, "cpu", False), (16, 2, "cpu", True), (4, 1, "cpu", True), (4, 2, "cuda", True)],
)
def test_channels_stay_first_where_gradients_would_be_written_elsewhere(
    monkeypatch, width, stride, device, last
):
    network = nn.Sequential(nn.Conv2d(width, 6, 1, stride), nn.ReLU())
    assert arithmetic(monkeypatch, network, device=device).channels_last is last
    assert arithmetic(monkeypatch, None, device=device).channels_last is (device == "cpu")


def test_there_is_nothing_to_mix_with_float64():
    extractor = small(dtype="float64", mixed_precision=True, device="cpu")
    with pytest.raises(ValueError, match=r"needs dtype='float32', .*; got dtype='float64'"):
        extractor.fit(X, Y)
    assert not hasattr(extractor, "state_dict_")


@pytest.mark.parametrize(
    ("wanted", "device", "dtype", "training", "mixed"),
    [
        ("auto", "cuda", "float32", True, True),
        ("auto", "cuda", "float32", False, False),
        ("auto", "cuda", "float64", True, False),
        ("auto", "cpu", "float32", True, False),
        (True, "cpu", "float32", False, True),
        (False, "cuda", "float32", True, False),
    ],
)
def test_auto_is_for_pretraining_on_cuda_devices(
    monkeypatch, wanted, device, dtype, training, mixed
):
    trained = nn.Linear(2, 2) if training else None
    how = arithmetic(monkeypatch, trained, mixed_precision=wanted, device=device, dtype=dtype)
    assert how.mixed is mixed
