"""Predictions of a model: its classifier, solved once, and scores of samples.

Results that follow from a model are in its cache. Samples are mapped to features a few at a time,
and copies of the solved classifier stay on the devices of the samples.
"""

import os
from collections.abc import Callable
from functools import partial
from threading import RLock
from typing import TypeVar, cast

import torch

from .device import Array, as_tensor, few_threads, place_arrays, plain_torch
from .heads.distances import GaussianDistances
from .heads.interface import Rows
from .model import EarlierSolutions, Model, Samples
from .moments import ClassMoments
from .novelty.score import RelativeDistances, fit_relative_distances
from .solution import Solution, solve, update_solution
from .sparse import SparseInputs, SparseRows

_T = TypeVar("_T")


def solve_once(model: Model, device: torch.device) -> Solution:
    """Return the classifier that the moments imply, solved at the first call."""
    if "solution" not in model.cache:
        _solve_and_keep(model, device)
    return cast(Solution, model.cache["solution"])


@plain_torch
def _solve_and_keep(model: Model, device: torch.device) -> None:
    """Solve the classifier; the first of concurrent calls solves it, and the other calls wait."""
    # A thread that holds the lock does not exist in a forked process.
    with model.cache.setdefault(("lock", os.getpid()), RLock()):
        if "solution" not in model.cache:
            model.cache["solution"] = _solve(model, device)


def _solve(model: Model, device: torch.device) -> Solution:
    """Solve the classifier, by an earlier choice if the model keeps it."""
    with few_threads(model.n_operations * len(model.columns)):
        space = model.space
        seed = model.seed
        all_numbers = range(len(model.moments))
        if not model.chosen_from:
            return solve(space, model.classifier_moments(all_numbers), device=device, seed=seed)
        if model.earlier is None:
            earlier_solution = solve(space, model.moments_of_choice(), device=device, seed=seed)
        else:
            earlier_solution = model.earlier.solution
        changed = _changed_classes(model, model.earlier)
        solution = update_solution(
            earlier_solution,
            space,
            model.classifier_moments(changed),
            changed,
            device=device,
        )
        if solution is not None:
            return solution
        moments = model.classifier_moments(all_numbers)
        return solve(space, moments, device=device, choice=earlier_solution.choice)


def _changed_classes(model: Model, earlier: EarlierSolutions | None) -> list[int]:
    """Return the numbers of the classes that differ from those of an earlier model.

    None stands for the model by which the choice was made.
    """
    if earlier is None:
        is_changed = [former is not None for former in model.chosen_from]
    else:
        before_and_now = zip(earlier.moments, model.moments, strict=True)
        is_changed = [former is not present for former, present in before_and_now]
    return [number for number, changed in enumerate(is_changed) if changed]


@plain_torch
def scores(model: Model, X: Samples) -> torch.Tensor:
    """Compute class scores, of shape (n_samples, n_classes)."""
    classifier = solve_once(model, X.device).head
    classifier = _place(model, "classifier", classifier, X)
    return _map_chunks(model, X, classifier.scores)


@plain_torch
def most_likely(model: Model, X: Samples, order: Array) -> torch.Tensor:
    """Return the class of the highest score of each sample, of shape (n_samples,).

    Among classes of equal scores it is the first in `order`, which holds all classes.
    """
    classifier = solve_once(model, X.device).head
    classifier = _place(model, "classifier", classifier, X)
    numbers = torch.as_tensor(order, device=X.device)
    return _map_chunks(model, X, lambda rows: classifier.most_likely(rows, numbers))


@plain_torch
def likeness(model: Model, X: Samples) -> torch.Tensor:
    """Compute the likeness of samples to the classes learned, of shape (n_samples,)."""
    relative = _place(model, "relative", relative_distances(model, X.device), X)
    return _map_chunks(model, X, relative.likeness)


@plain_torch
def scores_and_likeness(model: Model, X: Samples) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute `scores` and `likeness`, for which the features are computed once.

    The distances to the classes are computed once too if the classifier has the same.
    """
    solution = solve_once(model, X.device)
    distances = relative_distances(model, X.device)
    classifier = _place(model, "classifier", solution.head, X)
    relative = _place(model, "relative", distances, X)
    has_distances = distances.distances is solution.head

    def both(rows: Rows) -> torch.Tensor:
        if has_distances:
            scores, likeness = relative.scores_and_likeness(rows)
        else:
            scores = classifier.scores(rows)
            likeness = relative.likeness(rows)
        return torch.cat([scores, likeness[:, None]], dim=1)

    results = _map_chunks(model, X, both)
    return results[:, :-1], results[:, -1]


@plain_torch
def classifier_features(model: Model, X: torch.Tensor) -> torch.Tensor:
    """Compute the features that the classifier sees, of shape (n_samples, d)."""
    features = _place(model, "features", model.feature_map, X)
    return select_columns(model, features(X))


def select_columns(model: Model, features: torch.Tensor) -> torch.Tensor:
    """Return the features that the classifier uses."""
    columns = model.columns
    if len(columns) == model.feature_map.n_features:
        return features
    numbers = torch.as_tensor(columns, device=features.device)
    return features[:, numbers]


def relative_distances(model: Model, device: torch.device) -> RelativeDistances:
    """Return the distances that the likeness compares, solved at the first call."""
    if "relative" not in model.cache:
        relative = _solve_relative_distances(model, device)
        model.cache.setdefault("relative", relative)
    return cast(RelativeDistances, model.cache["relative"])


def _solve_relative_distances(model: Model, device: torch.device) -> RelativeDistances:
    """Solve the distances that the likeness compares, by an earlier choice if the model keeps it.

    Then they follow earlier distances as the classifier does: what all classes share stays.
    """
    solution = solve_once(model, device)
    if not model.chosen_from:
        moments = model.classifier_moments(range(len(model.moments)))
        return _relative_distances_anew(model, moments, solution, device)
    earlier = model.earlier
    if earlier is None or earlier.relative is None:
        moments = model.moments_of_choice()
        earlier_solution = solve(model.space, moments, device=device, choice=solution.choice)
        relative = _relative_distances_anew(model, moments, earlier_solution, device)
        earlier = None
    else:
        relative = earlier.relative
        earlier_solution = earlier.solution
    changed = _changed_classes(model, earlier)
    if not changed:
        return relative
    classes = model.space.stack_each(
        model.classifier_moments(changed), solution.choice, device=device
    )
    followed = None
    if relative.distances is earlier_solution.head:
        followed = solution.head
    updated = relative.update_classes(classes, changed, followed)
    if updated is not None:
        return updated
    moments = model.classifier_moments(range(len(model.moments)))
    return _relative_distances_anew(model, moments, solution, device)


def _relative_distances_anew(
    model: Model, moments: tuple[ClassMoments, ...], solution: Solution, device: torch.device
) -> RelativeDistances:
    """Solve the distances that the likeness compares for some moments and their solution.

    They are those of the classifier if that has equal ones.
    """
    settings = model.settings
    head, choice = solution
    distances = None
    # Classes that are Gaussian in the inputs have log-determinants.
    if isinstance(head, GaussianDistances) and choice.candidate != "densities":
        distances = head
    gaussians = model.space.stack(moments, device=device, seed=model.seed)
    gaussians = model.space.weigh(gaussians, choice)
    return fit_relative_distances(
        gaussians,
        distances,
        covariance=settings.covariance,
        shrinkage=choice.shrinkage,
        epsilon=choice.epsilon,
        keeps_base=settings.refresh > 0.0,
    )


def _place(model: Model, name: str, value: _T, X: Samples) -> _T:
    """Return a value with tensors on the device of samples, which stay for later calls."""
    if X.device.type == "cpu" or isinstance(X, SparseInputs):
        # Tensors share the memory of the arrays.
        return value
    key = name, X.device
    if key not in model.cache:
        model.cache[key] = place_arrays(value, partial(as_tensor, device=X.device))
    return cast(_T, model.cache[key])


def _map_chunks(model: Model, X: Samples, function: Callable[[Rows], torch.Tensor]) -> torch.Tensor:
    """Return a function of the features of samples, computed for a few samples at a time."""
    size = model.settings.chunk_size
    results = []
    with few_threads(model.n_operations * len(X)):
        for start in range(0, len(X), size):
            rows = _classifier_rows(model, X, slice(start, start + size))
            results.append(function(rows))
        return torch.cat(results)


def _classifier_rows(model: Model, X: Samples, rows: slice) -> Rows:
    """Return the features of some samples in the form that a head takes."""
    if isinstance(X, SparseInputs):
        return SparseRows(X.sparse(rows))
    return classifier_features(model, X[rows].double())
