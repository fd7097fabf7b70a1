"""Make recorded runs of the paper's tables again, and compare their final accuracies.

    python -m benchmarks.paper.again --data FOLDER --results benchmarks/results/paper --threads 2

Cells of the tables of a set are drawn at random, and made in the order in which they were drawn.
The training rows of closed forms come in another order, too; that of trained cells decides their
mini-batches, and stays. The command fails unless all final accuracies are equal to the last
recorded digit.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.lib.data import default_folder
from benchmarks.lib.report import limited, table
from benchmarks.paper.runs import Plan, Runner
from benchmarks.paper.tables import CLOSED, TRAINED, paper_tables


def drawn_cells(data_set, seeds, count, rng):
    """Return some rows of the tables of a set, each with one mode and one seed."""
    rows = [
        replace(row, modes=(mode,), only_printed=True)
        for one in paper_tables().values()
        for row in one.rows
        for mode in row.modes
        # Runs of 250 epochs take minutes.
        if row.data_set.name == data_set and row.epochs is None
    ]
    cells = []
    for mode in (CLOSED, TRAINED):
        of_mode = [row for row in rows if row.modes == (mode,)]
        positions = rng.permutation(len(of_mode))[:count]
        cells += [(of_mode[position], int(rng.choice(seeds))) for position in positions]
    return cells


def compared(cells, folder, path):
    """Return the recorded and the new final accuracies of some cells in percent."""
    accuracies = []
    for row, seed in cells:
        (mode,) = row.modes
        plan = Plan(folder, (seed,), shuffled=mode == CLOSED)
        runner = Runner(plan)
        runner.run([row])
        pair = []
        for source in (Runner(plan, path), runner):
            ((run,),) = source.runs(row, mode, [row.data_set.split])
            pair.append(100 * run.final)
        accuracies.append(pair)
    return np.array(accuracies)


def main(arguments=None):
    """Compare drawn cells with their record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--set", choices=("sbu", "fpha"), default="fpha")
    add("--data", type=Path, default=default_folder(), help="data files")
    add("--results", type=Path, required=True, help="folder of the recorded runs")
    add("--cells", type=int, default=8, help="cells of each mode")
    add("--draw", type=int, default=0, help="seed of the draw")
    add("--threads", type=int, help="threads of BLAS and torch; default: theirs")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(options.draw)
    cells = drawn_cells(options.set, range(5), options.cells, rng)
    with limited(options.threads):
        accuracies = compared(cells, options.data, options.results / f"{options.set}.csv")
    lines = [
        [row.data_set.title, row.label, row.modes[0], seed, f"{recorded:.2f}", f"{new:.2f}"]
        for (row, seed), (recorded, new) in zip(cells, accuracies, strict=True)
    ]
    columns = ["stream", "row", "mode", "seed", "recorded", "made again"]
    print("\n".join(table(columns, lines)))
    if np.abs(accuracies[:, 0] - accuracies[:, 1]).max() > 1e-3:
        sys.exit("some accuracies differ")


if __name__ == "__main__":
    main()
