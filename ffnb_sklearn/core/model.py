"""The fitted state of the method: features, moments and the classifier that they imply.

A model is immutable: every function returns a new model, so a failure leaves the old model intact.
What follows from the moments is cached at most. Classes are numbered in order of arrival.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import is_, itemgetter
from typing import Any, Protocol, TypeVar, cast

import torch

from .classifier.heads.interface import Rows
from .classifier.novelty import RelativeDistances, fit_relative_distances
from .classifier.solve import Solution, chosen_gaussians, n_classifier_weights, solve
from .device import as_tensor, few_threads, plain_torch, with_tensors
from .features.feature_map import FeatureMap, as_slice, classifier_columns
from .features.nullspace import Past
from .features.shared_band import draw_shared_band
from .likeness import LeftOutLikeness
from .settings import Settings
from .sparse import SparseInputs, SparseRows, class_moments
from .statistics import Array, ClassMoments, merge_classes, moments_of

__all__ = ["Model", "Samples", "Settings", "Task", "empty_model", "updated_moments"]


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
class _SomeSamples:
    """Samples with the given numbers, which are only copied as far as they are asked for."""

    samples: Samples
    rows: Any

    @property
    def device(self) -> torch.device:
        return self.samples.device

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Any, /) -> torch.Tensor:
        return self.samples[self.rows[rows]]

    def double(self) -> torch.Tensor:
        return self.samples[self.rows].double()


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

    def part(self, rows: Any) -> "Task":
        """Return the task with some of its samples, given an array of their numbers."""
        samples = self.samples
        if isinstance(samples, SparseInputs):
            part = cast(Samples, samples.sparse(rows))
        else:
            part = _SomeSamples(samples, rows)
        return Task(part, self.classes[rows], self.weights[rows])


_T = TypeVar("_T")


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
    # The other caches: solutions, once they have been asked for. They change no result.
    _solved: list[Solution] = field(default_factory=list, init=False, repr=False, compare=False)
    _relative: list[RelativeDistances] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    # Arrays that predictions need on another device than the CPU, and their copy on the last one.
    _held: list[tuple[torch.device, object, object]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )
    # The last model that `under` returned, None for this model, and the parameters that it was
    # asked for. A reference to this model would keep it in memory until a garbage collection.
    _under: list[tuple[Sequence[object], "Model | None"]] = field(
        default_factory=list, init=False, repr=False, compare=False
    )

    def __deepcopy__(self, memo: dict[int, object]) -> "Model":
        """Return the model itself: copies may share an immutable object."""
        return self

    @property
    def n_weights(self) -> int:
        """Number of weights in the bands and in the classifier, solved or not."""
        in_classifier = n_classifier_weights(self.features, self.moments, self.settings)
        return self.features.n_weights + in_classifier

    def __getstate__(self) -> dict[str, object]:
        """Return the state without what is derived from it, which a copy derives again."""
        caches = ("_solved", "_relative", "_held", "_under")
        return {**vars(self), "inputs_past": None, **{name: [] for name in caches}}

    def past(self, layer: int, device: torch.device) -> torch.Tensor:
        """Return the principal rows of the second moment of a layer (0 for psi_0) so far.

        Samples of a class were measured in the neurons that existed when they were learned, and are
        inferred in later neurons, as in the moments of the class. The longest row comes first.
        """
        return self._past(layer, device).principal_rows()

    def with_inputs_past(self, device: torch.device) -> "Model":
        """Return the model with the past of psi_0, so that it is not derived again."""
        past = self._past(0, device)
        # A few rows are as many numbers as the moments have, and cost nothing to collect again.
        return replace(self, inputs_past=past if past.rows.has_many_rows else None)

    def with_moments(self, moments: tuple[ClassMoments, ...]) -> "Model":
        """Return the model with the moments of all classes after a task, known classes first."""
        # A class with new samples weighs more, and a truncated class has fewer rows.
        known = zip(self.moments, moments, strict=False)
        same = all((old.weight, old.rank) == (new.weight, new.rank) for old, new in known)
        return replace(self, moments=moments, inputs_past=self.inputs_past if same else None)

    def _past(self, layer: int, device: torch.device) -> Past:
        """Return the past of a layer, from that of the first classes if it is known."""
        columns = self.features.layer(layer)
        past = self.inputs_past if layer == 0 else None
        if past is None or past.device != device or past.n_classes > len(self.moments):
            past = Past.of_no_class(len(columns), device)
        return past.extended(self.moments, as_slice(columns))

    @property
    def solved(self) -> Solution | None:
        """The solved classifier; None before it has been asked for."""
        return self._solved[0] if self._solved else None

    def with_solution(self, solution: Solution) -> "Model":
        """Return the model with a classifier that was solved before."""
        model = replace(self)
        model._solved.append(solution)
        return model

    @plain_torch
    def solution(self, device: torch.device) -> Solution:
        """Return the classifier that the moments imply, solved at the first call."""
        if not self._solved:
            # Concurrent first calls may each solve the classifier; the first one to end counts.
            with few_threads(self._operations_of_solving()):
                solution = solve(
                    self.features, self._levelled(), self.settings, device=device, seed=self.seed
                )
            self._solved.append(solution)
        return self._solved[0]

    def under(self, parameters: Sequence[object], settings: Callable[[], Settings]) -> "Model":
        """Return the model with other settings of its classifier; itself if they are its own.

        The model of the last call is returned, with the classifier that it has solved, if each of
        the parameters that the settings depend on is the same object as then. `settings` computes
        the settings; it is called only if a parameter is another object.
        """
        for known, model in self._under:
            if len(known) == len(parameters) and all(map(is_, known, parameters)):
                return self if model is None else model
        now = settings()
        model = None if now == self.settings else replace(self, settings=now)
        self._under[:] = [(parameters, model)]
        return self if model is None else model

    def _on(self, device: torch.device, value: _T) -> _T:
        """Return a value with tensors on a device in place of arrays, for this and later calls."""
        if device.type == "cpu":
            # Tensors share the memory of the arrays.
            return value
        for place, original, copy in self._held:
            if place == device and original is value:
                return cast(_T, copy)
        held = with_tensors(value, lambda array: as_tensor(array, device=device))
        here = [one for one in self._held if one[0] == device]
        self._held[:] = [*here, (device, value, held)]
        return held

    @plain_torch
    def scores(self, X: Samples) -> torch.Tensor:
        """Compute class scores, of shape (n_samples, n_classes)."""
        classifier = self.solution(X.device).classifier
        if not isinstance(X, SparseInputs):
            classifier = self._on(X.device, classifier)
        # Results of single chunks, allocated between their features, would fragment the heap.
        size = (len(X), len(self.moments))
        scores = torch.empty(size, dtype=torch.float64, device=X.device)
        with few_threads(self._operations(len(X))):
            for rows in self._chunks(X):
                scores[rows] = classifier.scores(self._rows(X, rows))
        return scores

    @plain_torch
    def most_likely(self, X: Samples, order: Array) -> torch.Tensor:
        """Return the class of the highest score of each sample, of shape (n_samples,).

        Among classes of equal scores it is the first in `order`, which holds all classes.
        """
        classifier = self.solution(X.device).classifier
        if not isinstance(X, SparseInputs):
            classifier = self._on(X.device, classifier)
        numbers = torch.as_tensor(order, device=X.device)
        likely = torch.empty(len(X), dtype=torch.int64, device=X.device)
        with few_threads(self._operations(len(X))):
            for rows in self._chunks(X):
                likely[rows] = classifier.most_likely(self._rows(X, rows), numbers)
        return likely

    @plain_torch
    def likeness(self, X: Samples) -> torch.Tensor:
        """Compute the likeness of samples to the classes learned, of shape (n_samples,)."""
        if not self._relative:
            self._relative.append(self._relative_distances(self, X.device))
        relative = self._relative[0]
        if not isinstance(X, SparseInputs):
            relative = self._on(X.device, relative)
        return self._likeness_in(relative, X)

    @plain_torch
    def likeness_like(self, other: "Model", X: Samples) -> torch.Tensor:
        """Compute the likeness with the shrinkage and ridge of another model; nothing is cached."""
        return self._likeness_in(self._relative_distances(other, X.device), X)

    def _likeness_in(self, relative: RelativeDistances, X: Samples) -> torch.Tensor:
        """Compute the likeness of samples from solved distances."""
        parts = []
        with few_threads(self._operations(len(X))):
            for rows in self._chunks(X):
                parts.append(relative.likeness(self._rows(X, rows)))
        return torch.cat(parts)

    def _levelled(self) -> tuple[ClassMoments, ...]:
        """Return the moments in a form that does not depend on the unit of the inputs."""
        pairs = self.features.shared.pairs()
        return self.moments if pairs is None else tuple(map(pairs.levelled, self.moments))

    def _operations(self, n_rows: int) -> float:
        """Operations of a product of some rows with all weights of the classifier."""
        in_classifier = n_classifier_weights(self.features, self.moments, self.settings)
        return 2.0 * n_rows * in_classifier

    def _operations_of_solving(self) -> float:
        """Estimate the operations of a factorisation, and of the systems that it solves."""
        d = self.features.n_features
        return float(d) ** 3 + self._operations(d)

    def _relative_distances(self, chosen: "Model", device: torch.device) -> RelativeDistances:
        """Solve the distances that the likeness compares, with the choice of a model."""
        settings, choice = self.settings, chosen.solution(device).choice
        with few_threads(self._operations_of_solving()):
            moments = self._levelled()
            gaussians, _ = chosen_gaussians(
                self.features, moments, settings, choice, device, self.seed
            )
            return fit_relative_distances(
                gaussians,
                covariance=settings.covariance,
                shrinkage=choice.shrinkage,
                epsilon=choice.epsilon,
            )

    def _chunks(self, X: Samples) -> list[slice]:
        """Return the rows of samples whose features are computed together."""
        size = self.settings.chunk_size
        return [slice(start, start + size) for start in range(0, len(X), size)]

    def _rows(self, X: Samples, rows: slice) -> Rows:
        """Return the features of some samples as the classifier sees them."""
        if isinstance(X, SparseInputs):
            return SparseRows(X.sparse(rows))
        return self.view(X[rows].double())

    @plain_torch
    def view(self, X: torch.Tensor) -> torch.Tensor:
        """Compute the features that the classifier sees, of shape (n_samples, d)."""
        columns = classifier_columns(self.features, self.settings.skip_connection)
        features = self._on(X.device, self.features)(X)
        if len(columns) == self.features.n_features:
            return features
        return features[:, torch.as_tensor(columns, device=X.device)]


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
    new: Iterable[tuple[int, ClassMoments]]
    if isinstance(task.samples, SparseInputs):
        new = class_moments(task.samples, task.classes, task.weights, rank)
    else:
        pieces = groupby(_class_pieces(model, task, fresh), key=itemgetter(0))
        new = (
            (label, moments_of((piece[1:] for piece in group), rank, pairs=pairs))
            for label, group in pieces
        )
    return merge_classes(model.moments, new, rank, device=task.classes.device, pairs=pairs)


def _class_pieces(
    model: Model, task: Task, fresh: torch.Tensor | None
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield class number, features and weights of chunks of samples, class by class."""
    order = torch.argsort(task.classes, stable=True).cpu()
    for part in torch.split(order, model.settings.chunk_size):
        # Samples in class order are not copied.
        chunk = as_slice(part.numpy())
        classes = task.classes[chunk]
        if fresh is not None and fresh.shape[1] == model.features.n_features:
            values = fresh[chunk]
        else:
            values = model.features(task.samples[chunk].double())
            if fresh is not None:
                values[:, -fresh.shape[1] :] = fresh[chunk]
        labels, counts = torch.unique_consecutive(classes, return_counts=True)
        sizes = counts.tolist()
        pieces = zip(
            labels.tolist(),
            torch.split(values, sizes),
            torch.split(task.weights[chunk], sizes),
            strict=True,
        )
        yield from pieces
