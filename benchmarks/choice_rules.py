"""Leave out each rule of the choice of shrinkage, ridge and energies, one at a time.

Generated classes, tables and hold-outs of the study's sets are learned in up to five tasks. All
rules see the same learned state: they act when the classifier is solved.

    python benchmarks/choice_rules.py --tables public.npz more.npz --out rules.md rules.csv
    python benchmarks/choice_rules.py --quick
"""

import sys
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from _report import command_line, page, run_and_publish, table
from _sets import _GENERATED, generated_splits, study_sets, table_sets
from defaults import hold_outs
from gaussian_classes import CASES, SURROUNDING, classification_splits, surrounding_splits
from sklearn.metrics import log_loss, recall_score
from sklearn.utils.class_weight import compute_sample_weight

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier import densities, left_out, penalties, selection
from ffnb_sklearn.core.classifier.gaussians import ClassGaussians

ALL, SIZES = "none", [5, 10, 20, 60, 200]


def _no_lost_axes(samples, energies, c, rows, lengths):
    """Axes that truncated classes have lost count for nothing."""
    none = lengths.new_zeros(0)
    return none.new_zeros(()), torch.zeros(0, dtype=torch.long), none


# Name of a rule, where it is, and what takes its place.
RULES = {
    "energy of the inputs by class separation": (penalties, "separation_energy", lambda *_: 1.0),
    "ridge by the variance of each input": (
        penalties,
        "_column_penalties",
        lambda within, _: torch.ones_like(within),
    ),
    "comparison of dominant inputs": (selection, "_SEPARATED", np.inf),
    "threshold of that comparison": (selection, "_SEPARATED", 0.0),
    "energies between them": (selection, "_CLEAR", 1e-9),
    "axes that truncated classes have lost": (
        left_out.LeftOutSamples,
        "_lost_axes",
        _no_lost_axes,
    ),
    "limit 0.9 of the shrinkage": (selection, "_MOST_SHRINKAGE", 1.0),
    "limit 0.5 for distances": (selection, "_MOST_CURVED", 0.9),
    "factor of overlap": (selection, "_own_factor", lambda *_: 1.0),
    "linear scores": (selection, "_linear_weight", lambda *_: 0.0),
    "ridge of few samples": (selection, "_FEW_SAMPLES", 0.0),
    "Gaussian classes": (selection, "_choice_of_normal", lambda *_: None),
    "their test of normality": (selection, "_MOST_DEVIATION", np.inf),
    "their limit of cross-entropy": (selection, "_RISE", 1e-9),
    "their samples per input": (selection, "_PER_INPUT", 1.0),
    "more of them if classes are small": (selection, "_PER_INPUT_OF_FEW", selection._PER_INPUT),
    "shrinkage by the size of a class": (ClassGaussians, "with_shrunk", lambda own, *_: own),
    "temperature of own axes": (densities, "_OWN_TEMPERATURE", 0.0),
    "its fit to typical samples": (densities, "_MOST_POWER", 0.0),
}


def all_splits(options):
    """Yield group, name and splits of all sets."""
    known = study_sets(options.data)
    for name in options.sets or [name for name in known if name not in _GENERATED]:
        yield "study", name, hold_outs(known[name], options.draws)
    for path in options.tables:
        for name, one in table_sets(path).items():
            yield path.stem, name, one.splits()[: options.draws]
    for n in options.sizes:
        for kind in ["equal", "unequal", "low-rank", "clusters"]:
            splits = generated_splits(kind, _GENERATED[kind][0], n, n_draws=options.draws)
            yield "generated", f"{kind}, {n}", splits
        for case in CASES if n > min(options.sizes) else []:
            name = "{} classes of {} in {}".format(*case[:3])
            splits = classification_splits(case, n, options.draws)
            yield "make_classification", f"{name}, {n}", splits
        for case in SURROUNDING if n > min(options.sizes) else []:
            name = case if case == "circles" else "{} quantiles in {}".format(*case)
            yield "surrounding", f"{name}, {n}", surrounding_splits(case, n, options.draws)


def learn(split, seed):
    """Learn a split in up to five tasks."""
    labels = np.random.default_rng(seed).permutation(np.unique(split.y))
    clf = FFNBClassifier(band_size=0, random_state=seed)
    for task in np.array_split(labels, min(5, len(labels))):
        rows = np.isin(split.y, task)
        clf.partial_fit(split.X[rows], split.y[rows])
    return clf


def measure(clf, split, rule):
    """Balanced accuracy and log-loss of a learned estimator without a rule."""
    # Else the solution of another rule would answer.
    clf._state.model._solved.clear()
    patch = mock.patch.object(*RULES[rule]) if rule != ALL else nullcontext()
    with patch:
        probabilities = clf.predict_proba(split.X_test)
    predicted = clf.classes_[probabilities.argmax(axis=1)]
    present = np.unique(split.y_test)
    weights = compute_sample_weight("balanced", split.y_test)
    return {
        "accuracy": 100.0 * float(np.mean(predicted == split.y_test)),
        "balanced": 100.0
        * recall_score(split.y_test, predicted, labels=present, average="macro", zero_division=0),
        "log_loss": log_loss(
            split.y_test, probabilities, sample_weight=weights, labels=clf.classes_
        ),
    }


def run(options):
    """Records of all sets, splits and rules."""
    records = []
    for group, name, splits in all_splits(options):
        for seed, split in enumerate(splits):
            clf = learn(split, seed)
            for rule in [ALL, *options.rules]:
                key = {"group": group, "set": name, "split": split.name, "rule": rule}
                records.append({**key, **measure(clf, split, rule)})
        print(group, name, file=sys.stderr)
    return records


def report(records, options, environment, *, title="Rules of the choice"):
    """The mean changes without each rule as Markdown."""
    groups = list(dict.fromkeys(one["group"] for one in records))
    figures = {}
    for one in records:
        key = one["rule"], one["group"], one["set"]
        figures.setdefault(key, []).append([one["balanced"], one["log_loss"]])
    means = {key: np.mean(values, axis=0) for key, values in figures.items()}
    rows, extremes = [], []
    for rule in options.rules:
        changes = {
            (group, name): means[rule, group, name] - means[ALL, group, name]
            for kind, group, name in means
            if kind == ALL
        }
        cells = [rule]
        for group in groups:
            here = np.array([change for (one, _), change in changes.items() if one == group])
            cells.append(f"{here[:, 0].mean():+.2f} / {here[:, 1].mean():+.3f}")
        moved = np.abs([change[0] for change in changes.values()]) > 0.0
        rows.append([*cells, f"{moved.sum()} of {len(moved)}"])
        order = sorted(changes, key=lambda key: changes[key][0])
        spoken = [f"{name} {changes[group, name][0]:+.1f}" for group, name in order]
        extremes.append([rule, "; ".join(spoken[:4]), "; ".join(spoken[:-4:-1])])
    notes = [
        "change of balanced accuracy in points / of log-loss with equal weights of the classes, "
        "without the rule: the mean over the sets of each group; negative / positive: it helps",
        f"{options.draws} splits, draws or hold-outs per set; seeds: their numbers; classes in up "
        "to five tasks; band_size=0, other parameters are defaults",
        "sets: with another balanced accuracy",
    ]
    counted = {group: len({key[2] for key in means if key[1] == group}) for group in groups}
    columns = ["without", *[f"{group} ({counted[group]})" for group in groups], "sets"]
    heading = ["## Sets on which the balanced accuracy changes most"]
    columns_of_sets = ["without", "largest losses", "largest gains"]
    parts = table(columns, rows), heading, table(columns_of_sets, extremes)
    return page(title, environment, notes, *parts)


def parse(arguments, rules=RULES, *, quick=("linear scores", "factor of overlap")):
    """Read the command line of a script with some rules, of which some are quick."""
    parser = command_line(__doc__, quick="wine, no generated sets, few rules", data=True)
    add = parser.add_argument
    add("--tables", type=Path, nargs="*", default=[], help=".npz files, NAME_X and NAME_y")
    add("--sets", nargs="+", help="sets of the study; default: all that are not generated")
    add("--sizes", nargs="*", type=int, default=SIZES, help="samples per class of generated sets")
    add("--draws", type=int, default=2, help="draws, hold-outs or splits of each set")
    add("--rules", nargs="+", default=list(rules), choices=list(rules))
    options = parser.parse_args(arguments)
    if options.quick:
        options.sets, options.sizes, options.tables = ["wine"], [], []
        options.rules = list(quick)
    return options


def main(arguments=None):
    """Run the study and print its table."""
    run_and_publish(run, report, parse(arguments))


if __name__ == "__main__":
    main()
