"""Class labels that arrive bit by bit: their kind, their order, and where each is kept."""

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

__all__ = ["check_labels", "label_positions"]

_KINDS = {"b": "bool", "i": "number", "u": "number", "f": "number"}


def _kind(labels, name):
    """Kind of an array of labels: bool, number or str; a mixture is an error."""
    if labels.dtype.kind in _KINDS:
        return _KINDS[labels.dtype.kind]
    kinds = {
        "str" if isinstance(one, str) else "bool" if isinstance(one, (bool, np.bool_)) else "number"
        for one in labels.ravel().tolist()
    }
    if len(kinds) > 1:
        raise ValueError(f"{name} must hold labels of one kind; got {' and '.join(sorted(kinds))}.")
    return kinds.pop() if kinds else "str"


def check_labels(labels, known, name):
    """Labels as a one-dimensional array of the kind of the known ones.

    Parameters
    ----------
    labels : array-like of shape (n,)
        Labels of one kind: numbers, strings or booleans.
    known : ndarray or None
        Labels seen before, whose kind binds; None where there are none.
    name : str
        Name of the argument, for messages.

    Returns
    -------
    ndarray of shape (n,)
        The labels.

    Raises
    ------
    ValueError
        If the labels are continuous, missing, of mixed kinds, or of another kind than those
        known.
    """
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got an array of shape {labels.shape}.")
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name=name)
    check_classification_targets(labels)
    kind = _kind(labels, name)
    if known is not None and len(labels) and kind != _kind(known, name):
        raise ValueError(
            f"{name} must hold labels of the kind seen before, {_kind(known, name)} as in "
            f"{known[:3].tolist()}; got {kind} as in {labels[:3].tolist()}."
        )
    return labels


def label_positions(labels, arrived):
    """Where each label stands among those that have arrived, new ones behind them.

    Parameters
    ----------
    labels : ndarray of shape (n,)
        Labels, possibly repeated.
    arrived : ndarray of shape (k,) or None
        Labels known, in order of arrival.

    Returns
    -------
    positions : ndarray of shape (n,)
        Number of each label.
    arrived : ndarray
        Labels known now; new ones stand sorted behind the old.
    """
    found, inverse = np.unique(labels, return_inverse=True)
    if arrived is None:
        return inverse, found
    new = np.setdiff1d(found, arrived)
    # Concatenation widens fixed-width strings; assignment would truncate them.
    arrived = np.concatenate([arrived, new]) if len(new) else arrived
    order = np.argsort(arrived)
    return order[np.searchsorted(arrived, found, sorter=order)][inverse], arrived
