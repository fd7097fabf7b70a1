"""Shrinkage and scores of a discriminant analysis as functions of moments."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris, load_wine

from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.covariance import choose_shrinkage, discriminant_scores


def moments_of(X, y):
    groups = [X[y == label] for label in np.unique(y)]
    means = [group.mean(axis=0) for group in groups]
    covariances = [np.cov(group.T, bias=True) for group in groups]
    return means, covariances, np.bincount(y)


def estimator(**parameters):
    return IncrementalDiscriminantAnalysis(
        shared_band_size=0, rank=None, scale=False, random_state=0, **parameters
    )


@pytest.mark.filterwarnings("ignore:Columns of X hide other columns")
@pytest.mark.parametrize("load", [load_wine, load_iris, load_digits])
def test_functions_do_what_the_estimator_does(load):
    X, y = load(return_X_y=True)
    clf = estimator().fit(X, y)
    labels = clf.predict(X)

    choice = choose_shrinkage(*moments_of(X, y), random_state=0)
    scores = discriminant_scores(X, *moments_of(X, y), **choice._asdict())

    assert_allclose(choice, (clf.shrinkage_, clf.epsilon_), rtol=1e-9)
    assert_array_equal(scores.argmax(axis=1), labels)


@pytest.mark.parametrize("shrinkage", [0.01, 0.3, 1.0])
def test_scores_are_distances_in_the_shrunk_covariances(shrinkage):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 40)
    X = rng.normal(size=(120, 4)) @ rng.normal(size=(4, 4)) + rng.normal(size=(3, 4))[y]
    means, covariances, _ = moments_of(X, y)
    pooled = np.mean(covariances, axis=0)

    found = discriminant_scores(X, *moments_of(X, y), shrinkage=shrinkage, epsilon=1e-9)

    expected = []
    for mean, covariance in zip(means, covariances, strict=True):
        shrunk = (1.0 - shrinkage) * covariance + shrinkage * pooled
        deviations = X - mean
        expected.append(-0.5 * np.sum(deviations * np.linalg.solve(shrunk, deviations.T).T, axis=1))
    expected = np.transpose(expected)
    # A term that all classes share is left out.
    differences = found - found[:, :1]
    assert_allclose(differences, expected - expected[:, :1], rtol=1e-5, atol=1e-6)


MEANS, COVARIANCES, COUNTS = np.eye(2, 3), np.stack([np.eye(3), np.eye(3)]), [10, 20]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((MEANS, COVARIANCES[:, :2], COUNTS), r"covariances must have the shape \(2, 3, 3\)"),
        ((MEANS, COVARIANCES, [10]), "class_counts must have 2 entries"),
        ((MEANS, COVARIANCES, [10, 0]), "class_counts must be finite and positive; got 0.0"),
        ((MEANS, COVARIANCES + np.eye(3, k=1), COUNTS), "must be symmetric"),
        ((MEANS, COVARIANCES - 2.0 * np.eye(3), COUNTS), "no negative eigenvalues"),
    ],
)
def test_moments_that_belong_to_no_classes_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        choose_shrinkage(*arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shrinkage": 1.5}, "shrinkage must be between 0 and 1; got 1.5"),
        ({"epsilon": 0.0}, "epsilon must be finite and positive; got 0.0"),
        ({"X": np.ones((4, 2))}, "X must have 3 columns like means; got 2"),
    ],
)
def test_wrong_arguments_of_scores_are_errors(changes, message):
    arguments = {"X": np.ones((4, 3)), "shrinkage": 0.5, "epsilon": 0.1} | changes
    with pytest.raises(ValueError, match=message):
        discriminant_scores(means=MEANS, covariances=COVARIANCES, class_counts=COUNTS, **arguments)
