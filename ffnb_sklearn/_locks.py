"""Locks of forked processes, in which a thread that holds a lock does not exist."""

import os
from threading import RLock

__all__ = ["ForkSafeLock", "after_fork"]


def after_fork(renew):
    """Call a function in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=renew)


class ForkSafeLock:
    """Reentrant lock of a module, which is free in a forked process."""

    def __init__(self):
        self._renew()
        after_fork(self._renew)

    def _renew(self):
        self._lock = RLock()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self):
        """Wait for the lock."""
        return self._lock.__enter__()

    def __exit__(self, *error):
        """Release the lock."""
        return self._lock.__exit__(*error)
