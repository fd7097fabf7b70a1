"""Derive the seeds of a training, and seed the generators of torch temporarily."""

import os
from contextlib import contextmanager
from threading import RLock

import numpy as np
import torch

_CPU = torch.device("cpu")

# All threads share the generators: a second thread in the block would draw from the seed of the
# first, and might restore the wrong state. The lock is reentrant, for nested blocks.
_GENERATORS = RLock()


def _renew_lock():
    """Replace the lock in a forked process, in which a thread that holds it does not exist."""
    global _GENERATORS
    _GENERATORS = RLock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_lock)


def derived_seeds(seed, index, n_seeds):
    """Derive the 32-bit seeds of one part of a training.

    Every epoch has its own seeds. A resumed training therefore draws the same numbers as a training
    without interruption, and no state of a generator needs to be stored.
    """
    return np.random.SeedSequence([seed, index]).generate_state(n_seeds).tolist()


@contextmanager
def seeded_torch(seed, device=_CPU):
    """Seed the global generators of torch, and restore their state at the end.

    Layers draw only from these generators: initial weights on the device where the layer is
    created, dropout on the device of the network, whose generator is seeded too. Only one thread of
    a process at a time runs such a block; other threads wait.
    """
    forked = [device] if device.type == "cuda" else []
    with _GENERATORS, torch.random.fork_rng(devices=forked):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def seeded_layers(seed):
    """Create layers on the CPU from a seed, regardless of the user's default device."""
    with _CPU, seeded_torch(seed):
        yield
