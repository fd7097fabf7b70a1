"""Digits, a small network and its extractor, that the tests of pretraining have in common."""

from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor

X, Y = load_digits(return_X_y=True)
X, Y = X[Y < 4][:120], Y[Y < 4][:120]


def network(width=8):
    """Small network in which training differs from inference, and draws random numbers."""
    return nn.Sequential(
        nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, width)
    )


def small(**parameters):
    values = {"epochs": 3, "train_batch_size": 16, "std": 8.0, "random_state": 0}
    return TorchFeatureExtractor(network, **{**values, **parameters})


def assert_same_state(first, second):
    assert first.state_dict_.keys() == second.state_dict_.keys()
    for key, value in first.state_dict_.items():
        assert_array_equal(value, second.state_dict_[key], err_msg=key)
