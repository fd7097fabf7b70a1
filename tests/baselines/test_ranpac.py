"""RanPAC against scikit-learn's ridge regression."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.preprocessing import LabelBinarizer

from ffnb_sklearn.baselines import RanPAC
from ffnb_sklearn.baselines._ranpac import ridge_errors
from tests.baselines.small_problem import five_classes


@pytest.mark.parametrize("n_learned", [30, 150])
def test_errors_of_ridges_match_scikit_learn_in_either_space(n_learned):
    random = np.random.default_rng(1)
    Z, targets = random.standard_normal((200, 60)), random.standard_normal((200, 3))
    ridges = [1e-2, 1.0, 1e3]
    learned = Z[:n_learned], targets[:n_learned]
    judging = Z[n_learned:], targets[n_learned:]
    errors = ridge_errors(*learned, *judging, ridges)
    for ridge, error in zip(ridges, errors, strict=True):
        model = Ridge(alpha=ridge, fit_intercept=False).fit(*learned)
        assert_allclose(error, np.mean((model.predict(judging[0]) - judging[1]) ** 2))


def test_ranpac_chooses_a_ridge_of_the_published_grid_and_solves_with_it():
    X, y, X_test, _ = five_classes()
    head = RanPAC(n_components=80, random_state=0).fit(X, y)
    assert head.alpha_ in 10.0 ** np.arange(-8, 9)
    neurons = np.maximum(X @ head.projection_, 0)
    model = Ridge(alpha=head.alpha_, fit_intercept=False)
    model.fit(neurons, LabelBinarizer().fit_transform(y))
    expected = model.predict(np.maximum(X_test @ head.projection_, 0))
    assert_allclose(head.decision_function(X_test), expected, rtol=1e-5, atol=1e-6)


def test_a_fixed_ridge_is_relative_to_the_mean_square():
    X, y, X_test, _ = five_classes()
    head = RanPAC(n_components=80, alpha=5.0, random_state=0).fit(X, y)
    neurons = np.maximum(X @ head.projection_, 0)
    model = Ridge(alpha=5.0 * np.mean(neurons**2), fit_intercept=False)
    model.fit(neurons, LabelBinarizer().fit_transform(y))
    expected = model.predict(np.maximum(X_test @ head.projection_, 0))
    assert_allclose(head.decision_function(X_test), expected, rtol=1e-7, atol=1e-9)


def test_ranpac_learns_a_task_of_one_sample():
    X, y, X_test, _ = five_classes()
    head = RanPAC(n_components=40, random_state=0).partial_fit(X[:1], y[:1])
    assert head.alpha_ == 1.0
    assert_array_equal(head.predict(X_test), np.repeat(y[:1], len(X_test)))
