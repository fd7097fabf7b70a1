"""Calls that change estimators in place: all changes or none, and one call at a time."""

import threading
from collections import deque
from copy import deepcopy
from itertools import repeat
from weakref import WeakKeyDictionary

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import validate_data

from ._state import ConcurrentLearningError

__all__ = ["COLUMNS", "all_or_nothing", "columns_of", "learning_lock", "replace_fitted"]

# Attributes that describe the columns of a table.
COLUMNS = ("n_features_in_", "feature_names_in_")

# Locks held while a pipeline learns. They are not attributes of the pipeline, because a lock can be
# neither pickled nor copied.
_LOCKS: WeakKeyDictionary = WeakKeyDictionary()


def learning_lock(pipeline):
    """Return the lock for learning calls of one pipeline; raise if it is held."""
    lock = _LOCKS.setdefault(pipeline, threading.Lock())
    if lock.locked():
        raise ConcurrentLearningError(
            f"This {type(pipeline).__name__} is being changed by another thread. This call has "
            "changed nothing: repeat it after the other call has ended. Let only one thread at a "
            "time learn."
        )
    return lock


def all_or_nothing(pipeline, estimators, call, *args, **params):
    """Make a call; restore the state of the pipeline and of some steps if it raises."""
    # A frozen step does not change, and may hold what cannot be copied.
    steps = [one for one in estimators if not isinstance(one, FrozenEstimator)]
    changed = [pipeline, *steps]
    states = [vars(pipeline).copy(), *map(_copied_state, steps)]
    restoring = map(object.__setattr__, changed, repeat("__dict__"), states)
    try:
        return call(*args, **params)
    except BaseException:
        # No Python code runs between the error and the end of `deque`, so a second interrupt can
        # neither precede the restoration nor interrupt it. A context manager would run Python code.
        deque(restoring, maxlen=0)
        raise


def _copied_state(step):
    """Return a deep copy of the state of a step, but keep the callback objects."""
    state = vars(step)
    callbacks = state.get("_skl_callbacks", [])
    try:
        return deepcopy(state, {id(one): one for one in callbacks})
    except Exception as error:
        raise TypeError(
            f"The step {type(step).__name__} must allow copies, so that an error can restore it; "
            f"copying it raised {type(error).__name__}: {error}. Wrap a step that is already "
            "fitted in sklearn.frozen.FrozenEstimator."
        ) from error


def columns_of(X):
    """Return the number and names of the columns of a table, under the names in `COLUMNS`."""
    blank = BaseEstimator()
    validate_data(blank, X, skip_check_array=True)
    return vars(blank)


def replace_fitted(estimator, stale, learned):
    """Replace the attributes of an earlier fit, which `stale` names, all at once."""
    kept = {name: value for name, value in vars(estimator).items() if name not in stale}
    # A single assignment: an interrupt leaves either the old attributes or the new attributes.
    estimator.__dict__ = kept | learned
