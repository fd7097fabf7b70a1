"""The classifier against published algorithms that are run as published."""

import pickle

import numpy as np
import torch
from _speed_cases import Case, gaussian_classes, learned
from _speed_clock import alternate, comparison, seconds_of
from _speed_floor import TaskFloor
from _speed_published import PerBatchFeCAM, PerRidgeRanPAC, PerSampleSLDA, RankOneSLDA
from lifted_peers import RanPAC
from peers import FeCAM

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.statistics import moments_of


def class_moments(X, y, rank=None):
    """Moments of each class of some rows, in the order of the labels."""
    rows, moments = torch.as_tensor(X), []
    for label in np.unique(y):
        own = rows[torch.as_tensor(y == label)]
        moments.append(moments_of([(own, own.new_ones(len(own)))], rank))
    return moments


def within_covariance(moments):
    """Pooled covariance within classes that some moments imply."""
    return sum(one.scatter() for one in moments) / sum(one.weight for one in moments)


def relative_gap(first, second):
    """Largest difference of two arrays, relative to the largest entry of the second."""
    return float(np.abs(first - second).max() / np.abs(second).max())


def compare_slda(n_samples=2500, n_features=512, n_classes=5, rank=64, repeats=5):
    """Measure the moments of a task against per-sample SLDA on the same rows.

    Raises
    ------
    AssertionError
        If the two covariances differ by more than rounding.
    """
    X, y = gaussian_classes(n_classes, n_features, n_samples // n_classes)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    exact = within_covariance(class_moments(X, y))
    streamed = PerSampleSLDA(n_features, class_counts=True).partial_fit(X, y).covariance_
    gap = relative_gap(streamed, exact)
    assert gap < 1e-9, f"covariances differ by {gap:.1e}"
    published = PerSampleSLDA(n_features).partial_fit(X, y).covariance_
    seconds = alternate(
        {
            "exact": lambda: seconds_of(class_moments, X, y),
            "truncated": lambda: seconds_of(class_moments, X, y, rank),
            "published": lambda: seconds_of(PerSampleSLDA(n_features).partial_fit, X, y),
            "rank-one": lambda: seconds_of(RankOneSLDA(n_features).partial_fit, X, y),
            "floor": TaskFloor(n_samples, n_features, n_features),
        },
        repeats,
    )
    note = f"covariances agree to {gap:.0e}; as published, {relative_gap(published, exact):.0e}"
    shape = f"statistics, n={n_samples} d={n_features} C={n_classes}"
    rows = [
        (f"{shape}, exact scatters", "exact", "published", note),
        (f"{shape}, rank={rank}", "truncated", "published", "the diagonal is exact"),
        (f"{shape}, exact scatters", "exact", "rank-one", "SLDA by in-place BLAS updates"),
        (f"floor, n={n_samples} d={n_features}", "floor", "published", "no more than the products"),
    ]
    return [
        {
            "case": case,
            "against": "per-sample SLDA",
            **comparison(seconds[a], seconds[b]),
            "note": c,
        }
        for case, a, b, c in rows
    ]


def compare_fecam(n_classes=100, n_features=512, per_class=500, n_test=500, repeats=5):
    """Measure a batch of predictions against FeCAM that inverts at every batch.

    Raises
    ------
    AssertionError
        If FeCAM as published and its fast version in ``peers.py`` predict differently.
    """
    case = Case(n_samples=per_class * 5, n_inputs=n_features, seen=n_classes)
    own = pickle.loads(learned(case))
    X, y = gaussian_classes(n_classes, n_features, per_class)
    published, fast = PerBatchFeCAM().fit(X, y), FeCAM().fit(X, y)
    X_test = X[np.random.default_rng(0).choice(len(X), n_test, replace=False)]
    assert np.array_equal(published.predict(X_test), fast.predict(X_test))
    own.predict(X_test)
    seconds = alternate(
        {
            "ffnb": lambda: seconds_of(own.predict, X_test),
            "published": lambda: seconds_of(published.predict, X_test),
            "fast": lambda: seconds_of(fast.predict, X_test),
        },
        repeats,
    )
    shape = f"prediction, batch of {n_test}, d={n_features} C={n_classes} M=0"
    return [
        {
            "case": shape,
            "against": "FeCAM, inverses per batch",
            **comparison(seconds["ffnb"], seconds["published"]),
            "note": "same predictions as the FeCAM of the next row",
        },
        {
            "case": shape,
            "against": "FeCAM, inverses kept",
            **comparison(seconds["ffnb"], seconds["fast"]),
            "note": "",
        },
    ]


def compare_ranpac(n_samples=2500, n_features=512, n_classes=5, width=2000, repeats=5):
    """Measure a first task against RanPAC that solves for each ridge; both lift to ``width``.

    Raises
    ------
    AssertionError
        If RanPAC as published and its fast version choose different ridges.
    """
    X, y = gaussian_classes(n_classes, n_features, n_samples // n_classes)

    def fit(head):
        return head.fit(X, y)

    def own():
        return FFNBClassifier(band_size=0, shared_band_size=width, random_state=0, device="cpu")

    ridges = [fit(kind(width=width, random_state=0)).ridge_ for kind in (PerRidgeRanPAC, RanPAC)]
    assert ridges[0] == ridges[1], f"ridges differ: {ridges}"
    seconds = alternate(
        {
            "ffnb": lambda: seconds_of(fit, own()),
            "published": lambda: seconds_of(fit, PerRidgeRanPAC(width=width, random_state=0)),
            "fast": lambda: seconds_of(fit, RanPAC(width=width, random_state=0)),
        },
        repeats,
    )
    shape = f"training, n={n_samples} d={n_features} C={n_classes} M={width}"
    note = f"both choose the ridge {ridges[0]:.0e}"
    return [
        {"case": shape, "against": name, **comparison(seconds["ffnb"], seconds[key]), "note": text}
        for key, name, text in [
            ("published", "RanPAC, 17 solutions", note),
            ("fast", "RanPAC, one eigendecomposition", ""),
        ]
    ]
