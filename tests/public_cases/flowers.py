"""Iris, and small models of it, that the public cases have in common."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from ffnb_sklearn import IncrementalDiscriminantAnalysis

X, Y = load_iris(return_X_y=True)
# Every class is in each part, in no particular order.
ORDER = np.random.default_rng(0).permutation(150)
X, Y = X[ORDER], Y[ORDER]
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
WEIGHTS = np.random.default_rng(1).integers(1, 5, size=150).astype(float)

heads = pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])


def small(head="gaussian", **parameters):
    values = {"band_size": 1, "shared_band_size": 20, "random_state": 0, "classifier": head}
    return IncrementalDiscriminantAnalysis().set_params(**{**values, **parameters})


def exact(head="gaussian", **parameters):
    """Model that stores the moments of its classes exactly, so that batches do not matter."""
    return small(head, **{"rank": None, **parameters})
