"""Kernel linear discriminant analysis on random Fourier features."""

import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar, Literal

import numpy as np
from scipy.spatial.distance import pdist
from sklearn.utils._param_validation import Interval, StrOptions

from ..core.device import Array
from ..core.messages import level_of_user
from ._base import MomentClassifier, of_model
from ._moments import PooledScatter

__all__ = ["KernelLDA"]

# Number of samples of the first call whose distances give the scale of the kernel.
_N_DISTANT = 1000


@dataclass(frozen=True, eq=False, kw_only=True)
class RandomCosines(PooledScatter):
    """Moments of random cosines; `KernelLDA` describes the further fields."""

    random_weights: Array
    random_offset: Array

    def features(self, X: Array) -> Array:
        """Return the cosines."""
        angles = X @ self.random_weights + self.random_offset
        scale = np.sqrt(2.0 / len(self.random_offset))
        cosines: Array = scale * np.cos(angles)
        return cosines

    def n_columns(self, n_inputs: int) -> int:
        """Return the number of cosines."""
        return len(self.random_offset)

    def shapes(self, n_inputs: int, n_classes: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays by name."""
        n_columns = self.n_columns(n_inputs)
        return {
            **super().shapes(n_inputs, n_classes),
            "random_weights": (n_inputs, n_columns),
            "random_offset": (n_columns,),
        }


class KernelLDA(MomentClassifier):
    r"""Linear discriminant analysis on random Fourier features of a Gaussian kernel (KLDA).

    In KLDA [1]_ the inner product of the features approximates the kernel
    :math:`\exp(-\gamma \|x - x'\|^2)` [2]_. Their covariance is pooled, and all classes have the
    same prior.

    Parameters
    ----------
    n_components : int, default=5000
        Number of random cosines; the default is the published value.
    gamma : "median" or float, default="median"
        Parameter of the kernel. "median" is the inverse of the median squared distance between
        samples of the first call; if all samples are equal, gamma is 1, with a warning. The
        published value is tuned for each data set.
    alpha : float, default=1000.0
        Ridge of the covariance, in samples of mean variance. The published pseudo-inverse needs
        more samples than cosines.
    random_state : int, RandomState instance or None, default=None
        Seed of the cosines.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted.
    class_counts_ : ndarray of shape (n_classes,)
        Number of samples of each class.
    means_ : ndarray of shape (n_classes, n_components)
        Mean of the cosines of each class.
    scatter_ : ndarray of shape (n_components, n_components)
        Sum of the outer products of the cosines less the mean of their class.
    random_weights_ : ndarray of shape (n_features, n_components)
        Frequencies of the cosines, as in scikit-learn's ``RBFSampler``.
    random_offset_ : ndarray of shape (n_components,)
        Phases of the cosines.
    n_features_in_ : int
        Number of features seen at the first call.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.
    n_tasks_, task_classes_ : int, list of ndarray
        Number of tasks with new labels, and these labels.

    See Also
    --------
    StreamingLDA : The same on the features themselves.

    Notes
    -----
    With a given `gamma`, the order of the samples does not matter. With M cosines, C classes and d
    features, the state has M (M + C + d) numbers. A call takes M (M + d) products for each sample
    and M^3 / 3 for a Cholesky factor, and a prediction M (d + C) products.

    References
    ----------
    .. [1] S. Momeni, S. Mazumder, B. Liu. "Continual Learning Using a Kernel-Based Method over
       Foundation Models". AAAI 2025.
    .. [2] A. Rahimi, B. Recht. "Random Features for Large-Scale Kernel Machines". Advances in
       Neural Information Processing Systems, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ffnb_sklearn.baselines import KernelLDA
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = KernelLDA(n_components=100, random_state=0)
    >>> clf = clf.partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    >>> clf.score(X, y) > 0.8
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "gamma": [StrOptions({"median"}), Interval(Real, 0, None, closed="neither")],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
    }

    _model_class = RandomCosines

    scatter_ = of_model("scatter")
    random_weights_ = of_model("random_weights")
    random_offset_ = of_model("random_offset")

    def __init__(
        self,
        *,
        n_components: int = 5000,
        gamma: Literal["median"] | float = "median",
        alpha: float = 1000.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.gamma = gamma
        self.alpha = alpha
        self.random_state = random_state

    def _start(self, X, seed):
        """Draw frequencies and phases."""
        generator = np.random.RandomState(seed)
        gamma = self.gamma
        if isinstance(gamma, str):
            order = generator.permutation(len(X))
            gamma = _inverse_median_distance(X[order[:_N_DISTANT]])
        n_components = int(self.n_components)
        weights = generator.standard_normal((X.shape[1], n_components))
        return RandomCosines.empty(
            n_components,
            random_weights=np.sqrt(2.0 * gamma) * weights,
            random_offset=generator.uniform(0.0, 2.0 * np.pi, n_components),
        )

    def _solve(self, model, order):
        """Return weights and offsets with the ridged covariance."""
        covariance = model.ridged_covariance(self.alpha)
        return model.gaussian_rule(covariance, order)


def _inverse_median_distance(X):
    """Return the inverse of the median squared distance between samples that differ."""
    distances = pdist(X, "sqeuclidean")
    positive = distances[distances > 0]
    if len(positive) == 0:
        warnings.warn(
            'gamma="median" needs different samples in the first call. All samples are equal, so '
            "gamma is 1 at any scale of the features. Pass a number, or more samples in the first "
            "call.",
            UserWarning,
            stacklevel=level_of_user(),
        )
        return 1.0
    return 1.0 / np.median(positive)
