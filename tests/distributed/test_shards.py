"""A bad shard is refused as one machine refuses it, and changes nothing."""

import dask
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import NotFittedError

from ffnb_sklearn.distributed import partial_fit_shards
from tests.distributed.small_shards import CODES, WEIGHTS, X, assert_same, estimator, shards
from tests.separated_classes import unchanged


@pytest.fixture(autouse=True)
def one_thread():
    """Run graphs in the calling thread; test_partial_fit_cluster.py has the processes."""
    with dask.config.set(scheduler="synchronous"):
        yield


def changed(array, value):
    array = np.array(array)
    array[-1] = value
    return array


BAD = {
    "another kind": ((X, CODES.astype(str)), "y must hold labels of the kind seen before"),
    "NaN": ((changed(X, np.nan), CODES), "Input X contains NaN"),
    "too large": ((changed(X, 1e80), CODES), "X must have magnitudes of at most"),
    "another width": (
        (X[:, :6], CODES),
        "X has 6 features, but IncrementalDiscriminantAnalysis is expecting 7",
    ),
    "continuous labels": ((X, CODES + 0.5), "Unknown label type: continuous"),
    "another length": ((X, CODES[:-1]), "inconsistent numbers of samples"),
    "negative weight": (
        (X, CODES, changed(WEIGHTS, -1.0)),
        "Negative values in .*`sample_weight`",
    ),
    "no labels": ((X, None), "requires y to be passed, but the target y is None"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_shard_is_the_error_of_one_machine_and_changes_nothing(name):
    bad, message = BAD[name]
    model = estimator().partial_fit(X[CODES < 2], CODES[CODES < 2])
    fresh = estimator()
    parameters = vars(fresh).copy()
    for one in (model, fresh):
        with unchanged(model, X), pytest.raises(ValueError, match=message):
            partial_fit_shards(one, [*shards(X, CODES), dask.delayed(bad, traverse=False)])
    assert vars(fresh) == parameters
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_shards_without_weight_or_samples():
    nothing, empty = np.zeros(180), (X[:0], CODES[:0])
    pieces = [dask.delayed(empty), *shards(X, CODES), *shards(X, CODES % 7, nothing)]
    assert_same(partial_fit_shards(estimator(), pieces), estimator().partial_fit(X, CODES))
    # Labels of weight 0 are declared, wherever their shards stand.
    unused = shards(X, CODES + 3, nothing)
    for pieces in ([*unused, *shards(X, CODES)], [*shards(X, CODES), *unused]):
        for scale in (False, True):
            model = partial_fit_shards(estimator(scale=scale), pieces)
            assert_array_equal(model.classes_, range(9))
            assert_same(model, estimator(scale=scale).partial_fit(X, CODES, classes=range(3, 9)))
    # They are checked as in partial_fit.
    with pytest.raises(ValueError, match="y must hold labels of the kind seen before"):
        partial_fit_shards(estimator(), [*shards(X, CODES), *shards(X, CODES.astype(str), nothing)])
    for one in (estimator(), estimator().partial_fit(X, CODES)):
        for pieces in (shards(X, CODES, nothing), [dask.delayed(empty)] * 2):
            with pytest.raises(ValueError, match="X must hold at least one sample, and sample_wei"):
                partial_fit_shards(one, pieces)


def test_one_weight_for_a_shard():
    pieces = [dask.delayed((X[half], CODES[half], 2.0)) for half in (slice(90), slice(90, None))]
    alone = estimator().partial_fit(X, CODES, sample_weight=2.0)
    assert_same(partial_fit_shards(estimator(), pieces), alone)


def test_declared_labels_are_of_the_same_kind():
    with pytest.raises(ValueError, match="classes must hold labels of the kind seen before"):
        partial_fit_shards(estimator(), shards(X, CODES), classes=["a"])
