"""Transformers are equal if they have the same output, whatever else differs."""

import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

from ffnb_sklearn import TorchFeatureExtractor
from ffnb_sklearn.pipeline._fingerprint import fingerprint, give_same_output

X = np.random.default_rng(0).normal(size=(8, 4))


def extractor(**parameters):
    return TorchFeatureExtractor(
        nn.Linear,
        backbone_params={"in_features": 4, "out_features": 2},
        weights={"weight": torch.ones(2, 4), "bias": torch.zeros(2)},
        **parameters,
    )


def columns(**parameters):
    return ColumnTransformer([("a", StandardScaler(**parameters), slice(0, 2))])


EQUAL = {
    "scaler": (StandardScaler().fit(X), StandardScaler().fit(X)),
    "output": (StandardScaler().fit(X).set_output(transform="pandas"), StandardScaler().fit(X)),
    "columns": (columns().fit(X), columns().fit(X)),
    "words": (HashingVectorizer(stop_words=["a"]).fit([""]), HashingVectorizer(stop_words=["a"])),
    "extractor": (extractor().fit(X), extractor(batch_size=3, verbose=1, epochs=0).fit(X)),
    "frozen": (FrozenEstimator(extractor().fit(X)), FrozenEstimator(extractor().fit(X))),
    "function": (FunctionTransformer(np.log1p), FunctionTransformer(np.log1p)),
    "missing": ([np.nan, None], [np.nan, None]),
    "sparse": (scipy.sparse.csr_array(X), scipy.sparse.csr_array(X)),
}
UNLIKE = {
    "state": (StandardScaler().fit(X), StandardScaler().fit(2.0 * X)),
    "fitted": (StandardScaler().fit(X), StandardScaler()),
    "parameter": (StandardScaler().fit(X), StandardScaler(with_std=False).fit(X)),
    "type": (StandardScaler(), FunctionTransformer()),
    "columns": (columns().fit(X), columns(with_std=False).fit(X)),
    "weights": (extractor().fit(X), extractor().set_params(weights=None, backbone=nn.Linear)),
    "scaling": (extractor().fit(X), extractor(std=2.0).fit(X)),
    "index": (
        FunctionTransformer(np.take, kw_args={"indices": [0, 1]}),
        FunctionTransformer(np.take, kw_args={"indices": (0, 1)}),
    ),
    "partial": (partial(np.take, axis=0), partial(np.take, axis=1)),
    "lambda": (FunctionTransformer(lambda x: x), FunctionTransformer(lambda x: x)),
    "integers": (2**70, 2**71),
    "kinds": (1, True),
    "lengths": ([1], [1, 2]),
    "keys": ({"a": 1}, {"b": 1}),
    "dtypes": (torch.ones(2, dtype=torch.float64), torch.ones(2)),
}


@pytest.mark.parametrize(("one", "other"), EQUAL.values(), ids=EQUAL)
def test_equal_output(one, other):
    assert give_same_output(one, other)
    assert give_same_output(other, pickle.loads(pickle.dumps(one)))


@pytest.mark.parametrize(("one", "other"), UNLIKE.values(), ids=UNLIKE)
def test_other_output(one, other):
    assert not give_same_output(one, other)
    assert not give_same_output(other, one)
    assert give_same_output(one, one)


def test_digests_of_tensors_are_those_of_their_values():
    ones, twos = torch.ones(3), 2.0 * torch.ones(3)
    assert fingerprint([ones]) == fingerprint([ones.clone()])
    assert fingerprint([ones]) != fingerprint([twos])
