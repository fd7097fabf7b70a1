"""Repair of columns that lie far from zero or have unlike units, decided at the first task.

Random neurons see directions from the origin and all columns in one unit. If every row lies far
from the origin, all directions are nearly equal; and a column of a small unit hardly turns them.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from ..core.device import as_tensor

__all__ = ["ColumnRepair", "ColumnSpreads", "RepairedSamples"]

# Distance of the mean from zero, in spreads, beyond which a column is centred.
_FAR = 10.0

# Ratio of spreads that only different units explain: columns of digits, sensors, skeletons and
# networks differ by up to 55 in range.
_UNLIKE = 100.0

# Least share of the columns that must be small; of thousands of columns, a few are by chance.
_LEAST_SHARE = 0.1

# Range of a standard deviation; only columns with rare values have more.
_DEVIATIONS_IN_RANGE = 10.0

# Entries of a dense chunk of samples.
_CHUNK_SIZE = 2**20


@dataclass(frozen=True, eq=False)
class ColumnRepair:
    """Offsets, subtracted first, and positive divisors of the columns of X; None changes none."""

    offset: np.ndarray | None
    scale: np.ndarray | None

    def apply(self, X):
        """Return repaired samples in float64; a sparse array is scaled and not centred."""
        if sparse.issparse(X):
            return X if self.scale is None else X @ sparse.diags_array(1.0 / self.scale)
        X = X.double()
        if self.offset is not None:
            X = X - as_tensor(self.offset, device=X.device)
        if self.scale is not None:
            X = X / as_tensor(self.scale, device=X.device)
        return X

    def equals(self, other):
        """Return whether another repair, or None, changes all samples alike."""
        mine = (self.offset, self.scale)
        others = (None, None) if other is None else (other.offset, other.scale)
        return all(map(np.array_equal, mine, others))


@dataclass(frozen=True, eq=False)
class ColumnSpreads:
    """Mean and spread of each column of some samples; those of disjoint samples merge.

    Attributes
    ----------
    weight : float
        Sum of the sample weights.
    mean, scatter : ndarray of shape (n_features,)
        Weighted mean, and weighted sum of the squared deviations from it.
    lowest, highest : ndarray of shape (n_features,)
        Extreme values.
    precision : float
        Relative rounding of the values.
    """

    weight: float
    mean: np.ndarray
    scatter: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    precision: float

    @classmethod
    def of(cls, X, weights):
        """Compute the spreads of samples, dense or sparse, with positive weights."""
        if sparse.issparse(X):
            precision, X = np.finfo(X.dtype).eps, sparse.csr_matrix(X, dtype=np.float64)
            mean, variance = mean_variance_axis(X, axis=0, weights=weights)
            total = weights.sum()
            return cls(total, mean, total * variance, *min_max_axis(X, axis=0), precision)
        # A memory map may be larger than memory.
        parts = gen_batches(len(X), max(1, _CHUNK_SIZE // X.shape[1]))
        return cls.merged([cls._of_dense(X[part], weights[part]) for part in parts])

    @classmethod
    def _of_dense(cls, X, weights):
        precision, X = np.finfo(X.dtype).eps, X.astype(np.float64)
        mean = weights @ X / weights.sum()
        scatter = weights @ np.square(X - mean)
        return cls(weights.sum(), mean, scatter, X.min(axis=0), X.max(axis=0), precision)

    @classmethod
    def merged(cls, parts):
        """Return the spreads of the union of disjoint samples (Chan, Golub and LeVeque, 1983)."""
        whole, *others = parts
        for part in others:
            weight, gap = whole.weight + part.weight, part.mean - whole.mean
            between = whole.weight * part.weight / weight * gap**2
            whole = cls(
                weight,
                whole.mean + part.weight / weight * gap,
                whole.scatter + part.scatter + between,
                np.minimum(whole.lowest, part.lowest),
                np.maximum(whole.highest, part.highest),
                max(whole.precision, part.precision),
            )
        return whole

    def repair(self, scale, *, centring=True):
        """Return the repair of the columns for a value of `scale`; None if no column changes.

        The spread of a column is its standard deviation, or a tenth of its range if that is larger:
        a column that is mostly zero has a small deviation, and a range like that of other columns.
        Constant columns are never divided; "auto" centres them if they are far from zero compared
        with the widest column, or with 1 beside divided columns.
        """
        ranges, deviations = self.highest - self.lowest, np.sqrt(self.scatter / self.weight)
        sizes = np.maximum(np.abs(self.lowest), np.abs(self.highest))
        varies = (ranges > 4.0 * self.precision * sizes) & (deviations > 0.0)
        if not scale or (scale == "auto" and not varies.any()):
            return None
        if scale != "auto":
            return ColumnRepair(self.mean if centring else None, np.where(varies, deviations, 1.0))
        spreads = np.maximum(deviations, ranges / _DEVIATIONS_IN_RANGE)
        widest = spreads[varies].max()
        n_small = np.count_nonzero(varies & (spreads < widest / _UNLIKE))
        unlike = n_small > 0 and n_small >= _LEAST_SHARE * np.count_nonzero(varies)
        spreads[~varies] = 1.0 if unlike else widest
        far = np.abs(self.mean) > _FAR * spreads
        offset = np.where(far, self.mean, 0.0) if centring and far.any() else None
        if offset is None and not unlike:
            return None
        return ColumnRepair(offset, spreads if unlike else None)


class RepairedSamples:
    """Dense samples that are repaired as they are read, so that no second array is as large."""

    def __init__(self, samples, repair):
        self._samples, self._repair, self.device = samples, repair, samples.device

    def __len__(self):
        return len(self._samples)

    def __getitem__(self, rows):
        return self._repair.apply(self._samples[rows])

    def double(self):
        """Return all samples."""
        return self[:]
