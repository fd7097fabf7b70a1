"""Probabilities after the same samples came in another way, which must not change them.

python -m tests.campaigns.numerics.orders runs many random programs.
"""

import sys

import dask.array as da
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.distributed import partial_fit_shards

SETS = {
    "wine": load_wine,
    "iris": load_iris,
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
}
HEADS = ("gaussian", "ovo", "ova")


def _estimator(head, rank, n_neurons=60):
    return FFNBClassifier(
        classifier=head,
        rank=rank,
        scale=False,
        band_size=0,
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


def program_error(seed, head):
    """Return the largest change of a probability by a random program, against one fit.

    The program learns, with weights of several sizes, decays, forgets and merges.
    """
    rng = np.random.default_rng(seed)
    n_classes, n_columns = int(rng.integers(2, 6)), int(rng.integers(2, 8))
    n_samples = int(rng.integers(10, 80))
    y = rng.integers(n_classes, size=n_samples)
    X = 2.0 * rng.standard_normal((n_classes, n_columns))[y]
    X += rng.standard_normal(X.shape)
    size = 10.0 ** rng.integers(-8, 3)
    weights = np.where(rng.random() < 0.3, np.ones(n_samples), rng.uniform(0.1, 3.0, n_samples))
    weights = weights * size
    program, effective = _estimator(head, None, 20), weights.copy()
    seen = np.zeros(n_samples, dtype=bool)
    for rows in np.array_split(rng.permutation(n_samples), int(rng.integers(1, 6))):
        action = rng.integers(3)
        if action == 0 and seen.any():
            # The estimator that merges has learned something before.
            other = _estimator(head, None, 20)
            program.merge(other.fit(X[rows], y[rows], sample_weight=weights[rows]))
        else:
            program.partial_fit(X[rows], y[rows], sample_weight=weights[rows])
        seen[rows] = True
        if rng.random() < 0.5:
            factor = rng.uniform(0.3, 1.0)
            program.decay(factor)
            effective[seen] *= factor
        if rng.random() < 0.2 and len(np.unique(y[seen])) > 1:
            gone = rng.choice(np.unique(y[seen]))
            program.forget(gone)
            seen &= y != gone
    whole = _estimator(head, None, 20).fit(X[seen], y[seen], sample_weight=effective[seen])
    return float(np.abs(program.predict_proba(X) - whole.predict_proba(X)).max())


def main(n_programs=600):
    """Print the largest errors, and the programs that are off."""
    for head in HEADS:
        errors = np.array([program_error(seed, head) for seed in range(n_programs)])
        off = np.flatnonzero(errors > 1e-8)
        print(f"{head:<10}{n_programs} programs: {errors.max():.1e}; above 1e-8: {off.tolist()}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
