import numpy as np
import pytest
import torch
from torch import nn

from ffnb_sklearn.backbones import ConvNet


def test_the_default_is_the_network_of_the_recorded_weights():
    network = ConvNet()
    keys = list(network.state_dict())
    assert keys[0] == "0.weight"
    assert sum(key.endswith("num_batches_tracked") for key in keys) == 20
    assert {key.rpartition(".")[0] for key in keys if ".sc." in key} == {
        f"{block}.sc.{part}" for block in (5, 7, 9) for part in (0, 1)
    }
    assert sum(one.numel() for one in network.parameters()) == 2_795_040
    assert network.n_features == 256


@pytest.mark.parametrize(
    ("parameters", "n_features", "side"),
    [
        ({"stem_width": 4, "widths": (4, 8), "blocks": (1, 1)}, 8, 14),
        ({"stem_width": 3, "widths": [5], "blocks": [2], "in_channels": 1}, 5, 7),
        ({"stem_width": 4, "widths": (4, 4, 6), "blocks": (1, 2, 1)}, 6, 9),
    ],
)
def test_width_of_the_output(parameters, n_features, side):
    network = ConvNet(**parameters)
    images = torch.zeros(2, parameters.get("in_channels", 3), side, side)
    assert network(images).shape == (2, n_features)
    assert network.n_features == n_features


def test_every_stage_but_the_first_halves_the_image():
    network = ConvNet(stem_width=4, widths=(4, 4, 4), blocks=(2, 1, 2))
    sides, blocks = [], list(network.children())[3:8]
    for block in blocks:
        block.register_forward_hook(lambda _, __, output: sides.append(output.shape[-1]))
    network(torch.zeros(1, 3, 16, 16))
    assert sides == [16, 16, 8, 4, 4]
    # A shortcut is a convolution only where the shape changes.
    shortcuts = [type(block.sc) for block in blocks]
    assert shortcuts == [nn.Identity, nn.Identity, nn.Sequential, nn.Sequential, nn.Identity]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"widths": (8, 8)}, "widths and blocks must have one entry per stage; got 2 and 4"),
        ({"widths": (), "blocks": ()}, r"widths must hold positive integers; got \(\)"),
        ({"blocks": (1, 0, 1, 1)}, r"blocks must hold positive integers; got \(1, 0, 1, 1\)"),
        ({"widths": 4}, r"widths must hold positive integers; got 4"),
        ({"blocks": np.array(2)}, r"blocks must hold positive integers; got array\(2\)"),
        ({"in_channels": 0}, r"in_channels must hold positive integers; got \[0\]"),
        ({"stem_width": 2.5}, r"stem_width must hold positive integers; got \[2.5\]"),
    ],
)
def test_parameters_that_make_no_network(parameters, message):
    with pytest.raises(ValueError, match=message):
        ConvNet(**parameters)
