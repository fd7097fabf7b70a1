"""AnaCP: analytic contrastive projection."""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import ClassVar, Self

import numpy as np
from scipy import linalg
from scipy.special import ndtr
from sklearn.utils._param_validation import Interval

from ..core.device import Array
from ._base import MomentClassifier, of_classes, of_model
from ._linear_algebra import add_to_diagonal, solve_positive, unit_rows
from ._moments import Batch, PooledScatter, class_sums, with_rows

__all__ = ["AnaCP"]

# Variance that the authors' code adds to the pooled covariance of samples of norm 1.
_LEAST_VARIANCE = 1e-4

# Singular values below this share of the largest are rounding.
_ROUNDING = 1e-10


@dataclass(frozen=True, eq=False, kw_only=True)
class RandomLayers(PooledScatter):
    """Moments of the normalised samples and of random layers; `AnaCP` describes the fields."""

    ranges: ClassVar[dict[str, tuple[float, float]]] = {"draw_seed": (0, 2**31 - 1)}

    layers: Array
    last_layer: Array
    grams: Array
    sums: Array
    draw_seed: int

    def features(self, X: Array) -> Array:
        """Return samples of norm 1."""
        rows: Array = unit_rows(X)
        return rows

    def shapes(self, n_inputs: int, n_classes: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays by name."""
        n_layers = len(self.layers)
        n_components = self.last_layer.shape[1]
        return {
            **super().shapes(n_inputs, n_classes),
            "layers": (n_layers, n_inputs, n_components),
            "last_layer": (n_inputs, n_components),
            "grams": (n_layers, n_components, n_components),
            "sums": (n_classes, n_layers, n_components),
        }

    def add(self, batch: Batch) -> Self:
        """Return the model after a batch, with the moments of the neurons of each layer."""
        grams = self.grams.copy()
        sums = with_rows(self.sums, batch.n_classes)
        for number, layer in enumerate(self.layers):
            neurons = gelu(batch.features @ layer)
            grams[number] += neurons.T @ neurons
            sums[batch.numbers, number] += class_sums(neurons, batch.codes)
        return replace(super().add(batch), grams=grams, sums=sums)


class AnaCP(MomentClassifier):
    """Analytic contrastive projection (AnaCP).

    AnaCP [1]_ divides samples by their Euclidean norms. Each of several random layers gelu(x R) is
    mapped by ridge regression to targets, one per class: the class means, moved apart. The mean of
    the normalised projections passes a last random layer. Its ridge classifier is fitted to draws
    from Gaussians of the class means and the pooled covariance.

    Parameters
    ----------
    n_components : int, default=5000
        Number of random neurons of a layer; the default is the published value.
    n_layers : int, default=3
        Number of random layers before the projection; the default is the published value.
    alpha : float, default=100.0
        Ridge of all regressions; the default is the published value.
    spread : float, default=1.0
        Addition to the singular values of the whitened class means, which moves them apart; the
        default is the published value.
    n_draws : int, default=100
        Number of draws of each class; the default is the published value.
    random_state : int, RandomState instance or None, default=None
        Seed of the random layers and of the draws.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted.
    class_counts_ : ndarray of shape (n_classes,)
        Number of samples of each class.
    means_ : ndarray of shape (n_classes, n_features)
        Mean of the normalised samples of each class.
    scatter_ : ndarray of shape (n_features, n_features)
        Sum of the outer products of the normalised samples less the mean of their class.
    layers_ : ndarray of shape (n_layers, n_features, n_components)
        Weights of the random layers.
    last_layer_ : ndarray of shape (n_features, n_components)
        Weights of the last random layer.
    grams_ : ndarray of shape (n_layers, n_components, n_components)
        Sum of the outer products of the neurons of each layer.
    sums_ : ndarray of shape (n_classes, n_layers, n_components)
        Sum of the neurons of each layer over the samples of each class.
    draw_seed_ : int
        Seed of the draws.
    n_features_in_ : int
        Number of features seen at the first call.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.
    n_tasks_, task_classes_ : int, list of ndarray
        Number of tasks with new labels, and these labels.

    See Also
    --------
    RanPAC : A single random layer, and a ridge classifier.

    Notes
    -----
    Where the authors' code differs from the paper, the code holds: all singular values grow,
    without the signs of Lemma 4.1, and the moved means are whitened a second time instead of back
    (Eq. 16). The order of the samples does not matter.

    With M neurons, C classes and d features, the state has about `n_layers` M (M + C + d) numbers.
    A call takes `n_layers` M (M + d) products for each sample, and solves `n_layers` + 1 systems of
    M unknowns. A prediction takes `n_layers` + 1 times 2 M d products.

    References
    ----------
    .. [1] S. Momeni, C. Xiao, B. Liu. "AnaCP: Toward Upper-Bound Continual Learning via Analytic
       Contrastive Projection". NeurIPS 2025, arXiv:2511.13880.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ffnb_sklearn.baselines import AnaCP
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> clf = AnaCP(n_components=50, alpha=1.0, random_state=0)
    >>> for task in (y < 2, y >= 2):
    ...     clf = clf.partial_fit(X[task], y[task])
    >>> clf.score(X, y) > 0.95
    True
    """

    _parameter_constraints: ClassVar[dict] = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_layers": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "spread": [Interval(Real, 0, None, closed="left")],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    _model_class = RandomLayers

    scatter_ = of_model("scatter")
    layers_ = of_model("layers")
    last_layer_ = of_model("last_layer")
    grams_ = of_model("grams")
    sums_ = of_classes("sums")
    draw_seed_ = of_model("draw_seed")

    def __init__(
        self,
        *,
        n_components: int = 5000,
        n_layers: int = 3,
        alpha: float = 100.0,
        spread: float = 1.0,
        n_draws: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.n_layers = n_layers
        self.alpha = alpha
        self.spread = spread
        self.n_draws = n_draws
        self.random_state = random_state

    def _start(self, X, seed):
        """Draw the random layers, and the seed of the draws."""
        generator = np.random.RandomState(seed)
        n_features = X.shape[1]
        n_components = int(self.n_components)
        n_layers = int(self.n_layers)
        return RandomLayers.empty(
            n_features,
            layers=generator.standard_normal((n_layers, n_features, n_components)),
            last_layer=generator.standard_normal((n_features, n_components)),
            draw_seed=int(generator.randint(2**31)),
            grams=np.zeros((n_layers, n_components, n_components)),
            sums=np.zeros((0, n_layers, n_components)),
        )

    def _n_bytes_to_solve(self, model):
        """Return the memory of the draws, and of their neurons and products."""
        n_features, n_components = model.last_layer.shape
        n_draws = len(model.counts) * int(self.n_draws)
        return 32 * n_draws * (n_features + n_components)

    def _solve(self, model, order):
        """Return the map of each layer to the targets, and the weights of the last layer."""
        means = model.means[order]
        sums = model.sums[order]
        covariance = add_to_diagonal(model.covariance(), _LEAST_VARIANCE)
        targets = spread_means(means, covariance, self.spread)
        maps = []
        for number, gram in enumerate(model.grams):
            maps.append(self._ridge(gram, sums[:, number].T @ targets))
        draws = self._draws(model.draw_seed, means, covariance)
        neurons = gelu(project(draws, model.layers, maps) @ model.last_layer)
        draw_sums = neurons.reshape(len(means), int(self.n_draws), -1).sum(axis=1)
        weights = self._ridge(neurons.T @ neurons, draw_sums.T)
        return maps, weights

    def _scores_of(self, model, solution, features):
        """Return the outputs of the ridge classifier."""
        maps, weights = solution
        neurons = gelu(project(features, model.layers, maps) @ model.last_layer)
        return neurons @ weights

    def _draws(self, seed, means, covariance):
        """Return draws of all classes, class by class; equal moments give equal draws."""
        generator = np.random.RandomState(seed)
        shape = (len(means), int(self.n_draws), len(covariance))
        noise = generator.standard_normal(shape) @ linalg.cholesky(covariance)
        draws = means[:, np.newaxis] + noise
        return draws.reshape(-1, len(covariance))

    def _ridge(self, gram, sums):
        """Return (G + alpha I)^-1 C."""
        return solve_positive(add_to_diagonal(gram, self.alpha), sums)


def project(features, layers, maps):
    """Return the mean over the layers of the projections, each of norm 1."""
    # A sum takes the memory of a single layer, whatever the number of layers.
    total = 0.0
    for layer, layer_map in zip(layers, maps, strict=True):
        neurons = gelu(features @ layer)
        total = total + unit_rows(neurons @ layer_map)
    return total / len(maps)


def spread_means(means, covariance, spread):
    """Return class means that were moved apart, divided by their norms.

    The means are centred and whitened, their singular values grow by `spread`, they are whitened a
    second time, as in the authors' code, and the centre is added.
    """
    values, axes = linalg.eigh(covariance)
    whitening = (axes / np.sqrt(values)) @ axes.T
    centre = means.mean(axis=0)
    whitened = (means - centre) @ whitening
    left, singular_values, right = linalg.svd(whitened, full_matrices=False)
    # Centred means have a singular value of zero, whose direction is arbitrary.
    is_positive = singular_values > _ROUNDING * singular_values[0]
    grown = singular_values + spread * is_positive
    moved = (left * grown) @ right
    return unit_rows(moved @ whitening + centre)


def gelu(values):
    """Return the Gaussian error linear unit of values."""
    return values * ndtr(values)
