"""Measure how well samples of unseen classes are told from those of the classes learned.

`score_samples` of FFNB is compared with scores that need all training rows at once: Mahalanobis
distances with a pooled covariance, relative Mahalanobis distances, the distance to the k-th
neighbour, and the largest logit of a logistic regression.

    python -m benchmarks.heads.novelty --out novelty.md novelty.csv
    python -m benchmarks.heads.novelty --quick
"""

import warnings

import numpy as np
from sklearn.covariance import EmpiricalCovariance, LedoitWolf
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize

from benchmarks.lib.report import command_line, page, publish, run_limited, table
from benchmarks.lib.sets import load_group
from ffnb_sklearn import FFNBClassifier

# Neighbour whose distance counts, or a tenth of the rows of the smallest class.
_K = 50


def ffnb(X, y, X_new):
    """`score_samples` of the default."""
    return FFNBClassifier(random_state=0).fit(X, y).score_samples(X_new)


def largest_probability(X, y, X_new):
    """Largest probability of the default."""
    return FFNBClassifier(random_state=0).fit(X, y).predict_proba(X_new).max(axis=1)


def mahalanobis(X, y, X_new):
    """Minus the least distance to a class mean in the shrunk pooled covariance."""
    return -_least_distances(X, y, X_new)


def relative_mahalanobis(X, y, X_new):
    """The same, less the distance to the mean of all rows in their covariance."""
    return LedoitWolf().fit(X).mahalanobis(X_new) - _least_distances(X, y, X_new)


def neighbours(X, y, X_new):
    """Minus the distance to the k-th neighbour among normalised rows."""
    k = min(_K, max(1, int(np.unique(y, return_counts=True)[1].min() // 10)))
    found, _ = NearestNeighbors(n_neighbors=k).fit(normalize(X)).kneighbors(normalize(X_new))
    return -found[:, -1]


def largest_logit(X, y, X_new):
    """Largest logit of a logistic regression of standardised columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        clf = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X, y)
    return clf.decision_function(X_new).max(axis=1)


def _least_distances(X, y, X_new):
    """Least squared distance of each new row to a class mean."""
    labels, codes = np.unique(y, return_inverse=True)
    means = np.stack([X[codes == c].mean(axis=0) for c in range(len(labels))])
    pooled = LedoitWolf(assume_centered=True).fit(X - means[codes])
    distances = EmpiricalCovariance()
    distances.precision_ = pooled.precision_
    found = []
    for mean in means:
        distances.location_ = mean
        found.append(distances.mahalanobis(X_new))
    return np.min(found, axis=0)


SCORES = {
    "score_samples": ffnb,
    "largest probability": largest_probability,
    "Mahalanobis": mahalanobis,
    "relative Mahalanobis": relative_mahalanobis,
    "k-th neighbour": neighbours,
    "largest logit": largest_logit,
}


def cases(options):
    """Yield the name, the rows learned, new rows, and which of these are of classes learned."""
    problems = load_group("features", options.data, options.data)
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    for pair in pairs[:1] if options.quick else pairs:
        yield f"digits without {pair[0]} and {pair[1]}", *_case(problems["digits"], pair, None)
    if not options.quick:
        unseen = range(50, 60)
        yield "CIFAR-100, 50 classes against 10", *_case(problems["cifar"], unseen, range(50))


def _case(problem, unseen, learned):
    """Return training rows, their labels, test rows, and which are of the classes learned."""
    split = problem.splits(0)[0]
    learned = (
        [one for one in np.unique(split.y) if one not in unseen] if learned is None else learned
    )
    rows = np.isin(split.y, learned)
    new = np.isin(split.y_test, [*learned, *unseen])
    return split.X[rows], split.y[rows], split.X_test[new], np.isin(split.y_test[new], learned)


def run(options):
    """Measure all scores on all cases, and return the single runs."""
    records = []
    for name, X, y, X_new, known in cases(options):
        for score, compute in SCORES.items():
            auroc = float(roc_auc_score(known, compute(X, y, X_new)))
            records.append({"case": name, "score": score, "auroc": auroc})
    return records


def report(records, environment):
    """The areas as Markdown, one row per case and their mean over the digits."""
    names = list(dict.fromkeys(one["case"] for one in records))
    digits = [name for name in names if name.startswith("digits")]
    notes = [
        f"area under the ROC curve of test rows of the classes learned against those of unseen "
        f"ones; random_state=0; neighbour {_K} or a tenth of the smallest class"
    ]
    rows = []
    groups = {**{name: [name] for name in names}, "digits, mean": digits}
    for title, members in groups.items():
        values = [
            np.mean([r["auroc"] for r in records if r["score"] == score and r["case"] in members])
            for score in SCORES
        ]
        rows.append([title, *(f"{value:.3f}" for value in values)])
    return page("Samples of unseen classes", environment, notes, table(["case", *SCORES], rows))


def main(arguments=None):
    """Measure, and print the table."""
    options = command_line(__doc__, quick="one pair of digits", data=True).parse_args(arguments)
    records, environment = run_limited(run, options)
    publish(report(records, environment), records, options.out)


if __name__ == "__main__":
    main()
