"""FeCAM: a normalised Mahalanobis distance to each class."""

import warnings
from numbers import Real
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from ..core.messages import level_of_user
from ._base import MomentClassifier, class_sums
from ._linear_algebra import add_to_diagonal, inverse_root, unit_rows

__all__ = ["FeCAM"]


class FeCAM(MomentClassifier):
    """Feature covariance-aware metric (FeCAM): Mahalanobis distances, a covariance per class.

    FeCAM [1]_ shrinks the covariance of a class and divides it by its standard deviations, which
    makes it a correlation matrix. Samples and class means are divided by their Euclidean norms
    before the distance. If no feature of the first call is negative, features are raised to
    `tukey_power` before that.

    Parameters
    ----------
    alpha1 : float, default=1.0
        Multiple of the mean variance that is added to the diagonal of a covariance; the default is
        the published value.
    alpha2 : float, default=1.0
        Multiple of the mean covariance that is added to the other entries; the default is the
        published value.
    tukey_power : float, default=0.5
        Power of non-negative features, in (0, 1]; the default is the published value. If later
        calls have negative features, these count as 0, with a warning.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted.
    class_counts_ : ndarray of shape (n_classes,)
        Number of samples of each class.
    means_ : ndarray of shape (n_classes, n_features)
        Mean of the transformed samples of each class.
    scatter_ : ndarray of shape (n_classes, n_features, n_features)
        Sum of the outer products of the transformed samples less their mean, for each class.
    sums_ : ndarray of shape (n_classes, n_features)
        Sum of the samples of each class before the power.
    power_ : float
        `tukey_power`, or 1 if the first call had a negative feature.
    n_features_in_ : int
        Number of features seen at the first call.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.

    See Also
    --------
    StreamingLDA : A covariance for all classes, with much less state.

    Notes
    -----
    As in the authors' code, the shrinkage is applied twice, and the prototype of a class is the
    transformed mean of its samples before the power.

    With C classes and d features, the state has C d^2 numbers. A call takes d^2 products for each
    sample and d^3 / 3 for the Cholesky factor of each of its classes, and a score d^2 products.

    References
    ----------
    .. [1] D. Goswami, Y. Liu, B. Twardowski, J. van de Weijer. "FeCAM: Exploiting the Heterogeneity
       of Class Distributions in Exemplar-Free Continual Learning". NeurIPS 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ffnb_sklearn.baselines import FeCAM
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = FeCAM().partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    >>> print(f"{clf.score(X, y):.3f}")
    0.960
    """

    _parameter_constraints: ClassVar[dict] = {
        "alpha1": [Interval(Real, 0, None, closed="left")],
        "alpha2": [Interval(Real, 0, None, closed="left")],
        "tukey_power": [Interval(Real, 0, 1, closed="right")],
    }

    _class_arrays = (*MomentClassifier._class_arrays, "scatter_", "sums_")
    _computed = (*MomentClassifier._computed, "_roots")

    _scalars: ClassVar[dict] = {"power_": (float, 0.0)}

    # Inverse roots of the correlations by label, of the classes that have not changed since.
    _roots: ClassVar[dict] = {}

    def __init__(
        self, *, alpha1: float = 1.0, alpha2: float = 1.0, tukey_power: float = 0.5
    ) -> None:
        self.alpha1 = alpha1
        self.alpha2 = alpha2
        self.tukey_power = tukey_power

    def _start_features(self, X):
        """Choose the power."""
        self.power_ = 1.0
        if X.min() >= 0:
            self.power_ = float(self.tukey_power)

    def _features(self, X):
        """Return samples raised to the power."""
        if self.power_ == 1.0:
            return X
        if X.min() < 0.0:
            warnings.warn(
                "X has negative features, which count as 0: the first call had none, so features "
                f"are raised to the power {self.power_:.3g}. Set tukey_power=1 before the first "
                "call.",
                UserWarning,
                stacklevel=level_of_user(),
            )
        return np.maximum(X, 0.0) ** self.power_

    def _start_moments(self, n_columns):
        """Start the moments of no class."""
        super()._start_moments(n_columns)
        self.scatter_ = np.zeros((0, n_columns, n_columns))
        self.sums_ = np.zeros((0, n_columns))

    def _shapes(self):
        """Return the shapes of the learned arrays by name."""
        n_classes = len(self.classes_)
        n_columns = self._n_columns
        return {
            **super()._shapes(),
            "scatter_": (n_classes, n_columns, n_columns),
            "sums_": (n_classes, n_columns),
        }

    def _merge_batch(self, batch):
        """Add the scatter of each class of the batch, and forget its correlation."""
        roots = dict(self._roots)
        deviations = batch.deviations
        for code, row in enumerate(batch.rows):
            class_deviations = deviations[batch.codes == code]
            shift = batch.shifts[code]
            self.scatter_[row] += class_deviations.T @ class_deviations
            self.scatter_[row] += batch.shift_weights[code] * np.outer(shift, shift)
            roots.pop(self.classes_[row], None)
        samples = batch.features ** (1.0 / self.power_)
        self.sums_[batch.rows] += class_sums(samples, batch.codes)
        self._roots = roots
        super()._merge_batch(batch)

    def _solve(self):
        """Return the prototypes of the classes, and the inverse roots of their correlations."""
        roots = dict(self._roots)
        for row in self._learned_rows:
            label = self.classes_[row]
            if label not in roots:
                roots[label] = self._inverse_root(row)
        self._roots = roots
        means = self.sums_[self._learned_rows] / self.class_counts_[self._learned_rows, np.newaxis]
        if self.power_ != 1.0:
            means = means**self.power_
        return unit_rows(means), [roots[label] for label in self.classes_[self._learned_rows]]

    def _inverse_root(self, row):
        """Return R for which R R' is the inverse of the correlation matrix of a class."""
        n_free = max(self.class_counts_[row] - 1.0, 1.0)
        covariance = self.scatter_[row] / n_free
        for _ in range(2):
            covariance = self._shrunk(covariance)
        deviations = np.sqrt(np.diag(covariance))
        if not deviations.any():
            # A class of a single sample, or of equal samples.
            return np.eye(len(covariance))
        # Without a ridge, a constant feature has the variance 0.
        deviations = np.where(deviations > 0.0, deviations, 1.0)
        return inverse_root(covariance / np.outer(deviations, deviations))

    def _shrunk(self, covariance):
        """Return S + alpha1 v I + alpha2 c (1 - I).

        v is the mean of the diagonal, and c the mean of the other entries.
        """
        n_columns = len(covariance)
        variance_sum = np.trace(covariance)
        n_others = max(n_columns * (n_columns - 1), 1)
        mean_variance = variance_sum / n_columns
        mean_covariance = (covariance.sum() - variance_sum) / n_others
        shrunk = covariance + self.alpha2 * mean_covariance
        return add_to_diagonal(shrunk, self.alpha1 * mean_variance - self.alpha2 * mean_covariance)

    def _scores(self, features):
        """Return minus the squared distances to the prototypes."""
        features = unit_rows(features)
        prototypes, roots = self._solution
        scores = np.empty((len(features), len(roots)))
        for column, root in enumerate(roots):
            whitened = features @ root - prototypes[column] @ root
            scores[:, column] = -np.sum(whitened**2, axis=1)
        return scores
