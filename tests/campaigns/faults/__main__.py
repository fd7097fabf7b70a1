"""The whole attack on calls that learn: injected faults, threads, random sequences of calls.

python -m tests.campaigns.faults                       # everything
python -m tests.campaigns.faults faults --calls merge  # every inner call of one call
python -m tests.campaigns.faults lines                 # an interrupt at every line
python -m tests.campaigns.faults threads --readings 10000
python -m tests.campaigns.faults changes --changes 10000
python -m tests.campaigns.faults fuzz --steps 100000
"""

import argparse
import os
import platform
import time

import hypothesis
import joblib
import numpy
import scipy
import sklearn
import torch

from tests.campaigns.faults.calls import CALLS
from tests.campaigns.faults.campaign import attack, interrupt
from tests.campaigns.faults.changes import count_wrong_changes
from tests.campaigns.faults.machine import fuzz
from tests.campaigns.faults.threads import READ, count_lost_tasks, count_wrong_readings

MODULES = (numpy, scipy, sklearn, torch, joblib, hypothesis)

# Width of the first column of the tables, in characters.
NAME_WIDTH = max(map(len, CALLS)) + 1


def inject(arguments):
    """Inject faults into the calls that are asked for; return the number of traces."""
    totals = [0] * 5
    _print_row("call", ["inner", "faults", "second", "handled", "traces"], "s")
    for name in arguments.calls:
        count = attack(name, arguments.places, arguments.seed)
        n_traces = len(count.traces)
        row = [count.n_calls, count.n_faults, count.n_seconds, count.n_silent, n_traces]
        totals = [total + one for total, one in zip(totals, row, strict=True)]
        _print_count(name, row, count)
    _print_row("all", totals)
    return totals[-1]


def interrupt_lines(arguments):
    """Interrupt the calls that are asked for at each line; return the number of traces."""
    totals = [0] * 3
    _print_row("call", ["lines", "faults", "traces"], "s")
    for name in arguments.calls:
        count = interrupt(name, arguments.places, arguments.seed)
        row = [count.n_calls, count.n_faults, len(count.traces)]
        totals = [total + one for total, one in zip(totals, row, strict=True)]
        _print_count(name, row, count)
    _print_row("all", totals)
    return totals[-1]


def _print_count(name, row, count):
    """Print the row of a call, and the first traces that it has left."""
    _print_row(name, row, f"{count.seconds:.1f}")
    for trace in count.traces[:10]:
        print(f"  {trace}", flush=True)


def _print_row(name, cells, seconds=""):
    """Print a row of a table."""
    numbers = "".join(f"{cell:>8}" for cell in cells)
    print(f"{name:<{NAME_WIDTH}}{numbers}{seconds:>8}".rstrip(), flush=True)


def thread(arguments):
    """Let threads read and write at once; return the number of failures."""
    n_found = 0
    for name, (make, cycle) in READ.items():
        start = time.perf_counter()
        n_raised, n_wrong, n_writes = count_wrong_readings(arguments.readings, make(), cycle)
        n_found += n_raised + n_wrong
        print(
            f"{name}: {arguments.readings} readings during {n_writes} calls that learn: "
            f"{n_raised} exceptions, {n_wrong} wrong ({time.perf_counter() - start:.1f} s)",
            flush=True,
        )
    start = time.perf_counter()
    n_lost, n_refused = count_lost_tasks(arguments.trials)
    print(
        f"{arguments.trials} times three threads that learn in one estimator: {n_refused} calls "
        f"refused and repeated, {n_lost} tasks lost ({time.perf_counter() - start:.1f} s)",
        flush=True,
    )
    return n_found + n_lost


def change(arguments):
    """Change parameters after learning; return the number of disagreements."""
    start = time.perf_counter()
    count = count_wrong_changes(arguments.changes, arguments.seed)
    print(
        f"{count.n_changes} parameters changed after learning: {count.n_effects} changed "
        f"predictions, {count.n_refused} refused, {len(count.wrong)} wrong "
        f"({time.perf_counter() - start:.1f} s)",
        flush=True,
    )
    for one in count.wrong[:10]:
        print(f"  {one}")
    return len(count.wrong)


PARTS = {
    "faults": inject,
    "lines": interrupt_lines,
    "threads": thread,
    "changes": change,
    "fuzz": fuzz,
}


def parsed():
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--calls", nargs="*", default=list(CALLS), help="calls to disturb")
    parser.add_argument("--places", type=int, help="places of each call; all by default")
    parser.add_argument("--readings", type=int, default=10_000, help="predictions in threads")
    parser.add_argument("--trials", type=int, default=100, help="estimators of three writers")
    parser.add_argument("--changes", type=int, default=5_000, help="parameters to change")
    parser.add_argument("--steps", type=int, default=100_000, help="calls in random sequences")
    parser.add_argument("--seed", type=int, default=0, help="seed of what is random")
    arguments = parser.parse_args()
    for kind, given, known in (("part", arguments.parts, PARTS), ("call", arguments.calls, CALLS)):
        unknown = set(given) - set(known)
        if unknown:
            parser.error(f"{kind} must be one of {', '.join(known)}; got {min(unknown)!r}")
    return arguments


def main():
    """Run the parts; exit with an error if anything was found."""
    arguments = parsed()
    versions = ", ".join(f"{one.__name__} {one.__version__}" for one in MODULES)
    print(f"Python {platform.python_version()}, {versions}; {os.cpu_count()} cores")
    places = "" if arguments.places is None else f"; {arguments.places} places of each call"
    print(f"seed {arguments.seed}{places}", flush=True)
    torch.set_num_threads(1)
    start = time.perf_counter()
    n_found = sum(PARTS[part](arguments) for part in arguments.parts or PARTS)
    print(f"{n_found} faults of the package found in {time.perf_counter() - start:.0f} s")
    raise SystemExit(n_found > 0)


if __name__ == "__main__":
    main()
