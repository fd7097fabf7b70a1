"""Derive the seeds of a training, and seed the generators of torch temporarily."""

from contextlib import contextmanager

import numpy as np
import torch

from ffnb_sklearn._inputs.locks import ForkSafeLock

_CPU = torch.device("cpu")

# All threads share the generators: a second thread in the block would draw from the seed of the
# first, and might restore the wrong state. The lock is reentrant, for nested blocks.
_GENERATORS = ForkSafeLock()


def derived_seeds(seed, index, n_seeds):
    """Derive the 32-bit seeds of one part of a training, such as an epoch."""
    return np.random.SeedSequence([seed, index]).generate_state(n_seeds).tolist()


@contextmanager
def seeded_torch(seed, device=_CPU):
    """Seed the global generators of torch, and restore their state at the end.

    Layers draw only from these generators: initial weights on the device where the layer is
    created, dropout on the device of the network. Other threads wait for the end of the block.
    """
    forked = [device] if device.type == "cuda" else []
    with _GENERATORS.held, torch.random.fork_rng(devices=forked):
        torch.default_generator.manual_seed(seed)
        if forked:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def seeded_layers(seed):
    """Create layers on the CPU from a seed, regardless of the user's default device."""
    with _CPU, seeded_torch(seed):
        yield
