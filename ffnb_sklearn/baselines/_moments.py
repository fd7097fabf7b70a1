"""Moments of the classes that baselines learn, and the union with those of further samples.

A model is immutable: learning returns a new model. Classes are numbered in order of arrival.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ..core.device import Array
from ..core.moments import Union, unite
from ._linear_algebra import add_to_diagonal, solve_positive

__all__ = ["Batch", "ClassMeans", "PooledScatter", "class_sums", "with_rows"]

_Numbers = npt.NDArray[np.intp]


def class_sums(values: Array, codes: _Numbers) -> Array:
    """Return the sums of some values of each sample over the samples of each class."""
    n_samples = len(codes)
    ones = np.ones(n_samples)
    # Column i has a single entry, in the row of the class of sample i.
    memberships = sparse.csc_array((ones, codes, np.arange(n_samples + 1)))
    sums: Array = memberships @ values
    return sums


def with_rows(array: Array, n_rows: int) -> Array:
    """Return a copy of an array with further rows of zeros."""
    grown = np.zeros((n_rows, *array.shape[1:]))
    grown[: len(array)] = array
    return grown


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples of a call, and the union of their classes with the earlier samples of these.

    Attributes
    ----------
    features : ndarray of shape (n_samples, n_columns)
        Features of the samples.
    codes : ndarray of shape (n_samples,)
        Position of the class of each sample in `numbers`.
    numbers : ndarray of shape (n_labels,)
        Numbers of the classes of the batch.
    n_classes : int
        Number of classes seen by the end of the call.
    means : ndarray of shape (n_labels, n_columns)
        Mean of each class in the batch.
    union : Union
        Counts, of shape (n_labels, 1), and means of all samples of these classes.
    """

    features: Array
    codes: _Numbers
    numbers: _Numbers
    n_classes: int
    means: Array
    union: Union

    @property
    def deviations(self) -> Array:
        """Features less the mean of their class in the batch."""
        return self.features - self.means[self.codes]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassMeans:
    """Number of samples and mean of each class.

    Attributes
    ----------
    counts, means : ndarray of shape (n_classes,), ndarray of shape (n_classes, n_columns)
        Number of samples of each class, and mean of their features.
    cache : dict
        Results that follow from the other fields and from parameters. Neither files nor pickles
        hold it.
    """

    # Least and largest values of fields that are numbers, which `load` checks.
    ranges: ClassVar[dict[str, tuple[float, float]]] = {}

    counts: Array
    means: Array
    cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def empty(cls, n_columns: int, **fields: Any) -> Self:
        """Return a model without classes, given the other fields."""
        return cls(counts=np.zeros(0), means=np.zeros((0, n_columns)), **fields)

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return the model itself: copies may share an immutable object."""
        return self

    def __getstate__(self) -> dict[str, object]:
        """Return the fields without the cache."""
        return {**vars(self), "cache": {}}

    def features(self, X: Array) -> Array:
        """Return the features of samples."""
        return X

    def n_columns(self, n_inputs: int) -> int:
        """Return the number of columns of the features."""
        return n_inputs

    def shapes(self, n_inputs: int, n_classes: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays by name, which `load` checks."""
        return {"counts": (n_classes,), "means": (n_classes, self.n_columns(n_inputs))}

    def batch(self, X: Array, classes: _Numbers, n_classes: int) -> Batch:
        """Return the batch of some samples, given the numbers of their classes."""
        features = self.features(X)
        all_counts = np.bincount(classes, minlength=n_classes)
        numbers = np.flatnonzero(all_counts)
        codes = np.searchsorted(numbers, classes)
        counts = all_counts[numbers, np.newaxis].astype(np.float64)
        means = class_sums(features, codes) / counts
        earlier_counts = with_rows(self.counts, n_classes)[numbers, np.newaxis]
        earlier_means = with_rows(self.means, n_classes)[numbers]
        union = unite(earlier_counts, earlier_means, counts, means)
        return Batch(features, codes, numbers, n_classes, means, union)

    def add(self, batch: Batch) -> Self:
        """Return the model after a batch."""
        counts = with_rows(self.counts, batch.n_classes)
        means = with_rows(self.means, batch.n_classes)
        counts[batch.numbers] = batch.union.weight[:, 0]
        means[batch.numbers] = batch.union.mean
        return replace(self, counts=counts, means=means)


@dataclass(frozen=True, eq=False, kw_only=True)
class PooledScatter(ClassMeans):
    """The same, with the pooled scatter within the classes, of shape (n_columns, n_columns)."""

    scatter: Array

    @classmethod
    def empty(cls, n_columns: int, **fields: Any) -> Self:
        """Return a model without classes, given the other fields."""
        return super().empty(n_columns, scatter=np.zeros((n_columns, n_columns)), **fields)

    def shapes(self, n_inputs: int, n_classes: int) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays by name."""
        n_columns = self.n_columns(n_inputs)
        return {**super().shapes(n_inputs, n_classes), "scatter": (n_columns, n_columns)}

    def add(self, batch: Batch) -> Self:
        """Return the model after a batch: its scatter, and that between its means and earlier."""
        deviations = batch.deviations
        scatter = deviations.T @ deviations
        weighted_gaps = batch.union.between * batch.union.gap
        scatter += batch.union.gap.T @ weighted_gaps
        scatter += self.scatter
        return replace(super().add(batch), scatter=scatter)

    def covariance(self) -> Array:
        """Return the pooled covariance within the classes."""
        covariance: Array = self.scatter / self.counts.sum()
        return covariance

    def gaussian_rule(self, covariance: Array, order: _Numbers) -> tuple[Array, Array]:
        """Return weights and offsets of Gaussians with equal priors that share a covariance.

        With the centre c of the class means, the weights are w = S^-1 (mu - c), and the offsets
        -w' (mu + c) / 2. Without the centre, classes far from the origin would lose digits. The
        classes have the given order.
        """
        if not covariance.any():
            # Without two different samples in a class, distances are Euclidean.
            covariance = np.eye(len(covariance))
        means = self.means[order]
        centre = means.mean(axis=0)
        weights = solve_positive(covariance, (means - centre).T).T
        offsets = -0.5 * np.sum(weights * (means + centre), axis=1)
        return weights, offsets

    def ridged_covariance(self, alpha: float) -> Array:
        """Return the pooled covariance with a ridge of `alpha` samples of mean variance."""
        covariance = self.covariance()
        mean_variance = np.trace(covariance) / len(covariance)
        ridge = alpha * mean_variance / self.counts.sum()
        ridged: Array = add_to_diagonal(covariance, ridge)
        return ridged
