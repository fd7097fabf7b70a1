"""Record relative errors against mpmath: python -m tests.campaigns.numerics [PART ...]."""

import platform
import sys
import time
import warnings
from functools import partial

import mpmath
import numpy
import torch

from tests.campaigns.numerics.errors import (
    call_errors,
    constant_errors,
    deletion_errors,
    far_class_errors,
    merge_errors,
    model_errors,
    share_errors,
    weight_errors,
)
from tests.campaigns.numerics.switches import ESTIMATORS, SAMPLES, SWITCHES, differences

DRAWS = range(5)
MODELS = {
    **{f"offset {offset:.0e}": {"offset": offset} for offset in (0, 1e2, 1e4, 1e6, 1e8, 1e10)},
    **{f"scale {scale:.0e}": {"scale": scale} for scale in (1e-70, 1e-35, 1e35, 1e70)},
}
OFFSETS = (0, 1e10)
DISTANCES = (1e2, 1e4, 1e6, 1e8, 1e10)
SHARES = (0.01, 0.1, 0.5)
RATIOS = (1e2, 1e4, 1e6)
CONSTANTS = (1e-3, 1e6, 1e12, 1e14, 1.7e18, 1e40)
N_MERGES, N_CALLS, N_DELETIONS = 10_000, 5_000, 2_000
DELETIONS = [(kind, n_left) for kind in ("normal", "one-hot") for n_left in (100, 5)]


def worst(errors_of=model_errors, **case):
    """Return the largest error of each quantity in several draws."""
    errors = [errors_of(**case, seed=seed) for seed in DRAWS]
    return {name: max(one[name] for one in errors) for name in errors[0]}


def print_table(title, cases):
    """Print the errors of cases, each a name and a function that computes them."""
    widths = None
    for name, compute in cases.items():
        errors = compute()
        if widths is None:
            widths = [max(len(key), 7) + 2 for key in errors]
            cells = (f"{key:>{width}}" for key, width in zip(errors, widths, strict=True))
            print(f"\n{title:<16}" + "".join(cells))
        cells = (f"{x:>{width}.1e}" for x, width in zip(errors.values(), widths, strict=True))
        print(f"{name:<16}" + "".join(cells), flush=True)


PARTS = {
    "models": {name: partial(worst, **case) for name, case in MODELS.items()},
    "constant columns": {
        f"value {one:.1e}": partial(worst, constant_errors, value=one) for one in CONSTANTS
    },
    "far class": {
        f"distance {one:.0e}": partial(worst, far_class_errors, distance=one) for one in DISTANCES
    },
    "heavy deletions": {
        f"weights {one:.0e}": partial(worst, weight_errors, ratio=one) for one in RATIOS
    },
    "class shares": {f"share {one:.2f}": partial(worst, share_errors, share=one) for one in SHARES},
    f"{N_MERGES} merges": {
        f"offset {one:.0e}": partial(merge_errors, N_MERGES, one) for one in OFFSETS
    },
    f"{N_CALLS} calls": {
        f"offset {one:.0e}": partial(call_errors, N_CALLS, one) for one in OFFSETS
    },
    f"{N_DELETIONS} deletions": {
        f"{kind}, {n_left} left": partial(deletion_errors, N_DELETIONS, n_left, kind)
        for kind, n_left in DELETIONS
    },
}


def print_switches():
    """Print which outputs each switch of torch and NumPy changes: none."""
    print("\nswitches: outputs that change")
    for name in SWITCHES:
        changed = {
            f"{estimator}, {samples}": differences(name, estimator, samples)
            for estimator in ESTIMATORS
            for samples in SAMPLES
        }
        print(
            f"{name:<26}{ {case: one for case, one in changed.items() if one} or 'none' }",
            flush=True,
        )


def main():
    """Print the tables; arguments choose them by the last word of their title, or switches."""
    start = time.perf_counter()
    torch.set_num_threads(1)
    versions = ", ".join(f"{one.__name__} {one.__version__}" for one in (numpy, torch, mpmath))
    print(f"Python {platform.python_version()}, {versions}")
    print(f"models: the largest error of seeds {DRAWS[0]} to {DRAWS[-1]}; merges, calls: seed 0")
    # A large offset leaves nothing but rounding to the second band, as the warning says. Bands keep
    # a trace of forgotten classes, and merge inexactly.
    warnings.simplefilter("ignore", UserWarning)
    for title, cases in PARTS.items():
        if not sys.argv[1:] or title.split()[-1] in sys.argv[1:]:
            print_table(title, cases)
    if not sys.argv[1:] or "switches" in sys.argv[1:]:
        print_switches()
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
