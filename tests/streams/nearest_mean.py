"""A learner of streams that writes down what it is given."""

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin


class NearestMean(ClassifierMixin, BaseEstimator):
    """Nearest class mean that takes new labels at any call."""

    def __init__(self, picky=None):
        self.picky = picky

    def fit(self, X, y):
        return self.partial_fit(X, y)

    def partial_fit(self, X, y):
        self.means_ = getattr(self, "means_", {})
        self.seen_ = [*getattr(self, "seen_", []), type(X)]
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float)
        self.means_.update({label: X[y == label].mean(axis=0) for label in np.unique(y)})
        self.classes_ = np.array(sorted(self.means_))
        return self

    def predict(self, X):
        X = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=float)
        means = np.stack([self.means_[label] for label in self.classes_])
        distances = ((X[:, None] - means) ** 2).sum(axis=2)
        return self.classes_[distances.argmin(axis=1)]
