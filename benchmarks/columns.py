"""What the ridge of each input is worth where columns have different units, and where not.

Hold-outs of training rows, of sets as they are and with every column multiplied by 10^u, u uniform
in [-1, 1]. By default the ridge of an input grows with the variance of its column within the
classes; beside it stand the same ridge for all inputs, and columns that the training rows
standardise.

    python benchmarks/columns.py --out columns.md columns.csv
    python benchmarks/columns.py --sets wine --repeats 1
"""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from unittest import mock

import numpy as np
import torch
from _data import Split, default_folder, known_problems
from _report import command_line, page, publish, run_limited, table
from _sets import StudySet, study_sets
from defaults import hold_outs, method_of
from heads import Context, run_stream
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn.core.classifier import penalties

ROWS = {
    "default": "default",
    "same": "the same ridge for all inputs",
    "standardised": "columns standardised by the training rows",
}
_TABLES = {"iris": load_iris, "wine": load_wine, "breast-cancer": load_breast_cancer}
_SETS = ["pendigits", "satimage", "segment", "digits", "equal", "unequal", "low-rank", "cifar-40"]
_TEXT = {"n_classes": 10, "n_words": 1000, "n_rows": 60, "length": 40}


def bundled(load):
    """Return all rows of a table of scikit-learn, in their own units."""
    X, y = load(return_X_y=True)
    return [Split("table", X, y, X, y)]


def word_counts(n_classes, n_words, n_rows, length):
    """Return documents of a few words each, whose classes prefer some words."""
    random = np.random.default_rng(0)
    common = 1.0 / np.arange(1, n_words + 1)
    common /= common.sum()
    topics = random.dirichlet(0.4 * n_words * common, n_classes)
    X = np.concatenate(
        [random.multinomial(length, 0.6 * common + 0.4 * topic, n_rows) for topic in topics]
    ).astype(np.float64)
    y = np.repeat(np.arange(n_classes), n_rows)
    return [Split("documents", X, y, X, y)]


def in_units(splits):
    """Return the first split of a set with every column in a unit of its own."""
    first = splits()[0]
    units = 10.0 ** np.random.default_rng(0).uniform(-1.0, 1.0, first.X.shape[1])
    return [Split(first.name, first.X * units, first.y, first.X_test * units, first.y_test)]


def all_sets(folder):
    """Return the sets by name."""
    known = {**known_problems(folder), **study_sets(folder)}
    common = {"classes_per_task": 1, "width": 1000}
    sets = {
        name: StudySet(name, "", partial(bundled, load), kind="", repeats=12, **common)
        for name, load in _TABLES.items()
    }
    text = partial(word_counts, **_TEXT)
    sets["words"] = StudySet("words", "", text, kind="", **common)
    for name in _SETS:
        one = known[name]
        fields = {key: vars(one)[key] for key in ("source", "splits", "classes_per_task", "width")}
        sets[name] = StudySet(name, kind="", **fields)
        scaled = replace(sets[name], splits=partial(in_units, one.splits))
        sets[f"{name}, units"] = scaled
    return sets


def standardised(split):
    """Return a split whose columns have the variance 1 in the training rows."""
    scaler = StandardScaler().fit(split.X)
    return replace(split, X=scaler.transform(split.X), X_test=scaler.transform(split.X_test))


def accuracy(study, split, row, seed):
    """Accuracy after the last task, in percent."""
    same = mock.patch.object(
        penalties, "_column_penalties", lambda within, _: torch.ones_like(within)
    )
    if row == "standardised":
        split = standardised(split)
    context = Context(seed, study.width, "cpu")
    with same if row == "same" else nullcontext():
        return 100.0 * run_stream(method_of({"scale": False}), study, split, context)["final"]


def run(options):
    """Records of all hold-outs."""
    sets = all_sets(options.data)
    return [
        {"set": name, "seed": k, "row": row, "accuracy": accuracy(sets[name], split, row, k)}
        for name in options.sets or sets
        for k, split in enumerate(hold_outs(sets[name], options.repeats or sets[name].repeats))
        for row in ROWS
    ]


def report(records, environment):
    """The table as Markdown."""
    note = (
        "accuracy in percent after the last task on hold-outs of training rows, and the mean "
        "difference from the default ± its standard error; units: every column times 10^u, u "
        "uniform in [-1, 1]"
    )
    rows = []
    for name in dict.fromkeys(one["set"] for one in records):
        here = [one for one in records if one["set"] == name]
        default, *others = (
            np.array([one["accuracy"] for one in here if one["row"] == row]) for row in ROWS
        )
        error = max(len(default) - 1, 1) ** -0.5
        gaps = [values - default for values in others]
        cells = [f"{one.mean():+.2f} ± {error * one.std():.2f}" for one in gaps]
        rows.append([name, f"{default.mean():.2f}", *cells])
    return page(
        "Columns of different units", environment, [note], table(["set", *ROWS.values()], rows)
    )


def main(arguments=None):
    """Run the study and print its report."""
    parser = command_line(__doc__, data=True)
    known = list(all_sets(default_folder()))
    parser.add_argument("--sets", nargs="+", choices=known, help="default: all")
    parser.add_argument("--repeats", type=int, help="hold-outs per set")
    options = parser.parse_args(arguments)
    records, environment = run_limited(run, options)
    publish(report(records, environment), records, options.out)


if __name__ == "__main__":
    main()
