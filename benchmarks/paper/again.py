"""Make recorded runs of the paper's tables again, and compare their final accuracies.

    python -m benchmarks.paper.again --data FOLDER --results benchmarks/results/paper --threads 2

Cells of the tables of a set are drawn at random, and made in the order in which they were drawn.
The training rows of closed forms come in another order, too; that of trained cells decides their
mini-batches, and stays. Descents without the null-space are left out: they collapse, which
amplifies rounding. The command fails unless all final accuracies are equal to the last recorded
digit.
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

SEEDS = (0, 1, 2, 3, 4)
# Half of the last printed digit of an accuracy in percent.
PRINTED_DIGIT = 0.005


def drawn_cells(data_set, count, rng, recorded):
    """Return some recorded rows of the tables of a set, each with one mode and one seed."""
    cells = {CLOSED: [], TRAINED: []}
    for one in paper_tables().values():
        for row in one.rows:
            # Runs of 250 epochs take minutes.
            if row.data_set.name != data_set or row.epochs is not None:
                continue
            for mode in row.modes:
                collapses = row.parameters.get("bands__null_space") is False
                if mode == TRAINED and collapses:
                    continue
                cell = replace(row, modes=(mode,), only_printed=True)
                by_seed = recorded.runs_by_seed(cell, mode, [row.data_set.split])
                cells[mode] += [(cell, seed) for seed in by_seed]
    drawn = []
    for of_mode in cells.values():
        drawn += [of_mode[position] for position in rng.permutation(len(of_mode))[:count]]
    return drawn


def final_accuracy(runner, row, seed):
    """Return the final accuracy of a cell in percent."""
    (mode,) = row.modes
    (run,) = runner.runs_by_seed(row, mode, [row.data_set.split])[seed]
    return 100 * run.final


def made_again(row, seed, folder):
    """Return the final accuracy of a cell in percent, from a new run."""
    runner = Runner(Plan(folder, (seed,), shuffled=row.modes == (CLOSED,)))
    runner.run([row])
    return final_accuracy(runner, row, seed)


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
    recorded = Runner(Plan(options.data, SEEDS), options.results / f"{options.set}.csv")
    rng = np.random.default_rng(options.draw)
    cells = drawn_cells(options.set, options.cells, rng, recorded)
    lines = []
    n_different = 0
    with limited(options.threads):
        for row, seed in cells:
            before = final_accuracy(recorded, row, seed)
            after = made_again(row, seed, options.data)
            n_different += abs(before - after) > PRINTED_DIGIT
            figures = f"{before:.2f}", f"{after:.2f}"
            lines.append([row.data_set.title, row.label, row.modes[0], seed, *figures])
    columns = ["stream", "row", "mode", "seed", "recorded", "made again"]
    print("\n".join(table(columns, lines)))
    if n_different:
        sys.exit(f"{n_different} of {len(cells)} accuracies differ")


if __name__ == "__main__":
    main()
