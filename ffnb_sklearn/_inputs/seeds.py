"""Seeds from a `random_state`; a call that fails does not consume its seed."""

from copy import deepcopy
from functools import cache
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["advance", "next_seed"]

# Number of seeds; the largest seed is smaller by 1.
_N_SEEDS = np.iinfo(np.int32).max


def next_seed(random_state):
    """Return the next 31-bit seed of a random state, without advancing the state.

    A call that learns uses this seed, and calls `advance` when nothing can fail any more. So a call
    that is repeated after an error gives the same result as without the error. With None, the seed
    is drawn from the global generator.
    """
    if isinstance(random_state, Integral):
        return _seed_of(int(random_state))
    generator = check_random_state(random_state)
    return int((deepcopy(generator) if generator is random_state else generator).randint(_N_SEEDS))


@cache
def _seed_of(number):
    """Return the seed of an integer; predictions compare it."""
    return int(check_random_state(number).randint(_N_SEEDS))


def advance(random_state):
    """Advance a generator past the seed that `next_seed` returned; leave other states unchanged."""
    if isinstance(random_state, np.random.RandomState):
        random_state.randint(_N_SEEDS)
