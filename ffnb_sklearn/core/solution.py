"""Solution of the classifier from the moments, and its size."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from .choice.choose import choose
from .features import Blocks, FixedFeatures, Index
from .gaussians import ClassGaussians
from .heads import HEADS, Head
from .linalg import SUM_ROUNDING
from .moments import ClassMoments, most_axes
from .settings import Choice, Settings

__all__ = [
    "FeatureSpace",
    "Solution",
    "apply_choice",
    "n_classifier_weights",
    "solve",
    "update_solution",
]


class Solution(NamedTuple):
    """A classifier over the columns that it sees, and the choice that it follows."""

    head: Head
    choice: Choice


class FeatureSpace(NamedTuple):
    """Features in which the classifier is solved.

    Attributes
    ----------
    features : FixedFeatures
        Features that no task changes.
    columns : ndarray of shape (d,)
        Numbers of the features, fixed and trained, that the classifier sees.
    settings : Settings
        Parameters of the classifier.
    """

    features: FixedFeatures
    columns: Index
    settings: Settings

    @property
    def blocks(self) -> Blocks:
        """Numbers of inputs and of shared neurons that the classifier sees."""
        return self.features.blocks(self.settings.skip_connection)

    def stack(
        self, moments: Sequence[ClassMoments], *, device: torch.device, seed: int = 0
    ) -> ClassGaussians:
        """Stack the moments of classes."""
        blocks = self.blocks
        shared = slice(blocks.n_inputs, blocks.n_fixed)
        return ClassGaussians.from_moments(
            moments, self.columns, device=device, seed=seed, shared=shared
        )

    def stack_each(
        self, moments: Sequence[ClassMoments], choice: Choice, *, device: torch.device
    ) -> list[ClassGaussians]:
        """Return each class by itself in the features that count by a choice.

        The solution of a class then does not depend on which other classes are solved with it.
        """
        classes = []
        for each in moments:
            stacked = self.stack([each], device=device)
            if choice.candidate == "densities":
                stacked = stacked.first_features(self.blocks.n_inputs)
            classes.append(stacked)
        return classes

    def weigh(self, gaussians: ClassGaussians, choice: Choice) -> ClassGaussians:
        """Return stacked classes with the penalties of a choice, and with the unit of the ridge."""
        gaussians = apply_choice(gaussians, self.blocks, choice)
        return replace(gaussians, absolute_ridge=self.settings.units == "absolute")


def solve(
    space: FeatureSpace,
    moments: Sequence[ClassMoments],
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
    settings = space.settings
    head_class = HEADS[settings.classifier]
    gaussians = space.stack(moments, device=device, seed=seed)
    is_open = choice is None
    if choice is None:
        choice = choose(
            gaussians,
            space.blocks,
            settings,
            space.features.shared,
            keeps_own=head_class.keeps_own,
            fixed_ridge=head_class.fixed_ridge,
        )
    gaussians = space.weigh(gaussians, choice)
    solved_means = head_class.solve_means(gaussians, choice, settings)
    # Gaussian densities have chosen their temperature already.
    if is_open and solved_means is not None and choice.candidate != "densities":
        temperature = solved_means.temperature(gaussians, choice.epsilon)
        choice = choice._replace(temperature=temperature)
    head = head_class.from_gaussians(gaussians, solved_means, choice, settings)
    return Solution(head, choice)


def update_solution(
    solution: Solution,
    space: FeatureSpace,
    moments: Sequence[ClassMoments],
    numbers: Sequence[int],
    *,
    device: torch.device,
) -> Solution | None:
    """Return a solution for new moments of some known classes; None if the head has none.

    The classes keep the values that they share: the choice, the matrix B of the distances and their
    temperature. `moments` belong to the classes with the given numbers.
    """
    if not numbers:
        return solution
    classes = space.stack_each(moments, solution.choice, device=device)
    head = solution.head.update_classes(classes, numbers)
    if head is None:
        return None
    return solution._replace(head=head)


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
