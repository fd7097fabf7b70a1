"""Public cases about parameters: NaN in a range, and subclasses."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from ffnb_sklearn import (
    IncrementalDiscriminantAnalysis,
)
from tests.public_cases.flowers import X, Y, small

# ---- selection and inspection


# ---- chains and curves


# ---- configuration


class Careful(IncrementalDiscriminantAnalysis):
    """Subclass with fewer parameters and one more."""

    def __init__(self, *, threshold=0.5, classifier="gaussian", random_state=None):
        super().__init__(classifier=classifier, random_state=random_state)
        self.threshold = threshold


def test_a_subclass_has_the_parameters_of_its_constructor():
    """scikit-learn #13555, baikal #31."""
    model = clone(Careful(threshold=0.1, classifier="ova", random_state=0)).fit(X, Y)
    assert model.get_params() == {"threshold": 0.1, "classifier": "ova", "random_state": 0}
    assert repr(model).startswith("Careful(")
    expected = IncrementalDiscriminantAnalysis(classifier="ova", random_state=0).fit(X, Y)
    assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("number", [float("nan"), np.float64("nan")])
def test_nan_is_in_no_range(number):
    """voluptuous #194."""
    model = small(novelty=True).fit(X, Y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=r"factor must be a number in \(0, 1\]; got nan"):
        model.decay(number)
    with pytest.raises(ValueError, match=r"rate must be a number in \(0, 1\); got nan"):
        model.novelty_threshold(number)
    for name in ("shrinkage", "epsilon", "p"):
        with pytest.raises(ValueError, match=f"(?s){name}.*nan"):
            small(classes_per_task=1, **{name: number}).fit(X, Y)
    assert_array_equal(model.predict_proba(X), before)
