"""FeCAM against its formula."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.baselines import FeCAM
from tests.baselines.small_problem import five_classes, unit


@pytest.mark.parametrize(("alpha1", "alpha2"), [(1.0, 1.0), (2.0, 0.3)])
@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_fecam_is_its_formula(offset, alpha1, alpha2):
    X, y, X_test, _ = five_classes()
    X, X_test = X + offset, X_test + offset
    lift = np.sqrt if X.min() >= 0 else np.asarray
    head = FeCAM(alpha1=alpha1, alpha2=alpha2).fit(X, y)
    rows = unit(lift(np.maximum(X_test, 0)) if offset else X_test)
    distances = []
    for label in range(5):
        covariance = np.cov(lift(X[y == label]).T)
        for _ in range(2):
            variance = np.mean(np.diag(covariance))
            shared = np.mean(covariance[~np.eye(12, dtype=bool)])
            covariance = (
                covariance + alpha1 * variance * np.eye(12) + alpha2 * shared * (1 - np.eye(12))
            )
        correlation = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
        mean = lift(X[y == label].mean(axis=0))
        gap = rows - mean / np.linalg.norm(mean)
        distances.append(np.sum(gap @ np.linalg.pinv(correlation) * gap, axis=1))
    assert_allclose(-head.decision_function(X_test), np.transpose(distances), rtol=1e-8)


def test_fecam_learns_a_class_of_one_sample():
    X, y, X_test, _ = five_classes()
    head = FeCAM().partial_fit(X[:1], y[:1]).partial_fit(X, y)
    assert np.isfinite(head.decision_function(X_test)).all()
    alone = FeCAM().partial_fit(X[:1], y[:1])
    assert_array_equal(alone.predict(X_test), np.repeat(y[:1], len(X_test)))


def test_classes_without_new_samples_keep_their_roots():
    X, y, _, _ = five_classes()
    head = FeCAM().fit(X, y)
    before = head._state.model.cache["roots"]
    head.partial_fit(X[y == 2], y[y == 2])
    after = head._state.model.cache["roots"]
    kept = [key for key in before if after[key] is before[key]]
    assert [number for number, *_ in kept] == [0, 1, 3, 4]
    head.set_params(alpha1=2.0).partial_fit(X[y == 2], y[y == 2])
    assert {alpha1 for _, alpha1, _ in head._state.model.cache["roots"]} == {2.0}


def test_constant_features_need_no_ridge():
    X, y, X_test, _ = five_classes()
    constant = np.full((len(X), 1), 3.0)
    head = FeCAM(alpha1=0.0, alpha2=0.0).fit(np.hstack([X, constant]), y)
    scores = head.decision_function(np.hstack([X_test, constant[: len(X_test)]]))
    assert np.isfinite(scores).all()


def test_negative_features_after_others_are_warned_of():
    X, y, X_test, _ = five_classes()
    head = FeCAM().fit(np.abs(X), y)
    with pytest.warns(UserWarning, match="negative features, which count as 0"):
        scores = head.decision_function(-np.abs(X_test))
    assert_array_equal(scores, head.decision_function(np.zeros_like(X_test)))
    with pytest.warns(UserWarning, match="negative features, which count as 0"):
        head.partial_fit(-np.abs(X), y)
