"""The peers that work on a fixed random lift of the features: RanPAC and kernel LDA."""

import numpy as np
from scipy import linalg
from sklearn.metrics import pairwise_distances
from sklearn.utils import check_random_state

from benchmarks.heads.peers import IncrementalHead, solve_positive


class RanPAC(IncrementalHead):
    """Ridge regression onto one-hot labels from ``relu(x R)``, R Gaussian and never trained.

    As published, the ridge is chosen at every batch from 1e-8, 1e-7 ... 1e8: a solution from 80 %
    of the batch is scored by its squared error on the other 20 %. One eigendecomposition serves
    the whole grid.

    Parameters
    ----------
    width : int, default=10000
        Number of random neurons; the default is the published value.
    alpha : float or None, default=None
        Fixed ridge, in samples of mean square, which does not depend on the scale of the
        features. None: the published rule.
    random_state : int, RandomState instance or None, default=None
        Seed of R and of the hold-out.

    References
    ----------
    M. D. McDonnell, D. Gong, A. Parvaneh, E. Abbasnejad and A. van den Hengel, "RanPAC: Random
    projections and pre-trained models for continual learning", NeurIPS 2023.
    """

    def __init__(self, *, width=10_000, alpha=None, random_state=None):
        self.width = width
        self.alpha = alpha
        self.random_state = random_state

    def _start(self, X):
        self._random = check_random_state(self.random_state)
        self.projection_ = self._random.standard_normal((X.shape[1], self.width))

    def _lift(self, X):
        return np.maximum(X @ self.projection_, 0.0)

    def _inspect(self, Z, y):
        """Choose the ridge on a hold-out of this batch; a single sample leaves it as it was."""
        if not hasattr(self, "ridge_"):
            self.ridge_ = 1.0
        n_fit = int(0.8 * len(Z))
        if self.alpha is not None or n_fit == 0:
            return
        order = self._random.permutation(len(Z))
        targets = (y[:, None] == np.unique(y)).astype(np.float64)
        ridges = 10.0 ** np.arange(-8, 9)
        errors = ridge_path_errors(Z, targets, order[:n_fit], order[n_fit:], ridges)
        self.ridge_ = ridges[np.argmin(errors)]

    def _solve(self):
        roots = np.sqrt(self.counts_)[:, None] * self.means_
        gram = self.scatter_ + roots.T @ roots
        trace = np.trace(gram)
        ridge = self.ridge_
        if self.alpha is not None:
            ridge = self.alpha * trace / (self.counts_.sum() * len(gram))
        # Below rounding error a ridge is no ridge; the grid is absolute, features have any scale.
        gram[np.diag_indices(len(gram))] += max(ridge, np.finfo(np.float64).eps * trace)
        return solve_positive(gram, (self.counts_[:, None] * self.means_).T).T, 0.0


class KernelLDA(IncrementalHead):
    """Linear discriminant analysis on random Fourier features of a Gaussian kernel.

    The kernel is ``exp(-gamma * ||x - x'||^2)`` with ``gamma = bandwidth / median``, the median
    squared distance between rows of the first batch.

    Parameters
    ----------
    width : int, default=5000
        Number of cosines; the default is the published value.
    bandwidth : float, default=1.0
        Factor on the median rule. The published value is tuned for every data set.
    alpha : float, default=1000
        Ridge of the pooled covariance, in samples of mean variance. The published pseudo-inverse
        needs more samples than cosines.
    random_state : int, RandomState instance or None, default=None
        Seed of frequencies and phases.

    References
    ----------
    S. Momeni, S. Mazumder and B. Liu, "Continual learning using a kernel-based method over
    foundation models", AAAI 2025.
    A. Rahimi and B. Recht, "Random features for large-scale kernel machines", NeurIPS 2007.
    """

    def __init__(self, *, width=5000, bandwidth=1.0, alpha=1000.0, random_state=None):
        self.width = width
        self.bandwidth = bandwidth
        self.alpha = alpha
        self.random_state = random_state

    def _start(self, X):
        random = check_random_state(self.random_state)
        rows = X[random.permutation(len(X))[:1000]]
        distances = pairwise_distances(rows, metric="sqeuclidean")[np.triu_indices(len(rows), 1)]
        positive = distances[distances > 0]
        gamma = self.bandwidth / np.median(positive) if len(positive) else 1.0
        self.frequencies_ = np.sqrt(2 * gamma) * random.standard_normal((X.shape[1], self.width))
        self.phases_ = random.uniform(0.0, 2 * np.pi, self.width)

    def _lift(self, X):
        return np.sqrt(2.0 / self.width) * np.cos(X @ self.frequencies_ + self.phases_)

    def _solve(self):
        return self._gaussian_rule(self._ridged_covariance(self.alpha))


def ridge_path_errors(Z, targets, fit, held_out, ridges):
    """Mean squared error on held-out rows for every absolute ridge.

    Works in the smaller of the two spaces, samples or features, on one eigendecomposition. `fit`
    and `held_out` are the positions of the rows.
    """
    A, T, B = Z[fit], targets[fit], Z[held_out]
    if len(A) < A.shape[1]:
        values, vectors = linalg.eigh(A @ A.T)
        left, right = (B @ A.T) @ vectors, vectors.T @ T
    else:
        values, vectors = linalg.eigh(A.T @ A)
        left, right = B @ vectors, vectors.T @ (A.T @ T)
    values = np.maximum(values, 0.0)
    return np.array(
        [np.mean((left / (values + r) @ right - targets[held_out]) ** 2) for r in ridges]
    )
