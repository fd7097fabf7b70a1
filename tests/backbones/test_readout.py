"""Pooled outputs of layers, read by hooks that leave no trace."""

import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor
from ffnb_sklearn.backbones._readout import _pool, read_layers

GENERATOR = torch.Generator().manual_seed(0)


def random(*shape):
    return torch.randn(*shape, generator=GENERATOR)


class Network(nn.Module):
    """A convolution, a rectifier that writes in place and runs twice, and layers that are odd."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.relu = nn.ReLU(inplace=True)
        self.flat = nn.Flatten()
        self.fc = nn.Linear(6 * 16, 4)
        self.recurrent = nn.LSTM(4, 5)
        self.total = Total()
        self.unused = nn.Linear(2, 2)

    def forward(self, images):
        scores = self.fc(self.flat(self.relu(self.conv(images))))
        self.recurrent(scores)
        self.total(scores)
        return self.relu(scores)


class Total(nn.Module):
    def forward(self, inputs):
        return inputs.sum(dim=0, keepdim=True)


@pytest.fixture(scope="module")
def network():
    return Network().eval().requires_grad_(False)


IMAGES = random(3, 3, 4, 4)


def read(module, layers, images, axis=1):
    return read_layers(module, images, layers, "mean", dict.fromkeys(layers, axis))


def n_hooks(module):
    return sum(len(one._forward_hooks) for one in module.modules())


# ---- layers


def test_outputs_are_those_before_the_next_layer_writes_to_them(network):
    conv, scores, last = read(network, ("conv", "fc", "relu"), IMAGES)
    maps = network.conv(IMAGES)
    assert (maps < 0).any()
    assert_allclose(conv, maps.mean(dim=(2, 3)), atol=1e-6)
    expected = network.fc(torch.relu(maps).flatten(1))
    assert (expected < 0).any()
    assert_allclose(scores, expected, atol=1e-6)
    # The last run of a layer that runs twice.
    assert_allclose(last, torch.relu(expected), atol=1e-6)


def test_hooks_are_removed_also_after_an_error(network):
    read(network, ("conv", "fc"), IMAGES)
    assert n_hooks(network) == 0
    with pytest.raises(TypeError, match=r"layer 'recurrent' must return a tensor .* tuple"):
        read(network, ("conv", "recurrent"), IMAGES)
    assert n_hooks(network) == 0
    with pytest.raises(RuntimeError):
        read(network, ("conv",), IMAGES[:, :2])
    assert n_hooks(network) == 0
    with pytest.raises(AttributeError):
        read(network, ("conv", "nowhere"), IMAGES)
    assert n_hooks(network) == 0


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        (("recurrent",), TypeError, "layer 'recurrent' must return a tensor of real numbers"),
        (("total",), ValueError, r"layer 'total' must return one row .* \(1, 4\) for 3 inputs"),
        (("fc", "unused"), ValueError, r"submodules that the backbone runs; .* not run \['unused'"),
    ],
)
def test_layers_that_cannot_be_read(network, layers, error, message):
    with pytest.raises(error, match=message):
        read(network, layers, IMAGES)


@pytest.mark.parametrize("layers", [[], ["fc", "fc"], ["fc", "head"], [""], [3]])
def test_names_that_are_not_there(network, layers):
    message = (
        r"layers must name submodules .* got \[.*\]\. Valid names are \['conv', 'relu', 'flat',"
    )
    extractor = TorchFeatureExtractor(network, layers=layers, input_shape=(3, 4, 4))
    with pytest.raises(ValueError, match=message):
        extractor.fit(IMAGES)


# ---- pooling


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((2, 6, 4, 8), 1), ((2, 4, 4, 6), 3), ((2, 6, 4, 2, 2), 1), ((2, 9, 6), 2), ((2, 9, 6, 4), 2)],
)
def test_outputs_are_pooled_over_all_axes_but_the_channels(shape, axis):
    values = random(*shape)
    rows = values.movedim(axis, 1).flatten(2)
    assert rows.shape[1] == 6
    assert_allclose(_pool(values, "mean", axis), rows.mean(dim=2), atol=1e-6)
    assert_allclose(_pool(values, "max", axis), rows.amax(dim=2))


def test_rows_are_copied():
    rows = random(2, 6)
    pooled = _pool(rows, "mean", 1)
    rows.zero_()
    assert pooled.abs().min() > 0
