"""Testing an estimator on every sample before it learns the sample."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_blobs
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import (
    IncrementalDiscriminantAnalysis,
    evaluate_prequential,
    make_continual_pipeline,
)
from ffnb_sklearn.streams._prequential import windowed_means


class LastLabel(ClassifierMixin, BaseEstimator):
    """Predict the label of the last learned sample, and write down all calls."""

    def __init__(self, picky=None):
        self.picky = picky

    def partial_fit(self, X, y):
        self.last_ = y[-1]
        self.calls_ = [*getattr(self, "calls_", []), ("learn", type(X), len(y))]
        return self

    def predict(self, X):
        n_samples = X.shape[0] if hasattr(X, "shape") else len(X)
        self.calls_ = [*self.calls_, ("predict", type(X), n_samples)]
        return np.full(n_samples, self.last_)


class FirstClasses(LastLabel):
    """Refuse labels that the first call neither brought nor declared."""

    def partial_fit(self, X, y, classes=None):
        self.known_ = getattr(self, "known_", set(y) if classes is None else set(classes))
        if not set(y) <= self.known_:
            raise KeyError("a label is new")
        return super().partial_fit(X, y)


class Guessing(FirstClasses):
    """Predict the largest label that was declared."""

    def predict(self, X):
        return np.full(len(X), max(self.known_))


def rows(y):
    return np.arange(2.0 * len(y)).reshape(-1, 2)


@pytest.fixture
def blobs():
    X, y = make_blobs(n_samples=[30, 20, 25], cluster_std=0.8, random_state=0)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


def test_each_sample_is_tested_and_then_learned():
    y = ["a", "a", "b", "b", "a"]
    result = evaluate_prequential(LastLabel(), rows(y), y)

    assert result.is_correct.tolist() == [True, False, True, False]
    assert result.accuracy == 0.5
    one_sample = [("predict", np.ndarray, 1), ("learn", np.ndarray, 1)]
    assert result.estimator.calls_ == one_sample[1:] + 4 * one_sample


def test_batches_are_tested_and_then_learned():
    y = [1, 2, 3, 2, 2, 2, 7]
    result = evaluate_prequential(LastLabel(), rows(y), y, batch_size=3)

    # Labels 1 to 3 came in the first batch, 7 in the last.
    assert result.is_correct.tolist() == [False, False, False, False]
    calls = [("learn", 3), ("predict", 3), ("learn", 3), ("predict", 1), ("learn", 1)]
    assert [(call, count) for call, _, count in result.estimator.calls_] == calls
    assert result.predict_seconds.shape == (2,)
    assert result.fit_seconds.shape == (3,)


@pytest.mark.parametrize("batch_size", [1, 7])
def test_matches_a_loop_written_by_hand(blobs, batch_size):
    X, y = blobs[0][:20], blobs[1][:20]
    model = IncrementalDiscriminantAnalysis(shared_band_size=5, random_state=0)
    result = evaluate_prequential(model, X, y, batch_size=batch_size)

    clf = clone(model).partial_fit(X[:batch_size], y[:batch_size])
    expected = []
    for start in range(batch_size, len(y), batch_size):
        batch = slice(start, start + batch_size)
        expected.extend(clf.predict(X[batch]) == y[batch])
        clf.partial_fit(X[batch], y[batch])
    assert result.is_correct.tolist() == expected
    assert 0 < result.accuracy < 1
    assert_array_equal(result.estimator.decision_function(X), clf.decision_function(X))


def test_accuracies_over_time():
    y = [0, 0, 1, 1, 1, 1, 0]
    result = evaluate_prequential(LastLabel(), rows(y), y, window=2)

    assert result.is_correct.tolist() == [True, False, True, True, True, False]
    assert_allclose(result.running_accuracy, [1, 1 / 2, 2 / 3, 3 / 4, 4 / 5, 4 / 6])
    assert_allclose(result.windowed_accuracy, [1, 1 / 2, 1 / 2, 1, 1, 1 / 2])
    assert result.window == 2


@pytest.mark.parametrize("window", [1, 3, 20, 21, 500])
def test_windowed_means_are_those_of_slices(window):
    values = np.random.default_rng(0).random(20) < 0.5
    expected = [values[max(0, i + 1 - window) : i + 1].mean() for i in range(20)]
    assert_allclose(windowed_means(values, window), expected)


def test_a_label_counts_as_wrong_until_it_was_learned():
    y = [0, 1, 9, 9, 9, 9]
    result = evaluate_prequential(Guessing(), rows(y), y, declare_classes=True)
    assert result.is_correct.tolist() == [False, False, True, True, True]

    batches = evaluate_prequential(Guessing(), rows(y), y, batch_size=2, declare_classes=True)
    assert batches.is_correct.tolist() == [False, False, True, True]


# GaussianNB takes the logarithm of the zero prior of a class that is declared and not yet seen.
@pytest.mark.filterwarnings("ignore:divide by zero encountered in log:RuntimeWarning")
@pytest.mark.parametrize("estimator", [GaussianNB(), SGDClassifier(random_state=0)])
def test_estimators_that_require_their_classes_get_them(blobs, estimator):
    result = evaluate_prequential(estimator, *blobs, batch_size=5)

    assert result.estimator.classes_.tolist() == [0, 1, 2]
    assert result.accuracy > 0.6
    pipeline = make_continual_pipeline(StandardScaler(), estimator)
    assert evaluate_prequential(pipeline, *blobs, batch_size=5).accuracy > 0.6


def test_estimators_that_fix_their_classes_are_told_to_declare_them():
    y = [0, 0, 1, 1]
    with pytest.raises(KeyError) as caught:
        evaluate_prequential(FirstClasses(), rows(y), y)
    (note,) = caught.value.__notes__
    assert "declare_classes=True to evaluate_prequential" in note
    assert "batch 3 of 4" in note
    result = evaluate_prequential(FirstClasses(), rows(y), y, declare_classes=True)
    assert result.is_correct.tolist() == [True, False, True]


def test_sizes_at_ten_points():
    y = np.arange(95) % 3
    result = evaluate_prequential(LastLabel(), rows(y), y)
    assert result.state_samples.tolist() == [1, 11, 22, 32, 43, 53, 64, 74, 85, 95]
    assert (np.diff(result.state_bytes) > 0).all()
    assert result.state_bytes[-1] == len(pickle.dumps(result.estimator, protocol=5))

    batches = evaluate_prequential(LastLabel(), rows(y), y, batch_size=30)
    assert batches.state_samples.tolist() == [30, 60, 90, 95]
    unknown = evaluate_prequential(LastLabel(picky=lambda: None), rows(y), y, batch_size=30)
    assert np.isnan(unknown.state_bytes).all()


def test_rates():
    y = np.arange(95) % 3
    result = evaluate_prequential(LastLabel(), rows(y), y, batch_size=30)

    assert (result.predict_seconds > 0).all()
    assert (result.fit_seconds > 0).all()
    seconds = result.predict_seconds.sum() + result.fit_seconds[1:].sum()
    assert result.rows_per_second == pytest.approx(65 / seconds)


def polars_frame(X):
    return pytest.importorskip("polars").DataFrame(X, schema=["a", "b"])


def arrow_table(X):
    return pytest.importorskip("pyarrow").table({"a": X[:, 0], "b": X[:, 1]})


@pytest.mark.parametrize(
    "convert",
    [
        pd.DataFrame,
        polars_frame,
        arrow_table,
        sparse.csr_array,
        sparse.coo_array,
        np.ndarray.tolist,
        torch.tensor,
    ],
)
def test_rows_are_selected_never_converted(blobs, convert):
    X, y = blobs
    kinds = evaluate_prequential(LastLabel(), convert(X), y, batch_size=9).estimator.calls_
    # Rows cannot be selected from the coordinate format.
    expected = sparse.csr_array if convert is sparse.coo_array else type(convert(X))
    assert {kind for _, kind, _ in kinds} == {expected}

    clf = IncrementalDiscriminantAnalysis(shared_band_size=5, random_state=0)
    plain = evaluate_prequential(clf, X, y, batch_size=30)
    found = evaluate_prequential(clf, convert(X), y, batch_size=30)
    assert_array_equal(found.is_correct, plain.is_correct)


def test_the_estimator_given_stays_as_it_was(blobs):
    X, y = blobs
    estimator = LastLabel().partial_fit(X, y)
    before = pickle.dumps(estimator)
    result = evaluate_prequential(estimator, X, y, batch_size=40)

    assert pickle.dumps(estimator) == before
    assert [count for _, _, count in result.estimator.calls_] == [40, 35, 35]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [0, 1]}, "inconsistent numbers of samples"),
        ({"y": [0.5, 1.5, 0.5]}, "Unknown label type"),
        ({"X": [[0.0]], "y": [0]}, "more samples than the first batch.*got 1 samples"),
        ({"batch_size": 3}, "got 3 samples and batch_size=3"),
        ({"batch_size": 0}, "'batch_size' parameter"),
        ({"window": 0}, "'window' parameter"),
        ({"declare_classes": "yes"}, "'declare_classes' parameter"),
        ({"estimator": StandardScaler()}, "implementing 'partial_fit' and 'predict'"),
    ],
)
def test_refuses_to_evaluate(change, message):
    arguments = {"estimator": LastLabel(), "X": [[0.0], [1.0], [2.0]], "y": [0, 1, 0]}
    with pytest.raises(ValueError, match=message):
        evaluate_prequential(**{**arguments, **change})


def test_result_reads_as_a_line(blobs):
    result = evaluate_prequential(LastLabel(), *blobs, batch_size=5)
    assert repr(result) == (
        "PrequentialResult of LastLabel, 70 samples tested in batches of 5: accuracy "
        f"{result.accuracy:.1%}, {result.rows_per_second:.3g} samples per second"
    )
