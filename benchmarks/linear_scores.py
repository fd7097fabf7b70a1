"""Measure what the linear scores of a smaller ridge are worth that the default mixes in.

The default is compared with the same estimator without them, and with other weights and ridges, on
hold-outs of the training rows of real sets and on generated classes.

    python benchmarks/linear_scores.py --data FOLDER --out linear.md linear.csv
    python benchmarks/linear_scores.py --data FOLDER --tables tables.npz --rows 30 120
    python benchmarks/linear_scores.py --quick
"""

from contextlib import ExitStack
from pathlib import Path
from unittest import mock

import numpy as np
from _data import Split, known_problems
from _report import command_line, page, run_and_publish, table
from _sets import _GENERATED, generated_splits, study_sets, table_sets
from calibration import expected_calibration_error
from defaults import hold_outs
from sklearn.metrics import log_loss

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier import densities, selection

# Largest weight of the linear scores, and their ridge relative to that of the distances.
VARIANTS = {
    "without": {"weight": 0.0},
    "default": {},
    "weight 0.35": {"weight": 0.35},
    "weight 0.95": {"weight": 0.95},
    "ridge 0.2": {"ridge": 0.2},
    "ridge 0.02": {"ridge": 0.02},
}

# Samples per class of the generated sets.
SIZES = [30, 60, 130, 200]

REAL = ["digits", "sbu", "fpha", "cifar-40", "breast-cancer", "wine", "iris"]
REAL += ["pendigits", "satimage", "segment"]


def first_rows(split, n, seed):
    """Return a split with n random training rows of each class, or None if a class has fewer."""
    labels, counts = np.unique(split.y, return_counts=True)
    if counts.min() < n:
        return None
    order = np.random.default_rng([seed, n]).permutation(len(split.y))
    rows = np.concatenate([order[split.y[order] == label][:n] for label in labels])
    return Split(split.name, split.X[rows], split.y[rows], split.X_test, split.y_test)


def all_splits(options):
    """Yield the name of a set and its splits."""
    for n in options.sizes:
        for kind in options.kinds:
            splits = generated_splits(kind, _GENERATED[kind][0], n, n_draws=options.draws)
            yield f"{kind}, {n}", list(splits)
    known = known_problems(options.data) | study_sets(options.data)
    known = {name: known[name] for name in options.sets}
    for path in options.tables:
        known |= table_sets(path)
    for name, one in known.items():
        whole = list(hold_outs(one, options.draws))
        yield name, whole
        for n in options.rows:
            parts = [first_rows(split, n, seed) for seed, split in enumerate(whole)]
            if None not in parts:
                yield f"{name}, {n}", parts


def measure(split, seed):
    """Accuracy, log-loss and calibration error of all variants, and the weight of the default."""
    found = {}
    for name, changes in VARIANTS.items():
        with ExitStack() as stack:
            if "weight" in changes:
                stack.enter_context(mock.patch.object(selection, "_MOST_LINEAR", changes["weight"]))
            if "ridge" in changes:
                stack.enter_context(mock.patch.object(densities, "_FINE_RIDGE", changes["ridge"]))
            clf = FFNBClassifier(band_size=0, random_state=seed).fit(split.X, split.y)
            probabilities = clf.predict_proba(split.X_test)
        right = clf.classes_[probabilities.argmax(axis=1)] == split.y_test
        numbers = np.searchsorted(clf.classes_, split.y_test)
        found[f"accuracy {name}"] = 100.0 * float(right.mean())
        found[f"log_loss {name}"] = log_loss(split.y_test, probabilities, labels=clf.classes_)
        found[f"ece {name}"] = expected_calibration_error(np.log(probabilities), numbers)
        if name == "default":
            found["weight"] = clf._solved_choice().linear_weight
    return found


def run(options):
    """Records of all sets and draws."""
    records = []
    for name, splits in all_splits(options):
        records += [
            {"set": name, "split": split.name, **measure(split, seed)}
            for seed, split in enumerate(splits)
        ]
    return records


def report(records, options, environment):
    """The means over the draws as Markdown."""
    kept = [one for one in VARIANTS if one != "without"]
    names = list(dict.fromkeys(one["set"] for one in records))
    rows, changes = [], []
    for name in names:
        here = [one for one in records if one["set"] == name]
        numbers = [key for key in here[0] if key not in ("set", "split")]
        means = {key: np.mean([one[key] for one in here]) for key in numbers}
        if means["weight"] == 0.0:
            continue
        gains = [means[f"accuracy {one}"] - means["accuracy without"] for one in kept]
        losses = [means[f"log_loss {one}"] - means["log_loss without"] for one in kept]
        changes.append(gains + losses)
        rows.append(
            [
                name,
                f"{means['weight']:.3f}",
                f"{means['accuracy without']:.2f}",
                *(f"{one:+.2f}" for one in gains),
                f"{means['log_loss without']:.3f}",
                *(f"{one:+.3f}" for one in losses),
                f"{means['ece without']:.3f}",
                f"{means['ece default']:.3f}",
            ]
        )
    n_left_out = len(names) - len(rows)
    if changes:
        gains, losses = np.split(np.mean(changes, axis=0), 2)
        shown = [f"{one:+.3f}" for one in gains], [f"{one:+.4f}" for one in losses]
        rows.append(["mean", "", "", *shown[0], "", *shown[1], "", ""])
    columns = ["set", "weight", "accuracy without", *(f"{one}: gain" for one in kept)]
    columns += ["log-loss without", *(f"{one}: change" for one in kept)]
    columns += ["ECE without", "ECE, default"]
    notes = [
        f"means over {options.draws} draws or hold-outs; seeds: the number of the draw; "
        "band_size=0, other parameters are defaults",
        "a name ends in the samples per class, if they are not all",
        f"sets where the weight is 0 are left out: {n_left_out} of {len(names)}",
        "default: largest weight 0.7, ridge 0.05 of that of the distances; each of the other "
        "variants changes one of both",
    ]
    return page("Linear scores of a smaller ridge", environment, notes, table(columns, rows))


def parse(arguments, description=__doc__):
    """Read the command line."""
    parser = command_line(description, quick="two generated sets, two draws", data=True)
    add = parser.add_argument
    add("--sizes", nargs="+", type=int, default=SIZES, help="samples per generated class")
    add("--rows", nargs="*", type=int, default=[], help="also so many rows of each real class")
    add("--draws", type=int, default=5)
    add("--tables", nargs="*", type=Path, default=[], help=".npz files of tables")
    add("--sets", nargs="*", default=REAL, help="real sets")
    options = parser.parse_args(arguments)
    options.kinds = ["equal", "unequal", "low-rank", "clusters"]
    if options.quick:
        options.sizes, options.draws, options.sets, options.tables = [60], 2, [], []
        options.kinds = ["equal", "clusters"]
    return options


def main(arguments=None):
    """Run the comparison and print its table."""
    run_and_publish(run, report, parse(arguments))


if __name__ == "__main__":
    main()
