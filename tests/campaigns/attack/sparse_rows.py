"""Sparse rows with wrong indices, for every call that takes rows."""

from copy import copy

import numpy as np
from scipy import sparse

from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    make_continual_pipeline,
)
from ffnb_sklearn.distributed import partial_fit_shards

N_SAMPLES = 12

# Wrong indices; SciPy follows them beyond the memory of an array.
_INDICES = (-1, -(10**7), 10**7, 2**31 - 1, 2**40)

# Formats, and the arrays of indices that each one has.
_FORMATS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
}

# Columns of narrow rows, which become dense, and of wide rows, which stay sparse without bands.
_N_COLUMNS = (6, 2500)


def _samples(n_columns):
    """Return dense rows, a third of which are not zero, and labels."""
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((N_SAMPLES, n_columns)) < 0.3, 1.0 + rng.random(n_columns), 0.0)
    return dense, np.repeat([0, 1], N_SAMPLES // 2)


def with_wrong_index(dense, form, rng):
    """Return rows in a format, with one wrong index at a random place."""
    rows = copy(sparse.csr_array(dense).asformat(form))
    name = rng.choice(_FORMATS[form])
    # A pointer may be as large as the number of entries.
    least_wrong = rows.nnz + 1 if name == "indptr" else max(dense.shape)
    wrong = rng.choice([*_INDICES, least_wrong])
    if form == "coo":
        axis = _FORMATS[form].index(name)
        coordinates = [np.array(one, dtype=np.int64) for one in rows.coords]
        coordinates[axis][rng.integers(rows.nnz)] = wrong
        rows.coords = tuple(coordinates)
        return rows
    indices = np.array(getattr(rows, name), dtype=np.int64)
    indices[rng.integers(len(indices))] = wrong
    setattr(rows, name, indices)
    return rows


def _shards(model, X, y):
    """Learn rows as one shard; only its call may see them."""
    partial_fit_shards(model, [(X, y)])


# Calls with rows that are given and with labels, on a model that has learned others.
CALLS = {
    "fit": lambda model, X, y: model.fit(X, y),
    "partial_fit": lambda model, X, y: model.partial_fit(X, y),
    "shards": _shards,
    "predict": lambda model, X, y: model.predict(X),
    "predict_proba": lambda model, X, y: model.predict_proba(X),
    "decision_function": lambda model, X, y: model.decision_function(X),
    "score_samples": lambda model, X, y: model.score_samples(X),
    "transform": lambda model, X, y: model.transform(X),
    "pipeline": lambda model, X, y: make_continual_pipeline(model).fit(X, y),
}


def count_rows(n_cases, folder):
    """Return how many calls accept rows with a wrong index; other errors are raised."""
    n_accepted = 0
    for number in range(n_cases):
        rng = np.random.default_rng(number)
        dense, y = _samples(_N_COLUMNS[number % 2])
        n_before, place = divmod(number // 2, len(CALLS))
        call = list(CALLS)[place]
        # Every other round has bands, which shards cannot train.
        has_bands = n_before % 2 == 1 and call != "shards"
        make = FFNBClassifier if has_bands else IncrementalDiscriminantAnalysis
        model = make(shared_band_size=0, random_state=0)
        model.fit(sparse.csr_array(dense), y)
        wrong = with_wrong_index(dense, rng.choice(list(_FORMATS)), rng)
        try:
            CALLS[call](model, wrong, y)
        except ValueError:
            continue
        n_accepted += 1
    return n_accepted
