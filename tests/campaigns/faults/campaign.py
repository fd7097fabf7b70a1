"""Raise at the inner calls and lines of a call that learns, compare what is left, and repeat it."""

import time
import warnings
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import cycle, product

import joblib
import numpy as np

from tests.campaigns.faults.calls import CALLS
from tests.campaigns.faults.injection import call_with_fault, call_with_interrupt, error_of

ERRORS = (RuntimeError, MemoryError, KeyboardInterrupt)


@dataclass
class Count:
    """What an attack on a call has found.

    Attributes
    ----------
    n_calls : int
        Inner calls of the call, or its lines.
    n_faults : int
        Calls in which an inner call raised.
    n_seconds : int
        Those in which a second one was interrupted before the end.
    n_silent : int
        Those in which the error was handled inside; the call ended as if undisturbed.
    traces : list of str
        What was left where nothing should have been.
    seconds : float
        Time of the attack.
    """

    n_calls: int
    n_faults: int = 0
    n_seconds: int = 0
    n_silent: int = 0
    traces: list = field(default_factory=list)
    seconds: float = 0.0


def state_of(estimator):
    """Hash of an estimator with all of its attributes, bit by bit, but not of its caches."""
    return joblib.hash(estimator)


class _Hasher(joblib.hashing.NumpyHasher):
    """Hash objects without the states of random generators."""

    def save(self, obj):
        if isinstance(obj, np.random.RandomState):
            obj = "generator"
        super().save(obj)


def learned_by(estimator):
    """Hash of an estimator as `state_of` returns it, but not of its random generators."""
    return _Hasher(hash_name="md5").hash(estimator)


def interrupt(name, n_places=None, seed=0):
    """Interrupt a call before lines of the package, and repeat it unless it was complete.

    Parameters and the result are those of `attack`. By default, each line is interrupted once.
    """
    start, case = time.perf_counter(), CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh = case.before()
        case.call(deepcopy(fresh))
        done = deepcopy(fresh)
        error, numbers = call_with_interrupt(lambda: case.call(done))
        assert error is None
        count = Count(len(numbers))
        for at in _lines(numbers, n_places, seed):
            trace = _trace_of_interrupt(case, fresh, done, at)
            count.n_faults += 1
            _note(count, trace, at, KeyboardInterrupt)
    count.seconds = time.perf_counter() - start
    return count


def _lines(numbers, n_places, seed):
    """Return the numbers of the lines that are interrupted: the last ones, and others at random."""
    if n_places is None or n_places >= len(numbers):
        return numbers[::-1]
    n_last = n_places // 2
    drawn = np.random.default_rng(seed).choice(numbers[:-n_last], n_places - n_last, replace=False)
    return [*numbers[-n_last:], *drawn.tolist()]


def _trace_of_interrupt(case, fresh, done, at):
    """Return what an interrupt has left that it should not, if anything."""
    estimator = deepcopy(fresh)
    error, _ = call_with_interrupt(lambda: case.call(estimator), at)
    if error is None:
        return "the interrupt is lost"
    if learned_by(estimator) == learned_by(done):
        # The call was complete; only its generator may lag behind.
        return None
    if state_of(estimator) != state_of(fresh):
        return "another state"
    case.call(estimator)
    if state_of(estimator) != state_of(done):
        return "the repeated call leads to another state"
    return None


def attack(name, n_places=None, seed=0, n_seconds=None):
    """Raise at inner calls, with each kind of error, and once more while the call ends.

    Parameters
    ----------
    name : str
        Key of `CALLS`.
    n_places : int or None, default=None
        Inner calls that raise, each with an error of one kind: the last ones, and others drawn at
        random. None raises errors of all kinds at all inner calls.
    n_seconds : int or None, default=None
        Inner calls that raise once more while the call ends, drawn at random for each first error.
        None takes all of them.
    seed : int, default=0
        Seed of the draw.

    Returns
    -------
    Count
        Its `traces` are to be empty.
    """
    start, case = time.perf_counter(), CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh = case.before()
        # The first such call imports modules.
        case.call(deepcopy(fresh))
        done = deepcopy(fresh)
        undisturbed = call_with_fault(lambda: case.call(done))
        assert undisturbed.error is None
        victim = _Victim(case, fresh, state_of(fresh), state_of(done))
        assert victim.after != victim.before
        count = Count(undisturbed.n_calls)
        for at, error in _places(count.n_calls, n_places, seed):
            _attack_at(victim, at, error, count, n_seconds, seed)
    count.seconds = time.perf_counter() - start
    return count


def _places(n_calls, n_places, seed):
    """Pairs of an inner call and of the error that it raises, the last calls first."""
    everywhere = range(n_calls, 0, -1)
    if n_places is None or n_places >= n_calls:
        return list(product(everywhere, ERRORS))
    # The estimator changes at the end.
    last = n_places // 2
    drawn = np.random.default_rng(seed).choice(n_calls - last, n_places - last, replace=False)
    return list(zip([*everywhere[:last], *(drawn + 1)], cycle(ERRORS), strict=False))


@dataclass
class _Victim:
    """A call, the estimator that it is made on, and hashes of it before and after."""

    case: object
    fresh: object
    before: str
    after: str

    def disturbed(self, at, error, second=None):
        """Return the outcome of the call, and the trace that it has left, if any."""
        estimator = deepcopy(self.fresh)
        outcome = call_with_fault(lambda: self.case.call(estimator), at, error, second)
        expected = self.after if outcome.error is None else self.before
        if state_of(estimator) != expected:
            return outcome, "another state"
        if outcome.error is not None:
            repeated = error_of(lambda: self.case.call(estimator))
            if repeated is not None:
                return outcome, f"the repeated call raises {repeated.__name__}"
            if state_of(estimator) != self.after:
                return outcome, "the repeated call leads to another state"
        return outcome, None


def _attack_at(victim, at, error, count, n_seconds, seed):
    """Raise at an inner call, then once more at inner calls that follow."""
    outcome, trace = victim.disturbed(at, error)
    count.n_faults += 1
    count.n_silent += outcome.error is None
    _note(count, trace, at, error)
    if outcome.error is None:
        return
    seconds = range(1, outcome.n_unwinding + 1)
    if n_seconds is not None and n_seconds < len(seconds):
        seconds = np.random.default_rng([seed, at]).choice(seconds, n_seconds, replace=False)
    for second in seconds:
        _, trace = victim.disturbed(at, error, second)
        count.n_seconds += 1
        _note(count, trace, at, error, second)


def _note(count, trace, at, error, second=None):
    """Keep a trace, with the place of the error that has left it."""
    if trace is not None:
        place = f"{error.__name__} at {at}" + (f", then at {second}" if second else "")
        count.traces.append(f"{place}: {trace}")
