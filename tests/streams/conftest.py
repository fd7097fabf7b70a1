"""Streams of blobs, for the tests of their results."""

import pytest
from sklearn.datasets import make_blobs

from ffnb_sklearn.baselines import NearestClassMean
from ffnb_sklearn.streams import evaluate_stream


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(300, n_features=3, centers=6, cluster_std=4.0, random_state=0)
    return X[:150], y[:150], X[150:], y[150:]


@pytest.fixture(scope="module")
def results(blobs):
    return [
        evaluate_stream(
            NearestClassMean(), *blobs, classes_per_task=2, class_order="random", random_state=seed
        )
        for seed in range(4)
    ]
