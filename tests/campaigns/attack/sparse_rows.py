"""Sparse rows with wrong indices, for every call that takes rows."""

from copy import copy

import numpy as np
from scipy import sparse

from tests.entrances import ENTRANCES, Y

N_SAMPLES = len(Y)

# Wrong indices; SciPy follows them beyond the memory of an array.
_INDICES = (-1, -(10**7), 10**7, 2**31 - 1, 2**40)

# Formats, and the arrays of indices that each one has.
_FORMATS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
}

# Columns of narrow rows, which become dense, and of wide rows, which stay sparse.
_N_COLUMNS = (6, 2500)

# Every public call, and the calls that keep wide rows sparse.
_ENTRANCES = {
    6: ENTRANCES,
    2500: [
        one
        for one in ENTRANCES
        if one.estimator == "IncrementalDiscriminantAnalysis without neurons"
    ],
}


def _samples(n_columns):
    """Return dense rows, a third of which are not zero."""
    rng = np.random.default_rng(0)
    return np.where(rng.random((N_SAMPLES, n_columns)) < 0.3, 1.0 + rng.random(n_columns), 0.0)


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


def count_rows(n_cases, folder):
    """Return how many calls accept rows with a wrong index; other errors are raised."""
    n_accepted = 0
    for number in range(n_cases):
        rng = np.random.default_rng(number)
        n_columns = rng.choice(_N_COLUMNS)
        entrances = _ENTRANCES[n_columns]
        entrance = entrances[number % len(entrances)]
        dense = _samples(n_columns)
        wrong = with_wrong_index(dense, rng.choice(list(_FORMATS)), rng)
        function = entrance.ready(dense)
        try:
            entrance.call(function, wrong)
        except (TypeError, ValueError):
            continue
        n_accepted += 1
    return n_accepted
