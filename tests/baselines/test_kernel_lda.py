"""KernelLDA against its kernel and scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_approximation import RBFSampler

from ffnb_sklearn.baselines import KernelLDA
from tests.baselines.small_problem import five_classes


@pytest.mark.parametrize("factor", ["median", 0.5])
def test_kernel_lda_approximates_its_kernel(factor):
    X = five_classes()[0][:100]
    squared = np.sum((X[:, None] - X) ** 2, axis=2)
    median = np.median(squared[np.triu_indices(100, 1)])
    gamma = "median" if factor == "median" else factor / median
    head = KernelLDA(n_components=4000, gamma=gamma, random_state=0)
    head.fit(X, np.arange(100) % 2)
    Z = head._state.model.features(X)
    exponent = 1.0 if factor == "median" else factor
    assert_allclose(Z @ Z.T, np.exp(-exponent * squared / median), atol=0.09)


def test_it_is_discriminant_analysis_of_the_cosines():
    X, y, X_test, _ = five_classes()
    rows = np.concatenate([np.flatnonzero(y == label)[:40] for label in range(5)])
    # A ridge of 200 a / (1 - a) samples of mean variance is a shrinkage of a.
    head = KernelLDA(n_components=30, gamma=0.05, alpha=200 * 0.3 / 0.7, random_state=0)
    head.fit(X[rows], y[rows])
    sampler = RBFSampler(gamma=0.05, n_components=30).fit(X)
    sampler.random_weights_ = head.random_weights_
    sampler.random_offset_ = head.random_offset_
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.3, priors=np.full(5, 0.2))
    lda.fit(sampler.transform(X[rows]), y[rows])
    expected = lda.decision_function(sampler.transform(X_test))
    # A convex combination scales the scores.
    differences = np.diff(head.decision_function(X_test)) / 0.7
    assert_allclose(differences, np.diff(expected), rtol=1e-7, atol=1e-9)


def test_equal_samples_have_no_median():
    head = KernelLDA(n_components=10, random_state=0)
    with pytest.warns(UserWarning, match='gamma="median" needs different samples'):
        head.fit(np.ones((4, 3)), [0, 0, 1, 1])
    assert_array_equal(head.predict(np.ones((2, 3))), [0, 0])
