"""Seeds from a `random_state`; a call that fails does not consume its seed."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import TypeAlias

import numpy as np
from sklearn.utils import check_random_state

__all__ = ["RandomState", "advance_of", "integer_state", "next_seed"]

# Value of a parameter `random_state`.
RandomState: TypeAlias = int | np.integer | np.random.RandomState | None

# Number of seeds; the largest seed is smaller by 1.
_N_SEEDS = np.iinfo(np.int32).max


def next_seed(random_state: RandomState) -> int:
    """Return the next 31-bit seed of a random state, without advancing a generator.

    A call that learns uses this seed, and advances the generator when nothing can fail any more, so
    the call gives the same result when it is repeated after an error. With None, the seed is drawn
    from the global generator.
    """
    if isinstance(random_state, int | np.integer):
        generator = check_random_state(int(random_state))
    else:
        generator = check_random_state(deepcopy(random_state))
    seed = generator.randint(_N_SEEDS)
    return int(seed)


def integer_state(random_state: RandomState) -> int:
    """Return an integer `random_state`, the next seed of any other one.

    The integer is stored, so that another estimator can be given the same.
    """
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return next_seed(random_state)


def advance_of(random_state: RandomState) -> Callable[[], object]:
    """Return a function that advances a generator past the seed that `next_seed` returned.

    For other random states, it does nothing. Call it in the statement after the assignment of what
    was learned: its call runs no Python code, so CPython handles no interrupt in between.
    """
    if isinstance(random_state, np.random.RandomState):
        return partial(random_state.randint, _N_SEEDS)
    return partial(int)
