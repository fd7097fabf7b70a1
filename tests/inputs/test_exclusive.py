"""Calls that change an estimator exclude each other: the second call raises, and never waits."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from numpy.testing import assert_array_equal

from ffnb_sklearn import IncrementalDiscriminantAnalysis, make_continual_pipeline
from ffnb_sklearn._inputs.locks import exclusive
from ffnb_sklearn.classifiers import discriminant
from ffnb_sklearn.exceptions import ConcurrentLearningError
from tests.campaigns.faults.threads import hasty_threads
from tests.separated_classes import X, learned


class Model:
    """Estimator of which only the identity matters."""


N_THREADS = 4


def test_of_calls_that_begin_together_a_single_call_goes_on_and_no_call_waits():
    with hasty_threads(), ThreadPoolExecutor(N_THREADS) as pool:
        for _ in range(100):
            model, begin = Model(), threading.Barrier(N_THREADS, timeout=60)
            n_refused = threading.Semaphore(0)

            @exclusive
            def change(model, n_refused=n_refused):
                # The call that goes on ends only after all other calls have been refused.
                for _ in range(N_THREADS - 1):
                    assert n_refused.acquire(timeout=60)
                return "changed"

            def attempt(_, model=model, begin=begin, change=change, n_refused=n_refused):
                begin.wait()
                try:
                    return change(model)
                except ConcurrentLearningError:
                    n_refused.release()
                    return "refused"

            outcomes = sorted(pool.map(attempt, range(N_THREADS)))
            assert outcomes == ["changed", *["refused"] * (N_THREADS - 1)]


def test_a_call_inside_of_a_call_is_refused_and_other_estimators_are_not():
    model, other = Model(), Model()
    change = exclusive(lambda model, inner: inner())
    with pytest.raises(ConcurrentLearningError, match="This Model is being changed"):
        change(model, lambda: change(model, lambda: None))
    assert change(model, lambda: change(other, lambda: 7)) == 7


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that interrupts")
def test_interrupts_leave_no_estimator_locked():
    model = Model()
    change = exclusive(lambda model: None)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    n_interrupted = 0
    try:
        # Interrupts come at all moments of a call, because its length is no multiple of theirs.
        for number in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-4 + 1e-7 * number)
                # An interrupt in a callback of the interpreter is lost: the loop has an end.
                for _ in range(10_000):
                    change(model)
            except KeyboardInterrupt as error:
                # A traceback, as an interactive session keeps it, must not keep a lock.
                kept = error
                n_interrupted += 1
            assert change(model) is None
            assert kept.__traceback__ is not None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert n_interrupted > 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_forked_beside_a_call_changes_its_own_estimator():
    model, entered, leave = Model(), threading.Event(), threading.Event()

    @exclusive
    def wait(model):
        entered.set()
        assert leave.wait(60)

    thread = threading.Thread(target=wait, args=[model])
    thread.start()
    assert entered.wait(60)
    child = os.fork()
    if not child:  # leave without the tests' own clean-up
        code = 1
        try:
            code = exclusive(lambda model: 0)(model)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    leave.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("in_pipeline", [False, True])
def test_two_estimators_merge_each_other_at_once(monkeypatch, in_pipeline):
    def make(*labels):
        model = IncrementalDiscriminantAnalysis(shared_band_size=5, random_state=0, device="cpu")
        return learned(make_continual_pipeline(model) if in_pipeline else model, labels)

    first, second = make(0, 1), make(2, 3)
    expected = [make(0, 1).merge(second).predict_proba(X), make(2, 3).merge(first).predict_proba(X)]
    both_inside, merge_models = threading.Barrier(2, timeout=60), discriminant.merge_models

    def late(*arguments, **keywords):
        both_inside.wait()
        return merge_models(*arguments, **keywords)

    monkeypatch.setattr(discriminant, "merge_models", late)
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(first.merge, second), pool.submit(second.merge, first)]:
            one.result(60)
    assert_array_equal(first.predict_proba(X), expected[0])
    assert_array_equal(second.predict_proba(X), expected[1])
