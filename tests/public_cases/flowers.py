"""Iris, and small models of it, that the public cases have in common."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis

X, Y = load_iris(return_X_y=True)
# Every class is in each part, in no particular order.
ORDER = np.random.default_rng(0).permutation(150)
X, Y = X[ORDER], Y[ORDER]
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
WEIGHTS = np.random.default_rng(1).integers(1, 5, size=150).astype(float)

# Parameters of a model that chooses nothing, because choices take time.
SMALL = {"shared_band_size": 20, "random_state": 0, "shrinkage": 0.3, "epsilon": 0.1}

heads = pytest.mark.parametrize("head", ["gaussian", "ovo", "ova"])


def small(head="gaussian", **parameters):
    """Return a model with a band of few neurons, which learns one task in `fit`."""
    values = {**SMALL, "classifier": head, "band_size": 1, "classes_per_task": None}
    return FFNBClassifier().set_params(**{**values, **parameters})


def plain(head="gaussian", **parameters):
    """Return a model without bands."""
    values = {**SMALL, "classifier": head}
    return IncrementalDiscriminantAnalysis(**{**values, **parameters})


def exact(head="gaussian", **parameters):
    """Model that stores the moments of its classes exactly, so that batches do not matter."""
    return plain(head, **{"rank": None, **parameters})
