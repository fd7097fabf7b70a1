"""The data that the method learns: features, moments of the classes, and settings.

A model is immutable: every function returns a new model, so a failure leaves the old model intact.
Classes are numbered in order of arrival. `ffnb_sklearn.core.prediction` solves the classifier that
a model implies.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

import torch

from .class_moments import (
    ClassMoments,
    MomentSums,
    add_to_class,
    check_size,
    none_if_zero,
    remove_spare_axes,
)
from .features.feature_map import FeatureMap, as_slice
from .features.shared_band import draw_shared_band
from .likeness import LeftOutLikeness
from .past import Past
from .settings import Settings
from .solution import Solution, n_classifier_weights
from .sparse import SparseInputs, moments_of_inputs


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


@dataclass(frozen=True)
class Earlier:
    """A solution, and the moments of the model that it was solved for."""

    solution: Solution
    moments: tuple[ClassMoments, ...]


@dataclass(frozen=True)
class Model:
    """Everything that is learned from the tasks; it implies the classifier.

    Attributes
    ----------
    settings, seed : Settings, int
        Settings of the last task, and the seed of every random draw.
    features, moments : FeatureMap, tuple of ClassMoments
        Map from an input to all features, and the moments of each class over them.
    null_space_dims : tuple of tuple of int
        Number of residual axes, per task with new bands and per layer.
    n_newest : int
        Number of classes that the newest task with bands brought, the last classes; 0 if no task
        is the newest, as after a merge.
    loss_curve : tuple of float
        Loss after each epoch of fine-tuning for the last task.
    left_out : tuple of LeftOutLikeness
        Likeness of left-out samples of each class up to the last class that has any.
    chosen_from : tuple of ClassMoments or None
        Former moments of each class, by which shrinkage, ridge and all that classes share are
        chosen; None stands for the present moments of a class. Empty if all are the present ones.
    inputs_past : Past or None
        Past of psi_0 for some of the first classes, to which a stream adds new classes. It follows
        from the moments, so neither files nor pickles hold it.
    earlier : Earlier or None
        Last solution before this model by the same choice, which the solution follows. Neither
        files nor pickles hold it, because it follows from `chosen_from`.
    cache : dict
        Results that `ffnb_sklearn.core.prediction` derives from the other fields, once they have
        been asked for. No result depends on it; neither files nor pickles hold it.
    """

    settings: Settings
    seed: int
    features: FeatureMap
    moments: tuple[ClassMoments, ...] = ()
    null_space_dims: tuple[tuple[int, ...], ...] = ()
    n_newest: int = 0
    loss_curve: tuple[float, ...] = ()
    left_out: tuple[LeftOutLikeness, ...] = ()
    chosen_from: tuple[ClassMoments | None, ...] = ()
    inputs_past: Past | None = field(default=None, repr=False, compare=False)
    earlier: Earlier | None = field(default=None, repr=False, compare=False)
    cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __deepcopy__(self, memo: dict[int, object]) -> "Model":
        """Return the model itself: copies may share an immutable object."""
        return self

    def __getstate__(self) -> dict[str, object]:
        """Return the state without derived fields, which a copy derives again."""
        return {**vars(self), "inputs_past": None, "earlier": None, "cache": {}}

    @property
    def solution(self) -> Solution | None:
        """The solved classifier; None before `prediction.solve_once`."""
        return self.cache.get("solution")

    @property
    def n_weights(self) -> int:
        """Number of weights in the bands and in the classifier, solved or not."""
        if "n_weights" not in self.cache:
            moments = self.classifier_moments(range(len(self.moments)))
            n_in_classifier = n_classifier_weights(self.features, moments, self.settings)
            self.cache["n_weights"] = self.features.n_weights + n_in_classifier
        return cast(int, self.cache["n_weights"])

    def classifier_moments(self, numbers: Iterable[int]) -> tuple[ClassMoments, ...]:
        """Return the moments from which the classifier is solved, of classes of given numbers.

        They have no spare axes, and do not depend on the unit of the inputs.
        """
        rank = self.settings.rank
        moments = tuple(remove_spare_axes(self.moments[number], rank) for number in numbers)
        pairs = self.features.shared.pairs()
        if pairs is None:
            return moments
        leveled = []
        for each in moments:
            truncated = none_if_zero(pairs.level(each.residual))
            leveled.append(replace(each, truncated=truncated))
        return tuple(leveled)

    def replace_moments(self, moments: tuple[ClassMoments, ...]) -> "Model":
        """Return the model with the moments of all classes after a task, known classes first.

        The stored past of the inputs is dropped if the moments of a known class have changed.

        Raise `ValueError` if the features of all classes are too small for double precision.
        """
        check_size(moments)
        is_past_valid = True
        for before, after in zip(self.moments, moments, strict=False):
            # A class with new samples weighs more, and a truncated class has fewer rows.
            is_unchanged = before.weight == after.weight and before.rank == after.rank
            is_past_valid = is_past_valid and is_unchanged
        if not is_past_valid:
            return replace(self, moments=moments, inputs_past=None)
        return replace(self, moments=moments)

    def replace_left_out(self, left_out: tuple[LeftOutLikeness, ...]) -> "Model":
        """Return the model with other left-out likeness, and with the same cache."""
        model = replace(self, left_out=left_out)
        # No cached result depends on the left-out likeness.
        model.cache.update(self.cache)
        return model

    def moments_of_choice(self) -> tuple[ClassMoments, ...]:
        """Return the moments of all classes by which shrinkage and ridge are chosen."""
        if not self.chosen_from:
            return self.moments
        moments = []
        for former, present in zip(self.chosen_from, self.moments, strict=True):
            moments.append(present if former is None else former)
        return tuple(moments)

    def keep_choice(self, before: "Model") -> "Model":
        """Return the model after a task with the choice of the model `before`, if it still holds.

        The choice holds for the same classes, features and settings, until the total weight has
        grown by `refresh`.
        """
        moments = before.moments_of_choice()
        if not self._may_keep_choice(before, moments):
            return replace(self, chosen_from=(), earlier=None)
        chosen_from = []
        for former, present in zip(moments, self.moments, strict=True):
            chosen_from.append(None if former is present else former)
        earlier = before.earlier
        if before.solution is not None:
            earlier = Earlier(before.solution, before.moments)
        return replace(self, chosen_from=tuple(chosen_from), earlier=earlier)

    def _may_keep_choice(self, before: "Model", moments: tuple[ClassMoments, ...]) -> bool:
        """Return whether a choice by some moments, those of the model `before`, still holds."""
        if not self.settings.refresh or before.settings != self.settings:
            return False
        # A new class changes what all classes share.
        if before.features is not self.features or len(moments) != len(self.moments):
            return False
        weight_of_choice = sum(each.weight for each in moments)
        weight = sum(each.weight for each in self.moments)
        growth = 1.0 + self.settings.refresh
        return weight <= growth * weight_of_choice


def empty_model(n_inputs: int, settings: Settings, seed: int) -> Model:
    """Return a model without classes, and draw its shared band."""
    shared = draw_shared_band(
        settings.shared_band_size, n_inputs, mirrored=settings.skip_connection, seed=seed
    )
    return Model(settings, seed, FeatureMap(n_inputs, shared))


def updated_moments(
    model: Model, task: Task, last_features: torch.Tensor | None = None
) -> tuple[ClassMoments, ...]:
    """Return the moments of all classes, known classes first, including a task's samples.

    `last_features` holds the values of the last n features, up to all of them, such as outputs of
    new neurons for left-out samples; None computes all features.
    """
    order = torch.argsort(task.classes, stable=True)
    labels, counts = torch.unique_consecutive(task.classes[order], return_counts=True)
    members = torch.split(order.cpu(), counts.tolist())
    moments = list(model.moments)
    for number, samples in zip(labels.tolist(), members, strict=True):
        is_known = number < len(model.moments)
        added = _moments_of_class(model, task, last_features, samples, is_known)
        add_to_class(
            moments,
            number,
            added,
            model.settings.rank,
            device=task.classes.device,
            pairs=model.features.shared.pairs(),
        )
    return tuple(moments)


def _moments_of_class(
    model: Model,
    task: Task,
    last_features: torch.Tensor | None,
    samples: torch.Tensor,
    is_known: bool,
) -> ClassMoments:
    """Return the moments of the samples of a class in a task, with spare axes if it is known."""
    rank = model.settings.rank
    if isinstance(task.samples, SparseInputs):
        inputs = task.samples.sparse(samples.numpy())
        return moments_of_inputs(inputs, task.weights.cpu()[samples], rank, with_spare=is_known)
    sums = MomentSums(model.features.shared.pairs())
    for chunk in torch.split(samples, model.settings.chunk_size):
        # No name refers to the features of a chunk, so they leave memory before the next chunk.
        sums.add(*task_features(model, task, last_features, chunk))
    return sums.moments(rank, with_spare=is_known)


def task_features(
    model: Model, task: Task, last_features: torch.Tensor | None, numbers: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the features and the weights of the samples of a task with some numbers.

    `last_features` is the argument of `updated_moments`.
    """
    # Samples in class order are not copied.
    rows = as_slice(numbers.numpy())
    weights = task.weights[rows]
    if last_features is None:
        return model.features(task.samples[rows].double()), weights
    n_last = last_features.shape[1]
    if n_last == model.features.n_features:
        return last_features[rows], weights
    features = model.features(task.samples[rows].double())
    features[:, -n_last:] = last_features[rows]
    return features, weights
