"""Warning of columns in different units, the largest of which dominates the neurons."""

import warnings

import numpy as np

from ._arrays import level_of_user
from .datasets._base import shown

__all__ = ["ColumnSpreadWarning", "warn_of_units"]

# Ratio of two columns, in standard deviation and in range, that only different units explain:
# columns of digits, sensors, skeletons and networks differ by up to 55 in range
# (tests/test_columns.py).
_LARGEST_RATIO = 100.0

# Largest range of a constant column, relative to the largest magnitude in the column.
_CONSTANT = 1e-9

# Largest deviation that counts as rounding of the moments, relative to that of the widest column.
_ROUNDING = 1e-12

# Least share of small columns; among thousands of columns, a few are small by chance.
_LEAST_SHARE = 0.1

# Maximum number of columns that a message names.
_MOST_NAMED = 5


class ColumnSpreadWarning(UserWarning):
    """Columns differ so much in spread that the largest dominate the neurons."""


def warn_of_units(X, moments, names):
    """Warn if the columns of a first task seem to have different units.

    Two columns seem to have different units if their standard deviations within the classes differ
    by a factor of more than 100, and their ranges too. The range matters because a column that is
    mostly zero has a small deviation, but a range like that of other columns. The warning requires
    that at least a tenth of the columns are small; constant columns are ignored. `moments` are the
    moments of the classes, with the columns of X first.
    """
    deviations = _deviations(moments, X.shape[1])
    lowest, highest = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    ranges = highest - lowest
    widest = int(np.argmax(deviations))
    varies = ranges > _CONSTANT * np.maximum(np.abs(lowest), np.abs(highest))
    varies &= deviations > _ROUNDING * deviations[widest]
    small = varies & (deviations < deviations[widest] / _LARGEST_RATIO)
    small &= ranges < ranges[widest] / _LARGEST_RATIO
    if not small.any() or small.sum() < _LEAST_SHARE * varies.sum():
        return
    order = np.flatnonzero(small)[np.argsort(deviations[small], kind="stable")]
    labels = range(X.shape[1]) if names is None else names
    named = ", ".join(_label(labels[index]) for index in order[:_MOST_NAMED])
    others = f" and {len(order) - _MOST_NAMED} more" if len(order) > _MOST_NAMED else ""
    warnings.warn(
        f"The columns of X differ in spread by a factor of up to "
        f"{deviations[widest] / deviations[order[0]]:.2g}: the standard deviation within the "
        f"classes is {deviations[widest]:.3g} in column {_label(labels[widest])}, and less than a "
        f"hundredth of that in {named}{others}. Neurons see all columns in one unit, in which "
        "the named columns hardly count. If the units differ, fit a scaler to samples of all "
        "classes and put it before the classifier: "
        "make_continual_pipeline(FrozenEstimator(StandardScaler().fit(X)), classifier).",
        ColumnSpreadWarning,
        stacklevel=level_of_user(),
    )


def _deviations(moments, n_columns):
    """Return the standard deviations of the first columns within the classes."""
    columns = slice(0, n_columns)
    scatter = sum(
        np.square(one.columns(columns)).sum(axis=0) + one.residual[columns] for one in moments
    )
    return np.sqrt(scatter / sum(one.weight for one in moments))


def _label(label):
    """Return a text of limited length for a name or an index."""
    return shown(label.item() if isinstance(label, np.generic) else label)
