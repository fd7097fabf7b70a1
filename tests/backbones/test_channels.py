"""The axis of the channels is found in networks of any kind, named by the user, or an error."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor

pytestmark = pytest.mark.filterwarnings(
    "ignore::ffnb_sklearn.exceptions.RandomFeaturesWarning",
)
RNG = np.random.default_rng(0)


class Move(nn.Module):
    """Permute the axes of a batch."""

    def __init__(self, *order):
        super().__init__()
        self.order = order

    def forward(self, inputs):
        return inputs.permute(0, *self.order)


class Residual(nn.Sequential):
    """Add the outputs of layers to their input, as blocks of most networks do."""

    def forward(self, inputs):
        return inputs + super().forward(inputs)


class Ending(nn.Module):
    """Refuse inputs of another size after all layers have run, as a classifier does."""

    def __init__(self, *shape):
        super().__init__()
        self.shape = shape

    def forward(self, inputs):
        if inputs.shape[1:] != self.shape:
            raise ValueError("another size")
        return inputs.flatten(1)


class Beginning(Ending):
    """Refuse inputs of another size before any layer has run."""

    def forward(self, inputs):
        super().forward(inputs)
        return inputs


class PermutedNorm(nn.LayerNorm):
    """Normalise channels on axis 1, as timm and torchvision do in a subclass of `LayerNorm`."""

    def forward(self, inputs):
        return super().forward(inputs.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Joints(nn.Module):
    """Mix the 25 joints of a skeleton by a fixed matrix."""

    def __init__(self):
        super().__init__()
        self.register_buffer("graph", torch.linspace(-1, 1, 625).reshape(25, 25))

    def forward(self, inputs):
        return torch.einsum("nctv,vw->nctw", inputs, self.graph)


def speech():
    """A convolution over time before a transformer: 32 channels, 119 frames."""
    block = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
    return nn.Sequential(nn.Conv1d(1, 32, 10, 4), nn.GELU(), Move(2, 1), block, nn.Dropout(0.1))


def skeletons():
    """Graph convolutions of 64 channels over 64 frames and 25 joints."""
    layers = [nn.Conv2d(64, 64, (9, 1), padding=(4, 0)), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(nn.Conv2d(3, 64, 1), Joints(), Residual(*layers), nn.ReLU())


def mel_bands(*ends):
    """Convolutions of 64 channels over 64 mel bands and 101 times."""
    layers = [nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(nn.Conv2d(1, 64, 3, padding=1), Residual(*layers), nn.ReLU(), *ends)


def windowed():
    """A transformer with the channels last, for pictures that are not square."""
    block = Residual(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
    return nn.Sequential(nn.Conv2d(3, 16, 4, 4), Move(2, 3, 1), block, nn.Identity())


def convnext():
    """Convolutions with the channels first around linear layers with the channels last."""
    inner = [Move(2, 3, 1), nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8), Move(3, 1, 2)]
    return nn.Sequential(nn.Conv2d(3, 8, 4, 4), PermutedNorm(8), Residual(*inner))


def patches():
    """A vision transformer that accepts one size only, with as many tokens as rows of pixels."""
    block = Residual(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
    parts = [Beginning(3, 16, 16), nn.Conv2d(3, 8, 4, 4), nn.Flatten(2), Move(2, 1)]
    return nn.Sequential(*parts, block, nn.ReLU())


def volumes():
    """Convolutions over space and time."""
    return nn.Sequential(nn.Conv3d(2, 5, 3), nn.BatchNorm3d(5), nn.ReLU(), nn.MaxPool3d(2))


def words():
    """Embedded tokens, as many as channels."""
    inner = [nn.LayerNorm(12), nn.Linear(12, 12)]
    return nn.Sequential(Whole(), nn.Embedding(9, 12), nn.ReLU(), Residual(*inner), nn.Tanh())


class Whole(nn.Module):
    def forward(self, inputs):
        return inputs.long() % 9


CASES = {
    "speech": (speech, (1, 484), ["0", "1", "2", "3", "4"], 32),
    "skeletons": (skeletons, (3, 64, 25), ["0", "1", "2", "2.2", "3"], 64),
    "mel bands": (mel_bands, (1, 64, 101), ["0", "1", "1.2", "2"], 64),
    "mel bands, one size": (
        lambda: mel_bands(Ending(64, 64, 101)),
        (1, 64, 101),
        ["0", "1", "1.2", "2"],
        64,
    ),
    "windowed": (windowed, (3, 32, 64), ["0", "1", "2", "2.0", "3"], 16),
    "windowed, as many rows as channels": (windowed, (3, 64, 32), ["0", "1", "2", "3"], 16),
    "convnext": (convnext, (3, 32, 32), ["0", "1", "2", "2.3"], 8),
    "patches": (patches, (3, 16, 16), ["1", "2", "3", "4", "4.3", "5"], 8),
    "volumes": (volumes, (2, 9, 9, 9), ["0", "1", "2", "3"], 5),
    "words": (words, (12,), ["1", "2", "3", "4"], 12),
}


def outputs_of(network, inputs, layers):
    """Return the outputs of layers."""
    found = {}
    for name in layers:
        layer = network.get_submodule(name)
        layer.register_forward_hook(
            lambda _layer, _inputs, output, name=name: found.update({name: output.numpy()})
        )
    with torch.no_grad():
        network(torch.from_numpy(inputs))
    return found


def extractor_of(make, shape, layers, **parameters):
    """Return an extractor of a network with weights that are drawn once."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        state = make().state_dict()
    return TorchFeatureExtractor(
        make, weights=state, input_shape=shape, layers=layers, **parameters
    )


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_pooled_to_channels(case):
    make, shape, layers, n_channels = CASES[case]
    inputs = RNG.random((3, *shape), dtype=np.float32) * 20
    extractor = extractor_of(make, shape, layers)
    features = extractor.fit_transform(inputs.reshape(3, -1))
    assert extractor.layer_widths_ == dict.fromkeys(layers, n_channels)

    network = make().eval()
    network.load_state_dict(extractor.weights)
    outputs = outputs_of(network, inputs, layers)
    for number, name in enumerate(layers):
        output = outputs[name]
        columns = features[:, number * n_channels : (number + 1) * n_channels]
        axis = extractor.layer_axes_[name]
        assert output.shape[axis] == n_channels
        positions = tuple(i for i in range(1, output.ndim) if i != axis)
        expected = output.mean(axis=positions) * extractor.layer_scales_[name]
        assert_allclose(columns, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("case", "axes"),
    [
        ("skeletons", [1, 1, 1, 1, 1]),
        ("mel bands", [1, 1, 1, 1]),
        ("mel bands, one size", [1, 1, 1, 1]),
        ("windowed, as many rows as channels", [1, 3, 3, 3]),
        ("words", [2, 2, 2, 2]),
    ],
)
def test_axes_of_equal_lengths_are_told_apart(case, axes):
    make, shape, layers, _ = CASES[case]
    inputs = RNG.random((3, np.prod(shape)), dtype=np.float32) * 20
    extractor = extractor_of(make, shape, layers).fit(inputs)
    assert list(extractor.layer_axes_.values()) == axes


def ambiguous():
    """A network for one size, with as many channels as tokens."""
    parts = [Beginning(3, 16, 16), nn.Conv2d(3, 16, 4, 4), nn.Flatten(2), Move(2, 1)]
    return nn.Sequential(*parts, nn.Tanh())


AMBIGUOUS = RNG.random((3, 3, 16, 16), dtype=np.float32)


def test_two_possible_axes_are_an_error():
    message = (
        r"channel_axis must name the axis of the channels in the output of layer '4', which has "
        r"shape \(n_samples, 16, 16\), because .* possible axes are \[1, 2\]"
    )
    extractor = extractor_of(ambiguous, (3, 16, 16), ["4"])
    with pytest.raises(ValueError, match=message):
        extractor.fit(AMBIGUOUS)
    assert not hasattr(extractor, "layer_axes_")


@pytest.mark.parametrize(
    ("channel_axis", "axes"),
    [
        (2, {"1": 2, "4": 2}),
        (-1, {"1": 3, "4": 2}),
        ({"4": -1}, {"1": 1, "4": 2}),
        ({"4": 1}, {"1": 1, "4": 1}),
        (np.int64(1), {"1": 1, "4": 1}),
    ],
)
def test_the_user_names_the_axis(channel_axis, axes):
    extractor = extractor_of(ambiguous, (3, 16, 16), ["1", "4"], channel_axis=channel_axis)
    features = extractor.fit_transform(AMBIGUOUS)
    assert extractor.layer_axes_ == axes
    network = ambiguous().eval()
    network.load_state_dict(extractor.weights)
    (output,) = outputs_of(network, AMBIGUOUS, ["4"]).values()
    expected = output.mean(axis=3 - axes["4"]) * extractor.layer_scales_["4"]
    assert_allclose(features[:, -16:], expected, atol=1e-5)
    copied = pickle.loads(pickle.dumps(extractor))
    assert_allclose(copied.transform(AMBIGUOUS), features, atol=1e-6)


@pytest.mark.parametrize(
    ("channel_axis", "message"),
    [
        (0, r"axis of the output of layer '1' other than 0, .* \(n_samples, 16, 4, 4\); got 0"),
        (3, r"axis of the output of layer '4' .* got 3"),
        (-3, r"axis of the output of layer '4' .* got -3"),
        (True, r"must be an integer, or map names in layers to integers; got True"),
        ({"4": "last"}, r"must be an integer, or map names in layers to integers; got \{'4'"),
        ({"5": 1}, r"must map names in layers=\['1', '4'\] to integers; got \['5'\]"),
    ],
)
def test_axes_that_are_not_there(channel_axis, message):
    extractor = extractor_of(ambiguous, (3, 16, 16), ["1", "4"], channel_axis=channel_axis)
    with pytest.raises(ValueError, match=f"channel_axis.*{message}"):
        extractor.fit(AMBIGUOUS)


class Shared(nn.Module):
    """A rectifier that runs behind two convolutions, the second of which needs one size."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3)
        self.only_size = Beginning(6, 6, 6)
        self.second = nn.Conv2d(6, 4, 3)
        self.relu = nn.ReLU()

    def forward(self, images):
        return self.relu(self.second(self.only_size(self.relu(self.first(images)))))


def test_a_layer_that_runs_twice_is_compared_with_the_same_run():
    images = RNG.random((3, 3, 8, 8), dtype=np.float32)
    extractor = TorchFeatureExtractor(Shared, input_shape=(3, 8, 8), layers=["relu"])
    assert extractor.fit(images).layer_axes_ == {"relu": 1}


def test_rearranged_channels_do_not_count():
    """A shuffle of pixels has 12 channels, and 48 columns behind 48 channels of a convolution."""

    def make():
        layers = [nn.Conv2d(3, 48, 1), nn.PixelShuffle(2)]
        return nn.Sequential(*layers)

    images = RNG.random((3, 3, 8, 24), dtype=np.float32)
    extractor = TorchFeatureExtractor(make, input_shape=(3, 8, 24), layers=["1"])
    assert extractor.fit(images).layer_widths_ == {"1": 12}
