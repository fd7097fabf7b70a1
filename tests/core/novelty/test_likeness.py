"""Left-out likeness: the importance of values from models of any size."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from ffnb_sklearn.core.novelty.likeness import LeftOutLikeness, likeness_threshold, pooled_likeness


def likeness(values, weight, learned_weight):
    """Return values of one weight, from models of one size."""
    n_values = len(values)
    return LeftOutLikeness.of(
        np.array(values), np.full(n_values, weight), np.full(n_values, learned_weight)
    )


def test_pooled_values_are_sorted_with_their_weights():
    pooled = pooled_likeness([likeness([-1.0, -4.0], 2.0, 10.0), likeness([-3.0], 5.0, 20.0)])
    assert_array_equal(pooled.values, [-4.0, -3.0, -1.0])
    assert_array_equal(pooled.weights, [2.0, 5.0, 2.0])
    assert_array_equal(pooled.learned_weights, [10.0, 20.0, 10.0])
    assert_allclose(pooled.importances(), [0.125, 5.0, 0.125])
    assert_allclose(pooled.importances(10.0), [2.0, 80.0, 2.0])


def test_many_values_become_quantiles_of_equal_importance():
    early = likeness(np.linspace(-4.0, -3.0, 90), 1.0, 10.0)
    late = likeness(np.linspace(-2.0, -1.0, 60), 1.0, 20.0)
    pooled = pooled_likeness([early, late])
    assert len(pooled.values) == 100
    # Importances of 90 and 60 * 16.
    assert np.mean(pooled.values < -2.5) == np.round(90 / 1050, 2)
    assert_allclose(pooled.weights, 1.5)
    assert_allclose(pooled.learned_weights, 20.0 * ((90 / 16 + 60) / 150) ** 0.25)
    assert_allclose(pooled.importances(20.0).sum(), 90 / 16 + 60)


def test_no_values():
    empty = pooled_likeness([])
    for each in (empty, pooled_likeness([empty, LeftOutLikeness()]), empty.without_values()):
        assert each.is_empty
        assert len(each.values) == len(each.importances()) == 0
    assert likeness_threshold([empty], np.ones(1), 0.5) is None
    assert likeness_threshold([], np.ones(0), 0.5) is None


def test_weights_of_any_size_leave_thresholds_finite():
    for weight in (1e-290, 1e290):
        early = likeness([-4.0, -3.0], weight, weight)
        late = likeness([-2.0, -1.0], weight, 2.0 * weight)
        shares = np.array([0.5, 0.5])
        # The early values have a 17th of the importance.
        assert likeness_threshold([early, late], shares, 0.05) == -3.0
        assert likeness_threshold([early, LeftOutLikeness(), late], np.ones(3) / 3, 0.06) == -2.0
        many = pooled_likeness([early] * 30 + [late] * 30)
        assert np.isfinite(many.importances()).all()
        assert np.mean(many.values < -2.5) == np.round(1 / 17, 2)
