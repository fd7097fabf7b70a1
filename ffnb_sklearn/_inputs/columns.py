"""Standardisation of the columns of X, and a warning about columns that need it.

docs/user_guide/scaling.rst says why.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.sparsefuncs import mean_variance_axis

from ..core.device import as_tensor
from ..core.linalg import LENGTH_ROUNDING
from ..core.messages import level_of_user

__all__ = ["ColumnRepair", "ColumnSpreads", "ColumnUnitsWarning", "warn_of_columns"]

# Distance of the mean of a column from zero, in standard deviations, that causes a warning if it is
# also larger than the spread of all columns together: then all samples have nearly one direction. A
# constant column causes a warning at this multiple of the spread of all columns together.
_FAR = 100.0

# Ratio of the largest standard deviation to those of a tenth of the columns that causes a warning.
# Wine has 1400 and loses nothing; of many columns, a few are small by chance
# (docs/user_guide/scaling.rst).
_UNLIKE = 2000.0
_LEAST_SHARE = 0.1

# Most columns that the warning names.
_MOST_NAMED = 5

# Entries of a dense chunk of samples.
_CHUNK_SIZE = 2**20


class ColumnUnitsWarning(UserWarning):
    """Columns of X lie far from zero, or have unlike units, and are learned as they are."""


@dataclass(frozen=True, eq=False)
class ColumnRepair:
    """Standardisation of the columns of X: offsets, subtracted first, and positive divisors.

    An offset of None subtracts nothing.
    """

    offset: np.ndarray | None
    scale: np.ndarray

    def apply(self, X):
        """Return standardised samples in float64; a sparse array is scaled and not centred."""
        if sparse.issparse(X):
            return X @ sparse.diags_array(1.0 / self.scale)
        X = X.double()
        if self.offset is not None:
            offset = as_tensor(self.offset, device=X.device)
            X = X - offset
        scale = as_tensor(self.scale, device=X.device)
        return X / scale


@dataclass(frozen=True, eq=False)
class ColumnSpreads:
    """Weight, mean and scatter of each column of some samples.

    The spreads of disjoint samples merge.
    """

    weight: float
    mean: np.ndarray
    scatter: np.ndarray

    @classmethod
    def of(cls, X, weights):
        """Compute the spreads of samples, dense or sparse, with positive weights."""
        if sparse.issparse(X):
            X = sparse.csr_matrix(X, dtype=np.float64)
            mean, variance = mean_variance_axis(X, axis=0, weights=weights)
            weight = weights.sum()
            return cls(weight, mean, weight * variance)
        # A memory map may be larger than memory.
        chunk_size = max(1, _CHUNK_SIZE // X.shape[1])
        spreads = []
        for rows in gen_batches(len(X), chunk_size):
            chunk = X[rows].astype(np.float64)
            spreads.append(cls._of_chunk(chunk, weights[rows]))
        return cls.merged(spreads)

    @classmethod
    def _of_chunk(cls, X, weights):
        """Compute the spreads of a few dense samples."""
        weight = weights.sum()
        mean = _mean(X, weights)
        scatter = weights @ np.square(X - mean)
        return cls(weight, mean, scatter)

    @classmethod
    def merged(cls, spreads):
        """Return the spreads of the union of disjoint samples.

        The scatter of the union is the scatter within the sets of samples, plus the scatter of
        their means between them.
        """
        weights = np.array([each.weight for each in spreads])
        means = np.array([each.mean for each in spreads])
        weight = weights.sum()
        mean = _mean(means, weights)
        within = np.sum([each.scatter for each in spreads], axis=0)
        between = weights @ np.square(means - mean)
        return cls(weight, mean, within + between)

    @classmethod
    def of_moments(cls, moments, n_inputs):
        """Return the spreads of the first columns of the samples of some classes."""
        spreads = []
        for each in moments:
            mean = each.mean[:n_inputs]
            factor = each.factor[:, :n_inputs].astype(np.float64)
            residual = each.residual[:n_inputs]
            scatter = np.square(factor).sum(axis=0) + residual
            spreads.append(cls(each.weight, mean, scatter))
        return cls.merged(spreads)

    def varying(self):
        """Return which columns are not constant, up to rounding."""
        length_rounding = LENGTH_ROUNDING * self.mean
        scatter_rounding = self.weight * np.square(length_rounding)
        return self.scatter > scatter_rounding

    def deviations(self):
        """Return the standard deviation of each column; constant columns have 0, not rounding."""
        variances = self.scatter / self.weight
        return np.where(self.varying(), np.sqrt(variances), 0.0)

    def repair(self, *, centring):
        """Return the standardisation by these spreads; constant columns are not divided."""
        offset = None
        if centring:
            offset = self.mean
        scale = np.where(self.varying(), self.deviations(), 1.0)
        return ColumnRepair(offset, scale)


def _mean(rows, weights):
    """Return the weighted mean of rows, without rounding in columns of equal values."""
    is_constant = (rows == rows[0]).all(axis=0)
    mean = weights @ rows / weights.sum()
    return np.where(is_constant, rows[0], mean)


def warn_of_columns(spreads, names):
    """Warn of columns far from zero or of unlike units; `names` are those of the columns or None.

    Shared neurons see the direction of a sample from the origin, in which such columns hide others.
    Large constant columns do so too.
    """
    varying = spreads.varying()
    if not varying.any():
        return
    deviations = spreads.deviations()
    distances = np.abs(spreads.mean)
    whole_spread = np.sqrt(np.square(deviations).sum())
    is_far = (distances > _FAR * deviations) & (distances > whole_spread)
    far = np.flatnonzero(varying & is_far)
    widest = int(deviations.argmax())
    is_small = deviations < deviations[widest] / _UNLIKE
    small = np.flatnonzero(varying & is_small)
    is_large = distances > _FAR * whole_spread
    constant = np.flatnonzero(~varying & is_large)
    findings = []
    if len(constant):
        findings.append(
            f"The modulus of the constant {_listed(constant, names)} is more than {_FAR:.0f} times "
            "the spread of all columns together; leave it out."
        )
    if len(far):
        findings.append(
            f"The mean of {_listed(far, names)} is more than {_FAR:.0f} standard deviations from 0."
        )
    if len(small) >= _LEAST_SHARE * np.count_nonzero(varying):
        findings.append(
            f"The standard deviation of {_listed(small, names)} is less than a {_UNLIKE:.0f}th of "
            f"that of {_listed([widest], names)}."
        )
    if not findings:
        return
    warnings.warn(
        f"Columns of X hide other columns from the classifier. {' '.join(findings)} Subtract and "
        "divide by known constants, or put a scaler that was fitted to samples of all tasks before "
        "the classifier: make_continual_pipeline(FrozenEstimator(scaler), clf). scale=True "
        "standardises by the first call.",
        ColumnUnitsWarning,
        stacklevel=level_of_user(),
    )


def _listed(columns, names):
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
