"""Networks of other packages: their classifiers are left out, their absence is explained."""

import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from ffnb_sklearn.backbones import TorchFeatureExtractor

ROWS = np.random.default_rng(0).normal(size=(6, 4))


class Classified(nn.Module):
    """As torchvision makes them: features, a pooling, and a classifier of scores."""

    def __init__(self, n_scores=3):
        super().__init__()
        self.features = nn.Sequential(nn.Unflatten(1, (1, -1)), nn.Conv1d(1, 5, 1))
        self.avgpool = nn.AdaptiveAvgPool1d(1)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(5, n_scores))

    def forward(self, inputs):
        return self.classifier(self.avgpool(self.features(inputs)).flatten(1))


@pytest.fixture
def factory_name(monkeypatch):
    """Dotted name of a factory in a package that is not there until it is asked for."""
    package, models = ModuleType("some_networks"), ModuleType("some_networks.models")
    models.classified = Classified
    monkeypatch.setitem(sys.modules, "some_networks", package)
    monkeypatch.setitem(sys.modules, "some_networks.models", models)
    return "some_networks.models:classified"


def test_the_head_is_left_out(factory_name):
    network = Classified().eval()
    weights = network.state_dict()
    extractor = TorchFeatureExtractor(factory_name, head="classifier", weights=weights)
    features = extractor.fit_transform(ROWS)
    rows = torch.tensor(ROWS, dtype=torch.float32)
    expected = network.avgpool(network.features(rows)).flatten(1).detach()
    assert_allclose(features, expected.numpy(), rtol=1e-6)
    assert not any(key.startswith("classifier") for key in extractor.state_dict_)
    # What was fitted, or saved without the head, fits as well.
    again = TorchFeatureExtractor(factory_name, head="classifier", weights=extractor.state_dict_)
    assert_array_equal(again.fit_transform(ROWS), features)
    del again._built
    assert_array_equal(again.transform(ROWS), features)
    scores = TorchFeatureExtractor(factory_name, weights=weights).fit_transform(ROWS)
    assert scores.shape == (6, 3)


def test_a_head_may_be_nested():
    extractor = TorchFeatureExtractor(Classified, head="classifier.1").fit(ROWS)
    assert extractor.n_features_out_ == 5
    assert set(extractor.state_dict_) == {"features.1.weight", "features.1.bias"}


@pytest.mark.parametrize(
    "head", ["fc", "classifier.7", "nowhere.fc", "avgpool.output_size", "", "classifier."]
)
def test_a_head_that_is_not_there(head):
    message = rf"such as one of \['features', 'avgpool', 'classifier'\]; got '{head}'"
    with pytest.raises(ValueError, match=message):
        TorchFeatureExtractor(Classified, head=head).fit(ROWS)


def test_pretraining_goes_around_the_head(factory_name):
    extractor = TorchFeatureExtractor(
        factory_name, head="classifier", epochs=2, random_state=0
    ).fit(ROWS, [0, 1] * 3)
    assert extractor.n_features_out_ == 5


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
@pytest.mark.parametrize("head", [None, "classifier"])
def test_prefixes_of_wrapped_networks_are_removed(prefix, head, tmp_path):
    state = Classified().state_dict()
    expected = TorchFeatureExtractor(Classified, head=head, weights=state).fit_transform(ROWS)
    wrapped = {prefix + key: value for key, value in state.items()}
    torch.save(wrapped, tmp_path / "wrapped.pt")
    for weights in (wrapped, tmp_path / "wrapped.pt"):
        extractor = TorchFeatureExtractor(Classified, head=head, weights=weights)
        with pytest.warns(UserWarning, match=f"The prefix '{prefix}' of all keys of weights"):
            assert_array_equal(extractor.fit_transform(ROWS), expected)
    wrapped["other"] = wrapped.pop(next(iter(wrapped)))
    with pytest.raises(ValueError, match=r"weights do not fit the backbone: .*Missing key"):
        TorchFeatureExtractor(Classified, head=head, weights=wrapped).fit(ROWS)


def test_a_prefix_of_the_network_itself_is_kept():
    def wrapped():
        network = nn.Sequential()
        network.add_module("module", nn.Linear(4, 2))
        return network

    weights = wrapped().state_dict()
    assert set(TorchFeatureExtractor(wrapped, weights=weights).fit(ROWS).state_dict_) == set(
        weights
    )


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_a_package_that_is_not_installed_is_named(monkeypatch, package):
    # An entry of None makes an import fail as if nothing of that name were installed.
    monkeypatch.setitem(sys.modules, package, None)
    message = (
        rf"'{package}:make' cannot be imported: .*; install it: python -m pip install {package}"
    )
    with pytest.raises(ValueError, match=message):
        TorchFeatureExtractor(f"{package}:make").fit(ROWS)


def test_advice_is_given_for_absent_packages_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", ModuleType("timm"))
    for name in ("timm:no_such", "no_such_package:make"):
        with pytest.raises(ValueError, match="cannot be imported") as caught:
            TorchFeatureExtractor(name).fit(ROWS)
        assert "pip install" not in str(caught.value)


def test_a_package_that_cannot_start_is_reported(monkeypatch, tmp_path):
    (tmp_path / "broken_networks.py").write_text("raise RuntimeError('built for another torch')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="cannot be imported: built for another torch"):
        TorchFeatureExtractor("broken_networks:make").fit(ROWS)
