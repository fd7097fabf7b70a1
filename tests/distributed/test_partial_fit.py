"""A task in shards is the task in one piece: results, labels, errors, transactions."""

import sys
from functools import partial

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest

from ffnb_sklearn import (
    FFNBClassifier,
    NaiveIncrementalClassifier,
)
from ffnb_sklearn.distributed import partial_fit_shards
from tests.distributed.small_shards import CODES, WEIGHTS, X, assert_same, estimator, shards
from tests.separated_classes import unchanged


@pytest.fixture(autouse=True)
def one_thread():
    """Run graphs in the calling thread; test_partial_fit_cluster.py has the processes."""
    with dask.config.set(scheduler="synchronous"):
        yield


# ---- the result


@pytest.mark.parametrize("rank", [None, 1, 4, 64])
@pytest.mark.parametrize("n_shards", [1, 2, 7])
def test_any_rank_and_any_number_of_shards(rank, n_shards):
    model = partial_fit_shards(estimator(rank=rank), shards(X, CODES, n_shards=n_shards))
    assert_same(model, estimator(rank=rank).partial_fit(X, CODES))


@pytest.mark.parametrize(
    "parameters",
    [
        {"shrinkage": "auto", "epsilon": "auto"},
        {"shrinkage": 0.0},
        {"classifier": "ova"},
        {"classifier": "ovo", "rank": 2, "shrinkage": "auto", "epsilon": "auto"},
        {"epsilon": "auto"},
        {"shared_band_size": 0},
        {"novelty": True},
    ],
    ids=repr,
)
def test_a_stream_of_tasks_with_weights(parameters):
    model, alone = estimator(**parameters), estimator(**parameters)
    # New classes, known and new ones, known ones alone, and one class.
    for task in ([4, 1], [0, 1, 5], [4, 0], [2]):
        now = np.isin(CODES, task)
        alone.partial_fit(X[now], CODES[now], sample_weight=WEIGHTS[now])
        partial_fit_shards(model, shards(X[now], CODES[now], WEIGHTS[now]))
        assert_same(model, alone)


def test_shards_may_hold_equal_samples():
    rows, codes = np.vstack([X, X]), np.r_[CODES, CODES]
    pieces = [*shards(X, CODES, n_shards=1), *shards(X, CODES, n_shards=1)]
    model = partial_fit_shards(estimator(scale=False), pieces)
    assert_same(model, estimator(scale=False).partial_fit(rows, codes))


def test_one_machine_goes_on_where_shards_ended():
    first = CODES < 3
    model = partial_fit_shards(estimator(), shards(X[first], CODES[first]))
    alone = estimator().partial_fit(X[first], CODES[first])
    assert_same(model.partial_fit(X, CODES), alone.partial_fit(X, CODES))


def test_dask_arrays_of_other_chunks():
    arrays = [da.from_array(one, chunks=40) for one in (CODES, WEIGHTS)]
    model = estimator()
    partial_fit_shards(model, da.from_array(X, (50, 3)), arrays[0], sample_weight=arrays[1])
    assert_same(model, estimator().partial_fit(X, CODES, sample_weight=WEIGHTS))


def test_dask_arrays_of_unknown_and_empty_blocks():
    rows, labels = da.from_array(X, (30, 7)), da.from_array(np.sort(CODES), 30)
    kept = labels % 2 == 1
    model = partial_fit_shards(estimator(), rows[kept], labels[kept])
    now = np.sort(CODES) % 2 == 1
    assert_same(model, estimator().partial_fit(X[now], np.sort(CODES)[now]))


def test_a_shard_is_a_pair_of_delayed_objects_too():
    pairs = [(dask.delayed(X[s::3]), dask.delayed(CODES[s::3])) for s in range(3)]
    assert_same(
        partial_fit_shards(estimator(), pairs, classes=[9, 8]),
        estimator().partial_fit(X, CODES, classes=[9, 8]),
    )


def test_without_a_seed():
    model = partial_fit_shards(estimator(random_state=None), shards(X, CODES))
    assert model.score(X, CODES) > 0.9
    state = np.random.RandomState(3)
    model = partial_fit_shards(estimator(random_state=state), shards(X, CODES))
    assert_same(model, estimator(random_state=np.random.RandomState(3)).partial_fit(X, CODES))


def test_rank_auto_is_that_of_one_machine(monkeypatch):
    monkeypatch.setattr("ffnb_sklearn.core.moments._AUTO_AXES", 5)
    of = partial(estimator, rank="auto")
    found, alone = partial_fit_shards(of(), shards(X, CODES)), of().partial_fit(X, CODES)
    assert_same(found, alone)
    ranks = [[one.rank for one in clf._state.model.moments] for clf in (found, alone)]
    assert ranks[0] == ranks[1]
    assert max(ranks[0]) == 5


# ---- labels and samples, checked together


@pytest.mark.parametrize("first", [CODES.astype(float), CODES.astype(np.int8)])
def test_numbers_of_several_dtypes(first):
    pieces = [*shards(X[:90], first[:90]), *shards(X[90:], CODES[90:])]
    assert_same(partial_fit_shards(estimator(), pieces), estimator().partial_fit(X, CODES))


@pytest.mark.parametrize("dtype", [str, object])
def test_strings_of_several_lengths(dtype):
    names = np.array(["m", "a rather long name", "z", "b", "", "zz"], dtype=dtype)[CODES]
    members = [np.flatnonzero(code == CODES) for code in range(6)]
    pieces = [dask.delayed((X[one], names[one].astype(dtype))) for one in members]
    assert_same(partial_fit_shards(estimator(), pieces), estimator().partial_fit(X, names))


def test_names_of_the_features():
    frame = pd.DataFrame(X, columns=list("abcdefg"))
    pieces = [dask.delayed((frame[start::3], CODES[start::3])) for start in range(3)]
    model = partial_fit_shards(estimator(), pieces)
    assert list(model.feature_names_in_) == list("abcdefg")
    pieces[1] = dask.delayed((frame[list("gfedcba")], CODES))
    with pytest.raises(ValueError, match="feature names should match"):
        partial_fit_shards(estimator(), pieces)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_at_the_end_changes_nothing(monkeypatch, error):
    def failing(*_, **__):
        raise error

    model = estimator().partial_fit(X[CODES < 2], CODES[CODES < 2])
    monkeypatch.setattr("ffnb_sklearn.core.merge_and_forget.merge_classes", failing)
    with unchanged(model, X), pytest.raises(error):
        partial_fit_shards(model, shards(X, CODES))


# ---- arguments


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rank": 0}, "The 'rank' parameter"),
        ({"shrinkage": 1.5}, "The 'shrinkage' parameter"),
    ],
    ids=repr,
)
def test_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        partial_fit_shards(estimator(**parameters), shards(X, CODES))


def test_parameters_that_may_not_change_between_tasks():
    model = partial_fit_shards(estimator(), shards(X, CODES))
    with pytest.raises(ValueError, match="shared_band_size cannot change between tasks"):
        partial_fit_shards(model.set_params(shared_band_size=5), shards(X, CODES))


ROWS, LABELS = da.from_array(X, (60, 7)), da.from_array(CODES, 60)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((X, CODES), TypeError, "X must be a dask array or a list of one or more shards; got nd"),
        (([],), TypeError, "got an empty one"),
        (([dask.delayed(X)],), TypeError, r"a shard must be \(X, y\) or .* got ndarray"),
        (([dask.delayed((X,))],), TypeError, "got tuple of 1"),
        (([dask.delayed((X, CODES))], CODES), ValueError, "y must be None where X is a list"),
        ((ROWS,), ValueError, "requires y to be passed"),
        ((ROWS[0], LABELS), ValueError, "X must have 2 dimensions; got a dask array of 1"),
        ((ROWS, CODES), TypeError, "y must be a dask array of one dimension .* got ndarray"),
        ((ROWS, LABELS[:90]), ValueError, "y must have as many samples as X.* got 90 in 2 blocks"),
        (
            (ROWS, da.from_array(CODES, 90)[LABELS.rechunk(90) > 0]),
            ValueError,
            "y must have as many samples as X",
        ),
    ],
)
def test_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        partial_fit_shards(estimator(), *arguments)


@pytest.mark.parametrize("other", [NaiveIncrementalClassifier, FFNBClassifier])
def test_estimators_of_another_type(other):
    message = f"must be an IncrementalDiscriminantAnalysis; got {other.__name__}"
    with pytest.raises(TypeError, match=message):
        partial_fit_shards(other(), shards(X, CODES))


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"extra \[distributed\]"):
        partial_fit_shards(estimator(), [(X, CODES)])
