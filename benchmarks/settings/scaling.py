"""Compare raw columns with columns scaled in several ways: "Do I scale?".

The sets have columns in their own units. Columns are standardised by all training rows, which
stand for constants known beforehand; by the first task, of one class; or replaced by the normal
scores of their ranks in the first task.

    python -m benchmarks.settings.scaling --tables FOLDER --out scaling.md scaling.csv
    python -m benchmarks.settings.scaling --groups surrounding --methods ida svm
"""

from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from benchmarks.heads.compare import measure, tasks_of
from benchmarks.heads.methods import METHODS, Context, setting
from benchmarks.lib.data import Split
from benchmarks.lib.report import command_line, page, run_and_publish, table
from benchmarks.lib.sets import Problem, load_group, table_problems, table_splits

LOADERS = (load_iris, load_wine, load_breast_cancer, load_digits)

# The last two are files of --tables.
GROUPS = ("scikit-learn", "surrounding", "public", "more")


def problems_of(group, tables):
    """Return the sets of a group, their columns in their own units."""
    if group == "surrounding":
        return load_group(group, None, None).values()
    if group == "scikit-learn":
        return [Problem(one.__name__, "", partial(table_splits, one, False)) for one in LOADERS]
    return table_problems(tables / f"{group}.npz", standardise=False).values()


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
    "known constants": lambda split, first: transformed(split, slice(None), StandardScaler()),
    "first task": lambda split, first: transformed(split, first, StandardScaler()),
    "ranks, first task": lambda split, first: transformed(split, first, ranks(len(first))),
}


def run(options):
    """Return the records of all sets, seeds, scalings and methods."""
    records = []
    for group in options.groups:
        for problem in problems_of(group, options.tables):
            for seed in options.seeds:
                split = problem.splits(seed)[0]
                first = tasks_of(problem, split.y, Context(seed))[0]
                for scaling, scale in SCALINGS.items():
                    rows = scale(split, first)
                    for name, method in options.methods.items():
                        found = measure(method, problem, rows, Context(seed))
                        keys = {"group": group, "set": problem.name, "seed": seed}
                        keys |= {"scaling": scaling, "method": name}
                        records.append(keys | {"balanced": found["balanced"]})
    return records


def report(records, options, environment):
    """Return the mean accuracies as Markdown, a row per group and method."""
    found = {}
    for one in records:
        row = found.setdefault((one["group"], one["method"]), {})
        row.setdefault(one["scaling"], []).append(one["balanced"])
    notes = [
        "balanced accuracy in percent after the last task, one class per task; mean over the sets "
        f"and over seeds {', '.join(map(str, options.seeds))}",
        "class order: sorted",
    ]
    lines = [
        [group, options.methods[method].label]
        + [f"{np.mean(row[scaling]):.1f}" for scaling in SCALINGS]
        for (group, method), row in found.items()
    ]
    return page("Do I scale?", environment, notes, table(["sets", "method", *SCALINGS], lines))


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, data=True)
    add = parser.add_argument
    add("--tables", type=Path, help="folder of GROUP.npz files; default: that of --data")
    add("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    add("--methods", nargs="+", choices=list(METHODS), default=["ida", "ffnb", "slda", "svc"])
    add(
        "--settings",
        nargs="*",
        default=[],
        help="IDA or FFNB with other values, such as scale=True",
    )
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args(arguments)
    options.tables = options.tables or options.data
    options.methods = {name: METHODS[name] for name in options.methods}
    options.methods |= {text: setting(text) for text in options.settings}
    return options


def main(arguments=None):
    """Run the comparison, and print its table."""
    run_and_publish(run, report, parse(arguments))


if __name__ == "__main__":
    main()
