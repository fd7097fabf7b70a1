"""Samples of six classes, shards of them, and a small estimator that learns them."""

import dask
import numpy as np

from ffnb_sklearn import IncrementalDiscriminantAnalysis

RNG = np.random.default_rng(0)
CODES = RNG.permutation(np.repeat(np.arange(6), 30))
X = 2.0 * RNG.standard_normal((6, 7))[CODES] + RNG.standard_normal((180, 7))
WEIGHTS = RNG.integers(0, 4, 180) * 0.7


def estimator(**parameters):
    """Return an estimator that chooses nothing by default, because choices take time."""
    settings = {"shared_band_size": 10, "random_state": 0, "shrinkage": 0.3, "epsilon": 0.1}
    return IncrementalDiscriminantAnalysis(**{**settings, **parameters})


def shards(*arrays, n_shards=5):
    """List of delayed tuples of every n-th row of some arrays."""
    pieces = [tuple(one[start::n_shards] for one in arrays) for start in range(n_shards)]
    return [dask.delayed(piece, pure=False, traverse=False) for piece in pieces]


def assert_same(model, alone):
    scores = alone.decision_function(X)
    size = np.abs(scores[np.isfinite(scores)]).max()
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=0, atol=1e-7 * size)
    np.testing.assert_array_equal(model.classes_, alone.classes_)
    assert [task.tolist() for task in model.task_classes_] == [
        task.tolist() for task in alone.task_classes_
    ]
    for name in ("n_tasks_", "n_parameters_", "n_features_in_"):
        assert getattr(model, name) == getattr(alone, name)
