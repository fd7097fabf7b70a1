"""Solution of the classifier from the moments, and its size."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from .class_moments import ClassMoments
from .features.feature_map import FeatureMap, classifier_blocks, classifier_columns
from .heads import HEADS, Head
from .heads.gaussians import ClassGaussians
from .linalg import SUM_ROUNDING
from .scatter import FEWEST_AXES
from .selection import Choice, apply_choice, choose
from .settings import Settings

__all__ = ["Solution", "chosen_gaussians", "follow", "n_classifier_weights", "solve"]


class Solution(NamedTuple):
    """A classifier over the features of `classifier_columns`, and the choice that it follows.

    `chosen_at` is the total weight of the samples when the choice was made.
    """

    classifier: Head
    choice: Choice
    chosen_at: float


def solve(
    features: FeatureMap,
    moments: Sequence[ClassMoments],
    settings: Settings,
    *,
    device: torch.device,
    seed: int = 0,
    choice: Choice | None = None,
) -> Solution:
    """Solve the classifier from the moments of all classes, at least one, over all features.

    `seed` belongs to the draws by which the choice is judged; a given `choice` is kept. Raise a
    `NotPositiveDefiniteError` if a covariance cannot be factored, and warn with an
    `IllConditionedWarning` if the diagonal of one had to be raised.
    """
    gaussians, choice = chosen_gaussians(features, moments, settings, choice, device, seed)
    head = HEADS[settings.classifier].from_gaussians(gaussians, choice, settings)
    weight = sum(each.weight for each in moments)
    return Solution(head, choice, weight)


def follow(
    solution: Solution,
    features: FeatureMap,
    moments: Sequence[ClassMoments],
    numbers: Sequence[int],
    settings: Settings,
    *,
    device: torch.device,
) -> Solution | None:
    """Return a solution for new moments of some known classes; None if the head has none.

    The classes keep the values that they share: the choice, the matrix B of the distances and their
    temperature. `moments` belong to the classes with the given numbers.
    """
    if not numbers:
        return solution
    columns = classifier_columns(features, settings.skip_connection)
    gaussians = ClassGaussians.from_moments(moments, columns, device=device)
    if solution.choice.candidate == "densities":
        blocks = classifier_blocks(features, settings.skip_connection)
        gaussians = gaussians.first(blocks.n_inputs)
    head = solution.classifier.update_classes(gaussians, numbers)
    if head is None:
        return None
    return solution._replace(classifier=head)


def chosen_gaussians(
    features: FeatureMap,
    moments: Sequence[ClassMoments],
    settings: Settings,
    choice: Choice | None,
    device: torch.device,
    seed: int,
) -> tuple[ClassGaussians, Choice]:
    """Return the classes with the penalties of a choice, and the choice; None makes it."""
    columns = classifier_columns(features, settings.skip_connection)
    blocks = classifier_blocks(features, settings.skip_connection)
    gaussians = ClassGaussians.from_moments(moments, columns, device=device, seed=seed)
    if choice is None:
        choice = choose(gaussians, blocks, settings, features.shared, HEADS[settings.classifier])
    gaussians = apply_choice(gaussians, blocks, choice)
    return replace(gaussians, absolute_ridge=settings.units == "absolute"), choice


def n_classifier_weights(
    features: FeatureMap, moments: Sequence[ClassMoments], settings: Settings
) -> int:
    """Return the number of weights of the classifier, from shapes alone: nothing is solved.

    These are planes and offsets, and the own axes of the classes where the head has them.
    """
    n_features = len(classifier_columns(features, settings.skip_connection))
    n_axes = 0
    if settings.shrinkage != 1.0 and settings.covariance != "identity":
        for each in moments:
            n_axes += _most_axes(each, settings, n_features)
    return HEADS[settings.classifier].n_weights(n_features, len(moments), n_axes)


def _most_axes(moments: ClassMoments, settings: Settings, n_features: int) -> int:
    """Return the largest number of axes that a class may keep."""
    if settings.rank == "auto":
        rank = max(moments.rank, FEWEST_AXES)
    else:
        rank = settings.rank or n_features
    # The number of axes above rounding depends on how the samples of a class were divided into
    # calls.
    n_samples = math.ceil(moments.n_samples * (1.0 - SUM_ROUNDING))
    return min(n_features, rank, n_samples - 1)
