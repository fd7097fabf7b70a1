"""Compare objects by value: digests of parameters, and fitted transformers."""

import joblib
import numpy as np
import torch
from sklearn.base import BaseEstimator

__all__ = ["fingerprint", "give_same_output"]

# Attributes of estimators that do not determine their output: an address and requests.
_LEFT_OUT = {"_stop_words_id", "_sklearn_output_config", "_metadata_request"}


class _Hasher(joblib.hashing.NumpyHasher):
    """Hash equal tensors alike, although their storages have different addresses."""

    def save(self, obj):
        """Add an object to the digest."""
        if isinstance(obj, torch.Tensor) and obj.layout == torch.strided and not obj.is_meta:
            plain = obj.detach().cpu().resolve_conj().resolve_neg()
            # NumPy lacks bfloat16.
            plain = plain.float() if plain.dtype == torch.bfloat16 else plain
            obj = (str(obj.dtype), plain.numpy())
        super().save(obj)


def fingerprint(value):
    """Return a digest of a value that can be pickled; equal values have equal digests."""
    return _Hasher(hash_name="md5").hash(value)


def give_same_output(one, other):
    """Return whether two fitted transformers, or two of their parts, have the same output.

    Estimators are compared by type, parameters and fitted attributes, except for those that the
    attribute `not_in_output` of their class names. Other objects are equal if their digests are;
    objects that cannot be pickled are equal only if they are identical.
    """
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if _is_plain_estimator(one):
        one, other = _parts(one), _parts(other)
    if type(one) is dict:
        return one.keys() == other.keys() and all(give_same_output(one[k], other[k]) for k in one)
    if type(one) in (list, tuple):
        return len(one) == len(other) and all(map(give_same_output, one, other))
    # Any error of any pickling means that the values cannot be compared.
    try:
        return fingerprint(one) == fingerprint(other)
    except Exception:
        return False


def _is_plain_estimator(value):
    """Return whether the attributes of an object are all there is to it."""
    kind = type(value)
    return (
        isinstance(value, BaseEstimator)
        and not isinstance(value, (dict, list, tuple, np.ndarray))
        and (kind.__reduce__, kind.__reduce_ex__) == (object.__reduce__, object.__reduce_ex__)
        and isinstance(value.__getstate__(), dict)
    )


def _parts(estimator):
    """Return the parameters and fitted attributes of an estimator that determine its output."""
    left_out = _LEFT_OUT | getattr(type(estimator), "not_in_output", set())
    return {k: value for k, value in estimator.__getstate__().items() if k not in left_out}
