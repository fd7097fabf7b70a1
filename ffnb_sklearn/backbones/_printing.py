"""Print a summary of weights where an estimator is printed."""

import sys
from collections.abc import Mapping

import numpy as np

# The functions of scikit-learn that print parameters, for text and for notebooks. They ask for the
# parameters as everybody does, and also print estimators inside others, such as steps of a
# pipeline; so they are told by their names.
_PRINTERS = {
    ("sklearn.utils._pprint", "_changed_params"),
    ("sklearn.utils._pprint", "_safe_repr"),
    ("sklearn.utils._pprint", "_pprint_estimator"),
    ("sklearn.base", "_get_params_html"),
}


class WeightsSummary:
    """Stands for weights in print.

    Parameters
    ----------
    weights : mapping of str to array
        What is not to be printed.
    """

    def __init__(self, weights):
        count = sum(int(np.prod(np.shape(value))) for value in weights.values())
        self._text = f"<{len(weights)} arrays of {count} numbers in all>"

    def __repr__(self):
        return self._text


def printable(params, caller):
    """Replace weights by a summary where scikit-learn is about to print the parameters.

    Parameters
    ----------
    params : dict
        Parameters of an extractor.
    caller : frame
        Who asked for them.

    Returns
    -------
    dict
        The same, or a copy with a summary.
    """
    asked_by = caller.f_globals.get("__name__"), caller.f_code.co_name
    if asked_by not in _PRINTERS or not isinstance(params.get("weights"), Mapping):
        return params
    return {**params, "weights": WeightsSummary(params["weights"])}


def calling_frame():
    """Return the frame that called the function in which this is called."""
    return sys._getframe(2)
