"""Compare raw columns with columns scaled in several ways: "Do I scale?".

The sets have columns in their own units. Columns are standardised by all training rows, which a
stream does not have; by the first task; or replaced by the normal scores of their ranks in the
first task.

    python -m benchmarks.settings.scaling --out scaling.md scaling.csv
    python -m benchmarks.settings.scaling --sets circles circles-far --methods ffnb svm
"""

from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from benchmarks.heads.compare import measure, tasks_of
from benchmarks.heads.methods import METHODS, Context
from benchmarks.lib.data import Split
from benchmarks.lib.report import command_line, page, run_and_publish, table
from benchmarks.lib.sets import Problem, load_group, table_splits

LOADERS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast-cancer": load_breast_cancer,
    "digits": load_digits,
}


def all_problems(options):
    """Return the sets by name."""
    sets = {
        name: Problem(name, "", partial(table_splits, one, False)) for name, one in LOADERS.items()
    }
    load = partial(load_group, folder=options.data, tables=options.data)
    sets |= load("surrounding")
    if (options.data / "tables.npz").is_file():
        features = load("features")
        sets |= {name: features[name] for name in ("pendigits", "satimage")}
    return sets


def transformed(split, first_task, transformer):
    """Return a split behind a transformer that is fitted to some rows."""
    fitted = transformer.fit(split.X[first_task])
    X, X_test = fitted.transform(split.X), fitted.transform(split.X_test)
    return Split(split.name, X, split.y, X_test, split.y_test)


def ranks(n_rows):
    """Return the transformer to normal scores of ranks."""
    n_quantiles = min(100, n_rows)
    return QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal")


SCALINGS = {
    "raw": lambda split, first: split,
    "standardised": lambda split, first: transformed(split, slice(None), StandardScaler()),
    "by the first task": lambda split, first: transformed(split, first, StandardScaler()),
    "ranks, first task": lambda split, first: transformed(split, first, ranks(len(first))),
}


def run(options):
    """Return the records of all sets, seeds, scalings and methods."""
    problems, records = all_problems(options), []
    for name in options.sets or list(problems):
        for seed in options.seeds:
            split = problems[name].splits(seed)[0]
            first = tasks_of(problems[name], split.y, seed)[0]
            for scaling, scale in SCALINGS.items():
                rows = scale(split, first)
                for method in options.methods:
                    found = measure(METHODS[method], problems[name], rows, Context(seed))
                    keys = {"set": name, "seed": seed, "scaling": scaling, "method": method}
                    records.append(keys | {"balanced": found["balanced"]})
    return records


def report(records, options, environment):
    """Return the table as Markdown, a row per set and method, and their means."""
    found = {}
    for one in records:
        row = found.setdefault((one["set"], one["method"]), {})
        row.setdefault(one["scaling"], []).append(one["balanced"])
    values = {key: [np.mean(row[scaling]) for scaling in SCALINGS] for key, row in found.items()}
    for method in options.methods:
        rows = [row for (_, one), row in values.items() if one == method]
        values["mean", method] = list(np.mean(rows, axis=0))
    notes = [
        "balanced accuracy in percent after the last task, one class per task unless the set has "
        f"tasks of its own; mean over seeds {', '.join(map(str, options.seeds))}",
    ]
    lines = [
        [name, METHODS[method].label, *(f"{one:.2f}" for one in row)]
        for (name, method), row in values.items()
    ]
    return page("Do I scale?", environment, notes, table(["set", "method", *SCALINGS], lines))


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, quick="iris and circles, one seed", data=True)
    add = parser.add_argument
    add("--sets", nargs="+", help="default: all")
    add("--methods", nargs="+", choices=list(METHODS), default=["ffnb", "slda", "svm"])
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args(arguments)
    if options.quick:
        options.sets, options.seeds = ["iris", "circles"], [0]
    known = all_problems(options)
    if unknown := set(options.sets or []) - set(known):
        parser.error(f"--sets: unknown sets {sorted(unknown)}; there are {', '.join(known)}")
    return options


def main(arguments=None):
    """Run the comparison, and print its table."""
    run_and_publish(run, report, parse(arguments))


if __name__ == "__main__":
    main()
