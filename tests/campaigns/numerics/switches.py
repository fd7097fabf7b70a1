"""Results under global switches of torch and NumPy, which must not change a bit of them."""

from contextlib import contextmanager
from functools import cache

import numpy as np
import torch
from scipy import sparse

from ffnb_sklearn import Bands, FFNBClassifier, IncrementalDiscriminantAnalysis, OpenSetClassifier
from ffnb_sklearn.baselines import NaiveIncrementalClassifier

N_CLASSES, N_FEATURES, N_SAMPLES = 4, 12, 160

# Most samples are new; among many of overlapping classes, some are nearly undecided.
N_NEW = 2000


@contextmanager
def changed(write, value, before):
    """Change a switch, and change it back."""
    write(value)
    try:
        yield
    finally:
        write(before)


SWITCHES = {
    "autocast": lambda: torch.autocast("cpu"),
    "autocast to float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "default dtype float64": lambda: changed(
        torch.set_default_dtype, torch.float64, torch.get_default_dtype()
    ),
    "default dtype float16": lambda: changed(
        torch.set_default_dtype, torch.float16, torch.get_default_dtype()
    ),
    "default device": lambda: torch.device("meta"),
    "deterministic algorithms": lambda: changed(torch.use_deterministic_algorithms, True, False),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "anomaly detection": torch.autograd.detect_anomaly,
    "threads": lambda: changed(torch.set_num_threads, 2, torch.get_num_threads()),
    "flushed denormals": lambda: changed(torch.set_flush_denormal, True, False),
    "matrix products": lambda: changed(
        torch.set_float32_matmul_precision, "medium", torch.get_float32_matmul_precision()
    ),
    "NumPy errors": lambda: np.errstate(all="raise", under="ignore"),
}


def _blobs(n_features=N_FEATURES):
    """Return overlapping classes."""
    rng = np.random.default_rng(0)
    y = np.arange(N_SAMPLES + N_NEW) % N_CLASSES
    X, (centres, scales) = (
        rng.normal(size=(len(y), n_features)),
        rng.normal(size=(2, N_CLASSES, n_features)),
    )
    return 0.3 * centres[y] + scales[y] * X, y


def _dense(dtype):
    X, y = _blobs()
    return X.astype(dtype), y


def _sparse(n_features):
    X, y = _blobs(n_features)
    return sparse.csr_array(np.where(X > 1.5, X, 0.0)), y


SAMPLES = {
    "float64": lambda: _dense(np.float64),
    "float32": lambda: _dense(np.float32),
    "sparse": lambda: _sparse(N_FEATURES),
    "wide sparse": lambda: tuple(one[:300] for one in _sparse(2100)),
}
_SMALL = {"shared_band_size": 40, "random_state": 0, "device": "cpu"}
ESTIMATORS = {
    "gaussian": lambda: IncrementalDiscriminantAnalysis(**_SMALL),
    "ovo": lambda: IncrementalDiscriminantAnalysis(classifier="ovo", **_SMALL),
    "ova": lambda: IncrementalDiscriminantAnalysis(classifier="ova", **_SMALL),
    "bands": lambda: FFNBClassifier(band_size=1, **_SMALL),
    "tuned": lambda: FFNBClassifier(band_size=1, bands=Bands(max_epochs=2), **_SMALL),
    "no neurons": lambda: IncrementalDiscriminantAnalysis(**{**_SMALL, "shared_band_size": 0}),
    "open set": lambda: OpenSetClassifier(IncrementalDiscriminantAnalysis(**_SMALL)),
    "naive": lambda: NaiveIncrementalClassifier(max_epochs=2, random_state=0, device="cpu"),
}
_METHODS = ("decision_function", "predict", "predict_proba", "score_samples", "transform")


def results(make, X, y):
    """Return the outputs after two tasks, a merge and a forgotten class, by method."""
    new, X, y = X[N_SAMPLES:], X[:N_SAMPLES], y[:N_SAMPLES]
    first = y < N_CLASSES // 2
    estimator = make().partial_fit(X[first], y[first])
    if hasattr(estimator, "merge"):
        estimator.merge(make().partial_fit(-X[first], y[first] + N_CLASSES))
        estimator.partial_fit(X[~first], y[~first]).forget([0])
    else:
        estimator.partial_fit(X[~first], y[~first])
    return outputs(estimator, new)


def outputs(estimator, new):
    """Return the outputs of an estimator for new samples, by the name of the method."""
    methods = [name for name in _METHODS if hasattr(estimator, name)]
    found = {name: getattr(estimator, name)(new) for name in methods}
    return {name: one.toarray() if sparse.issparse(one) else one for name, one in found.items()}


@cache
def _expected(estimator, samples):
    """Return the results, and the outputs after one fit, without any switch."""
    make, (X, y) = ESTIMATORS[estimator], SAMPLES[samples]()
    return results(make, X, y), outputs(make().fit(X[:N_SAMPLES], y[:N_SAMPLES]), X[N_SAMPLES:])


def differences(switch, estimator, samples):
    """Return the names of the outputs that a switch changes, in learning or in predictions."""
    make, (X, y) = ESTIMATORS[estimator], SAMPLES[samples]()
    expected, before = _expected(estimator, samples)
    plain = make().fit(X[:N_SAMPLES], y[:N_SAMPLES])
    with SWITCHES[switch]():
        found = results(make, X, y)
        later = outputs(plain, X[N_SAMPLES:])
    pairs = [(found, expected), (later, before)]
    return [
        name for one, other in pairs for name in one if not _same(switch, one[name], other[name])
    ]


def _same(switch, found, expected):
    """Return whether outputs have the same bits, or the same digits if threads share the sums."""
    if switch == "threads" and found.dtype.kind == "f":
        return np.allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())
    return np.array_equal(found, expected)
