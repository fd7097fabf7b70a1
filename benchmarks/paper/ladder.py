"""Measure what each deviation from the published model is worth, one at a time up to the default.

The ladder starts at `FFNBClassifier.as_published` on skeleton features of the printed widths, with
classes in the order of their labels. Each rung adds one improvement to the rungs before it. Rungs
in brackets are measured, but later rungs do not stand on them.

    python benchmarks/ladder.py --threads 1 --out ladder.md ladder.csv
    python benchmarks/ladder.py --threads 1 --epochs 30 --seeds 0 1 2
    python benchmarks/ladder.py --epochs 30 --rungs as_published "epsilon of 0.1 instead of 0.01"
    python benchmarks/ladder.py --quick

With --epochs, the rungs on features of the printed widths are measured in closed form and
fine-tuned, without it all rungs in closed form. Runs in the files of --from are not made again, and
stand in the table.
"""

import csv
from pathlib import Path

from _ladder_rungs import PRINTED_SLIP, PUBLISHED, RUNGS, SEVERAL_LAYERS, START, settings_of
from _ladder_runs import DATA_SETS, measure
from _ladder_table import table_lines
from _paper_runs import QUICK_EPOCHS
from _paper_settings import BACKBONES
from _report import command_line, environment_lines, publish
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

import ffnb_sklearn

QUICK_RUNGS = (PRINTED_SLIP, START, RUNGS[-1])

# Columns that tell one run from another.
RUN = ("set", "split", "rung", "seed", "max_epochs")


def runs_of(options):
    """List the runs: set, rung, seed and epochs."""
    rungs = [rung for rung in RUNGS if rung.label in options.rungs]
    for name in options.sets:
        for rung in rungs:
            wide = settings_of(rung, name)[1] != START.features
            # CIFAR-100 has features of its own, of one width.
            if wide and (options.epochs or (name == "cifar" and rung.features)):
                continue
            for seed in options.seeds:
                yield name, rung, seed, 0
                if options.epochs and rung != SEVERAL_LAYERS:
                    yield name, rung, seed, options.epochs


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, quick="three rungs, one seed, few epochs and samples", data=True)
    add = parser.add_argument
    add("--sets", nargs="+", choices=[*DATA_SETS], default=["fpha", "sbu"])
    labels = [rung.label for rung in RUNGS]
    add("--rungs", nargs="+", choices=labels, metavar="RUNG", help="only these; default: all")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    add("--epochs", type=int, default=0, help="of fine-tuning; the paper has 250")
    add("--from", dest="given", nargs="+", type=Path, default=[], help=".csv of earlier runs")
    add("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args(arguments)
    if options.rungs is None:
        options.rungs = [rung.label for rung in QUICK_RUNGS] if options.quick else labels
    if options.quick:
        options.seeds = options.seeds[:1]
        options.epochs = min(options.epochs, QUICK_EPOCHS)
    return options


def earlier_records(paths):
    """Return the records in files of earlier runs; a run in several files is that of the first."""
    rows = [
        row
        for path in paths
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    ]
    for row in rows:
        row |= {name: int(row[name]) for name in ("seed", "max_epochs", "n_test")}
        row |= {name: float(row[name]) for name in ("final", "seconds")}
    kept = {}
    for row in rows:
        kept.setdefault(tuple(row[name] for name in RUN), row)
    return list(kept.values())


def settings_lines(options, records):
    """List what the runs share."""
    if options.quick:
        yield "**quick run**: few rungs, epochs and samples, to see that it works; not a result"
    dropped = [rung.label for rung in RUNGS if rung.label not in options.rungs]
    if dropped:
        yield f"rungs left out: {', '.join(dropped)}"
    for path in options.given:
        yield f"runs of an earlier command: {path.name}"
    if options.epochs:
        yield f"fine-tuned: one layer alone, at most {options.epochs} epochs per task"
    for name in dict.fromkeys(one["set"] for one in records):
        seeds = sorted({one["seed"] for one in records if one["set"] == name})
        yield (
            f"{DATA_SETS[name].title}: seeds of backbones and mini-batches "
            f"{', '.join(map(str, seeds))}"
        )
        published = ", ".join(f"{key}={value!r}" for key, value in PUBLISHED[name].items())
        line = f"{DATA_SETS[name].title}: as_published({published})"
        if name in BACKBONES[START.features]:
            widths = ", ".join(
                f"{which}: {', '.join(f'{key}={value!r}' for key, value in sets[name].items())}"
                for which, sets in BACKBONES.items()
            )
            line += f"; untrained SkeletonGCN, {widths}"
        yield line


def report(options, records):
    """Return the report as Markdown."""
    lines = [
        "# Worth of each deviation from the published model",
        "",
        *environment_lines(ffnb_sklearn.__version__, "cpu"),
        *(f"- {line}" for line in settings_lines(options, records)),
        "",
        *table_lines(records),
    ]
    return "\n".join(lines) + "\n"


def main(arguments=None):
    """Measure all rungs, and print their table."""
    options = parse(arguments)
    with threadpool_limits(limits=options.threads):
        earlier = earlier_records(options.given)
        known = {(one["set"], one["rung"], one["seed"], one["max_epochs"]) for one in earlier}
        runs = Parallel(n_jobs=options.jobs)(
            delayed(measure)(options, name, rung, seed, epochs)
            for name, rung, seed, epochs in runs_of(options)
            if (name, rung.label, seed, epochs) not in known
        )
        records = [*earlier, *(record for run in runs for record in run)]
        text = report(options, records)
    publish(text, records, options.out)


if __name__ == "__main__":
    main()
