"""The data that the method learns: features, moments of the classes, and settings.

A model is immutable: every function returns a new model, so a failure leaves the old model intact.
Classes are numbered in order of arrival. `ffnb_sklearn.core.prediction` solves the classifier that
a model implies.
"""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self, cast, runtime_checkable

import torch

from .features import FeatureMap, FixedFeatures, Index, TrainedLayers, draw_shared_band
from .moments import (
    ClassMoments,
    keep_axes,
)
from .novelty.likeness import LeftOutLikeness
from .novelty.score import RelativeDistances
from .settings import Settings
from .solution import FeatureSpace, Solution, n_classifier_weights


class Samples(Protocol):
    """Inputs psi_0 of samples: a tensor, or what computes a tensor of some samples at a time.

    Indexing takes a slice or an array of sample numbers. `double` returns all inputs in float64.
    """

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> torch.Tensor: ...

    def double(self) -> torch.Tensor:
        """Return all inputs at once."""


@dataclass(frozen=True)
class Task:
    """Samples of one call, psi_0 in float64 or float32, with positive sample weights.

    Numbers of new classes continue the numbers of the model.
    """

    samples: Samples
    classes: torch.Tensor
    weights: torch.Tensor

    @property
    def X(self) -> torch.Tensor:  # noqa: N802
        """psi_0 of all samples at once, in double precision."""
        return self.samples.double()


@runtime_checkable
class Trained(Protocol):
    """Trained neurons and the moments in them, as `ffnb_sklearn.core.bands` implements them."""

    @property
    def layers(self) -> TrainedLayers:
        """The trained neurons."""

    def complete(self, moments: ClassMoments, number: int) -> ClassMoments:
        """Return the moments of a class over the fixed features with those of the neurons."""

    def scale_weights(self, factor: float, numbers: Container[int]) -> Self:
        """Return the state in which the samples of some classes have other weights."""

    def reorder(self, order: Sequence[int]) -> Self:
        """Return the state with the classes in another order, given by their present numbers."""

    def without_classes(self, gone: Container[int]) -> Self:
        """Return the state without some classes."""


@dataclass(frozen=True)
class EarlierSolutions:
    """The solutions of an earlier model.

    Attributes
    ----------
    moments : tuple of ClassMoments
        Moments of that model.
    solution : Solution
        Its classifier.
    relative : RelativeDistances or None
        Its distances for novelty scores, if it was asked for these.
    """

    moments: tuple[ClassMoments, ...]
    solution: Solution
    relative: RelativeDistances | None


@dataclass(frozen=True)
class Model:
    """Everything that is learned from the tasks; it implies the classifier.

    Attributes
    ----------
    settings, seed : Settings, int
        Settings of the last task, and the seed of every random draw.
    features, moments : FixedFeatures, tuple of ClassMoments
        Features that no task changes, and the moments of each class over them.
    trained : Trained or None
        Trained neurons, with the moments of each class in them; None in a model without any.
    left_out : tuple of LeftOutLikeness
        Likeness of left-out samples of each class up to the last class that has any.
    chosen_from : tuple of ClassMoments or None
        Former `classifier_moments` of each class, by which shrinkage, ridge and all that classes
        share are chosen; None stands for the present moments of a class. Empty if all are the
        present ones.
    earlier : EarlierSolutions or None
        Last solution before this model by the same choice, which the solution follows. Neither
        files nor pickles hold it, because it follows from `chosen_from`.
    cache : dict
        Results that `ffnb_sklearn.core.prediction` derives from the other fields, once they have
        been asked for. No result depends on it; neither files nor pickles hold it.
    """

    settings: Settings
    seed: int
    features: FixedFeatures
    moments: tuple[ClassMoments, ...] = ()
    trained: Trained | None = None
    left_out: tuple[LeftOutLikeness, ...] = ()
    chosen_from: tuple[ClassMoments | None, ...] = ()
    earlier: EarlierSolutions | None = field(default=None, repr=False, compare=False)
    cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __deepcopy__(self, memo: dict[int, object]) -> "Model":
        """Return the model itself: copies may share an immutable object."""
        return self

    def __getstate__(self) -> dict[str, object]:
        """Return the state without derived fields, which a copy derives again."""
        state = {**vars(self), "earlier": None, "cache": {}}
        state.pop("feature_map", None)
        return state

    @cached_property
    def feature_map(self) -> FeatureMap:
        """The map from an input to all features, fixed and trained."""
        layers = None
        if self.trained is not None:
            layers = self.trained.layers
        return FeatureMap(self.features, layers)

    @property
    def columns(self) -> Index:
        """Columns of all features that the classifier sees."""
        return self.feature_map.columns(self.settings.skip_connection)

    @property
    def space(self) -> FeatureSpace:
        """Features in which the classifier is solved."""
        return FeatureSpace(self.features, self.columns, self.settings)

    @property
    def solution(self) -> Solution | None:
        """The solved classifier; None before `prediction.solve_once`."""
        return self.cache.get("solution")

    @property
    def n_weights(self) -> int:
        """Number of weights of the neurons and of the classifier, solved or not."""
        if "n_weights" not in self.cache:
            moments = self.classifier_moments(range(len(self.moments)))
            n_in_classifier = n_classifier_weights(len(self.columns), moments, self.settings)
            self.cache["n_weights"] = self.feature_map.n_weights + n_in_classifier
        return cast(int, self.cache["n_weights"])

    @property
    def n_operations(self) -> float:
        """Number of operations of the product of one sample with all weights, about."""
        # The number is kept: a sum over thousands of classes takes longer than a small product.
        if "n_operations" not in self.cache:
            n_columns = len(self.columns)
            n_in_features = self.feature_map.n_weights
            n_planes = len(self.moments)
            n_axes = sum(each.rank for each in self.moments)
            n_in_classifier = (n_planes + n_axes) * n_columns
            self.cache["n_operations"] = 2.0 * (n_in_features + n_in_classifier)
        return cast(float, self.cache["n_operations"])

    def complete_moments(self, number: int) -> ClassMoments:
        """Return the moments of a class over all features."""
        moments = self.moments[number]
        if self.trained is None:
            return moments
        return self.trained.complete(moments, number)

    def classifier_moments(self, numbers: Iterable[int]) -> tuple[ClassMoments, ...]:
        """Return the moments from which the classifier is solved, of classes of given numbers.

        They have no spare axes.
        """
        moments = []
        for number in numbers:
            complete = self.complete_moments(number)
            moments.append(keep_axes(complete, self.settings.rank))
        return tuple(moments)

    def replace_left_out(self, left_out: tuple[LeftOutLikeness, ...]) -> "Model":
        """Return the model with other left-out likeness, and with the same cache."""
        model = replace(self, left_out=left_out)
        # No cached result depends on the left-out likeness.
        model.cache.update(self.cache)
        return model

    def moments_of_choice(self) -> tuple[ClassMoments, ...]:
        """Return the `classifier_moments` of all classes by which the choice is made."""
        moments = []
        for number, former in enumerate(self.chosen_from):
            if former is None:
                (former,) = self.classifier_moments([number])
            moments.append(former)
        return tuple(moments)

    def keep_choice(self, before: "Model") -> "Model":
        """Return the model after a task with the choice of the model `before`.

        The model has no choice yet, and `may_keep_choice`.
        """
        chosen_from = list(before.chosen_from) or [None] * len(before.moments)
        for number, former in enumerate(chosen_from):
            is_changed = self.moments[number] is not before.moments[number]
            if former is None and is_changed:
                (chosen_from[number],) = before.classifier_moments([number])
        earlier = before.earlier
        if before.solution is not None:
            earlier = EarlierSolutions(
                before.moments, before.solution, before.cache.get("relative")
            )
        return replace(self, chosen_from=tuple(chosen_from), earlier=earlier)

    def may_keep_choice(self, before: "Model") -> bool:
        """Return whether the choice of the model `before` still holds after a task.

        With `refresh` above 0 it holds for the same classes, features and settings, until the total
        weight has grown by `refresh`.
        """
        if before.settings != self.settings:
            return False
        if before.features is not self.features:
            return False
        if before.feature_map.layers is not self.feature_map.layers:
            return False
        if len(before.moments) != len(self.moments):
            # A new class changes what all classes share.
            return False
        chosen_from = before.chosen_from or before.moments
        weight_of_choice = 0.0
        for former, present in zip(chosen_from, before.moments, strict=True):
            weight_of_choice += (former or present).weight
        weight = sum(each.weight for each in self.moments)
        growth = 1.0 + self.settings.refresh
        return weight <= growth * weight_of_choice


def empty_model(n_inputs: int, settings: Settings, seed: int) -> Model:
    """Return a model without classes, and draw its shared neurons."""
    shared = draw_shared_band(
        settings.shared_band_size, n_inputs, mirrored=settings.skip_connection, seed=seed
    )
    return Model(settings, seed, FixedFeatures(n_inputs, shared))
