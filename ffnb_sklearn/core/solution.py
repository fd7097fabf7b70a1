"""The classifier that follows from what is learnt: which kind, from what, and of what size."""

from collections.abc import Sequence

import torch

from .features import FeatureMap
from .fisher import PairwiseFisher, fit_pairwise
from .gaussians import ClassGaussians
from .one_vs_all import OneVsAllRidge, fit_one_vs_all
from .settings import Settings
from .shortlist import ShortlistFisher, fit_shortlist
from .statistics import ClassMoments
from .view import classifier_columns, classifier_view

__all__ = ["Classifier", "n_classifier_weights", "solve"]

Classifier = PairwiseFisher | ShortlistFisher | OneVsAllRidge


def solve(
    features: FeatureMap,
    moments: Sequence[ClassMoments],
    settings: Settings,
    *,
    device: torch.device,
    known: PairwiseFisher | None = None,
) -> Classifier:
    """Solve the classifier.

    Parameters
    ----------
    features : FeatureMap
        The feature map.
    moments : sequence of ClassMoments
        Of all classes, at least one, over all features.
    settings : Settings
        Which classifier, and its parameters.
    device : torch.device
        Where to compute.
    known : PairwiseFisher or None, default=None
        Pairs of the first classes, to be taken over as they are where all pairs are solved.

    Returns
    -------
    PairwiseFisher, ShortlistFisher or OneVsAllRidge
        The classifier over the features of `ffnb_sklearn.core.view.classifier_columns`.

    Raises
    ------
    NotPositiveDefiniteError
        If a covariance cannot be factored, as in `ffnb_sklearn.core.linalg.cholesky`.

    Warns
    -----
    IllConditionedWarning
        If the diagonal of one had to be raised.
    """
    view = classifier_view(
        features,
        moments,
        skip_connection=settings.skip_connection,
        pooled=settings.shrinkage > 0.0,
    )
    gaussians = ClassGaussians.from_moments(moments, *view, device=device)
    if settings.classifier == "ova":
        return fit_one_vs_all(gaussians, epsilon=settings.epsilon)
    covariance, shrinkage, epsilon = settings.covariance, settings.shrinkage, settings.epsilon
    n_listed = _n_listed(settings, len(moments))
    if n_listed is not None:
        return fit_shortlist(
            gaussians,
            covariance=covariance,
            shrinkage=shrinkage,
            epsilon=epsilon,
            n_listed=n_listed,
        )
    return fit_pairwise(
        gaussians, covariance=covariance, shrinkage=shrinkage, epsilon=epsilon, known=known
    )


def n_classifier_weights(
    features: FeatureMap, moments: Sequence[ClassMoments], settings: Settings
) -> int:
    """Number of weights of the classifier, from shapes alone: nothing is solved.

    Parameters
    ----------
    features, moments, settings
        As in `solve`; there may be no class.

    Returns
    -------
    int
        Planes and offsets; with a shortlist means, rows, and the coefficients and offsets of all
        pairs.
    """
    d, n_classes = len(classifier_columns(features, settings.skip_connection)), len(moments)
    if settings.classifier == "ova":
        return n_classes * (d + 1)
    if _n_listed(settings, n_classes) is None:
        return n_classes * (n_classes - 1) // 2 * (d + 1)
    n_rows = sum(len(one.factor) for one in moments)
    return d * (n_classes + n_rows) + (n_classes - 1) * n_rows + n_classes**2


def _n_listed(settings: Settings, n_classes: int) -> int | None:
    """Number of classes whose pairs are evaluated for a sample; None if all are."""
    listed = settings.shortlist
    return listed if listed is not None and listed < n_classes else None
