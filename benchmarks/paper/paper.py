"""Make the tables of the paper again, in closed form and trained, beside the printed figures.

    python -m benchmarks.paper.paper --table sbu --data FOLDER --results FOLDER --out sbu.md
    python -m benchmarks.paper.paper --table fpha-p fpha-band --seeds 0
    python -m benchmarks.paper.paper --table all --quick
    python -m benchmarks.paper.paper --list

The network is `FFNBClassifier.as_published` with the values `ABSOLUTE` of `lib.published`, on
features of the printed widths. --data names a folder with the tables of `official`, or the official
files that they are made from. --table takes names of tables, or sbu, fpha and cifar for all tables
of a set. --results names a folder with a file of single runs per set: runs that it has are not made
again, so an interrupted command goes on where it stopped, and a finished one writes the same page.
A run that an error ends is a run too: its cell has the class of the error. Class orders are those
of the labels. A seed sets the random filters of the backbone and the mini-batches.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.lib.data import default_folder
from benchmarks.lib.report import environment_lines, limited, page
from benchmarks.paper.data_sets import DEEP_P
from benchmarks.paper.report import part
from benchmarks.paper.runs import QUICK_ROWS, Plan, Runner
from benchmarks.paper.tables import paper_tables


def parse(arguments, tables):
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--table", nargs="+", metavar="NAME", help="tables to make, a set, or all; see --list")
    add("--rows", nargs="+", metavar="ROW", help="only the rows with these names")
    add("--list", action="store_true", help="list the tables and stop")
    add("--out", type=Path, help=".md of all tables")
    add("--title", default="Tables of the paper", help="of the page")
    plan_options(parser)
    options = parser.parse_args(arguments)
    if options.list:
        return options
    if not options.table:
        parser.error("--table takes the name of a table, a set, or all; --list names the tables")
    wanted = []
    for name in options.table:
        found = [one for one in tables if name in (one, one.split("-")[0].rstrip("1"), "all")]
        if not found:
            parser.error(f"no table {name}; there are {', '.join(tables)}")
        wanted += found
    for name in wanted:
        known = [row.label for row in tables[name].rows]
        if options.rows and not set(options.rows) & set(known):
            parser.error(f"--rows takes rows of {name}: {', '.join(known)}; got {options.rows}")
    options.table = wanted
    if not options.data.is_dir():
        parser.error(f"no folder at {options.data}; give that of the data files with --data")
    return options


def plan_options(parser):
    """Add the options of a `Plan`."""
    add = parser.add_argument
    add("--data", type=Path, default=default_folder(), help="data files")
    add("--cifar", default=Plan.cifar, help="file with features of CIFAR-100")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    add("--threads", type=int, help="threads of BLAS and torch; default: theirs")
    add("--jobs", type=int, default=1, help="processes")
    add("--device", default="cpu", help="device of backbones and FFNB; the peers run on the CPU")
    add("--quick", action="store_true", help="one seed, few epochs, rows and samples")
    add("--recorded", action="store_true", help="show the runs of --results, and make none")
    add("--results", type=Path, help="folder for the runs (.csv) of each set")


def make_plan(options):
    """Return what all rows share."""
    seeds = tuple(options.seeds[: 1 if options.quick else None])
    shared = {name: getattr(options, name) for name in ("cifar", "device", "jobs", "quick")}
    return Plan(folder=options.data, seeds=seeds, **shared)


def runners(options):
    """Return a runner for each set."""
    plan, paths = make_plan(options), dict.fromkeys(("sbu", "fpha", "cifar"))
    if options.results is not None:
        options.results.mkdir(parents=True, exist_ok=True)
        paths = {name: options.results / f"{name}.csv" for name in paths}
    return {name: Runner(plan, path) for name, path in paths.items()}


def notes(plan):
    """Return the lines that hold for all tables of a page."""
    lines = [
        f"seeds: {', '.join(map(str, plan.seeds))}; ± is the standard deviation over seeds",
        "class order: sorted",
    ]
    if plan.quick:
        lines.append("**quick run**: few rows, epochs and samples; not a result")
    lines.append(f"an integer p is that of the first layer; layers above it have p={DEEP_P}")
    return [*lines, "accuracies: percent of the test samples of all classes seen so far"]


def total_line(seconds):
    """Return the line on the time of all runs; nan stands for a time that is not recorded."""
    timed = seconds[~np.isnan(seconds)]
    return f"total: {timed.sum():.0f} s of one core, in {len(timed)} of {len(seconds)} runs"


def chosen_rows(table, options):
    """Rows of a table that are run: few, at even distances, where it is to be quick."""
    if options.rows:
        return [row for row in table.rows if row.label in options.rows]
    if not options.quick or len(table.rows) <= QUICK_ROWS:
        return list(table.rows)
    chosen = np.linspace(0, len(table.rows) - 1, QUICK_ROWS).round().astype(int)
    return [table.rows[i] for i in chosen]


def main(arguments=None):
    """Make the tables that the command line asks for."""
    tables = paper_tables()
    options = parse(arguments, tables)
    if options.list:
        print("\n".join(f"{name}: {table.title}" for name, table in tables.items()))
        return
    parts = []
    rows_by_set = {}
    with limited(options.threads):
        by_set = runners(options)
        for name in options.table:
            rows = chosen_rows(tables[name], options)
            set_name = rows[0].data_set.name
            rows_by_set.setdefault(set_name, []).extend(rows)
            runner = by_set[set_name]
            if not options.recorded:
                runner.run(rows)
            parts.append(part(tables[name], rows, runner))
            print("\n".join(parts[-1]), flush=True)
        environment = environment_lines(options.device)
    seconds = [by_set[name].seconds(rows) for name, rows in rows_by_set.items()]
    lines = [*notes(make_plan(options)), total_line(np.concatenate(seconds))]
    if options.out is not None:
        text = page(options.title, environment, lines, *parts)
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
