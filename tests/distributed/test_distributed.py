"""A task in shards is the task in one piece: results, labels, errors, transactions."""

import sys
from functools import partial

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from ffnb_sklearn import Bands, FFNBClassifier, NaiveIncrementalClassifier
from ffnb_sklearn.core import statistics
from ffnb_sklearn.distributed import partial_fit_shards
from tests.separated_classes import unchanged

RNG = np.random.default_rng(0)
CODES = RNG.permutation(np.repeat(np.arange(6), 30))
X = 2.0 * RNG.standard_normal((6, 7))[CODES] + RNG.standard_normal((180, 7))
WEIGHTS = RNG.integers(0, 4, 180) * 0.7


@pytest.fixture(autouse=True)
def one_thread():
    """Run graphs in the calling thread; test_distributed_cluster.py has the processes."""
    with dask.config.set(scheduler="synchronous"):
        yield


def estimator(**parameters):
    return FFNBClassifier().set_params(**{"shared_band_size": 10, "random_state": 0, **parameters})


def shards(*arrays, n_shards=5):
    """List of delayed tuples of every n-th row of some arrays."""
    pieces = [tuple(one[start::n_shards] for one in arrays) for start in range(n_shards)]
    return [dask.delayed(piece, pure=False, traverse=False) for piece in pieces]


def assert_same(model, alone):
    scores = alone.decision_function(X)
    size = np.abs(scores[np.isfinite(scores)]).max()
    assert_allclose(model.decision_function(X), scores, rtol=0, atol=1e-8 * size)
    assert_array_equal(model.classes_, alone.classes_)
    assert [task.tolist() for task in model.task_classes_] == [
        task.tolist() for task in alone.task_classes_
    ]
    for name in ("n_tasks_", "n_parameters_", "null_space_dims_", "n_features_in_", "n_iter_"):
        assert getattr(model, name) == getattr(alone, name)


# ---- the result


@pytest.mark.parametrize("rank", [None, 1, 4, 64])
@pytest.mark.parametrize("n_shards", [1, 2, 17])
def test_any_rank_and_any_number_of_shards(rank, n_shards):
    settings = {"band_size": 0, "rank": rank}
    model = partial_fit_shards(estimator(**settings), shards(X, CODES, n_shards=n_shards))
    assert_same(model, estimator(**settings).partial_fit(X, CODES))


@pytest.mark.parametrize(
    "parameters",
    [
        {"band_size": 0},
        {"band_size": 0, "shrinkage": 0.0},
        {"band_size": 0, "classifier": "ova"},
        {},
        {"p": 3, "bands__init": "mono", "bands__activation": "tanh"},
        {"bands__init": "random", "bands__old_statistics": "zero"},
        {"skip_connection": False, "shared_band_size": 0, "rank": 2},
        {"bands__null_space": False, "bands__gamma": 1e-3, "rank": None},
        {"bands__units": "absolute", "epsilon": 0.1},
        {"bands": Bands(left_out=False)},
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


def test_one_machine_goes_on_where_shards_ended():
    first = CODES < 3
    model = partial_fit_shards(estimator(), shards(X[first], CODES[first]))
    alone = estimator().partial_fit(X[first], CODES[first])
    assert_same(model.partial_fit(X, CODES), alone.partial_fit(X, CODES))
    assert_allclose(model.forgetting_bound(X).bound, alone.forgetting_bound(X).bound)


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


def test_each_shard_is_made_once_per_pass():
    made = []
    make = dask.delayed(lambda n: made.append(n) or (X[n::4], CODES[n::4]), pure=False)
    partial_fit_shards(estimator(band_size=0, scale=False), [make(n) for n in range(4)])
    # The first is held from the moment that it has told how wide the inputs are.
    assert sorted(made) == [0, 1, 2, 3]
    # Trained bands, and the repair of the columns of a first task, need one more pass each.
    for parameters in ({"band_size": 1, "scale": False}, {"band_size": 0}):
        made.clear()
        partial_fit_shards(estimator(**parameters), [make(n) for n in range(4)])
        assert sorted(made) == [0, 1, 1, 2, 2, 3, 3]


def test_only_few_numbers_reach_the_caller(monkeypatch):
    from ffnb_sklearn.distributed import _partial_fit as module

    gathered, map_reduce = [], module._map_reduce
    monkeypatch.setattr(
        module, "_map_reduce", lambda *of: gathered.append(map_reduce(*of)) or gathered[-1]
    )
    partial_fit_shards(estimator(rank=2, scale=False), shards(X, CODES))
    sums, moments = gathered
    # All classes share one scatter of the inputs in the first pass, and are cut in the second.
    assert sum(len(one.factor) for one in sums.moments.values()) <= 7
    assert {one.factor.shape for one in moments.moments.values()} == {(2, 7 + 10 + 6)}


def test_rank_auto_is_that_of_one_machine(monkeypatch):
    monkeypatch.setattr(statistics, "FEWEST_AXES", 2)
    monkeypatch.setattr(statistics, "_MOST_AXES", 5)
    of = partial(estimator, rank="auto", band_size=0)
    found, alone = partial_fit_shards(of(), shards(X, CODES)), of().partial_fit(X, CODES)
    assert_same(found, alone)
    ranks = [[one.rank for one in clf._state.model.moments] for clf in (found, alone)]
    assert ranks[0] == ranks[1]
    assert max(ranks[0]) > 2


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


def changed(array, value):
    array = np.array(array)
    array[-1] = value
    return array


BAD = {
    "another kind": ((X, CODES.astype(str)), "y must hold labels of the kind seen before"),
    "NaN": ((changed(X, np.nan), CODES), "Input X contains NaN"),
    "too large": ((changed(X, 1e80), CODES), "X must have magnitudes of at most"),
    "another width": ((X[:, :6], CODES), "X has 6 features, but FFNBClassifier is expecting 7"),
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


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_at_the_end_changes_nothing(monkeypatch, error):
    def failing(*_, **__):
        raise error

    model = estimator().partial_fit(X[CODES < 2], CODES[CODES < 2])
    monkeypatch.setattr("ffnb_sklearn.core.shards.merge_classes", failing)
    with unchanged(model, X), pytest.raises(error):
        partial_fit_shards(model, shards(X, CODES))


def test_shards_without_weight_or_samples():
    nothing, empty = np.zeros(180), (X[:0], CODES[:0])
    pieces = [dask.delayed(empty), *shards(X, CODES), *shards(X, CODES % 7, nothing)]
    assert_same(partial_fit_shards(estimator(), pieces), estimator().partial_fit(X, CODES))
    with pytest.raises(ValueError, match="sample_weight must be positive for at least one sample"):
        partial_fit_shards(estimator(), shards(X, CODES, nothing))
    with pytest.raises(ValueError, match="X must hold at least one sample; all of its shards"):
        partial_fit_shards(estimator(), [dask.delayed(empty)] * 2)


def test_one_weight_for_a_shard():
    pieces = [dask.delayed((X[half], CODES[half], 2.0)) for half in (slice(90), slice(90, None))]
    alone = estimator().partial_fit(X, CODES, sample_weight=2.0)
    assert_same(partial_fit_shards(estimator(), pieces), alone)


class Changing:
    """Shards that differ from one computation to the next, as draws without a seed do."""

    def __init__(self, change):
        self.change, self.n_made = change, 0

    def __call__(self):
        self.n_made += 1
        rows, labels = X[:60].copy(), CODES[:60].copy()
        # The first shard is held after its first computation, so a second shard changes.
        if self.n_made > 1:
            return self.change(rows, labels)
        return rows, labels


CHANGES = {
    "fewer samples": lambda rows, labels: (rows[:-1], labels[:-1]),
    "other labels": lambda rows, labels: (rows, np.roll(labels, 1)),
    "a new label": lambda rows, labels: (rows, np.where(labels == 1, 99, labels)),
    "a lost label": lambda rows, labels: (rows[labels != 1], labels[labels != 1]),
    "other samples": lambda rows, labels: (rows + np.eye(60, 7), labels),
    "other weights": lambda rows, labels: (rows, labels, np.full(60, 2.0)),
    "nothing": lambda rows, labels: (rows[:0], labels[:0]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("fitted", [False, True])
def test_shards_that_change_between_the_passes_are_refused(change, fitted):
    # A pass that only decides the repair of columns may see other samples.
    model = estimator(scale=False)
    if fitted:
        model.partial_fit(X[CODES < 2], CODES[CODES < 2])
    before = model._state
    pieces = [*shards(X, CODES, n_shards=2), dask.delayed(Changing(CHANGES[change]), pure=False)()]
    with pytest.raises(ValueError, match="X must hold the same samples in both passes"):
        partial_fit_shards(model, pieces)
    assert model._state is before


def test_the_order_of_samples_may_change_between_the_passes():
    change = Changing(lambda rows, labels: (rows[::-1], labels[::-1]))
    piece = dask.delayed(change, pure=False)()
    model = partial_fit_shards(estimator(scale=False), [*shards(X, CODES), piece])
    both = np.concatenate([X, X[:60]]), np.concatenate([CODES, CODES[:60]])
    assert change.n_made == 2
    assert_same(model, estimator(scale=False).partial_fit(*both))


class Frame:
    """A frame of dask, as far as the arguments are concerned."""

    def to_dask_array(self, lengths):
        return ROWS


def test_declared_labels_are_of_the_same_kind():
    with pytest.raises(ValueError, match="classes must hold labels of the kind seen before"):
        partial_fit_shards(estimator(), shards(X, CODES), classes=["a"])


# ---- arguments


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"band_size": 2}, "band_size must be 1 to train bands from shards; got 2"),
        ({"n_layers": 2}, "n_layers must be 1 to train bands"),
        ({"bands__max_epochs": 3}, "max_epochs must be 0 to train bands"),
        ({"bands__batch_norm": True}, "batch_norm must be False to train bands"),
        ({"rank": 0}, "The 'rank' parameter"),
        ({"band_size": 0, "n_layers": 2, "p": [1]}, "p must have one entry per layer"),
    ],
    ids=repr,
)
def test_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        partial_fit_shards(estimator(**parameters), shards(X, CODES))


def test_p_as_wide_as_the_inputs_fails_where_it_is_used():
    old = np.isin(CODES, [0, 1])
    model = partial_fit_shards(estimator(p=X.shape[1]), shards(X[old], CODES[old]))

    with pytest.raises(ValueError, match=r"p=\d+ leaves no axis for new neurons in layer 1"):
        partial_fit_shards(model, shards(X[~old], CODES[~old]))


def test_without_bands_their_parameters_do_not_matter():
    settings = {"band_size": 0, "n_layers": 2, "bands__max_epochs": 3, "bands__batch_norm": True}
    model = partial_fit_shards(estimator(**settings), shards(X, CODES))
    assert_same(model, estimator(**settings).partial_fit(X, CODES))


def test_parameters_that_may_not_change_between_tasks():
    model = partial_fit_shards(estimator(band_size=0), shards(X, CODES))
    with pytest.raises(ValueError, match="shared_band_size cannot change between tasks"):
        partial_fit_shards(model.set_params(shared_band_size=5), shards(X, CODES))


ROWS, LABELS = da.from_array(X, (60, 7)), da.from_array(CODES, 60)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((X, CODES), TypeError, "X must be a dask array or a list of one or more shards; got nd"),
        (([],), TypeError, "got an empty one"),
        (
            (Frame(),),
            TypeError,
            r"got a dask Frame. Pass X.to_dask_array\(lengths=True\)",
        ),
        ((ROWS, Frame()), TypeError, r"got a dask Frame. Pass y.to_dask_array\(lengths=True\)"),
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


def test_estimators_of_another_type():
    with pytest.raises(TypeError, match="must be an FFNBClassifier; got NaiveIncremental"):
        partial_fit_shards(NaiveIncrementalClassifier(), shards(X, CODES))


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(ImportError, match=r"extra \[distributed\]"):
        partial_fit_shards(estimator(), [(X, CODES)])


def test_line_for_a_task(capsys):
    partial_fit_shards(estimator(verbose=True), shards(X, CODES, WEIGHTS))
    by_shards = capsys.readouterr().out
    estimator(verbose=True).partial_fit(X, CODES, sample_weight=WEIGHTS)
    # The seconds differ.
    assert by_shards.rpartition(",")[0] == capsys.readouterr().out.rpartition(",")[0] != ""
