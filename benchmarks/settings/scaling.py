"""Compare columns as they are with standardised columns: "Do I scale?".

Columns are standardised by the first task, of one class unless the features arrive otherwise, as
``scale=True`` does it, or by all training rows, which stand for constants known beforehand. The
table of thresholds shows what ``scale="auto"`` would gain with other values of its two ratios; they
are chosen on held-out training rows.

    python -m benchmarks.settings.scaling --tables FOLDER --out scaling.md scaling.csv
    python -m benchmarks.settings.scaling --tables FOLDER --hold-out --methods ida ida-empirical
    python -m benchmarks.settings.scaling --groups surrounding --methods ida svm
"""

from functools import partial
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from benchmarks.heads.compare import measure, tasks_of
from benchmarks.heads.methods import METHODS, Context, setting
from benchmarks.lib.data import Split
from benchmarks.lib.report import command_line, page, run_and_publish, table
from benchmarks.lib.sets import Problem, hold_out, load_group, table_problems, table_splits
from benchmarks.settings import bands
from ffnb_sklearn import IncrementalDiscriminantAnalysis

LOADERS = (load_iris, load_wine, load_breast_cancer, load_digits)

# public and more are files of --tables.
GROUPS = ("scikit-learn", "surrounding", "public", "more", "features")

# Thresholds of the ratio of units, and of the distance from zero.
UNLIKE = (5, 10, 20, 50, 100, 200, 500, 1000, np.inf)
FAR = (2, 5, 10, 20, 50, 100, np.inf)


def problems_of(group, options):
    """Return the sets of a group, their columns in their own units."""
    if group == "surrounding":
        return load_group(group, None, None).values()
    if group == "scikit-learn":
        return [Problem(one.__name__, "", partial(table_splits, one, False)) for one in LOADERS]
    if group == "features":
        return bands.problems_of(group, options).values()
    return table_problems(options.tables / f"{group}.npz", standardise=False).values()


def units_of(X, y):
    """Return the means of the columns of some rows, and their deviations within classes."""
    model = IncrementalDiscriminantAnalysis(scale=True, shared_band_size=0, random_state=0)
    model.fit(X, y)
    return model.offset_, model.scale_


def criteria(X, y):
    """Return the ratio of units, and the distance of the mean from zero in spreads."""
    mean, deviations = units_of(X, y)
    total_deviations = X.std(axis=0)
    varying = deviations[total_deviations > 0.0]
    small = np.quantile(varying, 0.1, method="lower")
    distance = np.linalg.norm(mean) / np.linalg.norm(total_deviations)
    return {"unlike": varying.max() / small, "far": distance}


def standardised(split, rows):
    """Return a split whose columns are standardised by some training rows."""
    mean, deviations = units_of(split.X[rows], split.y[rows])
    X = (split.X - mean) / deviations
    X_test = (split.X_test - mean) / deviations
    return Split(split.name, X, split.y, X_test, split.y_test)


SCALINGS = {
    "raw": lambda split, first: split,
    "first task": standardised,
    "known constants": lambda split, first: standardised(split, slice(None)),
}


def run(options):
    """Return the records of all sets, seeds, scalings and methods."""
    records = []
    for group in options.groups:
        for problem in problems_of(group, options):
            for seed in options.seeds:
                records += runs_of(group, problem, seed, options)
    return records


def runs_of(group, problem, seed, options):
    """Return the records of a set and a seed."""
    records = []
    context = Context(seed)
    split = problem.splits(seed)[0]
    if options.hold_out:
        split = hold_out(split, seed)
    first = tasks_of(problem, split.y, context)[0]
    ratios = criteria(split.X[first], split.y[first])
    for scaling, scale in SCALINGS.items():
        rows = scale(split, first)
        for name, method in options.methods.items():
            found = measure(method, problem, rows, context)
            records.append(
                {
                    "group": group,
                    "set": problem.name,
                    "seed": seed,
                    "scaling": scaling,
                    "method": name,
                    **ratios,
                    "balanced": found["balanced"],
                    "accuracy": found["accuracy"],
                }
            )
    return records


def report(records, options, environment):
    """Return the mean accuracies as Markdown, a row per group and method, and per threshold."""
    rows = "held-out training rows" if options.hold_out else "test rows"
    notes = [
        "balanced accuracy / accuracy in percent after the last task, one class per task (fpha: "
        f"five); mean over the sets and over seeds {', '.join(map(str, options.seeds))}; {rows}",
        "class order: sorted",
    ]
    rules = {name: (lambda _, name=name: name) for name in SCALINGS}
    rules['scale="auto"'] = lambda one: chosen_if(one["unlike"] >= 100 or one["far"] >= 20)
    parts = [rule_table(records, options, rules)]
    for heading, criterion, values in (
        ("Ratio of units", "unlike", UNLIKE),
        ("Distance from zero", "far", FAR),
    ):
        parts += [[f"## {heading}: standardised from this value on"]]
        rules = {}
        for value in values:
            rules[value] = partial(chosen_from, criterion, value)
        parts += [rule_table(records, options, rules)]
    return page("Do I scale?", environment, notes, *parts)


def chosen_if(is_standardised):
    """Return the scaling of a set that the first task standardises, or that stays."""
    return "first task" if is_standardised else "raw"


def chosen_from(criterion, value, one):
    """Return the scaling of a set that is standardised from a value of a criterion on."""
    return chosen_if(one[criterion] >= value)


def rule_table(records, options, rules):
    """Return the mean accuracies if a rule chooses the scaling of each set by its raw record."""
    runs = {}
    for one in records:
        key = one["group"], one["method"], one["set"], one["seed"]
        runs.setdefault(key, {})[one["scaling"]] = one
    lines = []
    for group, method in dict.fromkeys(key[:2] for key in runs):
        cells = []
        for rule in rules.values():
            accuracies = []
            for key, by_scaling in runs.items():
                if key[:2] == (group, method):
                    chosen = by_scaling[rule(by_scaling["raw"])]
                    accuracies.append((chosen["balanced"], chosen["accuracy"]))
            cells.append(shown(accuracies))
        lines.append([group, options.methods[method].label, *cells])
    return table(["sets", "method", *rules], lines)


def shown(accuracies):
    """Return pairs of a balanced and a plain accuracy as the text of their means."""
    balanced, plain = np.mean(accuracies, axis=0)
    return f"{balanced:.1f} / {plain:.1f}"


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, data=True, quick="the features are the digits alone")
    add = parser.add_argument
    add("--tables", type=Path, help="folder of GROUP.npz files; default: that of --data")
    add("--groups", nargs="+", choices=GROUPS, default=GROUPS)
    default_methods = ["ida", "ida-empirical", "ffnb", "svc"]
    add("--methods", nargs="+", choices=list(METHODS), default=default_methods)
    add(
        "--settings",
        nargs="*",
        default=[],
        help="IDA or FFNB with other values, such as scale='auto'",
    )
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add("--hold-out", action="store_true", help="score a quarter of the training rows, no test row")
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
