"""An estimator that learns a stream: copies, times, sizes and declared classes."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from ffnb_sklearn.streams import evaluate_stream
from tests.streams.nearest_mean import NearestMean


class DeclaringNearestMean(NearestMean):
    """The same, with an optional declaration that it writes down."""

    def partial_fit(self, X, y, classes=None):
        self.declared_ = [*getattr(self, "declared_", []), classes]
        return super().partial_fit(X, y)


@pytest.fixture
def blobs():
    X, y = make_blobs(n_samples=[30, 20, 25, 40, 35], cluster_std=2.0, random_state=0)
    return X[::2], y[::2], X[1::2], y[1::2]


def test_times_and_sizes(blobs):
    result = evaluate_stream(NearestMean(), *blobs)

    for values in (result.fit_seconds, result.state_bytes):
        assert values.shape == (5,)
        assert (values > 0).all()
    assert (np.diff(result.state_bytes) > 0).all()
    assert result.state_bytes[-1] == len(pickle.dumps(result.estimator, protocol=5))


def test_an_estimator_that_cannot_be_pickled_has_no_size(blobs):
    result = evaluate_stream(NearestMean(picky=lambda: None), *blobs)

    assert np.isnan(result.state_bytes).all()
    assert result.final_accuracy > 0.5


def test_classes_are_declared_only_where_they_must_be(blobs):
    result = evaluate_stream(DeclaringNearestMean(), *blobs)
    assert result.estimator.declared_ == [None] * 5


def test_classes_are_declared_where_the_argument_has_no_default(blobs):
    class Demanding(NearestMean):
        def partial_fit(self, X, y, classes):
            return super().partial_fit(X, y)

    X, y, X_test, y_test = blobs
    result = evaluate_stream(Demanding(), *blobs, classes_per_task=5)

    assert result.final_accuracy == NearestMean().partial_fit(X, y).score(X_test, y_test)


def test_other_errors_are_passed_on_at_once(blobs):
    calls = []

    class Failing(DeclaringNearestMean):
        def partial_fit(self, X, y, classes=None):
            calls.append(classes)
            raise ValueError("X contains NaN")

    with pytest.raises(ValueError, match="X contains NaN"):
        evaluate_stream(Failing(), *blobs)
    assert calls == [None]


class FirstClasses(NearestMean):
    """Learns later only the labels that the first call brought or declared."""

    def partial_fit(self, X, y, classes=None):
        self.known_ = getattr(self, "known_", set(y) if classes is None else set(classes))
        if not set(y) <= self.known_:
            raise KeyError("a label is new")
        return super().partial_fit(X, y)


def test_estimators_that_fix_their_classes_are_told_to_declare_them(blobs):
    with pytest.raises(KeyError) as caught:
        evaluate_stream(FirstClasses(), *blobs)
    (note,) = caught.value.__notes__
    assert "declare_classes=True" in note
    assert "task 2 of 5" in note
    result = evaluate_stream(FirstClasses(), *blobs, declare_classes=True)
    expected = evaluate_stream(NearestMean(), *blobs)
    np.testing.assert_array_equal(result.accuracy_matrix, expected.accuracy_matrix)


def test_no_note_on_classes_where_they_were_declared(blobs):
    class Failing(FirstClasses):
        def partial_fit(self, X, y, classes=None):
            super().partial_fit(X, y, classes)
            self.known_ = set()

    with pytest.raises(KeyError) as caught:
        evaluate_stream(Failing(), *blobs, declare_classes=True)
    assert not hasattr(caught.value, "__notes__")


def test_classes_are_not_declared_to_an_estimator_that_does_not_take_them(blobs):
    class Refusing(NearestMean):
        def partial_fit(self, X, y):
            raise ValueError("too few classes")

    with pytest.raises(ValueError, match="too few classes"):
        evaluate_stream(Refusing(), *blobs)
