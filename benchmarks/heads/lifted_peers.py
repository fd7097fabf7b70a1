"""The peers that work on a fixed random lift of the features: RanPAC, kernel LDA and AnaCP."""

import numpy as np
from scipy import linalg
from scipy.special import ndtr
from sklearn.metrics import pairwise_distances
from sklearn.utils import check_random_state

from benchmarks.heads.peers import IncrementalHead, solve_positive, unit_rows

# Added to the pooled covariance, whose units are those of rows of length 1 (the authors' code).
_LEAST_VARIANCE = 1e-4

# Singular values below this share of the largest are rounding.
_ROUNDING = 1e-10


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


class AnaCP(IncrementalHead):
    """Analytic contrastive projection, written from the published formulas.

    Rows are divided by their length. Each of several random layers ``gelu(x R)`` is mapped by ridge
    regression to targets, one per class: the class means, moved apart by one more unit in each
    singular value of the whitened and centred means. The mean of the normalised projections passes
    another random layer, whose ridge classifier is fitted to draws from Gaussians of the class
    means and the pooled covariance.

    The authors' code holds if it differs from the paper: all singular values grow, without the
    signs of Lemma 4.1, and the moved means are whitened a second time instead of back (Eq. 16).

    Parameters
    ----------
    width, n_heads : int, default=5000, 3
        Number of random neurons of a layer, and of layers before the projection, as published.
    alpha, spread : float, default=100, 1
        Ridge of all regressions, and addition to the singular values, as published.
    n_draws : int, default=100
        Draws of a class, as published.
    random_state : int, RandomState instance or None, default=None
        Seed of the random layers and of the draws.

    References
    ----------
    S. Momeni, C. Xiao and B. Liu, "AnaCP: Toward upper-bound continual learning via analytic
    contrastive projection", NeurIPS 2025, arXiv:2511.13880.
    """

    def __init__(
        self, *, width=5000, n_heads=3, alpha=100.0, spread=1.0, n_draws=100, random_state=None
    ):
        self.width = width
        self.n_heads = n_heads
        self.alpha = alpha
        self.spread = spread
        self.n_draws = n_draws
        self.random_state = random_state

    def _start(self, X):
        random = check_random_state(self.random_state)
        self.layers_ = random.standard_normal((self.n_heads, X.shape[1], self.width))
        self.last_layer_ = random.standard_normal((X.shape[1], self.width))
        self.draw_seed_ = random.randint(2**31)
        self.grams_ = np.zeros((self.n_heads, self.width, self.width))
        self.sums_ = np.zeros((0, self.n_heads, self.width))

    def _lift(self, X):
        return unit_rows(X)

    def _class_arrays(self):
        return [*super()._class_arrays(), "sums_"]

    def _inspect(self, Z, y):
        """Add a batch to the second moments and the class sums of each random layer."""
        labels, codes = np.unique(y, return_inverse=True)
        columns = np.searchsorted(self.classes_, labels)
        indicator = (codes == np.arange(len(labels))[:, None]).astype(np.float64)
        for head, layer in enumerate(self.layers_):
            neurons = gelu(Z @ layer)
            self.grams_[head] += neurons.T @ neurons
            self.sums_[columns, head] += indicator @ neurons

    def _solve(self):
        covariance = self.scatter_ / self.counts_.sum()
        covariance[np.diag_indices(len(covariance))] += _LEAST_VARIANCE
        targets = spread_means(self.means_, covariance, self.spread)
        maps = [
            self._ridge(gram, sums.T @ targets)
            for gram, sums in zip(self.grams_, self.sums_.swapaxes(0, 1), strict=True)
        ]
        neurons = gelu(self._project(self._draw(covariance), maps) @ self.last_layer_)
        sums = neurons.reshape(len(self.classes_), self.n_draws, -1).sum(axis=1)
        return maps, self._ridge(neurons.T @ neurons, sums.T)

    def _scores(self, Z):
        maps, readout = self._solution
        return gelu(self._project(Z, maps) @ self.last_layer_) @ readout

    def _project(self, Z, maps):
        """Mean over the layers of the rows mapped to the targets, each of length 1."""
        heads = zip(self.layers_, maps, strict=True)
        return np.mean([unit_rows(gelu(Z @ layer) @ one) for layer, one in heads], axis=0)

    def _draw(self, covariance):
        """Draws of all classes, class by class, the same at every call for the same moments."""
        random = np.random.RandomState(self.draw_seed_)
        shape = (len(self.classes_), self.n_draws, len(covariance))
        noise = random.standard_normal(shape) @ linalg.cholesky(covariance)
        return (self.means_[:, None] + noise).reshape(-1, len(covariance))

    def _ridge(self, gram, cross):
        ridged = gram.copy()
        ridged[np.diag_indices(len(ridged))] += self.alpha
        return solve_positive(ridged, cross)


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


def spread_means(means, covariance, spread):
    """Move class means apart: add `spread` to the singular values of the whitened means.

    The means are centred by their mean before they are whitened, and whitened again after they are
    moved. The result is divided by its length.
    """
    values, axes = linalg.eigh(covariance)
    whitening = (axes / np.sqrt(values)) @ axes.T
    centre = means.mean(axis=0)
    left, singular, right = linalg.svd((means - centre) @ whitening, full_matrices=False)
    # Centred means have a singular value of zero, whose direction is any.
    larger = singular + spread * (singular > _ROUNDING * singular[0])
    return unit_rows((left * larger) @ right @ whitening + centre)


def gelu(X):
    """Gaussian error linear unit."""
    return X * ndtr(X)
