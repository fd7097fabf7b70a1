"""The peers' classifiers for frozen features, each written from its published formula.

Every head is a scikit-learn estimator whose ``partial_fit`` accepts labels it has not seen. What
it keeps are additive moments in float64: counts, means and scatters, merged exactly, so a class
may return and, where the formula allows it, the order of the tasks does not matter. Solutions of
linear systems follow from the moments; they are computed in ``partial_fit`` but left out of a
pickle, so a pickle's size is the size of what has to be kept between tasks.
"""

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y


class IncrementalHead(ClassifierMixin, BaseEstimator):
    """Template: merge a batch into class moments, then solve for a linear classifier.

    Subclasses give ``_solve``, which turns the moments into weights and biases, and may lift the
    rows first (``_start`` draws the lift at the first batch, ``_lift`` applies it).
    """

    _keeps_scatter = True

    def fit(self, X, y):
        """Forget everything, then learn all classes of ``y`` as one task."""
        for name in set(vars(self)) - set(self.get_params(deep=False)):
            delattr(self, name)
        return self.partial_fit(X, y)

    def partial_fit(self, X, y, classes=None):
        """Merge a batch of known classes, new classes or both.

        ``classes`` is for callers that declare labels; only labels that were seen are predicted.
        """
        X, y = check_X_y(X, y, dtype=np.float64)
        if not hasattr(self, "classes_"):
            self.n_features_in_ = X.shape[1]
            self._start(X)
        Z = self._lift(X)
        self._merge(Z, y)
        self._inspect(Z, y)
        self._solution = self._solve()
        return self

    def decision_function(self, X):
        """Score of every class in ``classes_``, larger is likelier."""
        check_is_fitted(self, "classes_")
        Z = self._lift(check_array(X, dtype=np.float64))
        if getattr(self, "_solution", None) is None:
            self._solution = self._solve()
        return self._scores(Z)

    def predict(self, X):
        """Label of the largest score."""
        scores = self.decision_function(X)
        return self.classes_[np.argmax(scores, axis=1)]

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_solution", None)
        return state

    def _start(self, X):
        pass

    def _lift(self, X):
        return X

    def _inspect(self, Z, y):
        pass

    def _scores(self, Z):
        weights, biases = self._solution
        return Z @ weights.T + biases

    def _merge(self, Z, y):
        """Merge counts, means and the pooled within-class scatter (Chan's update)."""
        labels, codes = np.unique(y, return_inverse=True)
        self._add_columns(labels, Z.shape[1])
        position = np.searchsorted(self.classes_, labels)
        counts = np.bincount(codes).astype(np.float64)
        indicator = codes == np.arange(len(labels))[:, None]
        means = (indicator @ Z) / counts[:, None]
        old = self.counts_[position]
        shift = means - self.means_[position]
        if self._keeps_scatter:
            self._merge_scatter(Z - means[codes], codes, position, shift, old, counts)
        self.counts_[position] = old + counts
        self.means_[position] += shift * (counts / (old + counts))[:, None]

    def _merge_scatter(self, centred, codes, position, shift, old, counts):
        between = np.sqrt(old * counts / (old + counts))[:, None] * shift
        self.scatter_ += centred.T @ centred + between[old > 0].T @ between[old > 0]

    def _add_columns(self, labels, width):
        """Make room for unseen labels; columns stay sorted by label."""
        if not hasattr(self, "classes_"):
            self.classes_ = labels[:0]
            self.counts_ = np.zeros(0)
            self.means_ = np.zeros((0, width))
            if self._keeps_scatter:
                self.scatter_ = self._empty_scatter(width)
        merged = np.union1d(self.classes_, labels)
        position = np.searchsorted(merged, self.classes_)
        for name in self._class_arrays():
            old = getattr(self, name)
            grown = np.zeros((len(merged), *old.shape[1:]))
            grown[position] = old
            setattr(self, name, grown)
        self.classes_ = merged

    def _empty_scatter(self, width):
        return np.zeros((width, width))

    def _class_arrays(self):
        return ["counts_", "means_"]

    def _ridged_covariance(self, alpha):
        """Pooled covariance with a ridge worth ``alpha`` samples of mean variance."""
        n = self.counts_.sum()
        covariance = self.scatter_ / n
        mean_variance = np.trace(covariance) / len(covariance)
        covariance[np.diag_indices(len(covariance))] += alpha / n * mean_variance
        return covariance

    def _gaussian_rule(self, covariance):
        """Weights and biases of equal-prior Gaussians that share a covariance."""
        weights = solve_positive(covariance, self.means_.T).T
        return weights, -0.5 * np.sum(weights * self.means_, axis=1)


class NearestClassMean(IncrementalHead):
    """Nearest class mean in Euclidean distance."""

    _keeps_scatter = False

    def _solve(self):
        return self.means_, -0.5 * np.sum(self.means_**2, axis=1)


class StreamingLDA(IncrementalHead):
    """Streaming linear discriminant analysis: class means and one pooled covariance.

    The covariance is ``(1 - shrinkage) * Sigma + shrinkage * I`` and all classes have the same
    prior. The published update adds one sample at a time; a Gram product per batch gives the same
    pooled covariance.

    Parameters
    ----------
    shrinkage : float, default=1e-4
        Weight of the identity; the default is the published value. It is absolute, so what it
        does depends on the scale of the features.
    alpha : float or None, default=None
        If given, replaces the shrinkage by a ridge of ``alpha`` samples of mean variance, which
        does not depend on the scale and counts less as samples arrive.

    References
    ----------
    T. L. Hayes and C. Kanan, "Lifelong machine learning with deep streaming linear discriminant
    analysis", CVPR Workshops 2020.
    """

    def __init__(self, *, shrinkage=1e-4, alpha=None):
        self.shrinkage = shrinkage
        self.alpha = alpha

    def _solve(self):
        if self.alpha is not None:
            return self._gaussian_rule(self._ridged_covariance(self.alpha))
        covariance = (1.0 - self.shrinkage) * self.scatter_ / self.counts_.sum()
        covariance[np.diag_indices(len(covariance))] += self.shrinkage
        return self._gaussian_rule(covariance)


class IncrementalRidge(IncrementalHead):
    """Ridge regression onto one-hot labels with an intercept, from additive moments.

    The exact solution of the recursive least-squares form used by analytic class-incremental
    learning, without its random expansion.

    Parameters
    ----------
    alpha : float, default=30
        Ridge, in samples of mean variance: it does not depend on the scale of the features.

    References
    ----------
    H. Zhuang et al., "ACIL: Analytic class-incremental learning with absolute memorization and
    privacy protection", NeurIPS 2022.
    """

    def __init__(self, *, alpha=30.0):
        self.alpha = alpha

    def _solve(self):
        n = self.counts_.sum()
        mean = self.counts_ @ self.means_ / n
        between = np.sqrt(self.counts_)[:, None] * (self.means_ - mean)
        gram = self.scatter_ + between.T @ between
        # The sum over samples of (x - mean) (one-hot - its mean), one row per class.
        cross = self.counts_[:, None] * (self.means_ - mean)
        gram[np.diag_indices(len(gram))] += self.alpha * np.trace(gram) / (n * len(gram))
        weights = solve_positive(gram, cross.T).T
        return weights, self.counts_ / n - weights @ mean


class ClassScatterHead(IncrementalHead):
    """Template of heads that keep the scatter of each class, of shape (C, d, d)."""

    def _empty_scatter(self, width):
        return np.zeros((0, width, width))

    def _class_arrays(self):
        return ["counts_", "means_", "scatter_"]

    def _merge_scatter(self, centred, codes, position, shift, old, counts):
        factors = old * counts / (old + counts)
        for code, column in enumerate(position):
            rows = centred[codes == code]
            self.scatter_[column] += rows.T @ rows
            self.scatter_[column] += factors[code] * np.outer(shift[code], shift[code])


class RegularizedGaussians(ClassScatterHead):
    """Regularised Gaussian discriminant analysis of all classes with equal priors.

    The covariance of a class is ``a1`` times its own, plus ``a2`` times the mean class covariance,
    plus ``a3`` times the mean variance times the identity, and the score is the logarithm of the
    density, log-determinant included. The published head keeps class covariances of low rank,
    which approximates these scores at less cost.

    Parameters
    ----------
    weights : tuple of float, default=(0.2, 2.0, 0.5)
        a1, a2 and a3; the published values. There a3 multiplies the identity, so what it does
        depends on the scale of the features; here it multiplies the mean variance too.

    References
    ----------
    "LR-RGDA", arXiv:2602.00144, 2026.
    """

    def __init__(self, *, weights=(0.2, 2.0, 0.5)):
        self.weights = weights

    def _solve(self):
        own, pooled, ridge = self.weights
        covariances = self.scatter_ / self.counts_[:, None, None]
        mean = covariances.mean(axis=0)
        d = len(mean)
        # A positive ridge also for one sample per class.
        shared = pooled * mean + ridge * (np.trace(mean) / d or 1.0) * np.eye(d)
        lowers = [linalg.cholesky(shared + own * one, lower=True) for one in covariances]
        return lowers, [2.0 * np.log(np.diag(lower)).sum() for lower in lowers]

    def _scores(self, Z):
        scores = np.empty((len(Z), len(self.classes_)))
        for c, (lower, log_determinant) in enumerate(zip(*self._solution, strict=True)):
            white = linalg.solve_triangular(lower, (Z - self.means_[c]).T, lower=True)
            scores[:, c] = -0.5 * (np.sum(white**2, axis=0) + log_determinant)
        return scores


class FeCAM(ClassScatterHead):
    """Mahalanobis distance with one shrunk, correlation-normalised covariance per class.

    Rows and class means are divided by their Euclidean norm before the distance. Features that
    are non-negative in the first batch pass Tukey's ladder ``x ** tukey_power`` before that; as in
    the authors' code, a class's prototype is the transformed mean of its untransformed rows.

    Parameters
    ----------
    alpha1, alpha2 : float, default=1
        Multiples of the mean variance and of the mean covariance added on and off the diagonal;
        the defaults are the published values.
    n_shrinkages : int, default=2
        How often that shrinkage is applied; the authors' code applies it twice.
    tukey_power : float, default=0.5
        The published power.

    References
    ----------
    D. Goswami, Y. Liu, B. Twardowski and J. van de Weijer, "FeCAM: Exploiting the heterogeneity
    of class distributions in exemplar-free continual learning", NeurIPS 2023.
    """

    def __init__(self, *, alpha1=1.0, alpha2=1.0, n_shrinkages=2, tukey_power=0.5):
        self.alpha1 = alpha1
        self.alpha2 = alpha2
        self.n_shrinkages = n_shrinkages
        self.tukey_power = tukey_power

    def _start(self, X):
        self.power_ = self.tukey_power if X.min() >= 0 else 1.0
        self.raw_sums_ = np.zeros((0, X.shape[1]))

    def _lift(self, X):
        return X if self.power_ == 1.0 else np.maximum(X, 0.0) ** self.power_

    def _class_arrays(self):
        return [*super()._class_arrays(), "raw_sums_"]

    def _inspect(self, Z, y):
        """Forget the whiteners of this batch's classes; the others have not changed."""
        if not hasattr(self, "_whiteners"):
            self._whiteners = {}
        for label in np.unique(y):
            column = np.searchsorted(self.classes_, label)
            self.raw_sums_[column] += np.sum(Z[y == label] ** (1.0 / self.power_), axis=0)
            self._whiteners.pop(label, None)

    def _whiten(self, column):
        covariance = self.scatter_[column] / max(self.counts_[column] - 1, 1)
        for _ in range(self.n_shrinkages):
            covariance = self._add_mean_covariance(covariance)
        deviation = np.sqrt(np.diag(covariance))
        if not deviation.any():  # a class of one sample, or of equal ones
            return np.eye(len(covariance))
        return inverse_root(covariance / np.outer(deviation, deviation))

    def _add_mean_covariance(self, covariance):
        d = len(covariance)
        diagonal = np.trace(covariance) / d
        off_diagonal = (covariance.sum() - d * diagonal) / (d * (d - 1))
        shrunk = covariance + self.alpha2 * off_diagonal
        shrunk[np.diag_indices(d)] += self.alpha1 * diagonal - self.alpha2 * off_diagonal
        return shrunk

    def _solve(self):
        if not hasattr(self, "_whiteners"):  # fresh from a pickle
            self._whiteners = {}
        for column, label in enumerate(self.classes_):
            if label not in self._whiteners:
                self._whiteners[label] = self._whiten(column)
        means = self.raw_sums_ / self.counts_[:, None]
        return unit_rows(means if self.power_ == 1.0 else means**self.power_)

    def _scores(self, Z):
        Z = unit_rows(Z)
        scores = np.empty((len(Z), len(self.classes_)))
        for i, label in enumerate(self.classes_):
            root = self._whiteners[label]
            scores[:, i] = -np.sum((Z @ root - self._solution[i] @ root) ** 2, axis=1)
        return scores

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_whiteners", None)
        return state


def solve_positive(matrix, right):
    """Solve with a symmetric positive definite matrix, or its pseudo-inverse if singular."""
    try:
        return linalg.cho_solve(linalg.cho_factor(matrix, lower=True), right)
    except linalg.LinAlgError:
        root = inverse_root(matrix)
        return root @ (root.T @ right)


def inverse_root(matrix, tolerance=1e-10):
    """R with ``R @ R.T`` the (pseudo-)inverse of a symmetric positive semi-definite matrix."""
    lower, info = linalg.lapack.dpotrf(matrix, lower=True)
    if info == 0 and np.diag(lower).min() ** 2 > tolerance * np.diag(matrix).max():
        return linalg.solve_triangular(lower, np.eye(len(matrix)), lower=True).T
    values, vectors = linalg.eigh(matrix)
    kept = values > tolerance * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])


def unit_rows(Z):
    """Rows divided by their Euclidean norm; rows of zeros stay."""
    norms = np.linalg.norm(Z, axis=1, keepdims=True)
    return Z / np.where(norms > 0, norms, 1.0)
