"""FeCAM: a normalised Mahalanobis distance to each class."""

import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval

from ..core.device import Array
from ..core.messages import level_of_user
from ._base import MomentClassifier, of_classes, of_model
from ._linear_algebra import add_to_diagonal, inverse_root, unit_rows
from ._moments import Batch, ClassMeans, class_sums, with_rows

__all__ = ["FeCAM"]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassScatters(ClassMeans):
    """Moments of powers of the samples; `FeCAM` describes the further fields.

    The cache has the inverse roots of the correlations, by number of the class and parameters.
    """

    ranges: ClassVar[dict[str, tuple[float, float]]] = {
        "power": (np.finfo(np.float64).tiny, 1.0),
    }

    scatter: Array
    sums: Array
    power: float

    @classmethod
    def empty(cls, n_columns: int, **fields: Any) -> Self:
        """Return a model without classes, given the other fields."""
        scatter = np.zeros((0, n_columns, n_columns))
        sums = np.zeros((0, n_columns))
        return super().empty(n_columns, scatter=scatter, sums=sums, **fields)

    def features(self, X: Array) -> Array:
        """Return samples raised to the power."""
        if self.power == 1.0:
            return X
        if X.min() < 0.0:
            warnings.warn(
                "X has negative features, which count as 0: the first call had none, so features "
                f"are raised to the power {self.power:.3g}. Set tukey_power=1 before the first "
                "call.",
                UserWarning,
                stacklevel=level_of_user(),
            )
        powers: Array = np.maximum(X, 0.0) ** self.power
        return powers

    def shapes(self, n_inputs: int, n_classes: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays by name."""
        return {
            **super().shapes(n_inputs, n_classes),
            "scatter": (n_classes, n_inputs, n_inputs),
            "sums": (n_classes, n_inputs),
        }

    def add(self, batch: Batch) -> Self:
        """Return the model after a batch, with the roots of the classes that have not changed."""
        scatter = with_rows(self.scatter, batch.n_classes)
        sums = with_rows(self.sums, batch.n_classes)
        deviations = batch.deviations
        for code, number in enumerate(batch.numbers):
            class_deviations = deviations[batch.codes == code]
            gap = batch.union.gap[code]
            scatter[number] += class_deviations.T @ class_deviations
            scatter[number] += batch.union.between[code] * np.outer(gap, gap)
        samples = batch.features ** (1.0 / self.power)
        sums[batch.numbers] += class_sums(samples, batch.codes)
        model = replace(super().add(batch), scatter=scatter, sums=sums)
        roots = self.cache.get("roots", {})
        changed = set(batch.numbers.tolist())
        model.cache["roots"] = {key: roots[key] for key in roots if key[0] not in changed}
        return model


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
    n_tasks_, task_classes_ : int, list of ndarray
        Number of tasks with new labels, and these labels.

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

    _model_class = ClassScatters

    scatter_ = of_classes("scatter")
    sums_ = of_classes("sums")
    power_ = of_model("power")

    def __init__(
        self, *, alpha1: float = 1.0, alpha2: float = 1.0, tukey_power: float = 0.5
    ) -> None:
        self.alpha1 = alpha1
        self.alpha2 = alpha2
        self.tukey_power = tukey_power

    def _start(self, X, seed):
        """Choose the power."""
        power = 1.0
        if X.min() >= 0:
            power = float(self.tukey_power)
        return ClassScatters.empty(X.shape[1], power=power)

    def _solve(self, model, order):
        """Return the prototypes of the classes, and the inverse roots of their correlations."""
        known_roots = model.cache.get("roots", {})
        roots = {}
        for number in order.tolist():
            key = (number, self.alpha1, self.alpha2)
            if key in known_roots:
                roots[key] = known_roots[key]
            else:
                roots[key] = self._inverse_root(model, number)
        model.cache["roots"] = roots
        means = model.sums[order] / model.counts[order, np.newaxis]
        if model.power != 1.0:
            means = means**model.power
        return unit_rows(means), list(roots.values())

    def _inverse_root(self, model, number):
        """Return R for which R R' is the inverse of the correlation matrix of a class."""
        n_free = max(model.counts[number] - 1.0, 1.0)
        covariance = model.scatter[number] / n_free
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

    def _scores_of(self, model, solution, features):
        """Return minus the squared distances to the prototypes."""
        features = unit_rows(features)
        prototypes, roots = solution
        scores = np.empty((len(features), len(roots)))
        for column, root in enumerate(roots):
            whitened = features @ root - prototypes[column] @ root
            scores[:, column] = -np.sum(whitened**2, axis=1)
        return scores
