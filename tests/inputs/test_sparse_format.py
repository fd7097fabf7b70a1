"""Sparse arrays with wrong indices are refused before SciPy or torch follows an index."""

import io
from copy import copy

import dask.array as da
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import MaxAbsScaler, Normalizer
from torch import nn

from ffnb_sklearn import (
    Bands,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    NaiveIncrementalClassifier,
    evaluate_stream,
    make_continual_pipeline,
    partial_fit_shards,
)
from ffnb_sklearn._inputs.arrays import checked_sparse
from ffnb_sklearn.backbones import TorchFeatureExtractor
from tests import entrances
from tests.entrances import CALLS, ENTRANCES

RNG = np.random.default_rng(0)
X = np.where(RNG.random((12, 6)) < 0.5, RNG.normal(size=(12, 6)) + 9.0, 0.0)
Y = np.repeat([0, 1], 6)
FORMATS = ("csr", "csc", "bsr", "coo", "dia", "lil", "dok")


def with_entry(values, position, value):
    """A copy of an array with another value at a position, in a type that holds it."""
    changed = np.array(values, dtype=np.int64)
    changed[position] = value
    return changed


def changed(form, **attributes):
    """X in a format, with other values of attributes, which no constructor has checked."""
    made = sparse.csr_array(X).asformat(form)
    for name, (position, value) in attributes.items():
        setattr(made, name, with_entry(getattr(made, name), position, value))
    return made


def coordinates(row=None, column=None):
    """X in coordinates, with other values of the first row or column."""
    made = sparse.coo_array(X)
    rows, columns = made.coords
    rows = rows if row is None else with_entry(rows, 0, row)
    made.coords = (rows, columns if column is None else with_entry(columns, 0, column))
    return made


def short(form, name):
    """X in a format, with an array of indices that lacks its last entry."""
    made = sparse.csr_array(X).asformat(form)
    setattr(made, name, getattr(made, name)[:-1])
    return made


def hole(form):
    """An array without entries whose pointers leave the memory and come back."""
    made = sparse.csr_array((12, 6)).asformat(form)
    made.indptr = with_entry(made.indptr, 1, 10**7)
    return made


def wrapping():
    """Pointers whose differences are positive in 32 bits, because they wrap around."""
    made = sparse.csr_array(X)
    pointers = made.indptr.astype(np.int32)
    pointers[1:4] = [2**31 - 1, -(2**31), -1]
    made.indptr = pointers
    return made


def of_lists(indices, values):
    """X in lists, with another first row."""
    made = sparse.lil_array(X)
    made.rows[0], made.data[0] = indices, values
    return made


def of_keys(key):
    """X in a dictionary of keys with a further key."""
    made = sparse.dok_array(X)
    made._dict[key] = 1.0
    return made


def of_diagonals(offsets):
    """Diagonals with other offsets than those that were checked."""
    made = sparse.dia_array(X)
    made.offsets = np.array(offsets)
    return made


def from_file():
    """CSR rows of a file with a wrong index."""
    file = io.BytesIO()
    sparse.save_npz(file, changed("csr", indices=(3, 10**7)))
    file.seek(0)
    return sparse.load_npz(file)


FAULTS = {
    **{
        f"{form} {index}": changed(form, indices=(3, index))
        for form in ("csr", "csc", "bsr")
        for index in (10**7, 12 if form == "csc" else 6, -1, -(10**9))
    },
    **{
        f"{form} pointer {position}: {pointer}": changed(form, indptr=(position, pointer))
        for form in ("csr", "csc", "bsr")
        for position, pointer in [(0, 1), (1, 10**7), (2, -5), (-1, 10**7), (-1, -1), (-1, 0)]
    },
    **{f"hole {form}": hole(form) for form in ("csr", "csc", "bsr")},
    **{f"short {form}": short(form, "indices") for form in ("csr", "csc", "bsr")},
    **{f"few pointers {form}": short(form, "indptr") for form in ("csr", "csc", "bsr")},
    "wrapping": wrapping(),
    "from a file": from_file(),
    "coo row": coordinates(row=12),
    "coo row -1": coordinates(row=-1),
    "coo column": coordinates(column=10**7),
    "coo column -1": coordinates(column=-1),
    "coo in 33 bits": coordinates(column=2**32),
    "lists": of_lists([10**7], [1.0]),
    "lists -1": of_lists([-1], [1.0]),
    "lists of few values": of_lists([0, 1, 2], [1.0]),
    "lists of many values": of_lists([0], [1.0] * 10**6),
    "keys": of_keys((0, 10**7)),
    "keys -1": of_keys((-1, 0)),
    "diagonals": of_diagonals(np.arange(10**6)),
    "equal diagonals": of_diagonals(np.zeros(len(sparse.dia_array(X).offsets), dtype=int)),
}
WRONG = "X must have indices within its shape, .* got a sparse array of format '.*' with a fault: "


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_index_is_refused(name):
    with pytest.raises(ValueError, match=WRONG):
        checked_sparse(FAULTS[name], "X")


def test_indices_that_are_no_integers():
    made = sparse.csr_array(X)
    made.indices = np.full(made.nnz, np.nan)
    with pytest.raises(ValueError, match=WRONG + "indices must be integers; got float64"):
        checked_sparse(made, "X")


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_right_indices_pass_and_the_array_of_the_user_stays(form, kind):
    given = getattr(sparse, f"{form}_{kind}")(X)
    before = copy(vars(given))
    checked = checked_sparse(given, "X")
    assert_array_equal(checked.toarray(), X)
    assert vars(given).keys() == before.keys()
    assert all(vars(given)[name] is value for name, value in before.items())


def test_repeated_unsorted_and_unused_entries_pass():
    data, columns = np.array([1.0, 2.0, 4.0, 8.0]), np.array([5, 0, 5, 10**7])
    made = sparse.csr_array((12, 6))
    made.data, made.indices = data, columns
    made.indptr = np.append(0, np.full(12, 3))
    expected = np.zeros((12, 6))
    expected[0, [0, 5]] = [2.0, 5.0]
    assert_array_equal(checked_sparse(made, "X").toarray(), expected)
    fit = IncrementalDiscriminantAnalysis(shared_band_size=0, random_state=0).fit
    assert_array_equal(fit(made, Y).predict(made), fit(expected, Y).predict(expected))


def test_other_values_are_returned():
    for value in (X, None, "text", [[1.0]]):
        assert checked_sparse(value, "X") is value


# ---- every entrance

# Errors of calls that take no sparse array at all.
REFUSED = "Sparse data was passed for X|sparse array length is ambiguous|X must be a dask array"


def test_every_public_call_is_an_entrance():
    called = {(entrance.function, entrance.parameter) for entrance in ENTRANCES}
    assert called == set(CALLS)
    assert len(CALLS) > 80


@pytest.mark.parametrize("entrance", ENTRANCES, ids=str)
def test_every_entrance_checks_indices_before_other_packages_follow_them(entrance):
    function = entrance.ready()
    wrong = sparse.csr_array(entrances.X)
    wrong.indices = with_entry(wrong.indices, 3, 10**7)
    message = WRONG.replace("X", r"X\w*", 1)
    with pytest.raises((TypeError, ValueError), match=f"{message}|{REFUSED}"):
        entrance.call(function, wrong)


def classifier(**parameters):
    return IncrementalDiscriminantAnalysis(
        **{"shared_band_size": 5, "random_state": 0, **parameters}
    )


def ffnb():
    return FFNBClassifier(
        band_size=1,
        classes_per_task=None,
        bands=Bands(max_epochs=1),
        shared_band_size=5,
        random_state=0,
    )


MODELS = {
    "default": classifier,
    "without neurons": lambda: classifier(shared_band_size=0),
    "bands": ffnb,
    "naive": lambda: NaiveIncrementalClassifier(max_epochs=1, random_state=0),
    "pipeline": lambda: make_continual_pipeline(Normalizer(), classifier()),
    "scaling pipeline": lambda: make_continual_pipeline(MaxAbsScaler(), classifier()),
}
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples")
SOME = ("csr 10000000", "csc -1", "coo column")


@pytest.mark.filterwarnings("ignore::ffnb_sklearn.exceptions.FrozenTransformerWarning")
@pytest.mark.filterwarnings("ignore:bands__max_epochs=1 has had no effect:UserWarning")
@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("model", MODELS)
def test_every_call_refuses_it(model, name):
    made = MODELS[model]()
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=WRONG):
            getattr(made, method)(FAULTS[name], Y)
    with pytest.raises(NotFittedError):
        made.predict(X)
    made.fit(sparse.csr_array(X), Y)
    expected = made.predict_proba(X)
    for method in ("fit", "partial_fit", "score"):
        with pytest.raises(ValueError, match=WRONG):
            getattr(made, method)(FAULTS[name], Y)
    for method in (*METHODS, "transform"):
        if hasattr(made, method):
            with pytest.raises(ValueError, match=WRONG):
                getattr(made, method)(FAULTS[name])
    assert_array_equal(made.predict_proba(X), expected)


def test_wide_rows_and_later_tasks_refuse_it():
    right = sparse.csr_array(sparse.hstack([sparse.csr_array(X), sparse.csr_array((12, 9000))]))
    wrong = right.copy()
    wrong.indices[5] = right.shape[1]
    model = classifier(shared_band_size=0).fit(right, Y)
    expected = model.decision_function(right)
    for call in (model.predict, model.transform, lambda rows: model.partial_fit(rows, Y)):
        with pytest.raises(ValueError, match=WRONG):
            call(wrong)
    assert_array_equal(model.decision_function(right), expected)


@pytest.mark.parametrize("name", SOME)
def test_streams_refuse_it(name):
    with pytest.raises(ValueError, match=WRONG):
        evaluate_stream(classifier(), FAULTS[name], Y, X, Y)
    with pytest.raises(ValueError, match="X_test must have indices within its shape"):
        evaluate_stream(classifier(), X, Y, FAULTS[name], Y)


@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("name", SOME)
def test_shards_refuse_it(name, scale):
    model = classifier(scale=scale)
    with pytest.raises(ValueError, match=WRONG):
        partial_fit_shards(model, [(sparse.csr_array(X), Y), (FAULTS[name], Y)])
    assert not hasattr(model, "classes_")


def test_blocks_of_columns_are_checked_before_they_are_joined():
    def of_three_columns(_):
        made = sparse.csr_array(X[:6, :3])
        made.indices = with_entry(made.indices, 0, 3)
        return made

    dense = da.from_array(X, chunks=(6, 3))
    blocks = dense.map_blocks(of_three_columns, dtype=float, meta=sparse.csr_array((0, 0)))
    with pytest.raises(ValueError, match=WRONG):
        partial_fit_shards(classifier(), blocks, da.from_array(Y, chunks=6))


@pytest.mark.parametrize("name", SOME)
def test_extractors_take_no_sparse_rows(name):
    weights = {"weight": np.ones((2, 6)), "bias": np.zeros(2)}
    extractor = TorchFeatureExtractor(
        nn.Linear, backbone_params={"in_features": 6, "out_features": 2}, weights=weights
    )
    for call in (extractor.fit, extractor.fit(X).transform):
        with pytest.raises(TypeError, match="Sparse data was passed for X"):
            call(FAULTS[name])
    with pytest.raises(ValueError, match=WRONG):
        make_continual_pipeline(extractor, classifier()).partial_fit(FAULTS[name], Y)
