"""Measure what the share of samples unlike all that were learned is worth in the probabilities.

After N samples of C classes the probabilities of the default are a mixture of the softmax of the
scores, and of 1 / C with the share 1 / (N + 2). Other shares are computed from the same scores, on
hold-outs of the training rows of real sets and on generated classes.

    python benchmarks/unforeseen.py --data FOLDER --rows 10 30 120 --out unforeseen.md
    python benchmarks/unforeseen.py --quick
"""

import numpy as np
from _report import page, run_and_publish, table
from calibration import expected_calibration_error
from linear_scores import all_splits, parse
from scipy.special import log_softmax
from sklearn.metrics import log_loss

from ffnb_sklearn import FFNBClassifier

# k in the shares k / (N + 2 k): 1 is the default, 0 the softmax alone. With C, every class counts
# as seen once more.
SHARES = {"softmax": 0.0, "half": 0.5, "default": 1.0, "twice": 2.0, "C times": None}


def measure(split, seed):
    """Log-loss and calibration error of all shares."""
    clf = FFNBClassifier(band_size=0, random_state=seed).fit(split.X, split.y)
    scores = clf.decision_function(split.X_test)
    if scores.ndim == 1:
        scores = np.stack([-scores, scores], axis=1)
    logs, n_classes = log_softmax(scores, axis=1), len(clf.classes_)
    numbers = np.searchsorted(clf.classes_, split.y_test)
    found = {}
    for name, times in SHARES.items():
        k = n_classes if times is None else times
        share = k / (len(split.y) + 2.0 * k)
        mixed = (1.0 - share) * np.exp(logs) + share / n_classes
        if not share:
            mixed = np.maximum(mixed, np.finfo(float).tiny)
        found[f"log_loss {name}"] = log_loss(numbers, mixed, labels=range(n_classes))
        found[f"ece {name}"] = expected_calibration_error(np.log(mixed), numbers)
    predicted = clf.predict_proba(split.X_test)
    found["predicted"] = log_loss(numbers, predicted, labels=range(n_classes))
    return found


def run(options):
    """Records of all sets and draws."""
    return records_of(measure, options)


def records_of(measure, options):
    """Measure all sets and draws."""
    return [
        {"set": name, "split": split.name, **measure(split, seed)}
        for name, splits in all_splits(options)
        for seed, split in enumerate(splits)
    ]


def report(records, options, environment):
    """The means over the draws as Markdown."""
    notes = [
        f"means over {options.draws} draws or hold-outs; seeds: the number of the draw; "
        "band_size=0, other parameters are defaults",
        "a name ends in the samples per class, if they are not all",
        "shares of samples unlike all that were learned: default 1 / (N + 2), half 0.5 / (N + 1), "
        "twice 2 / (N + 4), C times C / (N + 2 C)",
    ]
    changes = table_of_changes(records, list(SHARES))
    return page("Samples unlike all that were learned", environment, notes, changes)


def table_of_changes(records, variants):
    """The log-loss of the first variant, its change with the others, and errors of all."""
    first, *others = variants
    rows, found = [], []
    for name in dict.fromkeys(one["set"] for one in records):
        here = [one for one in records if one["set"] == name]
        losses, errors = (
            [np.mean([one[f"{figure} {variant}"] for one in here]) for variant in variants]
            for figure in ("log_loss", "ece")
        )
        found.append([losses[0], *(one - losses[0] for one in losses[1:]), *errors])
        rows.append([name, *_cells(found[-1], len(others))])
    for name, summary in [("mean", np.mean), ("least", np.min), ("largest", np.max)]:
        rows.append([name, *_cells(summary(found, axis=0), len(others))])
    columns = ["set", f"log-loss, {first}", *(f"{one}: change" for one in others)]
    return table([*columns, *(f"ECE, {one}" for one in variants)], rows)


def _cells(figures, n_changes):
    """The figures of a row: changes of the log-loss, from the second figure on, have a sign."""
    signed = range(1, 1 + n_changes)
    return [f"{one:+.3f}" if k in signed else f"{one:.3f}" for k, one in enumerate(figures)]


def main(arguments=None):
    """Run the comparison and print its table."""
    run_and_publish(run, report, parse(arguments, __doc__))


if __name__ == "__main__":
    main()
