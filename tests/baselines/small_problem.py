"""Five overlapping classes, and the heads of other papers with few components."""

import numpy as np
from sklearn.datasets import make_classification

from ffnb_sklearn.baselines import (
    AnaCP,
    FeCAM,
    KernelLDA,
    NearestClassMean,
    RanPAC,
    StreamingLDA,
)


def five_classes():
    """Return 300 samples to learn, their labels, and 100 test samples with theirs."""
    X, y = make_classification(
        400,
        n_features=12,
        n_informative=8,
        n_classes=5,
        n_clusters_per_class=1,
        class_sep=0.7,
        random_state=0,
    )
    X += 3.0
    return X[:300], y[:300], X[300:], y[300:]


def stream(head, X, y, order):
    """Learn the classes one by one."""
    for label in order:
        head.partial_fit(X[y == label], y[y == label])
    return head


HEADS = {
    "NearestClassMean": NearestClassMean(),
    "StreamingLDA": StreamingLDA(),
    "FeCAM": FeCAM(),
    "RanPAC": RanPAC(n_components=60, alpha=10.0, random_state=0),
    "KernelLDA": KernelLDA(n_components=60, gamma=0.05, random_state=0),
    "AnaCP": AnaCP(n_components=60, n_draws=20, random_state=0),
}


def unit(rows):
    """Return rows of norm 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
