"""The bound on forgetting, asked of a classifier."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from ffnb_sklearn import Bands
from ffnb_sklearn._base.forgetting_bound import descent_bound
from tests.separated_classes import N_FEATURES, X, ffnb, learned, of, unchanged

TRACE = "Trained neurons keep a trace of the classes"
INEXACT = "Merging is not exact with trained bands"
WITHOUT_LOSS = "bands__max_epochs=.* has had no effect in a task"


def test_the_bound_is_not_defined_for_bands_that_were_normalised():
    X, y = load_digits(return_X_y=True)
    clf = ffnb(p=1, bands=Bands(batch_norm=True))
    for task in ((0, 1), (2,)):
        clf.partial_fit(X[np.isin(y, task)], y[np.isin(y, task)])
    clf.set_params(bands__batch_norm=False).partial_fit(X[y == 2], y[y == 2])
    with pytest.raises(ValueError, match=r"with Bands\(batch_norm=False\)"):
        clf.forgetting_bound(X[y < 2])


@pytest.mark.filterwarnings(f"ignore:{WITHOUT_LOSS}:UserWarning")
def test_the_drift_is_within_the_bound():
    model = learned(ffnb(p=1, n_layers=2, bands__max_epochs=2), [0, 1, 2], [3, 4])

    found = model.forgetting_bound(of(0, 1, 2))

    assert len(found.layers) == 2
    assert 0.0 < found.drift <= found.bound
    assert all(one.drift <= one.tight_bound <= one.bound for one in found.layers)


@pytest.mark.parametrize(
    ("parameters", "tasks"),
    [
        ({}, [[0, 1]]),
        ({"bands__batch_norm": True, "p": 1}, [[0, 1], [2]]),
    ],
)
def test_there_may_be_no_bound(parameters, tasks):
    model = learned(ffnb(**parameters), *tasks)
    with pytest.raises(
        ValueError, match="forgetting_bound needs two tasks that brought trained bands"
    ):
        model.forgetting_bound(X)


@pytest.mark.parametrize("change", ["merge", "forget"])
def test_after_a_merge_there_is_no_newest_task(change):
    model = learned(ffnb(), [0, 1])
    if change == "merge":
        with pytest.warns(UserWarning, match=INEXACT):
            model.merge(learned(ffnb(), [2, 3]))
    else:
        learned(model, [2, 3, 5])
        with pytest.warns(UserWarning, match=TRACE):
            model.forget([5])
    with pytest.raises(ValueError, match="no merge or forget after the newest task"):
        model.forgetting_bound(X)
    learned(model, [4])
    assert model.forgetting_bound(of(0, 1, 2, 3)).bound > 0.0


def test_the_bound_checks_its_samples():
    with pytest.raises(NotFittedError):
        ffnb().forgetting_bound(X)
    model = learned(ffnb(), [0, 1], [2])
    with pytest.raises(ValueError, match="5 features"):
        model.forgetting_bound(X[:, :5])
    with pytest.raises(ValueError, match="NaN"):
        model.forgetting_bound(np.full((1, N_FEATURES), np.nan))


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "X_previous contains NaN"), (1e80, "X_previous must have magnitudes of at most")],
)
def test_the_bound_names_its_samples_dense_and_sparse(value, message):
    model = learned(ffnb(), [0, 1], [2])
    wrong = np.full((1, N_FEATURES), value)
    for samples in (wrong, sparse.csr_array(wrong)):
        with pytest.raises(ValueError, match=message):
            model.forgetting_bound(samples)


def test_the_bound_names_sparse_samples_with_a_wrong_index():
    model = learned(ffnb(), [0, 1], [2])
    wrong = sparse.csr_array(X)
    wrong.indices[3] = N_FEATURES
    with pytest.raises(ValueError, match="X_previous must have indices within its shape"):
        model.forgetting_bound(wrong)


@pytest.mark.filterwarnings(f"ignore:{WITHOUT_LOSS}:UserWarning")
def test_the_bound_of_a_descent_leaves_the_classifier():
    model = learned(ffnb(p=1, bands__max_epochs=2), [0, 1])

    with unchanged(model):
        bound = descent_bound(model, of(2), np.full(20, 2), of(0, 1))

    assert bound > 0.0
