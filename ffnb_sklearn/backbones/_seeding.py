"""Seeds of a training, and a torch generator that is lent and given back."""

from contextlib import contextmanager
from threading import RLock

import numpy as np
import torch

_CPU = torch.device("cpu")

# The generators are those of the process: a second thread in the block would draw from the seed
# of the first, and might give back the wrong state. Reentrant, for blocks inside each other.
_GENERATORS = RLock()


def derived_seeds(seed, index, n_seeds):
    """Draw seeds that belong to one part of a training.

    Every epoch has its own, so that a training that is resumed draws what it would have
    drawn, and no state of a generator needs to be kept.

    Parameters
    ----------
    seed : int
        Seed of the whole training.
    index : int
        Number of the part.
    n_seeds : int
        How many to draw.

    Returns
    -------
    list of int
        Seeds of 32 bits.
    """
    return np.random.SeedSequence([seed, index]).generate_state(n_seeds).tolist()


@contextmanager
def seeded_torch(seed, device=_CPU):
    """Seed the global generators of torch, and put their state back at the end.

    Layers draw from nothing else: initial weights where they are made, dropout on the device.
    One thread of a process at a time is in such a block; others wait for its end.

    Parameters
    ----------
    seed : int
        What the block is to start from.
    device : torch.device, default=CPU
        Whose generator is lent, beside that of the CPU.
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
    """Make layers on the CPU from a seed, whatever default device a user has set.

    Parameters
    ----------
    seed : int
        What the block is to start from.
    """
    with _CPU, seeded_torch(seed):
        yield
