"""Probabilities of new samples are about as sure as they are right."""

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import train_test_split

from ffnb_sklearn import IncrementalDiscriminantAnalysis


def digits(n_rows):
    return train_test_split(*load_digits(return_X_y=True), train_size=n_rows, random_state=0)


def overlapping(n_rows):
    X, y = make_classification(
        n_rows + 1500, 20, n_informative=12, n_redundant=2, n_classes=8, random_state=0
    )
    return X[:n_rows], X[n_rows:], y[:n_rows], y[n_rows:]


def log_loss(logs, y):
    return -np.mean(logs[np.arange(len(y)), y])


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"shrinkage": 0.9},
        {"epsilon": 0.05},
        {"shrinkage": 1.0, "epsilon": 0.02},
        {"shrinkage": 0.3, "epsilon": 0.2},
        {"classifier": "ova"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("samples", "n_rows"), [(digits, 900), (overlapping, 200), (overlapping, 2000)]
)
def test_no_other_temperature_is_much_better(samples, n_rows, parameters):
    X, X_new, y, y_new = samples(n_rows)
    clf = IncrementalDiscriminantAnalysis(random_state=0, shared_band_size=300, **parameters).fit(
        X, y
    )

    logs = clf.predict_log_proba(X_new)

    temperatures = 2.0 ** np.arange(-6.0, 6.1, 0.5)
    best = min(log_loss(log_softmax(logs / one, axis=1), y_new) for one in temperatures)
    # Less shrinkage than few samples support needs a higher temperature than their moments tell.
    unsupported = n_rows == 200 and parameters.get("shrinkage") == 0.3
    assert log_loss(logs, y_new) < (1.35 if unsupported else 1.15) * best + 0.05


def test_large_classes_are_as_sure_as_they_are_right(shared_data):
    with np.load(shared_data / "tables.npz") as tables:
        X, y, train = (tables[f"satimage_{name}"] for name in ("X", "y", "train"))
    clf = IncrementalDiscriminantAnalysis(random_state=0).fit(X[train], y[train])

    logs = clf.predict_log_proba(X[~train])

    numbers = np.searchsorted(clf.classes_, y[~train])
    # Own axes raise the temperature further than these classes need: 0.51 and 0.67.
    assert -np.mean(logs[np.arange(len(numbers)), numbers]) < 0.55
    assert np.exp(logs.max(axis=1)).mean() > 0.64
