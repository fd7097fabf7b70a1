"""Speed and memory as ratios to a floor computed beside them, and to published algorithms.

The floor of a task is one Gram product and one Cholesky factorisation of the width that the
classifier sees. That of a prediction is one product with the means and the axes of all classes,
and for the first prediction after a task also what whitens these: a Gram product, a Cholesky
factorisation and a triangular solution. Floor and method take turns, five rounds by default; a
ratio is one of medians, with the least and the largest ratio within one round behind it.

    python benchmarks/speed.py --out docs/benchmarks/speed.md docs/benchmarks/speed.csv
    python benchmarks/speed.py --parts task pairs --threads 2
    python benchmarks/speed.py --quick
"""

from dataclasses import replace

import torch
from _report import command_line, environment_lines, limited, table, write
from _speed_cases import Case, memory_of_case, run_case
from _speed_pairs import compare_pairs
from _speed_peers import compare_fecam, compare_ranpac, compare_slda

BAR = Case()
TASKS = [
    replace(BAR, shared=shared, settings=settings)
    for shared in (0, 2000)
    for settings in ((("band_size", 0),), ())
]
# One size at a time, around the case above.
SWEEP = [
    replace(BAR, n_samples=500),
    replace(BAR, n_samples=10_000, seen=50),
    replace(BAR, n_inputs=128),
    replace(BAR, n_inputs=1024, seen=50),
    replace(BAR, seen=20),
    replace(BAR, seen=200),
    replace(BAR, shared=500),
    replace(BAR, settings=(("band_size", 0), ("rank", 32))),
    # Few samples, and as many shared neurons as the default has.
    replace(BAR, n_samples=250, seen=20, shared=2000),
]

QUICK = Case(n_samples=60, n_inputs=24, seen=6, new=2, n_test=80)
QUICK_TASKS = [QUICK, replace(QUICK, shared=30, settings=())]
QUICK_SWEEP = [replace(QUICK, n_inputs=40), replace(QUICK, shared=20)]

TITLES = {
    "task": "A task, and predictions after it",
    "sweep": "The same over sizes",
    "memory": "Peak memory, each step in a process of its own",
    "pairs": "Hyperplanes of all pairs, against a Cholesky factorisation per pair",
    "published": "Against published algorithms, run as published",
}


def task_records(cases, options):
    """Records of all cases."""
    return [record for case in cases for record in run_case(case, options.repeats)]


def memory_records(cases):
    """Peaks of all cases."""
    return [record for case in cases for record in memory_of_case(case)]


def pair_records(options):
    """All pairs against a factorisation per pair."""
    if options.quick:
        return [compare_pairs(6, 40, 24, rank=8, n_pairs=5, repeats=options.repeats)]
    return [compare_pairs(repeats=options.repeats)]


def published_records(options):
    """Statistics, prediction and training against SLDA, FeCAM and RanPAC."""
    slda, fecam, ranpac = [{}, {"n_samples": 1000, "n_features": 2048}], {}, {}
    if options.quick:
        slda = [{"n_samples": 90, "n_features": 16, "n_classes": 3, "rank": 4}]
        fecam = {"n_classes": 6, "n_features": 16, "per_class": 40, "n_test": 30}
        ranpac = {"n_samples": 90, "n_features": 16, "n_classes": 3, "width": 40}
    return [
        *(row for size in slda for row in compare_slda(**size, repeats=options.repeats)),
        *compare_fecam(**fecam, repeats=options.repeats),
        *compare_ranpac(**ranpac, repeats=options.repeats),
    ]


PARTS = {
    "task": lambda o: task_records(QUICK_TASKS if o.quick else TASKS, o),
    "sweep": lambda o: task_records(QUICK_SWEEP if o.quick else SWEEP, o),
    "memory": lambda o: memory_records(QUICK_TASKS[:1] if o.quick else TASKS),
    "pairs": pair_records,
    "published": published_records,
}


def record_table(records):
    """Markdown table of some records; a column for each of their keys."""
    columns = list(dict.fromkeys(key for record in records for key in record))
    return table(columns, [[_cell(one.get(name, "")) for name in columns] for one in records])


def _cell(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def flat(part, record):
    """A record for the file of all, where every row has the same columns."""
    names = ["case", "step", "against", "seconds", "reference_s", "ratio", "ratio_min"]
    names += ["ratio_max", "width", "state_mb", "before_mb", "peak_mb", "added_mb"]
    names += ["measured_pairs", "all_pairs", "cosine", "note"]
    return {"part": part, **{name: record.get(name, "") for name in names}}


def read_options(arguments):
    """Parse the command line."""
    parser = command_line(__doc__, rows="all records", quick="small cases, in seconds")
    add = parser.add_argument
    add("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    add("--repeats", type=int, help="rounds; default: 5, with --quick 2")
    options = parser.parse_args(arguments)
    options.repeats = options.repeats or (2 if options.quick else 5)
    return options


def main(arguments=None):
    """Measure the parts, print each table when it is there, and write the files."""
    options = read_options(arguments)
    rows, lines = [], []

    def say(new):
        print("\n".join(new), flush=True)
        lines.extend(new)

    with limited(options.threads):
        title = f"# Speed, torch threads: {torch.get_num_threads()}"
        say([title, "", *environment_lines()])
        say([f"- rounds: {options.repeats}; seconds are medians, ratios those of medians"])
        say(["- data: Gaussian classes, seed 0; random_state=0"])
        for part in options.parts:
            records = PARTS[part](options)
            rows += [flat(part, record) for record in records]
            say(["", f"## {TITLES[part]}", "", *record_table(records)])
    for path in options.out:
        write(path, "\n".join(lines) + "\n", rows)


if __name__ == "__main__":
    main()
