"""Seeds from a `random_state` that a call which fails does not consume."""

from copy import deepcopy

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["advance", "next_seed"]

# Number of seeds; the largest one is smaller by 1.
_N_SEEDS = np.iinfo(np.int32).max


def next_seed(random_state):
    """Return the seed of 31 bits that a random state has next, without drawing it.

    A call that learns uses it, and calls `advance` when nothing can fail any more. So a call that
    is repeated after an error learns what it would have learned. With None, the seed is drawn from
    the global generator.
    """
    generator = check_random_state(random_state)
    return int((deepcopy(generator) if generator is random_state else generator).randint(_N_SEEDS))


def advance(random_state):
    """Draw the seed that `next_seed` has returned, if the random state is a generator."""
    if isinstance(random_state, np.random.RandomState):
        random_state.randint(_N_SEEDS)
