"""RanPAC: ridge regression on random neurons."""

from copy import deepcopy
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy import linalg
from sklearn.utils._param_validation import Interval

from ..core.device import Array
from ._base import MomentClassifier, of_model
from ._linear_algebra import add_to_diagonal, solve_positive
from ._moments import PooledScatter

__all__ = ["RanPAC"]

# The published grid of ridges.
_GRID = 10.0 ** np.arange(-8, 9)

# Published share of a batch that is learned while the ridge is chosen.
_LEARNED_SHARE = 0.8


@dataclass(frozen=True, eq=False, kw_only=True)
class RandomNeurons(PooledScatter):
    """Moments of random neurons; `RanPAC` describes the further fields.

    The generator draws the samples that judge a ridge. It is copied before it is used.
    """

    ranges: ClassVar[dict[str, tuple[float, float]]] = {"alpha": (0.0, np.finfo(np.float64).max)}

    projection: Array
    alpha: float
    generator: np.random.RandomState

    def features(self, X: Array) -> Array:
        """Return relu(x R)."""
        return np.maximum(X @ self.projection, 0.0)

    def n_columns(self, n_inputs: int) -> int:
        """Return the number of neurons."""
        return self.projection.shape[1]

    def shapes(self, n_inputs: int, n_classes: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays by name."""
        n_columns = self.n_columns(n_inputs)
        return {**super().shapes(n_inputs, n_classes), "projection": (n_inputs, n_columns)}


class RanPAC(MomentClassifier):
    """Ridge regression onto one-hot labels from random neurons (RanPAC).

    The neurons are relu(x R), where R has standard normal entries and is never trained. As
    published [1]_, each call chooses the ridge from 1e-8, 1e-7, ..., 1e8: a solution from 80 % of
    its samples is judged by the squared error on the others. An eigendecomposition serves all
    ridges.

    Parameters
    ----------
    n_components : int, default=10000
        Number of random neurons; the default is the published value.
    alpha : float or None, default=None
        Fixed ridge as a multiple of the mean square of a neuron, so that its effect does not depend
        on the scale of the features. With None, each call chooses an absolute ridge.
    random_state : int, RandomState instance or None, default=None
        Seed of the neurons, and of the samples that judge the ridge.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted.
    class_counts_ : ndarray of shape (n_classes,)
        Number of samples of each class.
    means_ : ndarray of shape (n_classes, n_components)
        Mean of the neurons of each class.
    scatter_ : ndarray of shape (n_components, n_components)
        Sum of the outer products of the neurons less the mean of their class.
    projection_ : ndarray of shape (n_features, n_components)
        Weights of the neurons.
    alpha_ : float
        Ridge that was chosen last; 1 before the first choice.
    n_features_in_ : int
        Number of features seen at the first call.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.
    n_tasks_, task_classes_ : int, list of ndarray
        Number of tasks with new labels, and these labels.

    See Also
    --------
    KernelLDA : Linear discriminant analysis on random cosines.

    Notes
    -----
    With `alpha`, the order of the samples does not matter. With M neurons, C classes and d
    features, the state has M (M + C + d) numbers. A call takes M (M + d) products for each sample
    and M^3 / 3 for a Cholesky factor, and a prediction M (d + C) products.

    References
    ----------
    .. [1] M. D. McDonnell, D. Gong, A. Parvaneh, E. Abbasnejad, A. van den Hengel. "RanPAC: Random
       Projections and Pre-trained Models for Continual Learning". NeurIPS 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ffnb_sklearn.baselines import RanPAC
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = RanPAC(n_components=100, random_state=0)
    >>> clf = clf.partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    >>> clf.score(X, y) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    _model_class = RandomNeurons

    scatter_ = of_model("scatter")
    projection_ = of_model("projection")
    alpha_ = of_model("alpha")

    def __init__(
        self,
        *,
        n_components: int = 10_000,
        alpha: float | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.random_state = random_state

    def _start(self, X, seed):
        """Draw the weights of the neurons."""
        generator = np.random.RandomState(seed)
        n_components = int(self.n_components)
        projection = generator.standard_normal((X.shape[1], n_components))
        return RandomNeurons.empty(
            n_components, projection=projection, alpha=1.0, generator=generator
        )

    def _add(self, model, batch):
        """Add the moments, and choose the ridge by a part of the batch."""
        model = model.add(batch)
        n_samples = len(batch.features)
        n_learned = int(_LEARNED_SHARE * n_samples)
        if self.alpha is not None or n_learned == 0:
            # A single sample judges no ridge.
            return model
        generator = deepcopy(model.generator)
        order = generator.permutation(n_samples)
        labels = np.arange(len(batch.numbers))
        targets = (batch.codes[:, np.newaxis] == labels).astype(np.float64)
        learned = order[:n_learned]
        judging = order[n_learned:]
        errors = ridge_errors(
            batch.features[learned],
            targets[learned],
            batch.features[judging],
            targets[judging],
            _GRID,
        )
        alpha = float(_GRID[errors.argmin()])
        return replace(model, alpha=alpha, generator=generator)

    def _solve(self, model, order):
        """Return weights (G + alpha I)^-1 C without offsets.

        G is the sum of the outer products of the neurons, and C their sums over each class.
        """
        counts = model.counts[order, np.newaxis]
        means = model.means[order]
        roots = np.sqrt(counts) * means
        gram = model.scatter + roots.T @ roots
        trace = np.trace(gram)
        ridge = model.alpha
        if self.alpha is not None:
            mean_square = trace / (counts.sum() * len(gram))
            ridge = self.alpha * mean_square
        # A ridge below the rounding error does nothing; features have any scale.
        ridge = max(ridge, np.finfo(np.float64).eps * trace)
        sums = counts * means
        ridged_gram = add_to_diagonal(gram, ridge)
        weights = solve_positive(ridged_gram, sums.T)
        return weights.T, 0.0


def ridge_errors(features, targets, judging_features, judging_targets, ridges):
    """Return the mean squared error of each ridge on judging samples.

    The eigendecomposition is that of the smaller of the two spaces, of samples or of features.
    """
    n_samples, n_columns = features.shape
    if n_samples < n_columns:
        values, vectors = linalg.eigh(features @ features.T)
        rows = (judging_features @ features.T) @ vectors
        coefficients = vectors.T @ targets
    else:
        values, vectors = linalg.eigh(features.T @ features)
        rows = judging_features @ vectors
        coefficients = vectors.T @ (features.T @ targets)
    values = np.maximum(values, 0.0)
    errors = np.empty(len(ridges))
    for number, ridge in enumerate(ridges):
        predictions = (rows / (values + ridge)) @ coefficients
        errors[number] = np.mean((predictions - judging_targets) ** 2)
    return errors
