"""Make the tables of the paper again, beside the printed figures.

    python -m benchmarks.paper.paper --table sbu-p --data FOLDER --out sbu.md --results FOLDER
    python -m benchmarks.paper.paper --table all --quick
    python -m benchmarks.paper.paper --table cifar-s10 --epochs 5
    python -m benchmarks.paper.paper --list

--out names a page for all tables, and --results a folder for the single runs (.csv) of each table,
with the features and the network in its name if they are not the usual ones. Class orders are those
of the labels. A seed sets the random filters of the backbone, the mini-batches and the
pseudo-features.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.lib.data import default_folder
from benchmarks.lib.report import environment_lines, limited, page, write
from benchmarks.paper.data_sets import DEEP_P, FEATURES
from benchmarks.paper.report import part
from benchmarks.paper.runs import QUICK_EPOCHS, Plan, Runner
from benchmarks.paper.tables import paper_tables


def parse(arguments, tables):
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--table", nargs="+", metavar="NAME", help="tables to make, or all; --list names them")
    add("--rows", nargs="+", metavar="ROW", help="only the rows with these names")
    add("--list", action="store_true", help="list the tables and stop")
    add("--data", type=Path, default=default_folder(), help="data files")
    add("--features", choices=list(FEATURES), default="gcn-narrow", help="of a sequence")
    add("--seeds", nargs="+", type=int, help="default: 0 1 2; with --quick: 0")
    add("--epochs", type=int, default=0, help="of Algorithm 2; 0: the closed form")
    add("--threads", type=int, help="threads of BLAS and torch; default: theirs")
    add("--device", default="cpu", help="device of backbones and FFNB; the peers run on the CPU")
    add("--quick", action="store_true", help="one seed, few epochs, rows and samples")
    add("--out", type=Path, help=".md of all tables")
    add("--title", default="Tables of the paper", help="of the page")
    add("--results", type=Path, help="folder for the .csv of each table")
    options = parser.parse_args(arguments)
    if options.list:
        return options
    if not options.table:
        parser.error("--table takes the name of a table, or all; --list names them")
    if options.table == ["all"]:
        options.table = list(tables)
    unknown = [name for name in options.table if name not in tables]
    if unknown:
        parser.error(f"no table {', '.join(unknown)}; there are {', '.join(tables)}")
    for name in options.table:
        known = [row.label for row in tables[name].rows]
        if options.rows and not set(options.rows) <= set(known):
            parser.error(f"--rows takes rows of {name}: {', '.join(known)}; got {options.rows}")
    if not options.data.is_dir():
        parser.error(f"no folder at {options.data}; give that of the data files with --data")
    return options


def make_plan(options):
    """Return what all rows share."""
    return Plan(
        folder=options.data,
        seeds=tuple(options.seeds or ([0] if options.quick else [0, 1, 2])),
        features=options.features,
        device=options.device,
        max_epochs=min(options.epochs, QUICK_EPOCHS) if options.quick else options.epochs,
        quick=options.quick,
    )


def varied(table, options):
    """Return a table under a name and a title of its own, if features or epochs are not usual."""
    skeletons = any(row.data_set.name != "cifar" for row in table.rows)
    words = [options.features] if skeletons and options.features != "gcn-narrow" else []
    words += [f"epochs-{options.epochs}"] if options.epochs else []
    if not words:
        return table
    name, title = "_".join([table.name, *words]), f"{table.title} ({', '.join(words)})"
    return replace(table, name=name, title=title)


def notes(plan):
    """Return the lines that hold for all tables of a page."""
    lines = [f"seeds: {', '.join(map(str, plan.seeds))}; ± is the standard deviation over seeds"]
    if plan.quick:
        lines.append("**quick run**: few rows, epochs and samples; not a result")
    lines.append(f"at most {plan.max_epochs} epochs of fine-tuning per task; 0: the closed form")
    lines.append(f"an integer p is that of the first layer; layers above it have p={DEEP_P}")
    return [*lines, "accuracies: percent of the test samples of all classes seen so far"]


def make_table(table, runner, results):
    """Run one table, print its report and return it; write its runs where a folder is given."""
    start = time.perf_counter()
    runs, missing = runner.run_table(table)
    lines = part(table, runs, missing, runner.plan, time.perf_counter() - start)
    print("\n".join(lines), flush=True)
    records = [record for row in runs.values() for run in row for record in run.records()]
    if results is not None and records:
        results.mkdir(parents=True, exist_ok=True)
        write(results / f"paper_{table.name}.csv", "", records)
    return lines


def main(arguments=None):
    """Make the tables that the command line asks for."""
    tables = paper_tables()
    options = parse(arguments, tables)
    if options.list:
        print("\n".join(f"{name}: {table.title}" for name, table in tables.items()))
        return
    with limited(options.threads):
        runner, parts = Runner(make_plan(options)), []
        for name in options.table:
            table = varied(tables[name], options)
            rows = [row for row in table.rows if row.label in (options.rows or [row.label])]
            parts.append(make_table(replace(table, rows=tuple(rows)), runner, options.results))
        environment = environment_lines(options.device)
    if options.out is not None:
        text = page(options.title, environment, notes(runner.plan), *parts)
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
