"""Shrinkage of the class covariances in a discriminant analysis, as functions of arrays.

They are what `IncrementalDiscriminantAnalysis` does without random neurons, for means and
covariances from anywhere.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state, column_or_1d

from .core.choice.choose import choose
from .core.features import Blocks, SharedBand
from .core.gaussians import ClassGaussians
from .core.heads.distances import fit_distances, solve_means
from .core.linalg import ROOT_ROUNDING
from .core.moments import ClassMoments
from .core.settings import Settings

__all__ = ["ShrinkageChoice", "choose_shrinkage", "discriminant_scores"]


class ShrinkageChoice(NamedTuple):
    """Result of `choose_shrinkage`.

    Attributes
    ----------
    shrinkage : float
        Share of the pooled covariance in the covariance of each class, between 0.001 and 1.
    epsilon : float
        Ridge, relative to the mean variance within the classes.
    """

    shrinkage: float
    epsilon: float


def choose_shrinkage(
    means: ArrayLike,
    covariances: ArrayLike,
    class_counts: ArrayLike,
    *,
    random_state: int | np.random.RandomState | None = None,
) -> ShrinkageChoice:
    r"""Choose the shrinkage and the ridge of class covariances from the moments of the classes.

    The shrinkage is that of Ledoit and Wolf [1]_, for the differences of the class covariances from
    the pooled covariance,

    .. math:: \rho = \frac{\sum_c \bigl((\mathrm{tr} \Sigma_c)^2 + \|\Sigma_c\|^2\bigr) / n_c}
                          {\sum_c \|\Sigma_c - \Sigma_{\mathrm{pooled}}\|^2} ,

    in the metric of the pooled covariance with a ridge of 0.7, 0.07 or 0.007 times the mean
    variance. Left-out samples, which are drawn from the moments, decide between these. The page
    :doc:`/theory/default` has the details.

    Parameters
    ----------
    means : array-like of shape (n_classes, n_features)
        Mean of each class.
    covariances : array-like of shape (n_classes, n_features, n_features)
        Covariance of each class: the scatter around its mean over the number of its samples.
    class_counts : array-like of shape (n_classes,)
        Number of samples of each class.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.

    Returns
    -------
    ShrinkageChoice
        The values `shrinkage` and `epsilon`, which a discriminant analysis takes as parameters.

    Raises
    ------
    ValueError
        If the shapes do not match, a count is not positive, or a covariance has a negative
        eigenvalue.

    References
    ----------
    .. [1] O. Ledoit, M. Wolf. A well-conditioned estimator for large-dimensional covariance
       matrices. Journal of Multivariate Analysis 88(2), 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_wine
    >>> from ffnb_sklearn.covariance import choose_shrinkage
    >>> X, y = load_wine(return_X_y=True)
    >>> groups = [X[y == label] for label in range(3)]
    >>> means = [group.mean(axis=0) for group in groups]
    >>> covariances = [np.cov(group.T, bias=True) for group in groups]
    >>> choice = choose_shrinkage(means, covariances, np.bincount(y), random_state=0)
    >>> f"{choice.shrinkage:.2f} {choice.epsilon:.2f}"
    '0.39 0.34'
    """
    rng = check_random_state(random_state)
    seed = int(rng.randint(np.iinfo(np.int32).max))
    gaussians = _gaussians(means, covariances, class_counts, seed=seed)
    n_features = gaussians.means.shape[1]
    settings = Settings(
        shared_band_size=0,
        shrinkage=None,
        epsilon=None,
        rank=None,
        classifier="gaussian",
        scale=False,
        chunk_size=1,
        refresh=0.0,
        novelty=False,
    )
    choice = choose(
        gaussians,
        Blocks(n_features, 0),
        settings,
        SharedBand.empty(n_features),
        keeps_own=True,
        fixed_ridge=None,
    )
    return ShrinkageChoice(choice.shrinkage, choice.epsilon)


def discriminant_scores(
    X: ArrayLike,
    means: ArrayLike,
    covariances: ArrayLike,
    class_counts: ArrayLike,
    *,
    shrinkage: float,
    epsilon: float,
) -> NDArray[np.float64]:
    r"""Return the scores of samples in a discriminant analysis with shrunk class covariances.

    Up to a term that all classes share, a score is minus half the squared distance

    .. math:: (x - \mu_c)^\top \bigl((1 - \rho) \Sigma_c + \rho \Sigma_{\mathrm{pooled}}
              + \varepsilon v P\bigr)^{-1} (x - \mu_c) ,

    with the mean variance within the classes, v, and penalties P that reduce the influence of the
    units of the features. The sample belongs to the class of the largest score.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples.
    means : array-like of shape (n_classes, n_features)
        Mean of each class.
    covariances : array-like of shape (n_classes, n_features, n_features)
        Covariance of each class: the scatter around its mean over the number of its samples.
    class_counts : array-like of shape (n_classes,)
        Number of samples of each class; the pooled covariance is weighted by these.
    shrinkage : float
        :math:`\rho` in [0, 1]: 0 are the class covariances, 1 is linear discriminant analysis.
    epsilon : float
        Ridge :math:`\varepsilon > 0`, relative to the mean variance within the classes.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        The scores.

    Raises
    ------
    ValueError
        If the shapes do not match, a count is not positive, a covariance has a negative
        eigenvalue, or `shrinkage` or `epsilon` is out of its range.
    NotPositiveDefiniteError
        If a shrunk covariance cannot be factored; a larger `epsilon` helps.
    """
    if not 0.0 <= shrinkage <= 1.0:
        raise ValueError(f"shrinkage must be between 0 and 1; got {shrinkage!r}.")
    if not 0.0 < epsilon < np.inf:
        raise ValueError(f"epsilon must be finite and positive; got {epsilon!r}.")
    gaussians = _gaussians(means, covariances, class_counts)
    n_features = gaussians.means.shape[1]
    X = check_array(X, dtype=np.float64, input_name="X")
    if X.shape[1] != n_features:
        raise ValueError(f"X must have {n_features} columns like means; got {X.shape[1]}.")
    gaussians = gaussians.weigh_blocks(Blocks(n_features, 0), 1.0)
    solved_means = solve_means(gaussians, covariance="class", shrinkage=shrinkage, epsilon=epsilon)
    distances = fit_distances(gaussians, solved_means, 1.0, covariance="class")
    scores: NDArray[np.float64] = distances.log_ratios(torch.from_numpy(X)).numpy()
    return scores


def _gaussians(
    means: ArrayLike, covariances: ArrayLike, class_counts: ArrayLike, seed: int = 0
) -> ClassGaussians:
    """Return checked means, covariances and counts in the form of the core."""
    means = check_array(means, dtype=np.float64, input_name="means")
    n_classes, n_features = means.shape
    covariances = check_array(
        covariances, dtype=np.float64, allow_nd=True, input_name="covariances"
    )
    shape = (n_classes, n_features, n_features)
    if covariances.shape != shape:
        raise ValueError(
            f"covariances must have the shape {shape}, because means has {means.shape}; "
            f"got {covariances.shape}."
        )
    counts = column_or_1d(class_counts, dtype=np.float64)
    if len(counts) != n_classes:
        raise ValueError(
            f"class_counts must have {n_classes} entries, because means has {n_classes} rows; "
            f"got {len(counts)}."
        )
    if not (np.isfinite(counts) & (counts > 0.0)).all():
        raise ValueError(f"class_counts must be finite and positive; got {counts.min()}.")
    moments = []
    for mean, covariance, count in zip(means, covariances, counts, strict=True):
        factor = np.sqrt(count) * _root(covariance)
        moments.append(ClassMoments(count, np.sqrt(count), mean, factor, None))
    columns = np.arange(n_features)
    return ClassGaussians.from_moments(moments, columns, device=torch.device("cpu"), seed=seed)


def _root(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows U, one per positive eigenvalue, with U'U = covariance."""
    if not np.allclose(covariance, covariance.T):
        raise ValueError("covariances must be symmetric; an entry differs from its mirror image.")
    eigenvalues, axes = np.linalg.eigh(covariance)
    least = -ROOT_ROUNDING * abs(eigenvalues[-1])
    if eigenvalues[0] < least:
        raise ValueError(
            "covariances must have no negative eigenvalues; "
            f"the smallest is {eigenvalues[0]:.3e}, the largest {eigenvalues[-1]:.3e}."
        )
    eps = np.finfo(np.float64).eps
    is_positive = eigenvalues > len(eigenvalues) * eps * eigenvalues[-1]
    roots = np.sqrt(eigenvalues[is_positive])
    rows: NDArray[np.float64] = (axes[:, is_positive] * roots).T
    # The axes have rounding errors in constant features, which must stay constant.
    rows[:, covariance.diagonal() == 0.0] = 0.0
    return rows
