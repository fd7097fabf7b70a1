"""The estimators inside an estimator: steps and fitted attributes, on all levels."""

from types import ModuleType

import numpy as np
from sklearn.base import BaseEstimator

from ._schema import RECORDS

__all__ = ["nested_estimators"]

# Largest depth of nested estimators. Pipelines ask each other for their methods: a prediction
# takes 20 ms with 8 levels, and 2.7 times as long with each further level.
_MOST_LEVELS = 8

# Largest number of objects in an estimator. Repeated objects count each time, because a short file
# can repeat an estimator ten times on each of eight levels.
_MOST_OBJECTS = 1 << 20

# Types of objects that hold no estimators.
_PLAIN = str | bytes | bool | int | float | complex | np.generic | type | ModuleType | None
_RECORDS = tuple(names.python_class for names in RECORDS.values())


def nested_estimators(estimator, *, closed=()):
    """Yield an estimator and all estimators in its attributes, in each place where they occur.

    The attributes themselves are read, because a file chooses what `get_params` returns. `closed`
    estimators and the estimators inside them are left out. Raise `ValueError` if estimators are
    nested too deeply or too often.
    """
    closed_ids = {id(one) for one in closed}
    open_values = [(estimator, 0)]
    n_objects = 0
    # The members of each object are listed once, because a short file can repeat a long list often.
    members_by_id = {}
    while open_values:
        value, level = open_values.pop()
        n_objects += 1
        if n_objects > _MOST_OBJECTS:
            raise ValueError(f"estimators must hold at most {_MOST_OBJECTS} objects in a file")
        if id(value) in closed_ids:
            continue
        if isinstance(value, BaseEstimator):
            level += 1
            if level > _MOST_LEVELS:
                raise ValueError(
                    f"estimators must be nested at most {_MOST_LEVELS} levels deep in a file"
                )
            yield value
        if id(value) not in members_by_id:
            members_by_id[id(value)] = _open_members(value)
        for member in members_by_id[id(value)]:
            open_values.append((member, level))


def _open_members(value):
    """Return the members of an object that can hold estimators."""
    return [member for member in _members(value) if not isinstance(member, _PLAIN)]


def _members(value):
    """Return the objects that an object, a container or an array of objects holds directly."""
    if isinstance(value, _RECORDS):
        return ()
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, np.ndarray) and value.dtype == object:
        # A masked array holds objects behind its mask too.
        return np.asarray(value).flat
    # Some objects of scikit-learn that are no estimators hold estimators, such as scorers.
    return getattr(value, "__dict__", {}).values()
