"""StreamingLDA against its formula and scikit-learn."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ffnb_sklearn.baselines import StreamingLDA
from tests.baselines.small_problem import five_classes, stream


def test_without_shrinkage_it_is_linear_discriminant_analysis():
    X, y, X_test, _ = five_classes()
    # scikit-learn weighs class covariances by the priors: equal priors need equal counts.
    rows = np.concatenate([np.flatnonzero(y == label)[:40] for label in range(5)])
    head = stream(StreamingLDA(shrinkage=0.0), X[rows], y[rows], [1, 0, 4, 3, 2])
    lda = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(5, 0.2))
    expected = lda.fit(X[rows], y[rows]).decision_function(X_test)
    # Scores are defined up to a constant per sample.
    differences = np.diff(head.decision_function(X_test))
    assert_allclose(differences, np.diff(expected), rtol=1e-7, atol=1e-9)
    assert_array_equal(head.predict(X_test), lda.predict(X_test))


def test_published_shrinkage_is_towards_the_identity():
    X, y, X_test, _ = five_classes()
    head = StreamingLDA(shrinkage=0.2).fit(X, y)
    means = np.stack([X[y == label].mean(axis=0) for label in range(5)])
    within = (X - means[y]).T @ (X - means[y]) / len(X)
    precision = np.linalg.inv(0.8 * within + 0.2 * np.eye(12))
    gaps = X_test[:, None, :] - means
    distances = np.einsum("ncd,de,nce->nc", gaps, precision, gaps)
    assert_array_equal(head.predict(X_test), np.argmin(distances, axis=1))
