"""Seconds of alternating repetitions, processes of their own, peak memory, size of a pickle."""

import multiprocessing
import pickle
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def alternate(candidates, repeats=5):
    """Seconds of several candidates, each run once per round so that noise hits all of them.

    A candidate takes no argument and returns the seconds of what it measured, or a dict of the
    seconds of several steps, which stand under their own names. What it prepares stays outside.
    """
    rounds = []
    for _ in range(repeats):
        row = {}
        for name, candidate in candidates.items():
            measured = candidate()
            row.update(measured if isinstance(measured, dict) else {name: measured})
        rounds.append(row)
    return {name: np.array([row[name] for row in rounds]) for name in rounds[0]}


def timed(function, *arguments):
    """Seconds that one call takes, and what it returns."""
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def seconds_of(function, *arguments):
    """Seconds that one call takes."""
    return timed(function, *arguments)[0]


def processor_timed(function, *arguments):
    """Seconds of the processor, over all threads, that one call takes, and what it returns.

    They hardly depend on other processes.
    """
    start = time.process_time()
    result = function(*arguments)
    return time.process_time() - start, result


def apart(function, *arguments):
    """What a function of a module returns in a process of its own, with as many threads of torch.

    It takes no memory of this process along, and its errors are raised here.
    """
    context, threads = multiprocessing.get_context("spawn"), torch.get_num_threads()
    with ProcessPoolExecutor(1, context, torch.set_num_threads, (threads,)) as pool:
        return pool.submit(function, *arguments).result()


def reset_peak():
    """Lower the process's peak to what it holds now, where the system can (Linux)."""
    if _RESET.exists():
        try:
            _RESET.write_text("5", encoding="ascii")
        except OSError:
            return


def peak_bytes():
    """Peak resident memory of this process.

    The system's own record of the process comes first: the count of `resource.getrusage` starts
    from the memory of the parent where the process was spawned from a large one.
    """
    if _STATUS.exists():
        return status_bytes("VmHWM")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def status_bytes(name):
    """A size of this process that Linux records, by its name in the file ``status``."""
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"{_STATUS} has no {name}: this benchmark needs Linux")


def state_megabytes(estimator):
    """Size of a pickle; measured before the first prediction, which keeps what it has solved."""
    return len(pickle.dumps(estimator, protocol=5)) / 1e6
