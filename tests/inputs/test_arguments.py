"""Arguments of functions are validated as scikit-learn does it."""

import pytest
from sklearn.utils._param_validation import InvalidParameterError

from ffnb_sklearn._inputs.arguments import validate_arguments


def test_a_wrong_argument_is_refused_by_name_before_the_call():
    calls = []

    @validate_arguments({"n": [int]})
    def learn(n):
        """Learn."""
        calls.append(n)
        return n

    assert learn(3) == 3
    with pytest.raises(InvalidParameterError, match=r"'n' parameter of .*learn must be"):
        learn("3")
    assert calls == [3]
    assert learn.__doc__ == "Learn."
