"""Pooled outputs of layers, read by hooks that leave no trace."""

import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from ffnb_sklearn.backbones._readout import Readout, channel_axis, pool

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


def n_hooks(module):
    return sum(len(one._forward_hooks) for one in module.modules())


# ---- layers


def test_outputs_are_those_before_the_next_layer_writes_to_them(network):
    conv, scores, last = Readout(("conv", "fc", "relu")).read(network, IMAGES)
    maps = network.conv(IMAGES)
    assert (maps < 0).any()
    assert_allclose(conv, maps.mean(dim=(2, 3)), atol=1e-6)
    expected = network.fc(torch.relu(maps).flatten(1))
    assert (expected < 0).any()
    assert_allclose(scores, expected, atol=1e-6)
    # The last run of a layer that runs twice.
    assert_allclose(last, torch.relu(expected), atol=1e-6)


def test_hooks_are_removed_also_after_an_error(network):
    Readout(("conv", "fc")).read(network, IMAGES)
    assert n_hooks(network) == 0
    with pytest.raises(TypeError, match=r"layer 'recurrent' must return a tensor .* tuple"):
        Readout(("conv", "recurrent")).read(network, IMAGES)
    assert n_hooks(network) == 0
    with pytest.raises(RuntimeError):
        Readout(("conv",)).read(network, IMAGES[:, :2])
    assert n_hooks(network) == 0
    with pytest.raises(AttributeError):
        Readout(("conv", "nowhere")).read(network, IMAGES)
    assert n_hooks(network) == 0


@pytest.mark.parametrize(
    ("layers", "error", "message"),
    [
        (("recurrent",), TypeError, "layer 'recurrent' must return a tensor of one row per input"),
        (("total",), ValueError, r"layer 'total' must return one row .* \(1, 4\) for 3 inputs"),
        (("fc", "unused"), ValueError, r"submodules that the backbone runs; .* not run \['unused'"),
    ],
)
def test_layers_that_cannot_be_read(network, layers, error, message):
    with pytest.raises(error, match=message):
        Readout(layers).read(network, IMAGES)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((), "layers must name at least one submodule of the backbone; got none"),
        (("fc", "fc"), r"each submodule once; got \['fc'\] several times"),
        (("fc", "head"), r"unknown \['head'\]. Valid names are \['conv', 'relu', 'flat', 'fc', "),
        (("",), r"unknown \[''\]"),
        ((3,), r"unknown \[3\]"),
    ],
)
def test_names_that_are_not_there(network, layers, message):
    with pytest.raises(ValueError, match=message):
        Readout(layers).check(network)


def test_views_are_averaged_layer_by_layer(network):
    layers = ("conv", "fc")
    views = lambda batch: [batch, batch.flip(3), 2 * batch]  # noqa: E731
    found = Readout(layers, views=views).read(network, IMAGES)
    parts = [Readout(layers).read(network, view) for view in views(IMAGES)]
    for one, several in zip(found, zip(*parts, strict=True), strict=True):
        assert_allclose(one, sum(several) / 3, atol=1e-6)
    (output,) = Readout(views="mirror").read(network, IMAGES)
    assert_allclose(output, (network(IMAGES) + network(IMAGES.flip(3))) / 2, atol=1e-6)


# ---- pooling

CONV = nn.Conv2d(3, 6, 1)


def test_mean_maximum_and_grid():
    maps = random(2, 6, 4, 8)
    assert_allclose(pool(maps, "mean", CONV, CONV), maps.mean(dim=(2, 3)), atol=1e-6)
    assert_allclose(pool(maps, "max", CONV, CONV), maps.amax(dim=(2, 3)))
    cells = maps.reshape(2, 6, 2, 2, 2, 4).mean(dim=(3, 5)).reshape(2, 24)
    assert_allclose(pool(maps, 2, CONV, CONV), cells, atol=1e-6)
    assert_allclose(pool(maps, 1, CONV, CONV), maps.mean(dim=(2, 3)), atol=1e-6)


def test_a_grid_has_no_more_cells_than_there_are_pixels():
    maps = random(2, 6, 1, 3)
    assert_allclose(pool(maps, 4, CONV, CONV), maps.reshape(2, 18), atol=1e-6)


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 4, 2, 2)])
def test_time_and_volumes(shape):
    values = random(*shape)
    assert_allclose(pool(values, "mean", CONV, CONV), values.flatten(2).mean(2), atol=1e-6)
    assert pool(values, 2, CONV, CONV).shape == (2, 6 * 2 ** (len(shape) - 2))


def test_a_grid_over_too_many_axes():
    with pytest.raises(ValueError, match=r"pooling=2, a grid, needs .*got shape \(2, 6, 1, 1, 1, "):
        pool(random(2, 6, 1, 1, 1, 1), 2, CONV, CONV)


def test_rows_are_copied():
    rows = random(2, 6)
    pooled = pool(rows, "mean", CONV, CONV)
    rows.zero_()
    assert pooled.abs().min() > 0


# ---- the axis of the channels


class Tokens(nn.Module):
    """A convolution whose pixels become tokens, as at the entry of a vision transformer."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Conv2d(3, 8, 4, stride=4)

    def forward(self, images):
        return self.proj(images).flatten(2).transpose(1, 2)


class Transformer(nn.Sequential):
    def __init__(self):
        block = nn.TransformerEncoderLayer(8, 2, 32, batch_first=True)
        super().__init__(Tokens(), block, nn.GELU(), nn.LayerNorm(8))


def test_tokens_of_a_transformer_are_pooled_over_positions():
    network = Transformer().eval()
    images = random(2, 3, 16, 12)
    with torch.no_grad():
        parts = Readout(("0", "1", "2", "3")).read(network, images)
        tokens = network(images)
    assert tokens.shape == (2, 12, 8)
    assert [part.shape for part in parts] == [(2, 8)] * 4
    assert_allclose(parts[-1], tokens.mean(dim=1), atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "layer", "axis"),
    [
        ((2, 6, 6, 6), nn.Conv2d(3, 6, 1), 1),
        ((2, 6, 6), nn.Linear(3, 6), -1),
        ((2, 9, 6), nn.Linear(3, 6), -1),
        ((2, 6, 9, 9), nn.LayerNorm(6), 1),
        ((2, 9, 9, 6), nn.LayerNorm(6), -1),
        ((2, 6, 9), nn.BatchNorm1d(6), 1),
        ((2, 6, 9), nn.GroupNorm(2, 6), 1),
        ((2, 9, 7), nn.ReLU(), 1),
        ((2, 5, 7), nn.ReLU(), -1),
        ((2, 4, 8), nn.ReLU(), 1),
    ],
)
def test_channels_are_found_by_the_widths(shape, layer, axis):
    network = nn.Sequential(layer, nn.Conv1d(3, 9, 1), nn.Linear(3, 7))
    assert channel_axis(shape, layer, network) == axis


def test_an_image_as_wide_as_a_convolution_has_its_channels_first():
    # A dense block: 8 channels and the 32 of its convolution, of an image of 32 x 32 pixels.
    layer = nn.Sequential(nn.Conv2d(8, 32, 3, padding=1))
    assert channel_axis((2, 40, 32, 32), layer, layer) == 1
    assert channel_axis((2, 40, 30, 32), layer, nn.Sequential(layer, nn.BatchNorm2d(40))) == 1
    assert channel_axis((2, 30, 30, 32), layer, layer) == -1


@pytest.mark.parametrize(
    ("shape", "layer", "others", "axis"),
    [
        ((2, 64, 128), nn.Conv2d(3, 128, 4), [nn.Conv2d(3, 64, 3)], -1),
        ((2, 50, 64), nn.Conv1d(50, 64, 1), [nn.Conv1d(3, 50, 1)], -1),
        ((2, 64, 30), nn.Linear(20, 64), [nn.Linear(96, 30)], 1),
        ((2, 40, 32, 32), nn.Conv2d(8, 16, 3), [nn.Linear(40, 32)], 1),
    ],
)
def test_the_layer_comes_before_its_network(shape, layer, others, axis):
    assert channel_axis(shape, layer, nn.Sequential(layer, *others)) == axis
