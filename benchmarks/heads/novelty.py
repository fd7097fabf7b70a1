"""Measure how well samples of unseen classes are told from those of the classes learned.

`score_samples` and the two scores that it combines are compared with scores that need all
training rows at once: Mahalanobis distances with a pooled covariance, relative Mahalanobis
distances, and the distance to the k-th neighbour. Text embeddings are measured if ``wordllama`` is
installed, and further feature files, such as rows of glyphs, if they are given.

    python -m benchmarks.heads.novelty --out novelty.md novelty.csv
    python -m benchmarks.heads.novelty --features glyphs.npz
    python -m benchmarks.heads.novelty --quick
"""

import random
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from sklearn.covariance import LedoitWolf
from sklearn.metrics import roc_auc_score, roc_curve
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from benchmarks.lib.data import Split, read_features
from benchmarks.lib.report import command_line, page, publish, run_limited, table
from benchmarks.lib.sets import load_group
from ffnb_sklearn import IncrementalDiscriminantAnalysis
from ffnb_sklearn.core import prediction

# Neighbour whose distance counts, or a tenth of the rows of the smallest class.
_K = 50

# Test rows of a case, drawn at random from more.
_MOST_ROWS = 2000

# Share of false alarms that is asked for, and rows per class that are learned; None learns all.
_RATE = 0.05
_ROWS = (3, 10, 300, None)

SETS = ("digits", "pendigits", "satimage", "segment", "cifar", "fpha", "sbu")
PACKAGES = ("numpy", "scipy", "sklearn", "torch", "sympy", "networkx")
OUR_SCORES = ("score_samples", "relative distance", "largest probability")
MEASURES = {
    "auroc": "Area under the ROC curve",
    "fpr": "Unseen rows accepted where 95 % of the rows of learned classes are",
    "oscr": "Area under the curve of open-set classification",
}


def ffnb_scores(clf, X_new):
    """Return our scores: `score_samples`, and the two scores that it combines."""
    return {
        "score_samples": clf.score_samples(X_new),
        "relative distance": _relative_distances(clf, X_new),
        "largest probability": clf.predict_proba(X_new).max(axis=1),
    }


def _relative_distances(clf, X_new):
    """Return `score_samples` without the part that follows from probabilities."""
    model = clf._state.model
    relative = prediction.relative_distances(model, torch.device("cpu"))
    rows = prediction.classifier_features(model, torch.as_tensor(X_new))
    return replace(relative, overlap=0.0).likeness(rows).numpy()


def mahalanobis(X, y, X_new):
    """Minus the least distance to a class mean in the shrunk pooled covariance."""
    return -_least_distances(X, y, X_new)


def relative_mahalanobis(X, y, X_new):
    """The same, less the distance to the mean of all rows in their covariance."""
    return LedoitWolf().fit(X).mahalanobis(X_new) - _least_distances(X, y, X_new)


def neighbours(X, y, X_new):
    """Minus the distance to the k-th neighbour among normalised rows."""
    smallest = np.unique(y, return_counts=True)[1].min()
    k = min(_K, max(1, int(smallest // 10)))
    distances, _ = NearestNeighbors(n_neighbors=k).fit(normalize(X)).kneighbors(normalize(X_new))
    return -distances[:, -1]


def _least_distances(X, y, X_new):
    """Least squared distance of each new row to a class mean."""
    labels, codes = np.unique(y, return_inverse=True)
    means = np.stack([X[codes == c].mean(axis=0) for c in range(len(labels))])
    pooled = LedoitWolf(assume_centered=True).fit(X - means[codes])
    # Euclidean distances of rows times this root are Mahalanobis distances.
    root = np.linalg.cholesky(pooled.precision_)
    return euclidean_distances(X_new @ root, means @ root, squared=True).min(axis=1)


PEERS = {
    "Mahalanobis": mahalanobis,
    "relative Mahalanobis": relative_mahalanobis,
    "k-th neighbour": neighbours,
}


def splits(options):
    """Yield the name of each set and its first split."""
    problems = load_group("features", options.data, options.data)
    names = ("digits",) if options.quick else SETS
    for name in names:
        yield name, problems[name].splits(0)[0]
    if find_spec("wordllama") and not options.quick:
        yield "text", _texts()
    for path in options.features:
        yield path.stem, read_features(path)[0]


def _texts():
    """Return embeddings of the first lines of docstrings, labelled by their package."""
    import wordllama

    # Version 0.4.0 finds its tokenizer only in the folder of the package.
    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent)
    rows = [model.embed(_sentences(package)) for package in PACKAGES]
    X = np.stack(rows).astype(float)
    n_features = X.shape[2]
    labels = np.arange(len(PACKAGES))
    return Split(
        "single split",
        X[:, :800].reshape(-1, n_features),
        np.repeat(labels, 800),
        X[:, 800:].reshape(-1, n_features),
        np.repeat(labels, 200),
    )


def _sentences(package):
    """Return 1000 first lines of the docstrings of an installed package."""
    files = sorted(Path(find_spec(package).origin).parent.rglob("*.py"))
    code = "\n".join(file.read_text("utf-8") for file in files)
    sentences = set(re.findall(r'"""\s*([A-Z][^"\n]{20,}\.)(?:\n|")', code))
    return random.Random(0).sample(sorted(sentences), 1000)


def partitions(name, labels):
    """Return the title, the learned and the unseen labels of each case of a set."""
    if name == "cifar":
        return [
            ("cifar, classes of the network", labels[:50], labels[50:60]),
            ("cifar, other classes", labels[50:90], labels[90:]),
        ]
    size = max(1, len(labels) // 5)
    groups = [labels[start : start + size] for start in range(0, len(labels), size)]
    return [(name, np.setdiff1d(labels, group), group) for group in groups]


def cases(options):
    """Yield the title of each case, and the rows of the learned classes with all test rows."""
    rng = np.random.default_rng(0)
    for name, split in splits(options):
        for title, learned, unseen in partitions(name, np.unique(split.y))[: options.most_cases]:
            rows = np.isin(split.y, learned)
            new = np.flatnonzero(np.isin(split.y_test, [*learned, *unseen]))
            new = rng.permutation(new)[:_MOST_ROWS]
            case = f"{split.name} without {', '.join(map(str, unseen))}"
            X, y = split.X[rows], split.y[rows]
            yield title, Split(case, X, y, split.X_test[new], split.y_test[new])


def measure(scores, is_known, is_correct):
    """Return the measures of a score of new rows.

    The open-set curve (A. R. Dhamija, M. Günther and T. E. Boult. Reducing network agnostophobia.
    NeurIPS 31, 2018) has the share of rows of learned classes that are accepted and classified
    correctly, over the share of unseen rows that are accepted.
    """
    false_rates, true_rates, _ = roc_curve(is_known, scores)
    wrong = is_known & ~is_correct
    # Rows that are classified wrongly never count as accepted.
    ranked = np.where(wrong, scores.min() - 1.0, scores)
    return {
        "auroc": float(roc_auc_score(is_known, scores)),
        "fpr": float(false_rates[np.argmax(true_rates >= 0.95)]),
        "oscr": float(roc_auc_score(is_known, ranked)),
    }


def _some_of_each(y, count):
    """Return the positions of some random samples of each class; None chooses all."""
    rng = np.random.default_rng(0)
    groups = [rng.permutation(np.flatnonzero(y == label))[:count] for label in np.unique(y)]
    return np.sort(np.concatenate(groups))


def run(options):
    """Measure all scores and the threshold on all cases, and return the single runs."""
    records = []
    for name, case in cases(options):
        is_known = np.isin(case.y_test, case.y)
        for n_rows in _ROWS:
            if n_rows and np.unique(case.y, return_counts=True)[1].min() <= n_rows:
                continue
            chosen = _some_of_each(case.y, n_rows)
            X, y = case.X[chosen], case.y[chosen]
            clf = IncrementalDiscriminantAnalysis(novelty=True, random_state=0).fit(X, y)
            scores = ffnb_scores(clf, case.X_test)
            is_below = scores["score_samples"] < clf.novelty_threshold(_RATE)
            record = {"set": name, "case": case.name, "rows": n_rows or "all"}
            alarms = {
                "alarms": float(is_below[is_known].mean()),
                "detected": float(is_below[~is_known].mean()),
            }
            if n_rows is None:
                peers = {peer: f(X, y, case.X_test) for peer, f in PEERS.items()}
                scores = {**scores, **peers}
            is_correct = clf.predict(case.X_test) == case.y_test
            for score, values in scores.items():
                measures = measure(values, is_known, is_correct)
                records.append({**record, "score": score, **measures, **alarms})
    return records


def report(records, environment):
    """Return the means over the cases of each set as Markdown."""
    names = list(dict.fromkeys(record["set"] for record in records))
    scores = [*OUR_SCORES, *PEERS]
    notes = [
        "means over the cases of a set: each fifth of its classes (at least one) is unseen once; "
        "CIFAR-100: the 50 classes that trained the network, and 40 others, each against ten",
        f"random_state=0; at most {_MOST_ROWS} test rows per case; neighbour {_K} or a tenth of "
        "the smallest class",
        "the relative distance is `score_samples` without the norm of the probabilities; all "
        "open-set curves use the labels that IDA predicts",
    ]
    parts = []
    for measure_name, title in MEASURES.items():
        rows = [
            [name, *(_mean(records, measure_name, set=name, score=s, rows="all") for s in scores)]
            for name in names
        ]
        parts.append([f"## {title}", "", *table(["set", *scores], rows)])
    few = [str(n) for n in _ROWS[:-1]]
    columns = ["set", *few, "all", *(f"{n}, unseen" for n in few), "all, unseen"]
    rows = []
    for name in names:
        cells = [name]
        for value in ("alarms", "detected"):
            for n_rows in (*_ROWS[:-1], "all"):
                cells.append(_mean(records, value, set=name, score="score_samples", rows=n_rows))
        rows.append(cells)
    title = f"## Rows below `novelty_threshold({_RATE})`, by the number of rows learned per class"
    parts.append([title, "", *table(columns, rows)])
    rows = []
    for name in names:
        for n_rows in (3, 10):
            cells = [
                _mean(records, "auroc", set=name, score=score, rows=n_rows) for score in OUR_SCORES
            ]
            if "-" not in cells:
                rows.append([name, n_rows, *cells])
    title = "## Area under the ROC curve after few rows per class"
    parts.append([title, "", *table(["set", "rows", *OUR_SCORES], rows)])
    return page("Samples of unseen classes", environment, notes, *parts)


def _mean(records, value, **conditions):
    """Return the mean of a value over the records that meet conditions, or a dash."""
    values = [
        record[value]
        for record in records
        if all(record[key] == expected for key, expected in conditions.items())
    ]
    if not values:
        return "-"
    return f"{np.mean(values):.3f}"


def main(arguments=None):
    """Measure, and print the tables."""
    parser = command_line(__doc__, quick="one pair of digits", data=True)
    parser.add_argument("--features", nargs="+", type=Path, default=[], help="more feature files")
    options = parser.parse_args(arguments)
    options.most_cases = 1 if options.quick else None
    records, environment = run_limited(run, options)
    publish(report(records, environment), records, options.out)


if __name__ == "__main__":
    main()
