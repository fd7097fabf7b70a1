import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor
from ffnb_sklearn.backbones._inputs import Inputs

ROWS = np.arange(-12.0, 12.0).reshape(2, 12)


def test_rows_are_shaped_then_scaled():
    inputs = Inputs(shape=(3, 2, 2), mean=[1.0, 2.0, 3.0], std=2.0)
    prepared = inputs.prepare(ROWS, torch.device("cpu"), torch.float64)
    expected = (ROWS.reshape(2, 3, 2, 2) - np.reshape([1.0, 2.0, 3.0], (3, 1, 1))) / 2.0
    assert_array_equal(prepared.numpy(), expected)


@pytest.mark.parametrize("inputs", [Inputs(shape=(3, 5)), Inputs(mean=[1.0, 2.0])])
def test_what_rows_cannot_take_is_refused_beforehand(inputs):
    with pytest.raises(ValueError, match=r"input_shape|mean"):
        inputs.check(12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_network_that_writes_to_its_input_leaves_the_rows_alone(dtype):
    rows = ROWS.astype(dtype)
    before = rows.copy()
    extractor = TorchFeatureExtractor(nn.ReLU, backbone_params={"inplace": True}, dtype=dtype)
    assert_array_equal(extractor.fit_transform(rows), np.maximum(before, 0))
    assert_array_equal(rows, before)
