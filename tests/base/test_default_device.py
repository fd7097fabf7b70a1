"""A default device that a user has set for torch plays no part: every tensor is put on its own.

Tensors on torch's "meta" device have no values, so that one that lands there by default fails as
soon as it meets others. It stands for a GPU.
"""

import pytest
import torch
from numpy.testing import assert_array_equal
from torch import nn

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis, NaiveIncrementalClassifier
from ffnb_sklearn.backbones import FlipCrop, Jitter, SkeletonGCN, TorchFeatureExtractor
from tests.separated_classes import CODES, X, learned


@pytest.fixture
def meta_device():
    yield lambda: torch.set_default_device("meta")
    torch.set_default_device(None)


SMALL = {
    "shared_band_size": 10,
    "shrinkage": 0.5,
    "epsilon": 0.1,
    "random_state": 0,
    "device": "cpu",
}
CHOSEN = {"shrinkage": "auto", "epsilon": "auto"}


def ffnb(**parameters):
    return FFNBClassifier().set_params(**{"band_size": 1, **SMALL, **parameters})


def discriminant(**parameters):
    return IncrementalDiscriminantAnalysis(**{**SMALL, **parameters})


@pytest.mark.filterwarnings("ignore:bands__max_epochs=2 has had no effect:UserWarning")
@pytest.mark.filterwarnings("ignore:Trained neurons keep a trace of the classes:UserWarning")
@pytest.mark.parametrize(
    ("make", "parameters"),
    [
        (ffnb, {}),
        (discriminant, CHOSEN),
        (ffnb, {"band_size": 2, "n_layers": 2}),
        (ffnb, {"bands__init": "random", "bands__old_statistics": "zero"}),
        (ffnb, {"bands__init": "mono", "bands__max_epochs": 2, "bands__batch_norm": True}),
        (ffnb, {"skip_connection": False, "shared_band_size": 0, "bands__activation": "tanh"}),
        (ffnb, {"rank": None, "chunk_size": 7}),
        (ffnb, {"rank": 1, "shared_band_size": 4}),
        (ffnb, {"shared_band_size": 300}),
        (ffnb, {"shared_band_size": 300, "rank": None}),
        (ffnb, {"shrinkage": 0.0}),
        (ffnb, {"shrinkage": 1.0}),
        (ffnb, {"covariance": "identity"}),
        (ffnb, {"classifier": "ova"}),
        (discriminant, {"rank": None, "chunk_size": 7}),
        (discriminant, {"rank": 1, "shared_band_size": 4}),
        (discriminant, {"shared_band_size": 300}),
        (discriminant, {"classifier": "ova", **CHOSEN}),
    ],
)
def test_of_the_classifier(make, parameters, meta_device):
    def outcome():
        model = learned(make(**parameters), [0, 1], [2, 3], [0, 4])
        model.forget([1])
        assert {one.device.type for one in model.to_torch().buffers()} == {"cpu"}
        return model.decision_function(X), model.transform(X), model.predict(X)

    expected = outcome()
    meta_device()
    for one, other in zip(outcome(), expected, strict=True):
        assert_array_equal(one, other)


def test_of_a_network_trained_by_descent(meta_device):
    def outcome():
        settings = {"max_epochs": 2, "random_state": 0, "device": "cpu"}
        return learned(NaiveIncrementalClassifier(**settings), [0, 1], [2, 3]).decision_function(X)

    expected = outcome()
    meta_device()
    assert_array_equal(outcome(), expected)


@pytest.mark.parametrize(
    ("augment", "shape"), [(Jitter(), (X.shape[1],)), (FlipCrop(padding=1), (1, 1, X.shape[1]))]
)
def test_of_a_backbone_that_is_trained_on(augment, shape, meta_device):
    def outcome():
        extractor = TorchFeatureExtractor(
            _Flat,
            backbone_params={"n_inputs": X.shape[1]},
            input_shape=shape,
            augment=augment,
            epochs=2,
            random_state=0,
            device="cpu",
        )
        return extractor.fit_transform(X, CODES)

    expected = outcome()
    meta_device()
    assert_array_equal(outcome(), expected)


class _Flat(nn.Sequential):
    """A linear layer on flattened inputs."""

    def __init__(self, n_inputs):
        super().__init__(nn.Flatten(), nn.Linear(n_inputs, 3))


def test_of_a_network_with_filters_that_are_drawn(meta_device):
    meta_device()
    network = SkeletonGCN(15, 24, n_pairings=2, random_state=0)
    # As any network of torch's it is where the user wants it.
    assert {one.device.type for one in network.parameters()} == {"meta"}
    with torch.device("cpu"):
        assert {one.device.type for one in SkeletonGCN(15, 24).parameters()} == {"cpu"}
