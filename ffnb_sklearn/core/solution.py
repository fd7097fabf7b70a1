"""Solution of the classifier from the moments, and its size."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from .features import Blocks, FixedFeatures, Index
from .heads import HEADS, Head
from .heads.choice import choose
from .heads.gaussians import ClassGaussians
from .heads.interface import Choice
from .linalg import SUM_ROUNDING
from .moments import ClassMoments, most_axes
from .settings import Settings

__all__ = [
    "Solution",
    "apply_choice",
    "follow",
    "n_classifier_weights",
    "solve",
    "stack_classes",
    "stack_each_class",
    "weigh_features",
]


class Solution(NamedTuple):
    """A classifier over the columns that it sees, and the choice that it follows."""

    classifier: Head
    choice: Choice


def solve(
    features: FixedFeatures,
    columns: Index,
    moments: Sequence[ClassMoments],
    settings: Settings,
    *,
    device: torch.device,
    seed: int = 0,
    choice: Choice | None = None,
) -> Solution:
    """Solve the classifier from the moments of all classes, at least one, over all features.

    `features` are those that no task changes, and `columns` those that the classifier sees.
    `seed` belongs to the draws by which the choice is judged; a given `choice` is kept. Raise a
    `NotPositiveDefiniteError` if a covariance cannot be factored, and warn with an
    `IllConditionedWarning` if the diagonal of one had to be raised.
    """
    head_class = HEADS[settings.classifier]
    gaussians = stack_classes(features, columns, moments, settings, device=device, seed=seed)
    if choice is None:
        blocks = features.blocks(settings.skip_connection)
        choice = choose(gaussians, blocks, settings, features.shared, head_class)
    gaussians = weigh_features(gaussians, features, settings, choice)
    head = head_class.from_gaussians(gaussians, choice, settings)
    return Solution(head, choice)


def follow(
    solution: Solution,
    features: FixedFeatures,
    columns: Index,
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
    classes = stack_each_class(solution.choice, features, columns, moments, settings, device=device)
    head = solution.classifier.update_classes(classes, numbers)
    if head is None:
        return None
    return solution._replace(classifier=head)


def stack_each_class(
    choice: Choice,
    features: FixedFeatures,
    columns: Index,
    moments: Sequence[ClassMoments],
    settings: Settings,
    *,
    device: torch.device,
) -> list[ClassGaussians]:
    """Return each class by itself in the features that count by a choice.

    The solution of a class then does not depend on which other classes are solved with it.
    """
    classes = []
    for each in moments:
        stacked = stack_classes(features, columns, [each], settings, device=device)
        if choice.candidate == "densities":
            blocks = features.blocks(settings.skip_connection)
            stacked = stacked.first_features(blocks.n_inputs)
        classes.append(stacked)
    return classes


def stack_classes(
    features: FixedFeatures,
    columns: Index,
    moments: Sequence[ClassMoments],
    settings: Settings,
    *,
    device: torch.device,
    seed: int = 0,
) -> ClassGaussians:
    """Stack the moments of classes in the features that the classifier sees."""
    blocks = features.blocks(settings.skip_connection)
    shared = slice(blocks.n_inputs, blocks.n_fixed)
    return ClassGaussians.from_moments(moments, columns, device=device, seed=seed, shared=shared)


def weigh_features(
    gaussians: ClassGaussians, features: FixedFeatures, settings: Settings, choice: Choice
) -> ClassGaussians:
    """Return stacked classes with the penalties of a choice, and with the unit of the ridge."""
    blocks = features.blocks(settings.skip_connection)
    gaussians = apply_choice(gaussians, blocks, choice)
    return replace(gaussians, absolute_ridge=settings.units == "absolute")


def apply_choice(gaussians: ClassGaussians, blocks: Blocks, choice: Choice) -> ClassGaussians:
    """Return the classes with the penalties of a choice, and over the features that count."""
    if choice.candidate == "densities":
        gaussians = gaussians.first_features(blocks.n_inputs)
        blocks = Blocks(blocks.n_inputs, 0)
    return gaussians.weigh_blocks(blocks, choice.input_energy)


def n_classifier_weights(
    n_features: int, moments: Sequence[ClassMoments], settings: Settings
) -> int:
    """Return the number of weights of the classifier, from shapes alone: nothing is solved.

    These are planes and offsets over the features that the classifier sees, and the own axes of the
    classes where the head has them.
    """
    n_axes = 0
    if settings.shrinkage != 1.0 and settings.covariance != "identity":
        for each in moments:
            n_axes += _most_axes(each, settings, n_features)
    return HEADS[settings.classifier].n_weights(n_features, len(moments), n_axes)


def _most_axes(moments: ClassMoments, settings: Settings, n_features: int) -> int:
    """Return the largest number of axes that a class may keep."""
    rank = most_axes(settings.rank) or n_features
    # The number of axes above rounding depends on how the samples of a class were divided into
    # calls.
    n_samples = math.ceil(moments.n_samples * (1.0 - SUM_ROUNDING))
    return min(n_features, rank, n_samples - 1)
