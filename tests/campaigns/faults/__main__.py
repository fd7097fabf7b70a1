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


def inject(arguments):
    """Inject faults into the calls that are asked for; return the number of traces."""
    totals = [0] * 5
    print(f"{'call':<32}{'inner':>7}{'faults':>8}{'second':>8}{'handled':>8}{'traces':>7}{'s':>8}")
    for name in arguments.calls:
        count = attack(name, arguments.places, arguments.seed)
        n_traces = len(count.traces)
        row = [count.n_calls, count.n_faults, count.n_seconds, count.n_silent, n_traces]
        totals = [total + one for total, one in zip(totals, row, strict=True)]
        _print_row(name, row, count.seconds)
        for trace in count.traces[:10]:
            print(f"  {trace}")
    _print_row("all", totals)
    return totals[-1]


def _print_row(name, row, seconds=None):
    numbers = "".join(f"{one:>{width}}" for one, width in zip(row, (7, 8, 8, 8, 7), strict=True))
    print(f"{name:<32}{numbers}" + ("" if seconds is None else f"{seconds:>8.1f}"), flush=True)


def interrupt_lines(arguments):
    """Interrupt the calls that are asked for at each line; return the number of traces."""
    totals = [0] * 3
    print(f"{'call':<32}{'lines':>7}{'faults':>8}{'traces':>7}{'s':>8}")
    for name in arguments.calls:
        count = interrupt(name, arguments.places, arguments.seed)
        row = [count.n_calls, count.n_faults, len(count.traces)]
        totals = [total + one for total, one in zip(totals, row, strict=True)]
        print(f"{name:<32}{row[0]:>7}{row[1]:>8}{row[2]:>7}{count.seconds:>8.1f}", flush=True)
        for trace in count.traces[:10]:
            print(f"  {trace}")
    print(f"{'all':<32}{totals[0]:>7}{totals[1]:>8}{totals[2]:>7}", flush=True)
    return totals[-1]


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
    parser.add_argument("--places", type=int, help="inner calls that raise; all by default")
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
    print(f"seed {arguments.seed}", flush=True)
    torch.set_num_threads(1)
    start = time.perf_counter()
    n_found = sum(PARTS[part](arguments) for part in arguments.parts or PARTS)
    print(f"{n_found} faults of the package found in {time.perf_counter() - start:.0f} s")
    raise SystemExit(n_found > 0)


if __name__ == "__main__":
    main()
