"""Parameters that are set after `fit`: the extractor, its copies and its file answer alike."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from torch import nn

from ffnb_sklearn import TorchFeatureExtractor, load, save

X = np.random.default_rng(0).standard_normal((6, 12)).astype(np.float32)


def network(slope=0.1):
    return nn.Sequential(nn.Conv1d(2, 4, 3), nn.LeakyReLU(slope), nn.Flatten(), nn.Linear(16, 5))


def other_network():
    return nn.Linear(12, 3)


STATE = {key: value * 1.5 for key, value in network().state_dict().items()}

CHANGES = {
    "backbone": other_network,
    "backbone_params": {"slope": 0.9},
    "weights": {key: 2.0 * value for key, value in STATE.items()},
    "head": "3",
    "layers": ["0"],
    "pooling": "max",
    "views": "mirror",
    "input_shape": (4, 3),
    "resize": 8,
    "mean": 0.5,
    "std": 2.0,
    "epochs": 1,
    "random_state": 7,
}


def fitted(layers):
    extractor = TorchFeatureExtractor(
        network, weights=STATE, input_shape=(2, 6), layers=layers, dtype="float64"
    )
    return extractor.fit(X)


@pytest.mark.parametrize("layers", [None, ["1", "3"]])
@pytest.mark.parametrize("name", CHANGES)
def test_copies_and_files_answer_as_the_object(name, layers, tmp_path):
    extractor = fitted(layers)
    expected = extractor.transform(X)
    extractor.set_params(**{name: CHANGES[name]})
    save(extractor, tmp_path / "extractor.ffnb")
    factories = {f"{__name__}:{one.__name__}": one for one in (network, other_network)}
    loaded = load(tmp_path / "extractor.ffnb", factories=factories)
    copies = [extractor, deepcopy(extractor), pickle.loads(pickle.dumps(extractor)), loaded]
    copies.append(deepcopy(loaded).set_params(**{name: CHANGES[name]}))
    for one in copies:
        assert_array_equal(one.transform(X), expected)
    assert not hasattr(clone(extractor), "state_dict_")
    # Another dtype needs the network anew, and it is that of fit.
    single = deepcopy(extractor).set_params(dtype="float32").transform(X)
    assert_allclose(single, expected, rtol=1e-4, atol=1e-5)


def test_another_fit_reads_the_new_parameters():
    extractor = fitted(None).set_params(backbone_params={"slope": 0.9})
    fresh = clone(extractor).fit(X)
    assert_array_equal(extractor.fit(X).transform(X), fresh.transform(X))
    assert not np.allclose(extractor.transform(X), fitted(None).transform(X))
