"""Streaming linear discriminant analysis."""

from numbers import Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from ._base import MomentClassifier, of_model
from ._linear_algebra import add_to_diagonal
from ._moments import PooledScatter

__all__ = ["StreamingLDA"]


class StreamingLDA(MomentClassifier):
    """Streaming linear discriminant analysis (SLDA): class means and a pooled covariance.

    With the pooled covariance S, the regularised covariance is (1 - shrinkage) S + shrinkage I. All
    classes have the same prior. The published update [1]_ adds a sample at a time; the product of a
    whole call gives the same covariance in less time. The order of the samples does not matter.

    Parameters
    ----------
    shrinkage : float, default=1e-4
        Weight of the identity, in [0, 1]; the default is the published value. The identity has no
        unit, so the effect depends on the scale of the features.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted.
    class_counts_ : ndarray of shape (n_classes,)
        Number of samples of each class.
    means_ : ndarray of shape (n_classes, n_features)
        Mean of each class.
    scatter_ : ndarray of shape (n_features, n_features)
        Sum of the outer products of the samples less the mean of their class.
    n_features_in_ : int
        Number of features seen at the first call.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.
    n_tasks_, task_classes_ : int, list of ndarray
        Number of tasks with new labels, and these labels.

    See Also
    --------
    KernelLDA : The same on random features of a Gaussian kernel.

    Notes
    -----
    With C classes and d features, the state has d (d + C) numbers. A call takes d^2 products for
    each sample and d^3 / 3 for a Cholesky factor, and a score d products.

    References
    ----------
    .. [1] T. L. Hayes, C. Kanan. "Lifelong Machine Learning with Deep Streaming Linear Discriminant
       Analysis". CVPR Workshops 2020.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ffnb_sklearn.baselines import StreamingLDA
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = StreamingLDA().partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    >>> print(f"{clf.score(X, y):.2f}")
    0.98
    """

    _parameter_constraints: ClassVar[dict] = {"shrinkage": [Interval(Real, 0, 1, closed="both")]}

    _model_class = PooledScatter

    scatter_ = of_model("scatter")

    def __init__(self, *, shrinkage: float = 1e-4) -> None:
        self.shrinkage = shrinkage

    def _solve(self, model, order):
        """Return weights and offsets with the regularised covariance."""
        covariance = (1.0 - self.shrinkage) * model.covariance()
        covariance = add_to_diagonal(covariance, self.shrinkage)
        return model.gaussian_rule(covariance, order)
