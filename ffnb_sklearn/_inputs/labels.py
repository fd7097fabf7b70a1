"""Class labels that arrive task by task: their kind, their order and their positions."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils._missing import is_pandas_na, is_scalar_nan

from .arrays import as_numpy

__all__ = ["check_labels", "check_targets", "label_positions"]

# Kinds of labels by the kind of their dtype.
_KINDS = {"b": "bool", "i": "number", "u": "number", "f": "number", "U": "str"}

# Largest label that is a number.
_LARGEST = np.iinfo(np.int64).max


def check_targets(y, known, name):
    """Return the labels of samples as `check_labels` does; a column is accepted with a warning."""
    if y is None:
        raise ValueError(
            f"requires y to be passed, but the target {name} is None: the labels of X are needed."
        )
    return check_labels(column_or_1d(_as_array(y, name), warn=True), known, name)


def check_labels(labels, known, name):
    """Return labels as a one-dimensional array of the same kind as the known labels.

    The kinds are numbers, as int64, strings and booleans. Raise if labels are continuous, missing,
    of mixed kinds, of another kind than the known labels, or if NumPy would round or shorten them.
    """
    labels = _as_array(labels, name)
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got an array of shape {labels.shape}.")
    if not len(labels):
        # The dtype of an empty list is float64, which would make numbers inexact.
        return np.empty(0, dtype=np.int64 if known is None else known.dtype)
    if labels.dtype.kind not in _KINDS:
        labels = _of_one_kind(labels.tolist(), name)
    if labels.dtype.kind == "f":
        _check_exact(labels, name)
    if labels.dtype.kind == "u" and labels.max() > _LARGEST:
        raise _too_large(name, labels.max())
    kind = _KINDS[labels.dtype.kind]
    if known is not None and kind != _KINDS[known.dtype.kind]:
        raise ValueError(
            f"{name} must hold labels of the kind seen before, {_KINDS[known.dtype.kind]} as in "
            f"{known[:3].tolist()}; got {kind} as in {labels[:3].tolist()}."
        )
    # Together, signed and unsigned integers would become floats, which merge large labels.
    return labels.astype(np.int64, copy=False) if kind == "number" else labels


def _as_array(labels, name):
    """Return labels as an array; NumPy would turn a list of numbers and strings into strings."""
    labels = as_numpy(labels, name)
    return np.asarray(labels) if hasattr(labels, "dtype") else np.array(labels, dtype=object)


def _check_exact(labels, name):
    """Raise unless floats are finite whole numbers that their type does not round."""
    assert_all_finite(labels, input_name=name)
    continuous = labels[labels != np.floor(labels)]
    if len(continuous):
        raise ValueError(
            f"Unknown label type: continuous. {name} must hold whole numbers, strings or "
            f"booleans; got {continuous[:3].tolist()}."
        )
    # From here on, neighbouring whole numbers become the same float.
    limit = 2.0 ** min(np.finfo(labels.dtype).nmant + 1, 63)
    rounded = labels[np.abs(labels) >= limit]
    if len(rounded):
        raise ValueError(
            f"{name} must hold floats below {limit:.0f} in magnitude, because {labels.dtype} "
            f"rounds larger whole numbers; got {rounded[:3].tolist()}. Pass integers or strings."
        )


def _too_large(name, label):
    """Return the error for an integer that is no int64."""
    return ValueError(
        f"{name} must hold integers of int64, from {-_LARGEST - 1} to {_LARGEST}; got {label}. "
        "Pass larger numbers as strings."
    )


def _of_one_kind(labels, name):
    """Return a list of labels as an array of their own kind; raise for missing or mixed labels."""
    # The types are few, and most labels are strings or integers.
    if not all(issubclass(one, (str, Integral)) for one in set(map(type, labels))):
        for position, label in enumerate(labels):
            if label is None or is_scalar_nan(label) or is_pandas_na(label):
                raise ValueError(
                    f"Input {name} contains NaN: the label at position {position} is missing, "
                    f"{label!r}. Drop samples without label, or give them a label of their own."
                )
    found = {_kind_of(type(label)) for label in labels}
    if len(found) > 1 or not found <= set(_KINDS.values()):
        raise ValueError(
            f"Unknown label type: {name} must hold numbers, strings or booleans, all of one kind; "
            f"got {' and '.join(sorted(found))}."
        )
    if found == {"number"}:
        return _exact_integers(labels, name)
    for label in labels:
        if found == {"str"} and label.endswith("\0"):
            raise ValueError(
                f"{name} must hold strings that do not end in a null character, which NumPy "
                f"drops; got {label!r}."
            )
    return np.array(labels)


def _exact_integers(labels, name):
    """Return a list of integers and whole floats as an array of integers."""
    floats = [float(label) for label in labels if not isinstance(label, Integral)]
    _check_exact(np.array(floats), name)
    integers = [int(label) for label in labels]
    for largest in (max(integers), min(integers)):
        if not -_LARGEST - 1 <= largest <= _LARGEST:
            raise _too_large(name, largest)
    return np.array(integers, dtype=np.int64)


def _kind_of(kind):
    """Return the kind of labels of a type."""
    if issubclass(kind, (bool, np.bool_)):
        return "bool"
    if issubclass(kind, Real):
        return "number"
    return "str" if issubclass(kind, str) else kind.__name__


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
