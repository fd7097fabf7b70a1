"""Locks of forked processes, in which a thread that holds a lock does not exist."""

import os
from threading import RLock

__all__ = ["ForkSafeLock", "after_fork"]


def after_fork(renew):
    """Call a function in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=renew)


class ForkSafeLock:
    """Holder of a module's reentrant lock, `held`, which is free in a forked process.

    Use it as ``with lock.held:``. An ``__enter__`` in Python would not do: an interrupt between its
    acquisition of the lock and the block would leave the lock held for ever.
    """

    def __init__(self):
        self._renew()
        after_fork(self._renew)

    def _renew(self):
        self.held = RLock()
