"""The types of the fields of the dataclasses in a file.

A field that does not take part in comparisons is a cache, and is in no file.
"""

from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

__all__ = ["fits", "stored_fields"]


@cache
def stored_fields(made):
    """Return the types of the fields of a dataclass that a file holds, by name."""
    hints = get_type_hints(made)
    return {one.name: hints[one.name] for one in fields(made) if one.init and one.compare}


def fits(value, hint):
    """Return whether a value has the type of a field; floating-point arrays must be finite."""
    made, parts = get_origin(hint) or hint, get_args(hint)
    if hasattr(made, "__value__"):
        # An alias with a name, as `NDArray` is since NumPy 2.5.
        return fits(value, made.__value__[parts])
    if made in (Union, UnionType):
        return any(fits(value, part) for part in parts)
    if made is Literal:
        return value in parts
    if made in (int, float):
        kind = Integral if made is int else Real
        return isinstance(value, kind) and not isinstance(value, bool)
    if made is tuple:
        return isinstance(value, tuple) and all(fits(one, parts[0]) for one in value if parts)
    if made is np.ndarray and isinstance(value, np.ndarray):
        has_kind = not parts or value.dtype.kind == np.dtype(get_args(parts[1])[0]).kind
        return has_kind and (value.dtype.kind not in "fc" or bool(np.isfinite(value).all()))
    return made in (Any, object) or isinstance(value, made)
