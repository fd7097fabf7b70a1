"""Class labels that arrive task by task: their kind, their order and their positions."""

import warnings
from collections.abc import Set
from numbers import Integral, Number

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils._missing import is_pandas_na, is_scalar_nan

from ..core.messages import level_of_user
from .arrays import as_numpy, refuse_masked

__all__ = ["check_labels", "check_targets", "label_positions"]

_KINDS = {"b": "bool", "i": "number", "u": "number", "f": "number", "U": "str"}

# Least integer that shares its float64 with another integer; smaller integers are exact.
_EXACT = 2**53


def _kind(labels, name):
    """Return the kind of an array of labels: bool, number or str; raise for any other kind."""
    if labels.dtype.kind in _KINDS:
        return _KINDS[labels.dtype.kind]
    types = {type(one) for one in labels.tolist()}
    if all(issubclass(one, str) for one in types):
        return "str"
    raise ValueError(
        f"Unknown label type: {name} must hold numbers, strings or booleans, and objects only if "
        f"all are strings; got dtype {labels.dtype} of {sorted(one.__name__ for one in types)}. "
        f"Convert them, such as by {name}.astype(str) or {name}.astype(int)."
    )


def _check_present(labels, name):
    """Raise the error of scikit-learn if a label is missing: None, NaN, or the gap of a frame."""
    # The types are few, and most labels are strings or integers.
    if all(issubclass(kind, (str, Integral)) for kind in set(map(type, labels))):
        return
    for position, label in enumerate(labels):
        if label is None or is_scalar_nan(label) or is_pandas_na(label):
            raise ValueError(
                f"Input {name} contains NaN: the label at position {position} is missing, "
                f"{label!r}. Drop samples without label, or give them a label of their own."
            )


def _kind_of_one(label):
    """Return the kind of one label of a list."""
    if isinstance(label, (bool, np.bool_)):
        return "bool"
    if isinstance(label, Number):
        return "number"
    return "str" if isinstance(label, str) else type(label).__name__


def _unmixed(labels, name):
    """Return labels whose kind NumPy will preserve; raise if a list has several kinds."""
    if isinstance(labels, (list, tuple)):
        values = labels
        if all(isinstance(row, (list, tuple)) for row in labels):
            # A column as a list of rows.
            values = [label for row in labels for label in row]
        _check_present(values, name)
        kinds = sorted({_kind_of_one(label) for label in values})
        if len(kinds) > 1:
            raise ValueError(f"{name} must hold labels of one kind; got {' and '.join(kinds)}.")
    return _without_mask(labels)


def _without_mask(labels):
    """Convert nullable or categorical labels of pandas to their NumPy dtype, not to floats."""
    dtype = getattr(labels, "dtype", None)
    # The categories may be nullable themselves.
    dtype = getattr(getattr(dtype, "categories", labels), "dtype", None)
    dtype = getattr(dtype, "numpy_dtype", dtype)
    converts = hasattr(labels, "isna") and isinstance(dtype, np.dtype) and dtype.kind in "biu"
    return labels.to_numpy(dtype=dtype) if converts and not labels.isna().any() else labels


def check_targets(y, known, name):
    """Return the labels of samples as `check_labels` does; a column is accepted with a warning."""
    if y is None:
        raise ValueError(
            f"requires y to be passed, but the target {name} is None: the labels of X are needed."
        )
    y = _unmixed(as_numpy(y, name), name)
    refuse_masked(y, name)
    y = y if hasattr(y, "shape") else np.asarray(y)
    targets = column_or_1d(y)
    if len(y.shape) > 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Pass one column, such as "
            'y["label"] of a data frame or y.ravel() of an array.',
            DataConversionWarning,
            stacklevel=level_of_user(),
        )
    return check_labels(targets, known, name)


def check_labels(labels, known, name):
    """Return labels as a one-dimensional array of the same kind as the known labels.

    Raise if labels are continuous, missing, of mixed kinds, or of another kind than known labels.
    """
    if isinstance(labels, Set):
        # NumPy makes one object of them.
        labels = list(labels)
    labels = np.asarray(_unmixed(as_numpy(labels, name), name))
    if labels.dtype.kind in "OT":
        _check_present(labels.ravel().tolist(), name)
    if labels.dtype.kind == "T":
        # NumPy cannot concatenate strings of variable length with strings of fixed length.
        labels = np.array(labels.tolist(), dtype=str)
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got an array of shape {labels.shape}.")
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name=name)
        if (labels != np.floor(labels)).any():
            raise ValueError(
                f"Unknown label type: continuous. {name} must hold whole numbers, strings or "
                f"booleans; got {labels[labels != np.floor(labels)][:3].tolist()}."
            )
    kind = _kind(labels, name)
    if known is not None and len(labels) and kind != _kind(known, name):
        raise ValueError(
            f"{name} must hold labels of the kind seen before, {_kind(known, name)} as in "
            f"{known[:3].tolist()}; got {kind} as in {labels[:3].tolist()}."
        )
    if known is not None and kind == "number" and known.dtype != labels.dtype:
        joined = np.concatenate([known, labels])
        if joined.dtype.kind == "f" and np.abs(joined).max() >= _EXACT:
            raise ValueError(
                f"{name} must hold labels that can be told from the known ones; got "
                f"{labels.dtype} after {known.dtype}, which join as floats, and these are exact "
                "below 2**53 only. Use one dtype."
            )
    return labels


def label_positions(labels, arrived):
    """Return the position of each label in order of arrival, and all labels in that order.

    New labels are sorted and follow the old labels.
    """
    found, inverse = np.unique(labels, return_inverse=True)
    if arrived is None:
        return inverse, found
    new = np.setdiff1d(found, arrived)
    # Concatenation widens fixed-width strings; assignment would truncate them.
    arrived = np.concatenate([arrived, new]) if len(new) else arrived
    order = np.argsort(arrived)
    return order[np.searchsorted(arrived, found, sorter=order)][inverse], arrived
