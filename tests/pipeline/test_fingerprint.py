"""Transformers are equal if they have the same output, whatever else differs."""

import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse
import torch
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

from ffnb_sklearn import TorchFeatureExtractor
from ffnb_sklearn.pipeline._fingerprint import fingerprint, give_same_output

X = np.random.default_rng(0).normal(size=(8, 4))


class Vocabulary(TransformerMixin, BaseEstimator, dict):
    """An estimator that is a dictionary as well."""

    def __init__(self, scale=1):
        self.scale = scale


class Stateless(BaseEstimator):
    """An estimator with a state of its own kind."""

    def __init__(self, scale=1):
        self.scale = scale

    def __getstate__(self):
        return (self.scale,)


class Delegating(BaseEstimator):
    """An estimator that looks for its missing attributes in another one."""

    def __init__(self, weights=1.0, inner=None):
        self.weights = weights
        self.inner = inner

    def __getattr__(self, name):
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)


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
    "half": (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
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
    "dictionary": (Vocabulary(1), Vocabulary(2)),
    "own state": (Stateless(1), Stateless(2)),
    "delegating": (
        Delegating(1.0, extractor().fit(X)),
        Delegating(2.0, extractor().fit(X)),
    ),
    "partial": (partial(np.take, axis=0), partial(np.take, axis=1)),
    "lambda": (FunctionTransformer(lambda x: x), FunctionTransformer(lambda x: x)),
    "integers": (2**70, 2**71),
    "kinds": (1, True),
    "lengths": ([1], [1, 2]),
    "keys": ({"a": 1}, {"b": 1}),
    "dtypes": (torch.ones(2, dtype=torch.bfloat16), torch.ones(2)),
    "shapes": (torch.ones(2, device="meta"), torch.ones(3, device="meta")),
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


def test_clones_of_what_cannot_be_pickled_differ():
    one = FunctionTransformer(lambda x: x)
    assert give_same_output(one, clone(one))
    assert not give_same_output(one, FunctionTransformer(lambda x: 2.0 * x))


def test_digests_of_tensors_are_those_of_their_values():
    ones, twos = torch.ones(3), 2.0 * torch.ones(3)
    assert fingerprint([ones]) == fingerprint([ones.clone()])
    assert fingerprint([ones]) != fingerprint([twos])
    turned = torch.tensor([1.0 + 2.0j])
    assert fingerprint(turned.conj()) == fingerprint(torch.tensor([1.0 - 2.0j]))
