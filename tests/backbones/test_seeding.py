import os
from threading import Event, Thread

import pytest
import torch

from ffnb_sklearn.backbones import _readout, _seeding
from ffnb_sklearn.backbones._seeding import derive_seeds, seed_torch


def test_seeds_belong_to_a_part():
    seeds = [tuple(derive_seeds(seed, part, 2)) for seed in (0, 1) for part in range(5)]
    assert len(set(seeds)) == 10
    assert all(type(one) is int for pair in seeds for one in pair)
    assert derive_seeds(7, 3, 2) == derive_seeds(7, 3, 2)


def test_the_generator_is_given_back_also_after_an_error():
    state = torch.get_rng_state()
    with seed_torch(5):
        first = torch.rand(3)
    with seed_torch(5):
        assert torch.equal(torch.rand(3), first)
    with pytest.raises(RuntimeError), seed_torch(5):
        torch.rand(3, 2) @ torch.rand(3)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_second_thread_waits_for_the_generator():
    begun, drawn = Event(), []

    def second():
        begun.set()
        with seed_torch(7):
            drawn.append(torch.rand(3))

    thread = Thread(target=second)
    with seed_torch(5), seed_torch(6):
        thread.start()
        begun.wait()
        thread.join(timeout=0.05)
        assert drawn == []
    thread.join()
    assert torch.equal(drawn[0], torch.rand(3, generator=torch.Generator().manual_seed(7)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_process_forked_beside_a_training_takes_its_own_locks():
    held, done = Event(), Event()

    def train():
        with seed_torch(5), _readout._HOOKS.held:
            held.set()
            done.wait()

    thread = Thread(target=train)
    thread.start()
    held.wait()
    child = os.fork()
    if not child:  # leave without the tests' own clean-up
        free = all(lock.held.acquire(timeout=5) for lock in (_seeding._GENERATORS, _readout._HOOKS))
        os._exit(0 if free else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
