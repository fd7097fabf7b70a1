"""Make a call in which an inner call raises, or a line of the package is interrupted.

The inner call is one of the package, or one that the package makes.
"""

import ast
import gc
import inspect
import sys
import threading
import weakref
from _thread import LockType, RLock
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ffnb_sklearn

PACKAGE = str(Path(ffnb_sklearn.__file__).parent)


@dataclass
class Outcome:
    """What came of a call.

    Attributes
    ----------
    error : type or None
        Type of what was raised. The error itself would keep frames, and their locks, alive.
    n_calls : int
        Inner calls before the first error.
    n_unwinding : int
        Inner calls between the first error and the end.
    """

    error: type | None = None
    n_calls: int = 0
    n_unwinding: int = 0


@cache
def is_of_package(file):
    """Whether a file is one of the package."""
    return file.startswith(PACKAGE)


def is_inside(frame):
    """Whether a frame is of the package, or was called by it."""
    code = frame.f_code
    # Not generators and callbacks of weak references, since an error in a generator that is being
    # closed, or in such a callback, would be lost.
    if code.co_flags & inspect.CO_GENERATOR or code.co_filename == weakref.__file__:
        return False
    return is_of_package(code.co_filename) or is_of_package(frame.f_back.f_code.co_filename)


def is_of_a_lock(function):
    """Whether a C function is one of a lock: CPython checks no signals before it is released."""
    return isinstance(getattr(function, "__self__", None), LockType | RLock)


@cache
def lines_of_blocks(file):
    """Return the numbers of the lines of the package at which a `with` block begins.

    Python also reports such a line when it leaves the block, before it releases what the block
    holds. CPython checks no signals there.
    """
    numbers = set()
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.With):
            numbers.update(range(node.lineno, node.body[0].lineno))
    return numbers


def call_with_interrupt(call, at=None):
    """Make a call that is interrupted before a line of the package, in a thread of its own.

    Parameters
    ----------
    call : callable
        Called without arguments.
    at : int or None, default=None
        Number of the line that is not reached, from 1 on, among all lines that the call executes.

    Returns
    -------
    error : type or None
        What the call has raised.
    numbers : list of int
        For each line that was executed, the number of its last execution, in ascending order.
    """
    last_numbers = {}
    n_lines = 0

    def watch_lines(frame, event, _):
        nonlocal n_lines
        file = frame.f_code.co_filename
        if event == "line" and frame.f_lineno not in lines_of_blocks(file):
            n_lines += 1
            last_numbers[file, frame.f_lineno] = n_lines
            if n_lines == at:
                raise KeyboardInterrupt("told to fail")
        return watch_lines

    def watch(frame, event, _):
        code = frame.f_code
        if code.co_flags & inspect.CO_GENERATOR or not is_of_package(code.co_filename):
            return None
        return watch_lines

    def watched():
        sys.settrace(watch)
        try:
            call()
        finally:
            sys.settrace(None)

    with collection_paused():
        error = error_of(watched)
    return error, sorted(last_numbers.values())


def call_with_fault(call, at=None, error=None, second=None):
    """Make a call in a thread of its own, so that modes of the thread end with it.

    Parameters
    ----------
    call : callable
        Called without arguments.
    at : int or None, default=None
        Number of the inner call that raises, from 1 on; no call does with None.
    error : type or None, default=None
        What it raises.
    second : int or None, default=None
        Number of the inner call after the first error that raises KeyboardInterrupt.

    Returns
    -------
    Outcome
        The error, and how many inner calls there were.
    """
    outcome = Outcome()

    def unwind(frame, event, _):
        if is_inside(frame):
            outcome.n_unwinding += 1
            if outcome.n_unwinding == second:
                raise KeyboardInterrupt("told to fail again")

    def watch(frame, event, function):
        if event not in ("call", "c_call") or not is_inside(frame) or is_of_a_lock(function):
            return
        outcome.n_calls += 1
        if outcome.n_calls == at:
            # Python ends the profile with this error, but not the trace.
            sys.settrace(unwind)
            raise error("told to fail")

    def watched():
        sys.setprofile(watch)
        try:
            call()
        finally:
            sys.setprofile(None)
            sys.settrace(None)

    # A callback of the garbage collector, as Hypothesis has one, looks like an inner call, and
    # its error is lost.
    with collection_paused():
        outcome.error = error_of(watched)
    return outcome


@contextmanager
def collection_paused():
    """Keep the garbage collector from running, and with it the callbacks of other libraries."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def error_of(call):
    """Make a call in a thread of its own; return the type of what it raises, or None."""
    error = None

    def run():
        nonlocal error
        try:
            call()
        except BaseException as raised:
            error = type(raised)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return error
