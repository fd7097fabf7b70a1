"""Probabilities after the same samples came in another way, which must not change them."""

import dask.array as da
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.distributed import partial_fit_shards

SETS = {
    "wine": load_wine,
    "iris": load_iris,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}


def _estimator(head, rank, n_neurons=60):
    return IncrementalDiscriminantAnalysis(
        classifier=head,
        rank=rank,
        scale=False,
        shared_band_size=n_neurons,
        random_state=0,
    )


def order_errors(name, head, rank, dtype):
    """Return the largest changes of a probability: by an order of the rows, by calls, by shards."""
    X, y = SETS[name](return_X_y=True)
    # Some of the digits suffice.
    X, y = X[:600].astype(dtype), y[:600]
    order = np.random.default_rng(0).permutation(len(y))
    parts = np.array_split(order, 4)
    expected = _estimator(head, rank).fit(X, y).predict_proba(X)
    calls = _estimator(head, rank)
    for part in parts:
        calls.partial_fit(X[part], y[part])
    shards = _estimator(head, rank)
    chunks = (150, X.shape[1])
    partial_fit_shards(shards, da.from_array(X[order], chunks), da.from_array(y[order], 150))
    others = [_estimator(head, rank).fit(X[order], y[order]), calls, shards]
    return [float(np.abs(one.predict_proba(X) - expected).max()) for one in others]
