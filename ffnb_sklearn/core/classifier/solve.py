"""The classifier that follows from what is learnt: which kind, from what, and of what size."""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..features.feature_map import FeatureMap, classifier_blocks, classifier_columns
from ..settings import Settings
from ..statistics import ClassMoments
from .densities import GaussianDistances, fit_distances
from .fisher import PairwiseFisher, fit_pairwise
from .gaussians import ClassGaussians
from .one_vs_all import OneVsAllRidge, fit_one_vs_all
from .selection import Choice, choose, with_choice
from .shortlist import ShortlistFisher, fit_shortlist

__all__ = ["Classifier", "Solution", "n_classifier_weights", "solve"]

Classifier = GaussianDistances | PairwiseFisher | ShortlistFisher | OneVsAllRidge


class Solution(NamedTuple):
    """A classifier, and what it was solved with.

    Attributes
    ----------
    classifier : PairwiseFisher, ShortlistFisher or OneVsAllRidge
        Over the features of `ffnb_sklearn.core.features.feature_map.classifier_columns`.
    choice : Choice
        Energies, shrinkage and ridge.
    """

    classifier: Classifier
    choice: Choice


def solve(
    features: FeatureMap,
    moments: Sequence[ClassMoments],
    settings: Settings,
    *,
    device: torch.device,
    known: PairwiseFisher | None = None,
    choice: Choice | None = None,
) -> Solution:
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
    choice : Choice or None, default=None
        What to solve with; None chooses what the settings leave open.

    Returns
    -------
    Solution
        The classifier and the choice.

    Raises
    ------
    NotPositiveDefiniteError
        If a covariance cannot be factored, as in `ffnb_sklearn.core.linalg.cholesky`.

    Warns
    -----
    IllConditionedWarning
        If the diagonal of one had to be raised.
    """
    columns = classifier_columns(features, settings.skip_connection)
    blocks = classifier_blocks(features, settings.skip_connection)
    gaussians = ClassGaussians.from_moments(moments, columns, device=device)
    if choice is None:
        choice = choose(gaussians, blocks, settings)
    gaussians = with_choice(gaussians, blocks, choice)
    if settings.classifier == "ova":
        return Solution(fit_one_vs_all(gaussians, epsilon=choice.epsilon), choice)
    covariance, shrinkage, epsilon = settings.covariance, choice.shrinkage, choice.epsilon
    if settings.classifier == "gaussian":
        distances = fit_distances(
            gaussians, covariance=covariance, shrinkage=shrinkage, epsilon=epsilon
        )
        return Solution(distances, choice)
    n_listed = _n_listed(settings, len(moments))
    classifier: Classifier
    if n_listed is not None:
        classifier = fit_shortlist(
            gaussians,
            covariance=covariance,
            shrinkage=shrinkage,
            epsilon=epsilon,
            n_listed=n_listed,
        )
    else:
        classifier = fit_pairwise(
            gaussians, covariance=covariance, shrinkage=shrinkage, epsilon=epsilon, known=known
        )
    return Solution(classifier, choice)


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
    if settings.classifier == "gaussian":
        return (n_classes + sum(one.rank for one in moments)) * (d + 1) + d
    if _n_listed(settings, n_classes) is None:
        return n_classes * (n_classes - 1) // 2 * (d + 1)
    n_rows = sum(one.rank for one in moments)
    return d * (n_classes + n_rows) + (n_classes - 1) * n_rows + n_classes**2


def _n_listed(settings: Settings, n_classes: int) -> int | None:
    """Number of classes whose pairs are evaluated for a sample; None if all are."""
    listed = settings.shortlist
    return listed if listed is not None and listed < n_classes else None
