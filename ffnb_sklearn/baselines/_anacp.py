"""AnaCP: analytic contrastive projection."""

from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from scipy import linalg
from scipy.special import ndtr
from sklearn.utils._param_validation import Interval

from ._base import PooledScatterClassifier, class_sums, seeded_generator
from ._linear_algebra import add_to_diagonal, solve_positive, unit_rows

__all__ = ["AnaCP"]

# Variance that the authors' code adds to the pooled covariance of samples of norm 1.
_LEAST_VARIANCE = 1e-4

# Singular values below this share of the largest are rounding.
_ROUNDING = 1e-10


class AnaCP(PooledScatterClassifier):
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

    _class_arrays = (*PooledScatterClassifier._class_arrays, "sums_")

    _scalars: ClassVar[dict] = {"draw_seed_": (int, 0)}

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

    def _start_features(self, X):
        """Draw the random layers, and the seed of the draws."""
        n_features = X.shape[1]
        n_components = int(self.n_components)
        n_layers = int(self.n_layers)
        generator = seeded_generator(self.random_state)
        self.layers_ = generator.standard_normal((n_layers, n_features, n_components))
        self.last_layer_ = generator.standard_normal((n_features, n_components))
        self.draw_seed_ = int(generator.randint(2**31))
        self.grams_ = np.zeros((n_layers, n_components, n_components))
        self.sums_ = np.zeros((0, n_layers, n_components))

    def _features(self, X):
        """Return samples of norm 1."""
        return unit_rows(X)

    def _shapes(self):
        """Return the shapes of the learned arrays by name."""
        n_features = self.n_features_in_
        n_layers = len(self.layers_)
        n_components = self.last_layer_.shape[1]
        return {
            **super()._shapes(),
            "layers_": (n_layers, n_features, n_components),
            "last_layer_": (n_features, n_components),
            "grams_": (n_layers, n_components, n_components),
            "sums_": (len(self.classes_), n_layers, n_components),
        }

    @property
    def _n_bytes_to_solve(self):
        """Memory of the draws, and of their neurons and products."""
        n_features, n_components = self.last_layer_.shape
        n_draws = len(self.classes_) * int(self.n_draws)
        return 32 * n_draws * (n_features + n_components)

    def _merge_batch(self, batch):
        """Merge the moments of the samples, and of the neurons of each layer."""
        super()._merge_batch(batch)
        grams = self.grams_.copy()
        for number, layer in enumerate(self.layers_):
            neurons = gelu(batch.features @ layer)
            grams[number] += neurons.T @ neurons
            self.sums_[batch.rows, number] += class_sums(neurons, batch.codes)
        self.grams_ = grams

    def _solve(self):
        """Return the map of each layer to the targets, and the weights of the last layer."""
        means = self.means_[self._learned_rows]
        sums = self.sums_[self._learned_rows]
        covariance = add_to_diagonal(self._covariance(), _LEAST_VARIANCE)
        targets = spread_means(means, covariance, self.spread)
        maps = []
        for number, gram in enumerate(self.grams_):
            maps.append(self._ridge(gram, sums[:, number].T @ targets))
        draws = self._draws(means, covariance)
        neurons = gelu(self._project(draws, maps) @ self.last_layer_)
        draw_sums = neurons.reshape(len(means), int(self.n_draws), -1).sum(axis=1)
        weights = self._ridge(neurons.T @ neurons, draw_sums.T)
        return maps, weights

    def _scores(self, features):
        """Return the outputs of the ridge classifier."""
        maps, weights = self._solution
        neurons = gelu(self._project(features, maps) @ self.last_layer_)
        return neurons @ weights

    def _project(self, features, maps):
        """Return the mean over the layers of the projections, each of norm 1."""
        # A sum takes the memory of a single layer, whatever the number of layers.
        total = 0.0
        for layer, layer_map in zip(self.layers_, maps, strict=True):
            neurons = gelu(features @ layer)
            total = total + unit_rows(neurons @ layer_map)
        return total / len(maps)

    def _draws(self, means, covariance):
        """Return draws of all classes, class by class; equal moments give equal draws."""
        generator = np.random.RandomState(self.draw_seed_)
        shape = (len(means), int(self.n_draws), len(covariance))
        noise = generator.standard_normal(shape) @ linalg.cholesky(covariance)
        draws = means[:, np.newaxis] + noise
        return draws.reshape(-1, len(covariance))

    def _ridge(self, gram, sums):
        """Return (G + alpha I)^-1 C."""
        return solve_positive(add_to_diagonal(gram, self.alpha), sums)


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
