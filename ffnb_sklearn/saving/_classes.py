"""The types of the fields of the dataclasses in a file.

A field that does not take part in comparisons is a cache, which a file does not hold.
"""

from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

__all__ = ["field_types", "fits"]


@cache
def field_types(dataclass):
    """Return the types of the fields of a dataclass that a file holds, by name."""
    hints = get_type_hints(dataclass)
    types = {}
    for field in fields(dataclass):
        if field.init and field.compare:
            types[field.name] = hints[field.name]
    return types


def fits(value, hint):
    """Return whether a value has the type of a field; floating-point arrays must be finite."""
    origin = get_origin(hint) or hint
    arguments = get_args(hint)
    if hasattr(origin, "__value__"):
        # A named alias, which `NDArray` is since NumPy 2.5.
        return fits(value, origin.__value__[arguments])
    if origin in (Any, object):
        return True
    if origin in (Union, UnionType):
        return any(fits(value, argument) for argument in arguments)
    if origin is Literal:
        return value in arguments
    if origin is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if origin is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    if not isinstance(value, origin):
        return False
    if origin is tuple and arguments:
        # The hint is `tuple[item, ...]`.
        item = arguments[0]
        return all(fits(element, item) for element in value)
    if origin is np.ndarray:
        return _fits_array(value, arguments)
    return True


def _fits_array(array, arguments):
    """Return whether an array is finite and has the kind of numbers that a hint may name."""
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        return False
    if not arguments:
        return True
    # The hint is `np.ndarray[shape, np.dtype[scalar]]`.
    _, dtype = arguments
    (scalar,) = get_args(dtype)
    return array.dtype.kind == np.dtype(scalar).kind
