"""Calls that change an estimator: one at a time, and all changes or none."""

from copy import copy, deepcopy
from functools import wraps
from threading import Lock
from weakref import WeakKeyDictionary

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import validate_data

from .._inputs.locks import ForkSafeLock, after_fork
from .._inputs.seeds import advance

__all__ = [
    "COLUMNS",
    "ConcurrentLearningError",
    "columns_of",
    "exclusive",
    "learned_in_copies",
    "replace_fitted",
]

# Attributes that describe the columns of a table.
COLUMNS = ("n_features_in_", "feature_names_in_")

# For each estimator, the lock of the last call that changed it, which is held until the call ends.
# The locks are not attributes of the estimators, because a lock can be neither pickled nor copied.
_LAST_CALLS: WeakKeyDictionary = WeakKeyDictionary()

# Lock of the table.
_TABLE = ForkSafeLock()

after_fork(_LAST_CALLS.clear)


class ConcurrentLearningError(RuntimeError):
    """Two threads let one estimator learn at the same time.

    The call that begins second raises this error and changes nothing. Repeat it after the other
    call has ended.
    """


def exclusive(function):
    """Make a function raise if another such call is changing its first argument, an estimator.

    A call never waits for another call that learns, so calls on several estimators cannot block
    each other.
    """

    @wraps(function)
    def call(estimator, /, *args, **kwargs):
        # Every call has a lock of its own, which is held in the block and at no other time: an
        # interrupt can separate neither the acquisition nor the release from the block.
        lock = Lock()
        with lock:
            _register(estimator, lock)
            return function(estimator, *args, **kwargs)

    return call


def _register(estimator, lock):
    """Register the lock of a call that changes an estimator; raise if another call is going on."""
    with _TABLE.held:
        last = _LAST_CALLS.get(estimator)
        if last is not None and last.locked():
            raise ConcurrentLearningError(
                f"This {type(estimator).__name__} is being changed by another call. This call has "
                "changed nothing: repeat it after the other call has ended. Let only one thread at "
                "a time learn."
            )
        _LAST_CALLS[estimator] = lock


def learned_in_copies(pipeline, changed, call):
    """Let a call change copies of some steps, then replace the steps of the pipeline at once.

    `call` takes a pipeline that has the copies; return its result. Frozen steps are not copied.
    The caller is `exclusive`.
    """
    copies, memo = {}, {}
    for step in changed:
        if isinstance(step, FrozenEstimator):
            continue
        try:
            # The copies share the objects that the steps share.
            copies[id(step)] = deepcopy(step, memo)
        except TypeError as error:
            error.add_note(
                f"A call learns in copies of the steps. Wrap a fitted {type(step).__name__} that "
                "cannot be copied in sklearn.frozen.FrozenEstimator."
            )
            raise
    draft = copy(pipeline)
    draft.steps = [(name, copies.get(id(step), step)) for name, step in pipeline.steps]
    returned = call(draft)
    pipeline.steps = draft.steps
    return returned


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
    advance(random_state)
    # A single assignment: an interrupt leaves either the old attributes or the new attributes.
    estimator.__dict__ = kept | learned
