"""How usual a score is for a class, from the scores of left-out samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import t as student_t

from ffnb_sklearn._base.typicality import ScoreDistributions
from ffnb_sklearn.core.novelty.likeness import LeftOutLikeness


def left_out(*scores, learned_weights=None):
    """Return left-out scores of each class, from models of one size unless weights are given."""
    likeness = []
    for number, values in enumerate(scores):
        sizes = np.ones(len(values)) if learned_weights is None else learned_weights[number]
        likeness.append(LeftOutLikeness.of(np.array(values), np.ones(len(values)), sizes))
    return likeness


def test_few_left_out_samples_are_shrunk_to_those_of_all_classes():
    scores = [-np.exp([-0.8, -1.0, -1.2]), -np.exp([-2.0, -2.4]), np.empty(0)]
    distributions = ScoreDistributions.from_left_out(left_out(*scores))
    within = (0.04 + 0.08) / 2
    errors = np.array([within / 3, within / 2])
    means = np.array([1.0, 2.2])
    between = means.var(ddof=1) - errors.mean()
    weights = 1 / (between + errors)
    centre = weights @ means / weights.sum()
    shrunk = centre + between / (between + errors) * (means - centre)
    assert_allclose(distributions.means, [*shrunk, centre])
    errors_of_prediction = [*(1 / (1 / between + 1 / errors)), between]
    assert_allclose(distributions.deviations, np.sqrt(within + np.array(errors_of_prediction)))
    # Degrees of freedom: two and one.
    priors = student_t.cdf((0.9 - distributions.means) / distributions.deviations, 3)
    shares = distributions.shares_below(np.array([-np.exp(-0.9)]), 20.0)
    assert_allclose(shares, [(np.array([1, 0, 0]) + 20 * priors) / np.array([23, 22, 20])])


def test_scores_of_larger_models_are_more_important():
    # Importances 1, 1, 4 and 1, 9.
    scores = [[-0.9, -0.5, -0.4], [-0.7, -0.3]]
    sizes = [np.sqrt([1.0, 1.0, 2.0]), np.sqrt([1.0, 3.0])]
    distributions = ScoreDistributions.from_left_out(left_out(*scores, learned_weights=sizes))
    assert_allclose(distributions.n_samples, [2.0, 1.0 / 0.82])
    shares = distributions.shares_below(np.array([-0.45]), 0.0)
    assert_allclose(shares, [[1 / 3, 0.1]])
    typicality = -np.log([0.9, 0.5, 0.4])
    mean = typicality @ [1, 1, 4] / 6
    variance = np.square(typicality - mean) @ [1, 1, 4] / 6 / (1 - 1 / 2)
    other = -np.log([0.7, 0.3])
    other_variance = np.square(other - other @ [0.1, 0.9]) @ [0.1, 0.9] / (1 - 0.82)
    within = (variance + other_variance) / 2
    # The means do not differ by more than their errors.
    assert_allclose(distributions.deviations, np.sqrt(within))
    assert distributions.n_degrees == pytest.approx(1.0 + 1.0 / 0.82 - 1.0)


def test_many_left_out_samples_decide_alone():
    values = np.sort(-np.random.default_rng(0).gamma(2.0, size=2000))
    distributions = ScoreDistributions.from_left_out(left_out(values, 3.0 * values))
    thresholds = np.quantile(values, [0.05, 0.5])
    assert_allclose(distributions.shares_below(thresholds, 20.0)[:, 0], [0.05, 0.5], atol=0.01)
    assert_allclose(
        distributions.shares_below(3.0 * thresholds, 20.0)[:, 1], [0.05, 0.5], atol=0.01
    )


def test_shares_without_left_out_samples_are_1():
    for scores in ([np.empty(0)], [np.array([-1.0]), np.array([-2.0])]):
        distributions = ScoreDistributions.from_left_out(left_out(*scores))
        assert_array_equal(distributions.shares_below(np.array([-5.0, 0.0]), 20.0), 1.0)


def test_equal_scores_are_no_division_by_zero():
    distributions = ScoreDistributions.from_left_out(left_out(np.zeros(3), np.zeros(2)))
    shares = distributions.shares_below(np.array([0.0, -1.0]), 20.0)
    assert (shares[0] > 0.4).all()
    assert (shares[1] < 0.05).all()
