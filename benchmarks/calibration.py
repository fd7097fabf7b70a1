"""Calibration of the probabilities on held-out rows, beside classifiers of scikit-learn.

All heads see the same rows at once. Those of scikit-learn get standardised columns, without which
they do not converge. The best temperature of a set is found on its test rows, and says how much of
an error one divisor of the logarithms would mend.

    python benchmarks/calibration.py --out calibration.md calibration.csv
    python benchmarks/calibration.py --heads gaussian --from calibration.csv
    python benchmarks/calibration.py --quick
"""

import csv
import warnings
from pathlib import Path

import numpy as np
from _data import default_folder, known_problems
from _report import command_line, run_and_publish
from _sets import study_sets
from scipy.special import log_softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import FFNBClassifier

SETS = ("iris", "wine", "digits", "satimage", "segment", "pendigits", "fpha", "cifar")
N_BINS = 10
FIGURES = ("accuracy", "log_loss", "best_log_loss", "error")

# Pairs of more classes than this are left out: 4950 planes of 2512 features.
_MOST_PAIRED = 50

HEADS = {
    "gaussian": lambda: FFNBClassifier(random_state=0),
    "gaussian, given": lambda: FFNBClassifier(random_state=0, shrinkage=0.5, epsilon=0.2),
    "ovo": lambda: FFNBClassifier(random_state=0, classifier="ovo"),
    "ova": lambda: FFNBClassifier(random_state=0, classifier="ova"),
    "LDA": lambda: make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()),
    "logistic regression": lambda: make_pipeline(
        StandardScaler(), LogisticRegression(max_iter=300)
    ),
    "Gaussian NB": lambda: make_pipeline(StandardScaler(), GaussianNB()),
}


def expected_calibration_error(log_probabilities, y):
    """Mean distance of confidence and accuracy over bins of equal width, weighted by their rows.

    Parameters
    ----------
    log_probabilities : ndarray of shape (n_samples, C)
        Logarithms of the probabilities.
    y : ndarray of shape (n_samples,)
        Columns of the true classes.

    Returns
    -------
    error : float
        Between 0 and 1.
    """
    confidence = np.exp(log_probabilities.max(axis=1))
    right = log_probabilities.argmax(axis=1) == y
    bins = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    gaps = [abs(np.sum(confidence[bins == b] - right[bins == b])) for b in range(N_BINS)]
    return float(np.sum(gaps) / len(y))


def log_loss(log_probabilities, y):
    """Mean of minus the logarithm of the true class's probability."""
    return float(-np.mean(log_probabilities[np.arange(len(y)), y]))


def best_log_loss(log_probabilities, y):
    """Least log-loss over temperatures."""
    temperatures = 2.0 ** np.arange(-5.0, 5.1, 0.25)
    return min(log_loss(log_softmax(log_probabilities / one, axis=1), y) for one in temperatures)


def measure(make, split):
    """Accuracy in percent, log-losses and calibration error of one head on one split."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = make().fit(split.X, split.y)
    # As FFNB, scikit-learn's heads get the benefit of probabilities that are never zero.
    logs = np.log(np.maximum(clf.predict_proba(split.X_test), 1e-280))
    y = np.searchsorted(clf.classes_, split.y_test)
    accuracy = 100.0 * float(np.mean(logs.argmax(axis=1) == y))
    error = expected_calibration_error(logs, y)
    return dict(
        zip(FIGURES, (accuracy, log_loss(logs, y), best_log_loss(logs, y), error), strict=True)
    )


def run(options):
    """Measure all heads on all sets, and return the single runs."""
    problems = {**study_sets(default_folder()), **known_problems(default_folder())}
    records = measured_before(options.earlier)
    known = {(one["set"], one["head"]) for one in records}
    for name in options.sets:
        wanted = [head for head in options.heads if (name, head) not in known]
        for split in problems[name].splits()[: options.splits] if wanted else ():
            n_classes = len(np.unique(split.y))
            for head in wanted:
                if head == "ovo" and n_classes > _MOST_PAIRED:
                    continue
                found = measure(HEADS[head], split)
                records.append({"set": name, "classes": n_classes, "head": head, **found})
    return records


def measured_before(paths):
    """Records of earlier runs."""
    rows = [
        row
        for path in paths
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines())
    ]
    for row in rows:
        row |= {name: float(row[name]) for name in FIGURES}
    return rows


def report(records, options, environment):
    """The means over the splits as Markdown, one row per set and head."""
    lines = [
        "# Calibration",
        "",
        *environment,
        f"- up to {options.splits} splits per set; ECE: expected calibration error, "
        f"{N_BINS} bins; random_state=0, priors uniform in FFNB",
        "- given: shrinkage=0.5, epsilon=0.2",
        "",
        "| set | classes | head | accuracy | log-loss | at its best temperature | ECE |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(one["set"] for one in records):
        for head in options.heads:
            rows = [one for one in records if (one["set"], one["head"]) == (name, head)]
            if rows:
                accuracy, *rest = (np.mean([one[key] for one in rows]) for key in FIGURES)
                values = " | ".join(f"{value:.3f}" for value in rest)
                lines.append(
                    f"| {name} | {rows[0]['classes']} | {head} | {accuracy:.2f} | {values} |"
                )
    return "\n".join(lines) + "\n"


def main(arguments=None):
    """Measure, and print the table."""
    parser = command_line(__doc__, quick="iris alone, one split, two heads")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--heads", nargs="+", choices=list(HEADS), default=list(HEADS))
    parser.add_argument(
        "--from",
        nargs="+",
        type=Path,
        default=[],
        dest="earlier",
        help=".csv of earlier runs, whose sets and heads are not measured again",
    )
    parser.add_argument("--splits", type=int, default=5, help="splits of each set, at most")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sets, options.heads, options.splits = ["iris"], ["gaussian", "LDA"], 1
    run_and_publish(run, report, options)


if __name__ == "__main__":
    main()
