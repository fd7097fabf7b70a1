"""AnaCP: an analytic contrastive projection before a ridge classifier on drawn features."""

import numpy as np
from scipy import linalg
from scipy.special import ndtr
from sklearn.utils import check_random_state

from benchmarks.heads.peers import IncrementalHead, solve_positive

# Added to the pooled covariance, whose units are those of rows of length 1 (the authors' code).
_LEAST_VARIANCE = 1e-4

# Singular values below this share of the largest are rounding.
_ROUNDING = 1e-10


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
    width : int, default=5000
        Number of random neurons of a layer; the default is the published value.
    n_heads : int, default=3
        Number of random layers before the projection; the published value.
    alpha : float, default=100
        Ridge of all regressions; the published value.
    spread : float, default=1.0
        Addition to the singular values; the published value.
    n_draws : int, default=100
        Draws of a class; the published value.
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


def unit_rows(X):
    """Rows divided by their length; rows of zeros stay."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(lengths > 0.0, lengths, 1.0)


def gelu(X):
    """Gaussian error linear unit."""
    return X * ndtr(X)
