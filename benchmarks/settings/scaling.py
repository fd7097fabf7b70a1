"""Compare raw columns with columns scaled in several ways: "Do I scale?".

The sets have columns in their own units. Columns are standardised by all training rows, which a
stream does not have; by the first task; or replaced by the normal scores of their ranks in the
first task. With --units every column is multiplied by 10^u, with --offset every column is moved.

    python -m benchmarks.settings.scaling --out scaling.md scaling.csv
    python -m benchmarks.settings.scaling --sets circles circles-far --methods ffnb svm
    python -m benchmarks.settings.scaling --units 2 --offset 1000
"""

import warnings
from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from benchmarks.heads.compare import measure, tasks_of
from benchmarks.heads.methods import METHODS, Context
from benchmarks.lib.data import Split
from benchmarks.lib.report import command_line, page, run_and_publish, table
from benchmarks.lib.sets import Problem, load_group
from ffnb_sklearn import ColumnSpreadWarning

LOADERS = {
    "iris": load_iris,
    "wine": load_wine,
    "breast-cancer": load_breast_cancer,
    "digits": load_digits,
}


def raw_splits(load, seed):
    """Return a stratified split of a table of scikit-learn in its own units."""
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    return [Split(f"split {seed}", X, y, X_test, y_test)]


def all_problems(options):
    """Return the sets by name."""
    sets = {name: Problem(name, "", partial(raw_splits, one)) for name, one in LOADERS.items()}
    load = partial(load_group, folder=options.data, tables=options.data)
    sets |= load("surrounding")
    if (options.data / "tables.npz").is_file():
        features = load("features")
        sets |= {name: features[name] for name in ("pendigits", "satimage")}
    return sets


def moved(split, units, offset):
    """Return a split whose columns have other units and another origin."""
    random = np.random.default_rng(0)
    factors = 10.0 ** random.uniform(-units, units, split.X.shape[1])
    return Split(
        split.name,
        split.X * factors + offset,
        split.y,
        split.X_test * factors + offset,
        split.y_test,
    )


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
            split = moved(problems[name].splits(seed)[0], options.units, options.offset)
            first = tasks_of(problems[name], split.y, seed)[0]
            for scaling, scale in SCALINGS.items():
                rows = scale(split, first)
                for method in options.methods:
                    with warnings.catch_warnings():
                        # Raw columns are among the points.
                        warnings.simplefilter("ignore", ColumnSpreadWarning)
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
        f"columns times 10^u, u uniform in [-{options.units:g}, {options.units:g}], plus "
        f"{options.offset:g}",
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
    add("--units", type=float, default=0.0, help="largest decimal exponent of a column's factor")
    add("--offset", type=float, default=0.0, help="added to every column")
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
