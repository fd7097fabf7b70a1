"""With default parameters a model is a function of the set of its samples, however they came."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from ffnb_sklearn import IncrementalDiscriminantAnalysis, load, save
from ffnb_sklearn.distributed import partial_fit_shards

dask_array = pytest.importorskip("dask.array")

# Raw columns of unlike units are what these sets have; the warning has its own tests.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ffnb_sklearn.exceptions.ColumnUnitsWarning",
)

SMALL = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}


def fpha(shared_data):
    """Return half of the samples of ten actions of FPHA."""
    with np.load(shared_data / "fpha_features.npz") as data:
        train = data["train"].astype(bool) & (data["y"] < 10)
        return data["X"][train].astype(float), data["y"][train]


@pytest.fixture(params=[*SMALL, "digits", "fpha"], scope="module")
def samples(request):
    """Rows and labels of one set."""
    if request.param == "fpha":
        return fpha(request.getfixturevalue("shared_data"))
    if request.param == "digits":
        X, y = load_digits(return_X_y=True)
        return X[:500], y[:500]
    return SMALL[request.param](return_X_y=True)


def blank(**parameters):
    """Return an estimator with default parameters, and others that are given."""
    return IncrementalDiscriminantAnalysis(random_state=0, **parameters)


@pytest.fixture(scope="module")
def joint(samples):
    """Estimator that has learned all rows of a set in one call."""
    return blank(rank=None).fit(*samples)


def learned(X, y, calls, **parameters):
    """Return an estimator that has learned rows in several calls, given their numbers."""
    model = blank(**parameters)
    for rows in calls:
        model.partial_fit(X[rows], y[rows])
    return model


def assert_same(model, expected, X, tolerance=1e-8):
    """Check labels, scores relative to the largest one, and probabilities."""
    assert_array_equal(model.classes_, expected.classes_)
    scores = expected.decision_function(X)
    atol = tolerance * np.abs(scores).max()
    assert_allclose(model.decision_function(X), scores, rtol=0.0, atol=atol)
    assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=0.0, atol=tolerance)


def tasks_of(y, rng):
    """Return the classes in any order, cut into tasks, as numbers of rows."""
    labels = rng.permutation(np.unique(y))
    cuts = rng.choice(np.arange(1, len(labels)), size=min(2, len(labels) - 1), replace=False)
    return [np.flatnonzero(np.isin(y, some)) for some in np.split(labels, np.sort(cuts))]


def any_calls(y, rng):
    """Return all rows in any order, cut into calls that hold any classes."""
    return np.array_split(rng.permutation(len(y)), 4)


@pytest.mark.parametrize("way", [tasks_of, any_calls])
def test_any_order_of_rows_tasks_and_calls_gives_one_fit(samples, joint, way):
    X, y = samples
    rng = np.random.default_rng(0)
    calls = [rng.permutation(rows) for rows in way(y, rng)]
    assert_same(learned(X, y, calls, rank=None), joint, X)


def test_shards_give_one_fit(samples, joint):
    X, y = samples
    rng = np.random.default_rng(1)
    order = rng.permutation(len(y))
    size = len(y) // 3
    model = blank(rank=None)
    rows = dask_array.from_array(X[order], (size, X.shape[1]))
    partial_fit_shards(model, rows, dask_array.from_array(y[order], size))
    assert_same(model, joint, X)


def test_any_tree_of_merges_gives_one_fit_with_files_in_between(samples, joint, tmp_path):
    X, y = samples
    rng = np.random.default_rng(2)
    models = [learned(X, y, [rows], rank=None) for rows in any_calls(y, rng)]
    while len(models) > 1:
        first, second = rng.choice(len(models), size=2, replace=False)
        merged = models[first].merge(models[second])
        save(merged, tmp_path / "model.ffnb")
        kept = [one for number, one in enumerate(models) if number not in (first, second)]
        models = [*kept, load(tmp_path / "model.ffnb")]
    assert_same(models[0], joint, X)


def test_to_forget_in_any_order_is_never_to_have_seen(samples):
    X, y = samples
    rng = np.random.default_rng(3)
    calls = tasks_of(y, rng)
    model = learned(X, y, calls, rank=None)
    # A class of the first call is among the classes that go.
    first = y[calls[0][0]]
    others = rng.permutation(np.setdiff1d(y, [first]))[:-2]
    gone = rng.permutation([first, *others[:2]])
    for label in gone:
        model.forget(label)
    kept = ~np.isin(y, gone)
    assert_same(model, blank(rank=None).fit(X[kept], y[kept]), X)


@pytest.mark.parametrize("name", SMALL)
def test_defaults_give_equal_probabilities_in_any_order(name):
    X, y = SMALL[name](return_X_y=True)
    rng = np.random.default_rng(4)
    expected = blank().fit(X, y).predict_proba(X)
    labels = np.unique(y)
    for first in range(len(labels)):
        by_class = [rng.permutation(np.flatnonzero(y == c)) for c in np.roll(labels, first)]
        found = learned(X, y, by_class).predict_proba(X)
        assert_allclose(found, expected, rtol=0.0, atol=1e-6)
    order = rng.permutation(len(y))
    found = blank().fit(X[order], y[order]).predict_proba(X)
    assert_allclose(found, expected, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("name", SMALL)
def test_defaults_forget_any_class_as_if_it_had_never_been_there(name):
    X, y = SMALL[name](return_X_y=True)
    for gone in np.unique(y):
        model = learned(X, y, [np.flatnonzero(y == c) for c in np.unique(y)]).forget(gone)
        expected = blank().fit(X[y != gone], y[y != gone])
        found = model.predict_proba(X)
        assert_allclose(found, expected.predict_proba(X), rtol=0.0, atol=1e-6)


def test_spare_axes_keep_the_probabilities_of_breast_cancer_in_many_calls():
    # Calls that were cut to the axes of one fit moved a probability by 0.07.
    X, y = load_breast_cancer(return_X_y=True)
    calls = np.array_split(np.random.default_rng(1).permutation(len(y)), 40)
    found = learned(X, y, calls).predict_proba(X)
    assert_allclose(found, blank().fit(X, y).predict_proba(X), rtol=0.0, atol=2e-4)
