"""Units of the columns of X: standardisation, and a warning about columns that need it.

docs/user_guide/scaling.rst says why.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.sparsefuncs import mean_variance_axis

from ..core.device import Array, as_tensor
from ..core.linalg import LENGTH_ROUNDING
from ..core.messages import level_of_user
from ..core.moments import ClassMoments, effective_number, unite
from .arrays import Matrix
from .labels import Label, Labels

__all__ = [
    "ENOUGH_FOR_UNITS",
    "ColumnScaling",
    "ColumnSpreads",
    "ColumnUnits",
    "ColumnUnitsWarning",
    "merged_by_label",
    "spreads_by_label",
    "warn_of_units",
]

# Least degrees of freedom within classes at which the units of the columns are compared.
ENOUGH_FOR_UNITS = 10

# Least ratio of the largest deviation of a column to that of a tenth of the columns at which the
# units are unlike. On held-out rows of tables, values of 20 to 200 are equally good; features of
# one unit, which scaling would spoil, have ratios up to 97 (docs/user_guide/scaling.rst).
_UNLIKE = 100.0
_SMALL_SHARE = 0.1

# Least distance of the mean of the samples from zero, relative to their spread around it, at which
# all samples have nearly one direction. Values of 5 to 50 are equally good on held-out rows; the
# first class of iris has 10.
_FAR = 20.0

# Most columns that the warning names.
_MOST_NAMED = 5

# Entries of a dense chunk of samples.
_CHUNK_SIZE = 2**20


class ColumnUnitsWarning(UserWarning):
    """Columns of X lie far from zero, or have unlike units, and are learned as they are."""


@dataclass(frozen=True, eq=False)
class ColumnScaling:
    """Standardisation of the columns of X: offsets, subtracted first, and positive divisors.

    An offset of None subtracts nothing.
    """

    offset: Array | None
    scale: Array

    def apply_sparse(self, X: sparse.csr_array) -> sparse.csr_array:
        """Return sparse samples, which are scaled and not centred."""
        return X @ sparse.diags_array(1.0 / self.scale)

    def apply(self, X: torch.Tensor) -> torch.Tensor:
        """Return standardised samples in float64."""
        X = X.double()
        if self.offset is not None:
            offset = as_tensor(self.offset, device=X.device)
            X = X - offset
        scale = as_tensor(self.scale, device=X.device)
        return X / scale


@dataclass(frozen=True, eq=False)
class ColumnSpreads:
    """Weight, mean and scatter of each column of some samples.

    `weight_norm` is the root of the sum of the squared weights. The spreads of disjoint samples
    merge.
    """

    weight: float
    weight_norm: float
    mean: Array
    scatter: Array

    @classmethod
    def of(cls, X: Matrix, weights: Array) -> "ColumnSpreads":
        """Compute the spreads of a few samples, dense or sparse, with positive weights."""
        weight = weights.sum()
        weight_norm = math.hypot(*weights)
        if sparse.issparse(X):
            X = sparse.csr_matrix(X, dtype=np.float64)
            mean, variance = mean_variance_axis(X, axis=0, weights=weights)
            return cls(weight, weight_norm, mean, weight * variance)
        rows = np.asarray(X, dtype=np.float64)
        mean = _mean(rows, weights)
        scatter = weights @ np.square(rows - mean)
        return cls(weight, weight_norm, mean, scatter)

    @classmethod
    def of_moments(cls, moments: ClassMoments, n_inputs: int) -> "ColumnSpreads":
        """Return the spreads of the first columns of the samples of a class."""
        factor = moments.factor[:, :n_inputs].astype(np.float64)
        scatter = np.square(factor).sum(axis=0) + moments.residual[:n_inputs]
        mean = moments.mean[:n_inputs]
        return cls(moments.weight, moments.weight_norm, mean, scatter)

    @classmethod
    def merged(cls, spreads: Sequence["ColumnSpreads"]) -> "ColumnSpreads":
        """Return the spreads of the union of disjoint samples."""
        total, *others = spreads
        for each in others:
            union = unite(total.weight, total.mean, each.weight, each.mean)
            weight_norm = math.hypot(total.weight_norm, each.weight_norm)
            between = union.between * np.square(union.gap)
            scatter = total.scatter + each.scatter + between
            total = cls(union.weight, weight_norm, union.mean, scatter)
        return total

    @property
    def degrees_of_freedom(self) -> float:
        """Effective number of samples beyond the first."""
        return effective_number(self.weight, self.weight_norm) - 1.0

    def varying_scatter(self) -> Array:
        """Return the scatter of each column; constant columns have 0, not rounding."""
        length_rounding = LENGTH_ROUNDING * self.mean
        scatter_rounding = self.weight * np.square(length_rounding)
        return np.where(self.scatter > scatter_rounding, self.scatter, 0.0)


def spreads_by_label(X: Matrix, y: Labels, weights: Array) -> dict[Label, ColumnSpreads]:
    """Return the spreads of the samples of each label, by label.

    The samples are read in chunks: a memory map may be larger than memory.
    """
    n_samples, n_columns = X.shape
    chunk_size = max(1, _CHUNK_SIZE // n_columns)
    spreads_of_chunks = []
    for rows in gen_batches(n_samples, chunk_size):
        X_chunk = X[rows]
        y_chunk = y[rows]
        weights_of_chunk = weights[rows]
        spreads = {}
        for label in np.unique(y_chunk).tolist():
            is_member = y_chunk == label
            spreads[label] = ColumnSpreads.of(X_chunk[is_member], weights_of_chunk[is_member])
        spreads_of_chunks.append(spreads)
    return merged_by_label(spreads_of_chunks)


def merged_by_label(
    spreads_of_parts: Iterable[Mapping[Label, ColumnSpreads]],
) -> dict[Label, ColumnSpreads]:
    """Merge the spreads of disjoint samples, each a dictionary of spreads by label."""
    parts_by_label: dict[Label, list[ColumnSpreads]] = {}
    for spreads in spreads_of_parts:
        for label, each in spreads.items():
            parts_by_label.setdefault(label, []).append(each)
    return {label: ColumnSpreads.merged(parts) for label, parts in parts_by_label.items()}


@dataclass(frozen=True, eq=False)
class ColumnUnits:
    """Mean of each column over all samples, and standard deviation within the classes.

    A column that is constant within each class has the deviation of all samples, and a constant
    column has 0. `spread` is the root of the summed variances of all samples.
    """

    mean: Array
    deviation: Array
    spread: float
    degrees_of_freedom: float

    @classmethod
    def of(cls, spreads: Sequence[ColumnSpreads]) -> "ColumnUnits":
        """Pool the spreads of classes."""
        total = ColumnSpreads.merged(spreads)
        within = sum(each.varying_scatter() for each in spreads)
        total_scatter = total.varying_scatter()
        scatter = np.where(within > 0.0, within, total_scatter)
        deviation = np.sqrt(scatter / total.weight)
        total_deviation = np.sqrt(total_scatter / total.weight)
        spread = float(np.linalg.norm(total_deviation))
        degrees_of_freedom = sum(each.degrees_of_freedom for each in spreads)
        return cls(total.mean, deviation, spread, degrees_of_freedom)

    @property
    def varies(self) -> npt.NDArray[np.bool]:
        """Which columns are not constant."""
        return self.deviation > 0.0

    def are_known(self) -> bool:
        """Return whether there are enough samples to compare the units."""
        return self.degrees_of_freedom >= ENOUGH_FOR_UNITS

    def unlikeness(self) -> float:
        """Return the ratio of the largest deviation to that of a tenth of the columns."""
        if not self.varies.any():
            return 1.0
        deviations = self.deviation[self.varies]
        small = np.quantile(deviations, _SMALL_SHARE, method="lower")
        return float(deviations.max() / small)

    def distance(self) -> float:
        """Return the distance of the mean from zero, relative to the spread of the samples."""
        if not self.varies.any():
            return 0.0
        return float(np.linalg.norm(self.mean)) / self.spread

    def are_unlike(self) -> bool:
        """Return whether a tenth of the columns hardly varies beside the largest."""
        return self.unlikeness() >= _UNLIKE

    def are_far(self) -> bool:
        """Return whether all samples have nearly the same direction from zero."""
        return self.distance() >= _FAR

    def scaling(self, *, centring: bool) -> ColumnScaling:
        """Return the standardisation by these units; constant columns are not divided."""
        offset = None
        if centring:
            offset = self.mean
        scale = np.where(self.varies, self.deviation, 1.0)
        return ColumnScaling(offset, scale)


def _mean(rows: Array, weights: Array) -> Array:
    """Return the weighted mean of rows, without rounding in columns of equal values."""
    is_constant = (rows == rows[0]).all(axis=0)
    mean: Array = weights @ rows / weights.sum()
    return np.where(is_constant, rows[0], mean)


def warn_of_units(units: ColumnUnits, names: npt.NDArray[np.generic] | None) -> None:
    """Warn of columns far from zero or of unlike units; `names` are those of the columns or None.

    Shared neurons see the direction of a sample from the origin, in which such columns hide others.
    Large constant columns do so too.
    """
    findings = []
    if units.are_far():
        findings += _far_findings(units, names)
    if units.are_unlike():
        widest = int(units.deviation.argmax())
        is_small = units.deviation <= units.deviation[widest] / _UNLIKE
        small = np.flatnonzero(units.varies & is_small).tolist()
        findings.append(
            f"The standard deviation of {_listed(small, names)} within classes is at most a "
            f"{_UNLIKE:.0f}th of that of {_listed([widest], names)}."
        )
    if not findings:
        return
    warnings.warn(
        f"Columns of X hide other columns from the classifier. {' '.join(findings)} Set "
        'scale="auto", which standardises such columns by the first call, subtract and divide by '
        "known constants, or put a scaler that was fitted to samples of all tasks before the "
        "classifier: make_continual_pipeline(FrozenEstimator(scaler), clf).",
        ColumnUnitsWarning,
        stacklevel=level_of_user(),
    )


def _far_findings(units: ColumnUnits, names: npt.NDArray[np.generic] | None) -> list[str]:
    """Return a sentence about constant columns, and one about other columns, far from zero."""
    # At least one column is that far, because the mean of all samples is _FAR spreads away.
    distances = np.sqrt(len(units.mean)) * np.abs(units.mean)
    is_far = distances >= _FAR * units.spread
    far = np.flatnonzero(is_far & units.varies).tolist()
    constant = np.flatnonzero(is_far & ~units.varies).tolist()
    findings = []
    if constant:
        findings.append(
            f"The constant {_listed(constant, names)} is large beside the spread of all columns "
            "together; leave it out."
        )
    if far:
        findings.append(
            f"The mean of {_listed(far, names)} is far from 0: the samples are at least {_FAR:.0f} "
            "times as far from 0 as from their mean."
        )
    return findings


def _listed(columns: Sequence[int], names: npt.NDArray[np.generic] | None) -> str:
    """Return the names or the numbers of columns, the first few of many."""
    first_columns = columns[:_MOST_NAMED]
    if names is None:
        texts = [str(column) for column in first_columns]
    else:
        texts = [repr(str(names[column])) for column in first_columns]
    text = ", ".join(texts)
    if len(columns) > _MOST_NAMED:
        text += f" and {len(columns) - _MOST_NAMED} more"
    noun = "column" if len(columns) == 1 else "columns"
    return f"{noun} {text}"
