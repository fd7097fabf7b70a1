"""Compare objects by value: digests of parameters, and fitted transformers."""

import pickle

import joblib
import torch
from sklearn.base import BaseEstimator

__all__ = ["fingerprint", "give_same_output"]

# Attributes of estimators that do not determine their output: an address, requests, callbacks, and
# numbers of processes and threads, which `load` changes.
_NOT_IN_OUTPUT = {
    "_stop_words_id",
    "_sklearn_output_config",
    "_metadata_request",
    "_skl_callbacks",
    "n_jobs",
    "n_threads",
    "_n_threads",
}


class _Hasher(joblib.hashing.NumpyHasher):
    """Hash tensors by their values, and estimators by the attributes that affect their output."""

    def save(self, obj):
        """Add an object to the digest."""
        if isinstance(obj, torch.Tensor):
            obj = (str(obj.dtype), obj.detach().cpu().numpy())
        elif isinstance(obj, BaseEstimator):
            obj = (type(obj), _output_state(obj))
        super().save(obj)


def _output_state(estimator):
    """Return the attributes of an estimator that determine its output."""
    ignored = _NOT_IN_OUTPUT | getattr(type(estimator), "not_in_output", set())
    state = estimator.__getstate__()
    return {name: value for name, value in state.items() if name not in ignored}


def fingerprint(value):
    """Return a digest of a value that can be pickled; equal values have equal digests."""
    return _Hasher(hash_name="md5").hash(value)


def give_same_output(first, second):
    """Return whether two fitted transformers, or two of their parts, have the same output.

    Their digests are compared, without the attributes that `not_in_output` of a class names.
    Objects that cannot be pickled are equal only if they are identical.
    """
    if first is second:
        return True
    try:
        return fingerprint(first) == fingerprint(second)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
