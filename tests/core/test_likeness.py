"""Left-out likeness that is pooled: the weights of values from models of any size."""

import numpy as np
from numpy.testing import assert_allclose

from ffnb_sklearn.core.likeness import LeftOutLikeness, likeness_threshold, pooled_likeness


def test_the_order_of_pooling_does_not_change_weights():
    # The second and third part are pooled first, or the first and second part.
    parts = [(LeftOutLikeness(np.array([-1.0 - n]), 10.0 * (n + 1)), 2.0 + n) for n in range(3)]

    def pooled(some):
        return pooled_likeness(some), sum(weight for _, weight in some)

    at_once = pooled_likeness(parts)
    assert_allclose(at_once.learned_weight, np.sqrt((2 * 100 + 3 * 400 + 4 * 900) / 9))
    for turns in ([pooled(parts[:2]), parts[2]], [parts[0], pooled(parts[1:])]):
        assert_allclose(pooled_likeness(turns).learned_weight, at_once.learned_weight)


def test_parts_without_values_do_not_count():
    values = LeftOutLikeness(np.array([-2.0, -1.0]), 7.0)
    pooled = pooled_likeness([(LeftOutLikeness(), 5.0), (values, 2.0)])
    assert pooled.values.tolist() == [-2.0, -1.0]
    assert_allclose(pooled.learned_weight, 7.0)
    assert pooled_likeness([(LeftOutLikeness(), 5.0)]).learned_weight == 0.0
    assert pooled_likeness([]).learned_weight == 0.0


def test_weights_of_any_size_leave_thresholds_finite():
    for weight in (1e-290, 1e290):
        early = LeftOutLikeness(np.array([-4.0, -3.0]), weight)
        late = LeftOutLikeness(np.array([-2.0, -1.0]), 3.0 * weight)
        pooled = pooled_likeness([(early, 5.0 * weight), (late, weight)])
        assert_allclose(pooled.learned_weight, weight * np.sqrt((5 + 9) / 6))
        # Of the weights 1 and 9 the early values have a tenth.
        shares = np.array([0.5, 0.5])
        assert likeness_threshold([early, late], shares, 0.09) == -3.0
        assert likeness_threshold([early, late], shares, 0.11) == -2.0
