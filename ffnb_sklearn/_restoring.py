"""A pipeline and its steps as they were, if a call that learns raises."""

from collections import deque
from contextlib import contextmanager
from copy import deepcopy
from itertools import repeat

__all__ = ["restored_on_error"]


def _copied(state):
    """Return a deep copy of the state of a step, with the same callbacks."""
    callbacks = state.get("_skl_callbacks", [])
    return deepcopy(state, {id(one): one for one in callbacks})


@contextmanager
def restored_on_error(pipeline, estimators):
    """Bring the pipeline and these steps of it back to their state if the block raises."""
    changed = [pipeline, *estimators]
    states = [vars(pipeline).copy(), *(_copied(vars(one)) for one in estimators)]
    restoring = map(object.__setattr__, changed, repeat("__dict__"), states)
    try:
        yield
    except BaseException:
        # No Python code runs in this call, so a second interrupt cannot cut it in two.
        deque(restoring, maxlen=0)
        raise
