"""Calls that change several estimators: all changes or none, and one call at a time."""

import threading
from collections import deque
from copy import copy, deepcopy
from itertools import chain
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import validate_data

from .._inputs.seeds import advance
from .._locks import after_fork
from .state import ConcurrentLearningError, exchange

__all__ = [
    "COLUMNS",
    "columns_of",
    "learned_in_copies",
    "learning_lock",
    "replace_fitted",
]

# Attributes that describe the columns of a table.
COLUMNS = ("n_features_in_", "feature_names_in_")

# Locks held while a pipeline learns. They are not attributes of the pipeline, because a lock can be
# neither pickled nor copied.
_LOCKS: WeakKeyDictionary = WeakKeyDictionary()

after_fork(_LOCKS.clear)


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


def learned_in_copies(pipeline, changed, call):
    """Let a call change copies of some steps, then replace all steps of the pipeline at once.

    `call` takes a pipeline that has the copies; return its result. The lock for learning calls of
    the pipeline is held.
    """
    before, generators = pipeline.steps, _parts_of_type(changed, np.random.RandomState)
    copies = dict(zip(map(id, changed), _copied(changed, generators), strict=True))
    draft = copy(pipeline)
    draft.steps = [(name, copies.get(id(step), step)) for name, step in before]
    # A callback may call the draft, which is learning too.
    _LOCKS[draft] = _LOCKS[pipeline]
    states = [one.get_state(legacy=False) for one in generators]
    restoring = map(np.random.RandomState.set_state, generators, states)
    try:
        returned = call(draft)
        exchange(pipeline, "steps", before, draft.steps)
    except BaseException:
        # No Python code runs between the error and the end of `deque`, so a second interrupt can
        # neither precede the restoration nor interrupt it. A context manager would run Python code.
        deque(restoring, maxlen=0)
        raise
    return returned


def _copied(steps, generators):
    """Return copies of steps; what the steps share, the copies share.

    The copies keep the callbacks, generators of random numbers and frozen parts themselves. A
    frozen part does not change, and may hold what cannot be copied.
    """
    kept = [*generators, *_parts_of_type(steps, FrozenEstimator)]
    kept += chain.from_iterable(getattr(step, "_skl_callbacks", []) for step in steps)
    memo = {id(one): one for one in kept}
    return [_copied_step(step, memo) for step in steps]


def _copied_step(step, memo):
    """Return a copy of a step, given the copies of its parts by the address of the part."""
    try:
        return deepcopy(step, memo)
    except Exception as error:
        raise TypeError(
            f"The step {type(step).__name__} must allow copies, because a call learns in copies of "
            f"the steps; copying it raised {type(error).__name__}: {error}. Wrap a step that is "
            "already fitted in sklearn.frozen.FrozenEstimator."
        ) from error


def _parts_of_type(steps, kind):
    """Return the steps and their parameters, however deep, that have a type."""
    parts = chain(steps, *(_parameters(step) for step in steps))
    return list({id(one): one for one in parts if isinstance(one, kind)}.values())


def _parameters(step):
    """Return the values of the parameters of a step, or of its attributes."""
    try:
        return step.get_params().values()
    except Exception:
        # A step need not be an estimator of scikit-learn.
        return getattr(step, "__dict__", {}).values()


def columns_of(X):
    """Return the number and names of the columns of a table, under the names in `COLUMNS`."""
    blank = BaseEstimator()
    validate_data(blank, X, skip_check_array=True)
    return vars(blank)


def replace_fitted(estimator, stale, learned, *, random_state=None):
    """Replace the attributes of an earlier fit, which `stale` names, all at once.

    A `random_state` that was used is advanced.
    """
    kept = {name: value for name, value in vars(estimator).items() if name not in stale}
    after = kept | learned
    advance(random_state)
    # A single assignment: an interrupt leaves either the old attributes or the new attributes.
    estimator.__dict__ = after
