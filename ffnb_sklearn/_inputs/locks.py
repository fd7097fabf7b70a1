"""Locks for the calls that change an estimator, and locks that are free in a forked process."""

import os
from collections.abc import Callable
from functools import wraps
from threading import Lock, RLock
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

from sklearn.base import BaseEstimator

__all__ = ["ConcurrentLearningError", "ForkSafeLock", "after_fork", "exclusive"]

_Function = TypeVar("_Function", bound=Callable[..., object])


def after_fork(renew: Callable[[], None]) -> None:
    """Call a function in every process that is forked from this process."""
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=renew)


class ForkSafeLock:
    """Holder of a module's reentrant lock, `held`, which is free in a forked process.

    A thread that holds the lock does not exist in a forked process. Use the lock as
    ``with lock.held:``. A method ``__enter__`` in Python would not do: an interrupt between its
    acquisition of the lock and the block would leave the lock held for ever.
    """

    def __init__(self) -> None:
        self._renew()
        after_fork(self._renew)

    def _renew(self) -> None:
        self.held = RLock()


class ConcurrentLearningError(RuntimeError):
    """Two threads let one estimator learn at the same time.

    The call that begins second raises this error and changes nothing. Repeat it after the other
    call has ended.
    """


# For each estimator, the lock of the last call that changed it, which is held until the call ends.
# The locks are not attributes of the estimators, because a lock can be neither pickled nor copied.
_LAST_CALLS: WeakKeyDictionary[BaseEstimator, Lock] = WeakKeyDictionary()

# Lock of the table.
_TABLE = ForkSafeLock()

after_fork(_LAST_CALLS.clear)


def exclusive(function: _Function) -> _Function:
    """Make a function raise if another such call is changing its first argument, an estimator.

    A call never waits for another call that learns, so calls on several estimators cannot block
    each other.
    """

    @wraps(function)
    def call(estimator: BaseEstimator, /, *args: Any, **kwargs: Any) -> object:
        # Every call has a lock of its own, which is held in the block and at no other time: an
        # interrupt can separate neither the acquisition nor the release from the block.
        lock = Lock()
        with lock:
            _register(estimator, lock)
            return function(estimator, *args, **kwargs)

    return cast(_Function, call)


def _register(estimator: BaseEstimator, lock: Lock) -> None:
    """Register the lock of a call that changes an estimator; raise if another call is going on."""
    with _TABLE.held:
        last_lock = _LAST_CALLS.get(estimator)
        if last_lock is not None and last_lock.locked():
            raise ConcurrentLearningError(
                f"This {type(estimator).__name__} is being changed by another call. This call has "
                "changed nothing: repeat it after the other call has ended. Let only one thread at "
                "a time learn."
            )
        _LAST_CALLS[estimator] = lock
