"""Compare objects by value: digests of parameters, and fitted transformers."""

import pickle

import joblib
import torch
from sklearn.base import BaseEstimator

__all__ = ["fingerprint", "give_same_output"]

# Attributes of estimators that do not determine their output: an address, requests, and numbers of
# processes and threads, which `load` changes.
_LEFT_OUT = {
    *("_stop_words_id", "_sklearn_output_config", "_metadata_request"),
    *("n_jobs", "n_threads", "_n_threads"),
}


class _Hasher(joblib.hashing.NumpyHasher):
    """Hash tensors by their values, and estimators by what determines their output."""

    def save(self, obj):
        """Add an object to the digest."""
        if isinstance(obj, torch.Tensor):
            obj = (str(obj.dtype), obj.detach().cpu().numpy())
        elif isinstance(obj, BaseEstimator):
            left_out = _LEFT_OUT | getattr(type(obj), "not_in_output", set())
            state = obj.__getstate__()
            obj = (type(obj), {k: value for k, value in state.items() if k not in left_out})
        super().save(obj)


def fingerprint(value):
    """Return a digest of a value that can be pickled; equal values have equal digests."""
    return _Hasher(hash_name="md5").hash(value)


def give_same_output(one, other):
    """Return whether two fitted transformers, or two of their parts, have the same output.

    Their digests are compared, without the attributes that `not_in_output` of a class names.
    Objects that cannot be pickled are equal only if they are identical.
    """
    if one is other:
        return True
    try:
        return fingerprint(one) == fingerprint(other)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
