"""The fitted state of the method: features, moments and the classifier that they imply.

A model is immutable: every function returns a new model, so a failure leaves the old model intact.
What follows from the moments is cached at most. Classes are numbered in order of arrival.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import is_
from threading import RLock
from typing import Any, Protocol, TypeVar, cast

import torch

from .device import as_tensor, few_threads, plain_torch, with_tensors
from .features.feature_map import FeatureMap, as_slice, classifier_columns
from .features.shared_band import draw_shared_band
from .heads.distances import GaussianDistances
from .heads.interface import NUMBERS_TOGETHER, Rows
from .likeness import LeftOutLikeness
from .novelty import RelativeDistances, fit_relative_distances
from .past import Past
from .settings import Settings
from .solution import Solution, chosen_gaussians, follow, n_classifier_weights, solve
from .sparse import SparseInputs, SparseRows, class_moments
from .statistics import (
    Array,
    ClassMoments,
    check_size,
    merge_classes,
    moments_of,
    without_spare_axes,
)

_T = TypeVar("_T")


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
    """A solution, and the parts of the model that it was solved for."""

    solution: Solution
    moments: tuple[ClassMoments, ...]
    features: FeatureMap
    settings: Settings


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
    """

    settings: Settings
    seed: int
    features: FeatureMap
    moments: tuple[ClassMoments, ...] = ()
    null_space_dims: tuple[tuple[int, ...], ...] = ()
    n_newest: int = 0
    loss_curve: tuple[float, ...] = ()
    left_out: tuple[LeftOutLikeness, ...] = ()
    # The past of psi_0 for some of the first classes: a stream of many classes adds it up as it
    # goes. Neither files nor pickles hold it, because it follows from the moments.
    inputs_past: Past | None = field(default=None, repr=False, compare=False)
    # The last solution before this model, which the solution may follow. Neither files nor pickles
    # hold it.
    earlier: "Earlier | None" = field(default=None, repr=False, compare=False)
    # Solutions, once they have been asked for, and their copies on devices. They change no result.
    _cache: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __deepcopy__(self, memo: dict[int, object]) -> "Model":
        """Return the model itself: copies may share an immutable object."""
        return self

    def __getstate__(self) -> dict[str, object]:
        """Return the state without what is derived from it, which a copy derives again."""
        return {**vars(self), "inputs_past": None, "earlier": None, "_cache": {}}

    @property
    def n_weights(self) -> int:
        """Number of weights in the bands and in the classifier, solved or not."""
        if "n_weights" not in self._cache:
            moments = self._classifier_moments(range(len(self.moments)))
            in_classifier = n_classifier_weights(self.features, moments, self.settings)
            self._cache["n_weights"] = self.features.n_weights + in_classifier
        return cast(int, self._cache["n_weights"])

    def with_moments(self, moments: tuple[ClassMoments, ...]) -> "Model":
        """Return the model with the moments of all classes after a task, known classes first.

        Raise `ValueError` if the features of all classes are too small for double precision.
        """
        check_size(moments)
        # A class with new samples weighs more, and a truncated class has fewer rows.
        known = zip(self.moments, moments, strict=False)
        same = all((old.weight, old.rank) == (new.weight, new.rank) for old, new in known)
        return replace(self, moments=moments, inputs_past=self.inputs_past if same else None)

    @property
    def solved(self) -> Solution | None:
        """The solved classifier; None before it has been asked for."""
        return self._cache.get("solution")

    def with_left_out(self, left_out: tuple[LeftOutLikeness, ...]) -> "Model":
        """Return the model with other left-out likeness, and with all that has been solved."""
        model = replace(self, left_out=left_out)
        model._cache.update(self._cache)
        return model

    @plain_torch
    def solution(self, device: torch.device) -> Solution:
        """Return the classifier that the moments imply, solved at the first call.

        Of concurrent first calls a single one solves it, and the others wait.
        """
        if self.solved is None:
            # A thread that holds the lock does not exist in a forked process.
            with self._cache.setdefault(("lock", os.getpid()), RLock()):
                if self.solved is None:
                    with few_threads(self._operations(self.features.n_features)):
                        self._cache["solution"] = self._new_solution(device)
        return cast(Solution, self.solved)

    def _new_solution(self, device: torch.device) -> Solution:
        """Solve the classifier, or let it follow an earlier solution."""
        earlier, choice = self.earlier, None
        if earlier is not None and self._may_follow(earlier):
            pairs = zip(self.moments, earlier.moments, strict=True)
            changed = [number for number, (new, old) in enumerate(pairs) if new is not old]
            moments = self._classifier_moments(changed)
            found = follow(
                earlier.solution, self.features, moments, changed, self.settings, device=device
            )
            if found is not None:
                return found
            choice = earlier.solution.choice
        solution = solve(
            self.features,
            self._classifier_moments(range(len(self.moments))),
            self.settings,
            device=device,
            seed=self.seed,
            choice=choice,
        )
        if choice is None or earlier is None:
            return solution
        return solution._replace(chosen_at=earlier.solution.chosen_at)

    def _may_follow(self, earlier: "Earlier") -> bool:
        """Return whether an earlier solution still holds for all classes without new samples."""
        if earlier.settings != self.settings or earlier.features is not self.features:
            return False
        if len(earlier.moments) != len(self.moments):
            # A new class changes what all classes share.
            return False
        weight = sum(each.weight for each in self.moments)
        return weight <= (1.0 + self.settings.refresh) * earlier.solution.chosen_at

    def with_earlier(self, model: "Model") -> "Model":
        """Return the model with the solution of the model before it, or with an earlier one."""
        earlier = model.earlier
        if model.solved is not None:
            earlier = Earlier(model.solved, model.moments, model.features, model.settings)
        return replace(self, earlier=earlier)

    def under(self, parameters: Sequence[object], settings: Callable[[], Settings]) -> "Model":
        """Return the model with other settings of its classifier; itself if they are its own.

        It is the model of the last call, with the classifier that it has solved, if each of the
        parameters is the same object as then; else `settings` computes the settings.
        """
        known, model = self._cache.get("under", ((), None))
        if len(known) != len(parameters) or not all(map(is_, known, parameters)):
            now = settings()
            # A reference to this model would keep it in memory until a garbage collection.
            model = None if now == self.settings else replace(self, settings=now)
            self._cache["under"] = parameters, model
        return self if model is None else cast(Model, model)

    @plain_torch
    def scores(self, X: Samples) -> torch.Tensor:
        """Compute class scores, of shape (n_samples, n_classes)."""
        classifier = self._placed("classifier", self.solution(X.device).classifier, X)
        return self._by_chunk(X, classifier.scores)

    @plain_torch
    def most_likely(self, X: Samples, order: Array) -> torch.Tensor:
        """Return the class of the highest score of each sample, of shape (n_samples,).

        Among classes of equal scores it is the first in `order`, which holds all classes.
        """
        classifier = self._placed("classifier", self.solution(X.device).classifier, X)
        numbers = torch.as_tensor(order, device=X.device)
        return self._by_chunk(X, lambda rows: classifier.most_likely(rows, numbers))

    @plain_torch
    def likeness(self, X: Samples) -> torch.Tensor:
        """Compute the likeness of samples to the classes learned, of shape (n_samples,)."""
        relative = self._placed("relative", self._relative_distances(X.device), X)
        return self._by_chunk(X, relative.likeness)

    @plain_torch
    def left_out_likeness(
        self, task: Task, fresh: torch.Tensor | None, numbers: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """Compute the likeness of samples of the task just learned to the model without each.

        Parameters
        ----------
        task : Task
            The task just learned.
        fresh : Tensor or None
            What `updated_moments` took.
        numbers, weights : Tensor of shape (n_samples,)
            Numbers of the samples in the task, on the CPU, and the weight that is left out with
            each, less than that of its class.

        Returns
        -------
        Tensor of shape (n_samples,)
            The likeness.
        """
        relative = self._relative_distances(weights.device)
        size = max(1, min(self.settings.chunk_size, NUMBERS_TOGETHER // self.features.n_features))
        parts = zip(torch.split(numbers, size), torch.split(weights, size), strict=True)
        likeness = list[torch.Tensor]()
        with few_threads(2.0 * self._operations(len(numbers))):
            for some, together in parts:
                samples, _ = _measured(self, task, fresh, some)
                classes = task.classes[some]
                kept, leverages = self._along_axes(samples, classes, together)
                seen = self._seen(samples), self._seen(kept)
                likeness.append(relative.left_out_likeness(*seen, classes, together, leverages))
        return torch.cat(likeness)

    def _along_axes(
        self, samples: torch.Tensor, classes: torch.Tensor, weights: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the parts of samples along the axes of their classes, and their leverages."""
        kept = torch.zeros_like(samples)
        leverages = torch.zeros_like(weights)
        if self.settings.covariance == "identity":
            return kept, leverages
        for label in torch.unique(classes).tolist():
            members = classes == label
            (moments,) = self._classifier_moments([label])
            kept[members], leverages[members] = moments.along_axes(
                samples[members], weights[members]
            )
        return kept, leverages

    def _relative_distances(self, device: torch.device) -> RelativeDistances:
        """Return the distances that the likeness compares, solved at the first call."""
        if (known := self._cache.get("relative")) is not None:
            return cast(RelativeDistances, known)
        settings, solution = self.settings, self.solution(device)
        head, choice = solution.classifier, solution.choice
        # Classes that are Gaussian in the inputs have log-determinants, and distances that follow
        # an earlier solution belong to other moments.
        is_same = isinstance(head, GaussianDistances) and choice.temperature is None
        is_same = is_same and not settings.refresh
        moments = self._classifier_moments(range(len(self.moments)))
        gaussians, _ = chosen_gaussians(self.features, moments, settings, choice, device, self.seed)
        relative = fit_relative_distances(
            gaussians,
            cast(GaussianDistances, head) if is_same else None,
            covariance=settings.covariance,
            shrinkage=choice.shrinkage,
            epsilon=choice.epsilon,
        )
        return cast(RelativeDistances, self._cache.setdefault("relative", relative))

    def _classifier_moments(self, numbers: Iterable[int]) -> tuple[ClassMoments, ...]:
        """Return the moments of some classes as the classifier sees them.

        They are without spare axes, and in a form that the unit of the inputs leaves alone.
        """
        rank, pairs = self.settings.rank, self.features.shared.pairs()
        moments = tuple(without_spare_axes(self.moments[number], rank) for number in numbers)
        return moments if pairs is None else tuple(map(pairs.levelled, moments))

    def _placed(self, name: str, value: _T, X: Samples) -> _T:
        """Return a value with tensors on the device of samples, which stay for later calls."""
        if X.device.type == "cpu" or isinstance(X, SparseInputs):
            # Tensors share the memory of the arrays.
            return value
        key = name, X.device
        if key not in self._cache:
            self._cache[key] = with_tensors(value, partial(as_tensor, device=X.device))
        return cast(_T, self._cache[key])

    def _by_chunk(self, X: Samples, function: Callable[[Rows], torch.Tensor]) -> torch.Tensor:
        """Return a function of the features of samples, computed for some samples at a time."""
        size = self.settings.chunk_size
        parts = (self._rows(X, slice(start, start + size)) for start in range(0, len(X), size))
        with few_threads(self._operations(len(X))):
            return torch.cat([function(part) for part in parts])

    def _operations(self, n_rows: int) -> float:
        """Estimate the operations of a product of some rows with all weights."""
        n_axes = sum(each.rank for each in self.moments)
        n_in_classifier = (len(self.moments) + n_axes) * self.features.n_features
        return 2.0 * n_rows * (self.features.n_weights + n_in_classifier)

    def _rows(self, X: Samples, rows: slice) -> Rows:
        """Return the features of some samples as the classifier sees them."""
        if isinstance(X, SparseInputs):
            return SparseRows(X.sparse(rows))
        return self.view(X[rows].double())

    @plain_torch
    def view(self, X: torch.Tensor) -> torch.Tensor:
        """Compute the features that the classifier sees, of shape (n_samples, d)."""
        return self._seen(self._placed("features", self.features, X)(X))

    def _seen(self, features: torch.Tensor) -> torch.Tensor:
        """Return those of all features that the classifier sees."""
        columns = classifier_columns(self.features, self.settings.skip_connection)
        if len(columns) == self.features.n_features:
            return features
        return features[:, torch.as_tensor(columns, device=features.device)]


def empty_model(n_inputs: int, settings: Settings, seed: int) -> Model:
    """Return a model without classes, and draw its shared band."""
    shared = draw_shared_band(
        settings.shared_band_size, n_inputs, mirrored=settings.skip_connection, seed=seed
    )
    return Model(settings, seed, FeatureMap(n_inputs, shared))


def updated_moments(
    model: Model, task: Task, fresh: torch.Tensor | None = None
) -> tuple[ClassMoments, ...]:
    """Return the moments of all classes, known classes first, including a task's samples.

    `fresh` holds the values of the last n features, up to all of them; None computes all features.
    """
    rank, pairs = model.settings.rank, model.features.shared.pairs()
    n_known = len(model.moments)
    new: Iterable[tuple[int, ClassMoments]]
    if isinstance(task.samples, SparseInputs):
        new = class_moments(task.samples, task.classes, task.weights, rank, n_known)
    else:
        measured = partial(_measured, model, task, fresh)
        order = torch.argsort(task.classes, stable=True)
        labels, counts = torch.unique_consecutive(task.classes[order], return_counts=True)
        members = torch.split(order.cpu(), counts.tolist())
        chunks = (torch.split(some, model.settings.chunk_size) for some in members)
        numbers = labels.tolist()
        moments = (
            moments_of(map(measured, some), rank, pairs=pairs, with_spare=number < n_known)
            for number, some in zip(numbers, chunks, strict=True)
        )
        new = zip(numbers, moments, strict=True)
    return merge_classes(model.moments, new, rank, device=task.classes.device, pairs=pairs)


def _measured(
    model: Model, task: Task, fresh: torch.Tensor | None, numbers: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the features and the weights of the samples with some numbers."""
    # Samples in class order are not copied.
    rows = as_slice(numbers.numpy())
    if fresh is not None and fresh.shape[1] == model.features.n_features:
        return fresh[rows], task.weights[rows]
    values = model.features(task.samples[rows].double())
    if fresh is not None:
        values[:, -fresh.shape[1] :] = fresh[rows]
    return values, task.weights[rows]
