"""Class labels that arrive task by task: their kind, their order and their positions."""

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils._missing import is_pandas_na, is_scalar_nan

from .arrays import UserArray, as_numpy

__all__ = [
    "Label",
    "Labels",
    "check_labels",
    "check_targets",
    "check_unknown_label",
    "label_positions",
]

# A label, and an array of labels: int64, strings or booleans.
Label: TypeAlias = int | str | bool
Labels: TypeAlias = npt.NDArray[np.generic]

# Kinds of labels by the kind of their dtype.
_KINDS = {"b": "bool", "i": "number", "u": "number", "f": "number", "U": "str"}

# Labels of unknown samples by the kind of the other labels. No third boolean exists.
_UNKNOWN = {"number": -1, "str": "unknown"}

# Largest label that is a number.
_LARGEST = np.iinfo(np.int64).max


def check_targets(y: UserArray, known: Labels | None, name: str) -> Labels:
    """Return the labels of samples as `check_labels` does; a column is accepted with a warning."""
    if y is None:
        raise ValueError(
            f"requires y to be passed, but the target {name} is None: the labels of X are needed."
        )
    return check_labels(column_or_1d(_as_array(y, name), warn=True), known, name)


def check_labels(labels: UserArray, known: Labels | None, name: str) -> Labels:
    """Return labels as a one-dimensional array of the same kind as the known labels.

    The kinds are numbers, as int64, strings and booleans. Raise if labels are continuous, missing,
    of mixed kinds, of another kind than the known labels, or if NumPy would round or shorten them.
    """
    labels = _as_array(labels, name)
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got an array of shape {labels.shape}.")
    if not len(labels):
        # The dtype of an empty list is float64, which would make numbers inexact.
        dtype = np.int64 if known is None else known.dtype
        return np.empty(0, dtype=dtype)
    if labels.dtype.kind not in _KINDS:
        labels = _labels_of_one_kind(labels.tolist(), name)
    if labels.dtype.kind == "f":
        _check_exact(labels, name)
    if labels.dtype.kind == "u":
        _check_range(int(labels.max()), name)
    kind = _KINDS[labels.dtype.kind]
    if known is not None:
        _check_kind(labels, known, name)
    if kind == "number":
        # Together, signed and unsigned integers would become floats, which merge large labels.
        return np.asarray(labels, dtype=np.int64)
    return np.asarray(labels)


def check_unknown_label(unknown_label: Label | None, known: Labels) -> Labels:
    """Return the label of unknown samples as an array of one label, of the kind of known labels.

    None stands for -1 or "unknown".
    """
    if unknown_label is None:
        kind = _KINDS[known.dtype.kind]
        if kind not in _UNKNOWN:
            raise ValueError(
                "unknown_label must be True or False if the other labels are booleans; got None."
            )
        return np.array([_UNKNOWN[kind]])
    return check_labels([unknown_label], known, "unknown_label")


def _check_kind(labels: Labels, known: Labels, name: str) -> None:
    """Raise unless labels are of the kind of the known labels."""
    kind = _KINDS[labels.dtype.kind]
    known_kind = _KINDS[known.dtype.kind]
    if kind != known_kind:
        raise ValueError(
            f"{name} must hold labels of the kind seen before, {known_kind} as in "
            f"{known[:3].tolist()}; got {kind} as in {labels[:3].tolist()}."
        )


def _as_array(labels: UserArray, name: str) -> npt.NDArray[np.generic]:
    """Return labels as an array; NumPy would turn a list of numbers and strings into strings."""
    labels = as_numpy(labels, name)
    if issparse(labels):
        raise TypeError(
            f"{name} must be a dense array of labels; got a sparse array of format "
            f"{labels.format!r} and shape {labels.shape}. Pass {name}.toarray().ravel() instead."
        )
    if hasattr(labels, "dtype"):
        return np.asarray(labels)
    return np.array(labels, dtype=object)


def _check_exact(labels: npt.NDArray[Any], name: str) -> None:
    """Raise unless floats are finite whole numbers that their type does not round."""
    assert_all_finite(labels, input_name=name)
    is_continuous = labels != np.floor(labels)
    if is_continuous.any():
        continuous = labels[is_continuous]
        raise ValueError(
            f"Unknown label type: continuous. {name} must hold whole numbers, strings or "
            f"booleans; got {continuous[:3].tolist()}."
        )
    # From this magnitude on, neighbouring whole numbers become the same float.
    n_exact_bits = np.finfo(labels.dtype).nmant + 1
    limit = 2.0 ** min(n_exact_bits, 63)
    is_rounded = np.abs(labels) >= limit
    if is_rounded.any():
        rounded = labels[is_rounded]
        raise ValueError(
            f"{name} must hold floats below {limit:.0f} in magnitude, because {labels.dtype} "
            f"rounds larger whole numbers; got {rounded[:3].tolist()}. Pass integers or strings."
        )


def _check_range(label: int, name: str) -> None:
    """Raise if an integer is no int64."""
    lowest = -_LARGEST - 1
    if not lowest <= label <= _LARGEST:
        raise ValueError(
            f"{name} must hold integers of int64, from {lowest} to {_LARGEST}; got {label}. "
            "Pass larger numbers as strings."
        )


def _labels_of_one_kind(labels: Sequence[Any], name: str) -> Labels:
    """Return a list of labels as an array of their kind; raise for missing or mixed labels."""
    # There are few types, so a list of strings or integers is checked fast.
    label_types = set(map(type, labels))
    if not all(issubclass(label_type, (str, Integral)) for label_type in label_types):
        _check_missing(labels, name)
    kinds = set(map(_kind_of_type, label_types))
    if len(kinds) > 1 or not kinds <= set(_KINDS.values()):
        raise ValueError(
            f"Unknown label type: {name} must hold numbers, strings or booleans, all of one kind; "
            f"got {' and '.join(sorted(kinds))}."
        )
    if kinds == {"number"}:
        return _exact_integers(labels, name)
    if kinds == {"str"}:
        _check_ends(labels, name)
    return np.array(labels)


def _check_missing(labels: Sequence[object], name: str) -> None:
    """Raise if a label is None, NaN or a missing value of pandas."""
    for position, label in enumerate(labels):
        if label is None or is_scalar_nan(label) or is_pandas_na(label):
            raise ValueError(
                f"Input {name} contains NaN: the label at position {position} is missing, "
                f"{label!r}. Drop samples without label, or give them a label of their own."
            )


def _check_ends(labels: Sequence[str], name: str) -> None:
    """Raise if NumPy would shorten a string."""
    for label in labels:
        if label.endswith("\0"):
            raise ValueError(
                f"{name} must hold strings that do not end in a null character, which NumPy "
                f"drops; got {label!r}."
            )


def _exact_integers(labels: Sequence[Any], name: str) -> npt.NDArray[np.int64]:
    """Return a list of integers and whole floats as an array of integers."""
    floats = [float(label) for label in labels if not isinstance(label, Integral)]
    _check_exact(np.array(floats), name)
    integers = list(map(int, labels))
    _check_range(max(integers), name)
    _check_range(min(integers), name)
    return np.array(integers, dtype=np.int64)


def _kind_of_type(label_type: type) -> str:
    """Return the kind of labels of a type."""
    if issubclass(label_type, (bool, np.bool_)):
        return "bool"
    if issubclass(label_type, Real):
        return "number"
    if issubclass(label_type, str):
        return "str"
    return label_type.__name__


def label_positions(labels: Labels, arrived: Labels) -> tuple[npt.NDArray[np.intp], Labels]:
    """Return the position of each label in order of arrival, and all labels in that order.

    New labels are sorted and follow the old labels.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    if not len(arrived):
        return codes, classes
    order = np.argsort(arrived)
    places = np.searchsorted(arrived, classes, sorter=order)
    places = np.minimum(places, len(arrived) - 1)
    class_positions = order[places]
    is_new = arrived[class_positions] != classes
    if is_new.any():
        class_positions[is_new] = len(arrived) + np.arange(is_new.sum())
        # Concatenation widens fixed-width strings; assignment would truncate them.
        arrived = np.concatenate([arrived, classes[is_new]])
    return class_positions[codes], arrived
