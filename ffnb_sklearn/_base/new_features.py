"""Rows drawn from what was learned, and a classifier in a new feature space."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone

from .._inputs.arrays import UserArray, as_numpy
from .._inputs.labels import Label, Labels
from ..core.device import Array
from ..core.moments import ClassMoments
from ..core.transfer import (
    covariance_of_inputs,
    draw_deviations,
    draw_white_rows,
    fit_affine_map,
    with_covariance,
)
from .parameters import Discriminant
from .state import State, moments_by_label

__all__ = ["TransferQuality", "check_dense", "draw_samples", "expected_accuracy", "transfer"]

# Least number of rows by which a new space shows how random neurons vary within a class.
_FEWEST_ROWS = 200

# Rows that are learned in one call.
_ROWS_TOGETHER = 20_000


@dataclass(frozen=True)
class TransferQuality:
    """How well a classifier may do in a new feature space, judged without labels.

    Attributes
    ----------
    explained_variance : float
        Share of the variance of the new rows that the old rows explain, by cross-validation.
    expected_accuracy_old, expected_accuracy_new : float
        Mean of the largest probability of the paired rows, which estimates the accuracy on rows of
        the classes learned: of the classifier in the old space, and of the new one.
    """

    explained_variance: float
    expected_accuracy_old: float
    expected_accuracy_new: float


def draw_samples(
    state: State, labels: Labels, counts: npt.NDArray[np.intp], rng: np.random.Generator
) -> tuple[Array, Labels]:
    """Return rows of X, drawn from the Gaussians of some classes, and their labels."""
    check_dense(state)
    moments_of_labels = moments_by_label(state)
    parts = [np.empty((0, state.n_inputs))]
    for label, count in zip(labels.tolist(), counts.tolist(), strict=True):
        moments = moments_of_labels[label]
        deviations = draw_deviations(moments, state.n_inputs, count, rng)
        parts.append(moments.mean[: state.n_inputs] + deviations)
    X = np.concatenate(parts)
    if state.scaling is not None:
        X *= state.scaling.scale
        if state.scaling.offset is not None:
            X += state.scaling.offset
    return X, np.repeat(labels, counts)


def transfer(
    estimator: Discriminant, state: State, X_old: Array, X_new: Array
) -> tuple[BaseEstimator, float]:
    """Return an estimator in the space of `X_new`, and the share of variance that is explained.

    `X_old` has the inputs of the model for the paired rows.
    """
    check_dense(state)
    affine_map = fit_affine_map(X_old, X_new)
    rng = np.random.default_rng([state.model.seed, 3])
    n_columns = X_new.shape[1]
    n_rows = max(_FEWEST_ROWS, n_columns + 1)
    white_rows = draw_white_rows(n_rows, n_columns, rng)
    classes_together = max(1, _ROWS_TOGETHER // n_rows)
    moved = clone(estimator)
    moments_of_labels = moments_by_label(state)
    declared: Labels | None = state.classes
    for task_labels in state.task_classes:
        for start in range(0, len(task_labels), classes_together):
            labels = task_labels[start : start + classes_together]
            rows = []
            weights = []
            for label in labels.tolist():
                moments = moments_of_labels[label]
                mean = affine_map.map_mean(moments.mean[: state.n_inputs])
                covariance = covariance_of_inputs(moments, state.n_inputs)
                covariance = affine_map.map_covariance(covariance)
                rows.append(mean + with_covariance(white_rows, covariance))
                weights.append(np.full(n_rows, moments.weight / n_rows))
            moved.partial_fit(
                np.concatenate(rows),
                np.repeat(labels, n_rows),
                classes=declared,
                sample_weight=np.concatenate(weights),
            )
            declared = None
    moved._keep(_with_numbers_of_samples(moved._learned_state(), moments_of_labels))
    return moved, affine_map.explained_variance


def _with_numbers_of_samples(state: State, others: Mapping[Label, ClassMoments]) -> State:
    """Return a state whose classes have the effective numbers of samples of other moments."""
    moments = []
    for label, each in moments_by_label(state).items():
        moments.append(replace(each, weight_norm=others[label].weight_norm))
    model = replace(state.model, moments=tuple(moments), chosen_from=(), earlier=None)
    return replace(state, model=model)


def check_dense(state: State) -> None:
    """Raise if the model's inputs are not the columns of X."""
    if state.projection is not None:
        raise ValueError(
            "the classifier has learned a random projection of wide sparse samples, from which "
            "samples cannot be drawn."
        )


def expected_accuracy(estimator: BaseEstimator, X: UserArray) -> float:
    """Return the mean of the largest probability of each sample."""
    probabilities = as_numpy(estimator.predict_proba(X), "probabilities")
    return float(probabilities.max(axis=1).mean())
