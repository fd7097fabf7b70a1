"""A lock that another thread holds during a fork is free in the new process."""

import os
from threading import Event, Thread

import pytest

from ffnb_sklearn._inputs.locks import ForkSafeLock


def test_one_thread_may_take_the_lock_twice_and_others_wait():
    lock, found = ForkSafeLock(), []
    with lock.held, lock.held:
        other = Thread(target=lambda: found.append(lock.held.acquire(blocking=False)))
        other.start()
        other.join()
    assert found == [False]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
# Python warns that a fork copies no other thread, which this test is about.
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_process_has_a_free_lock():
    lock, is_held, may_end = ForkSafeLock(), Event(), Event()

    def hold():
        with lock.held:
            is_held.set()
            may_end.wait()

    holder = Thread(target=hold)
    holder.start()
    is_held.wait()
    child = os.fork()
    if not child:
        os._exit(0 if lock.held.acquire(blocking=False) else 1)
    _, status = os.waitpid(child, 0)
    may_end.set()
    holder.join()
    assert os.waitstatus_to_exitcode(status) == 0
