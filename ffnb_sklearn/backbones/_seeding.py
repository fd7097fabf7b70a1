"""Derive the seeds of a training, and seed the generators of torch temporarily."""

from contextlib import contextmanager

import numpy as np
import torch

from ffnb_sklearn._inputs.locks import ForkSafeLock

_CPU = torch.device("cpu")

# All threads share the generators: a second thread in the block would draw from the seed of the
# first, and might restore the wrong state. The lock is reentrant, for nested blocks.
_GENERATORS = ForkSafeLock()


def derive_seeds(seed, index, n_seeds):
    """Derive the 32-bit seeds of a step of a training, such as an epoch."""
    sequence = np.random.SeedSequence([seed, index])
    return sequence.generate_state(n_seeds).tolist()


@contextmanager
def seed_torch(seed, device=_CPU):
    """Seed the global generators of torch, and restore their state at the end.

    Layers draw only from these generators: initial weights on the device where the layer is
    created, dropout on the device of the network. Other threads wait for the end of the block.
    """
    cuda_devices = []
    if device.type == "cuda":
        cuda_devices.append(device)
    with _GENERATORS.held, torch.random.fork_rng(devices=cuda_devices):
        torch.default_generator.manual_seed(seed)
        if cuda_devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


@contextmanager
def seed_layers(seed):
    """Create layers on the CPU from a seed, regardless of the user's default device."""
    with _CPU, seed_torch(seed):
        yield
