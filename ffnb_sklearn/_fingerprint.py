"""Compare objects by value: digests of parameters, and fitted transformers."""

import pickle
from collections.abc import Mapping
from numbers import Number

import joblib
import numpy as np
import torch
from sklearn.base import BaseEstimator

from ._callbacks import CALLBACK_ATTRIBUTES

__all__ = ["fingerprint", "give_same_output"]

# Attributes of estimators that do not determine their output: an address, requests and callbacks.
_LEFT_OUT = {
    *("_stop_words_id", "_sklearn_output_config", "_metadata_request"),
    *CALLBACK_ATTRIBUTES,
}


class _Hasher(joblib.hashing.NumpyHasher):
    """Hash equal tensors alike, although their storages have different addresses."""

    def save(self, obj):
        """Add an object to the digest."""
        super().save(obj.detach().cpu().numpy() if isinstance(obj, torch.Tensor) else obj)


def fingerprint(value):
    """Return a digest of a value that can be pickled; equal values have equal digests."""
    return _Hasher(hash_name="md5").hash(value)


def give_same_output(one, other):
    """Return whether two fitted transformers, or two of their parts, have the same output.

    Estimators are compared by type, parameters and fitted attributes, except for those that their
    attribute `not_in_output` names. Objects that cannot be pickled are equal only if they are
    identical.
    """
    if one is other:
        return True
    pair = one, other
    if all(isinstance(part, BaseEstimator) for part in pair) and type(one) is type(other):
        return give_same_output(_parts(one), _parts(other))
    if all(isinstance(part, Mapping) for part in pair):
        return one.keys() == other.keys() and all(give_same_output(one[k], other[k]) for k in one)
    if all(isinstance(part, (list, tuple)) for part in pair):
        return len(one) == len(other) and all(map(give_same_output, one, other))
    if all(isinstance(part, Number) for part in pair):
        return one == other or bool(np.isnan(one) and np.isnan(other))
    try:
        return type(one) is type(other) and fingerprint(one) == fingerprint(other)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False


def _parts(estimator):
    """Return the parameters and fitted attributes of an estimator that determine its output."""
    left_out = _LEFT_OUT | getattr(estimator, "not_in_output", set())
    state = estimator.__getstate__()
    return {name: value for name, value in state.items() if name not in left_out}
