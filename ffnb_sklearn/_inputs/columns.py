"""Repair of columns that lie far from zero or have unlike units, decided at the first task.

docs/user_guide/scaling.rst says why.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from ..core.device import as_tensor

__all__ = ["ColumnRepair", "ColumnSpreads"]

# Distance of the mean from zero, in spreads, beyond which a column is centred.
_FAR = 10.0

# Ratio of spreads that only different units explain: columns of digits, sensors, skeletons and
# networks differ by up to 55 in range.
_UNLIKE = 100.0

# Least share of the columns that must be small; of thousands of columns, a few are by chance.
_LEAST_SHARE = 0.1

# Range of a standard deviation; only columns with rare values have more.
_DEVIATIONS_IN_RANGE = 10.0

# Relative range of a column that is constant but for single precision.
_ROUNDING = 4.0 * np.finfo(np.float32).eps

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


@dataclass(frozen=True, eq=False)
class ColumnSpreads:
    """Weight, mean, scatter and extreme values of each column of some samples.

    The spreads of disjoint samples merge.
    """

    weight: float
    mean: np.ndarray
    scatter: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray

    @classmethod
    def of(cls, X, weights):
        """Compute the spreads of samples, dense or sparse, with positive weights."""
        if sparse.issparse(X):
            X = sparse.csr_matrix(X, dtype=np.float64)
            mean, variance = mean_variance_axis(X, axis=0, weights=weights)
            return cls(weights.sum(), mean, weights.sum() * variance, *min_max_axis(X, axis=0))
        # A memory map may be larger than memory.
        parts = []
        for rows in gen_batches(len(X), max(1, _CHUNK_SIZE // X.shape[1])):
            part, own = X[rows].astype(np.float64), weights[rows]
            mean = own @ part / own.sum()
            scatter = own @ np.square(part - mean)
            parts.append(cls(own.sum(), mean, scatter, part.min(axis=0), part.max(axis=0)))
        return cls.merged(parts)

    @classmethod
    def merged(cls, parts):
        """Return the spreads of the union of disjoint samples."""
        weights = np.array([part.weight for part in parts])
        means = np.array([part.mean for part in parts])
        mean = weights @ means / weights.sum()
        return cls(
            weights.sum(),
            mean,
            sum(part.scatter for part in parts) + weights @ np.square(means - mean),
            np.min([part.lowest for part in parts], axis=0),
            np.max([part.highest for part in parts], axis=0),
        )

    def repair(self, scale, *, centring=True):
        """Return the repair of the columns for a value of `scale`; None if no column changes.

        Constant columns are never divided. "auto" centres them if they are far from zero compared
        with the widest column, or with 1 beside divided columns.
        """
        ranges, deviations = self.highest - self.lowest, np.sqrt(self.scatter / self.weight)
        sizes = np.maximum(np.abs(self.lowest), np.abs(self.highest))
        varies = (ranges > _ROUNDING * sizes) & (deviations > 0.0)
        if not scale or (scale == "auto" and not varies.any()):
            return None
        if scale != "auto":
            return ColumnRepair(self.mean if centring else None, np.where(varies, deviations, 1.0))
        # A column that is mostly zero has a small deviation, and a range like that of the others.
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
