"""Calls that change estimators in place: all of their changes or none, and one call at a time."""

import threading
from collections import deque
from copy import deepcopy
from itertools import repeat
from weakref import WeakKeyDictionary

from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ._state import ConcurrentLearningError

__all__ = ["COLUMNS", "all_or_nothing", "columns_of", "learning_lock", "replace_fitted"]

# Attributes that tell of the columns of a table.
COLUMNS = ("n_features_in_", "feature_names_in_")

# Held while a pipeline learns. They are no attributes, since a lock can be neither pickled nor
# copied.
_LOCKS: WeakKeyDictionary = WeakKeyDictionary()


def learning_lock(pipeline):
    """Return the lock of the calls that learn in one pipeline; raise if it is held."""
    lock = _LOCKS.setdefault(pipeline, threading.Lock())
    if lock.locked():
        raise ConcurrentLearningError(
            f"This {type(pipeline).__name__} is learning or forgetting something else, by a call "
            "in another thread. This call has changed nothing: repeat it when the other has "
            "ended. Let one thread at a time learn."
        )
    return lock


def all_or_nothing(pipeline, estimators, call, *args, **params):
    """Make a call; bring the pipeline and some steps back to their state if it raises."""
    changed = [pipeline, *estimators]
    states = [vars(pipeline).copy(), *(_copied(vars(one)) for one in estimators)]
    restoring = map(object.__setattr__, changed, repeat("__dict__"), states)
    try:
        return call(*args, **params)
    except BaseException:
        # No Python code runs between the error and the end of this call, so a second interrupt can
        # neither come before it nor cut it in two. A context manager would be called first.
        deque(restoring, maxlen=0)
        raise


def _copied(state):
    """Return a deep copy of the state of a step, with the same callbacks."""
    callbacks = state.get("_skl_callbacks", [])
    return deepcopy(state, {id(one): one for one in callbacks})


def columns_of(X):
    """Return number and names of the columns of a table, by the names in `COLUMNS`."""
    blank = BaseEstimator()
    validate_data(blank, X, skip_check_array=True)
    return vars(blank)


def replace_fitted(estimator, stale, learned):
    """Replace the attributes of an earlier fit, those named in `stale`, all at once."""
    kept = {name: value for name, value in vars(estimator).items() if name not in stale}
    # A single assignment: an interrupt finds the old attributes or the new ones.
    estimator.__dict__ = kept | learned
