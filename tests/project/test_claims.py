"""Sentences of the README and the site whose figures come from a record, or from a quick run."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis, class_incremental_tasks

ROOT = Path(__file__).resolve().parents[2]
GUIDE = "docs/user_guide"


@cache
def text_of(page):
    """Return a page as one line."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


@cache
def rows_of(record):
    """Return the rows of all tables of a recorded page, as mappings from the heads."""
    lines = (ROOT / "docs" / "benchmarks" / f"{record}.md").read_text(encoding="utf-8").splitlines()
    rows, heads = [], None
    for line in lines:
        if not line.startswith("|"):
            heads = None
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if heads is None:
            heads = cells
        elif not set(line) <= set("|-"):
            rows.append(dict(zip(heads, cells, strict=True)))
    return rows


def recorded(record, column, **names):
    """Return the value of a column in the first row of a record with these names."""
    for row in rows_of(record):
        if all(row.get(head) == name for head, name in names.items()):
            return float(row[column].split(" ")[0])
    raise KeyError((record, column, names))


def means(record, column, method):
    return recorded(record, column, method=method)


IDA, EMPIRICAL = "IDA", "IDA, empirical priors"
SVM, FOREST = "SVM-RBF, joint", "random forest, joint"
BANDS = {"group": "all", "classifier": "FFNB"}
IDA_ALL = {"group": "all", "classifier": "IDA"}
# A sentence with gaps for figures, and what is recorded for each gap.
SENTENCES = [
    (
        "README.md",
        "the mean accuracy is {} % for `FFNBClassifier` and {} % for "
        "`IncrementalDiscriminantAnalysis`. Another order of the tasks changes {} % of the labels",
        [
            recorded("bands", "accuracy %", **BANDS),
            recorded("bands", "accuracy %", **IDA_ALL),
            recorded("bands", "changed %", **BANDS),
        ],
    ),
    (
        "README.md",
        "learning take {} times as long",
        [recorded("bands", "times IDA", **BANDS)],
    ),
    (
        "README.md",
        "the mean balanced accuracy is {} %, and {} % for a tuned SVC and {} % for a random forest",
        [means("public", "balanced %", method) for method in (IDA, SVM, FOREST)],
    ),
    (
        "README.md",
        "then all three reach {}, {} and {} %",
        [means("public", "accuracy %", method) for method in (EMPIRICAL, SVM, FOREST)],
    ),
    (
        "docs/index.rst",
        "{} % for `IncrementalDiscriminantAnalysis` and {} % for `FFNBClassifier`. Another order "
        "of the tasks changes {} % of the labels of the latter, and trained neurons make learning "
        "take {} times as long",
        [
            recorded("bands", "accuracy %", **IDA_ALL),
            recorded("bands", "accuracy %", **BANDS),
            recorded("bands", "changed %", **BANDS),
            recorded("bands", "times IDA", **BANDS),
        ],
    ),
    (
        "README.md",
        "takes {} MB for the digits",
        [
            recorded(
                "first_prediction",
                "file MB",
                **{"classes x samples x inputs": "digits", "classifier": "IDA"},
            )
        ],
    ),
    (
        f"{GUIDE}/merging.rst",
        "``decay(0.7)`` reaches {}, {} and {} %, no decay {}, {} and {} %",
        [
            recorded("drift", "accuracy %", stream=stream, classifier=classifier)
            for classifier in ("IDA, decay(0.7)", "IDA")
            for stream in ("moving clusters", "LED", "image segments")
        ],
    ),
    (
        f"{GUIDE}/trained_bands.rst",
        "changes {} % of the labels",
        [recorded("bands", "changed %", **BANDS)],
    ),
    (
        f"{GUIDE}/trained_bands.rst",
        "the accuracy on raw digits falls from {} to {} %",
        [
            recorded(
                "paper_scales",
                column,
                setting="units='absolute',p=.99,epsilon=.01,bands__gamma=1.0,"
                "bands__learning_rate=.01",
                split="0",
                scale="raw",
            )
            for column in ("closed form", "Algorithm 2")
        ],
    ),
    (
        f"{GUIDE}/web_service.rst",
        "Digits, default {} {} {} {}",
        [
            recorded("service", column, set="digits", settings="default")
            for column in ("learn, ms", "solve, ms", "answer, ms", "mean, ms")
        ],
    ),
    (
        "docs/benchmarks/reading.rst",
        "public tables <public>` - **{}** / {}",
        [means("public", column, IDA) for column in ("balanced %", "accuracy %")],
    ),
    (
        "docs/benchmarks/reading.rst",
        "unequal classes <more>` - **{}** / {} - {} / **{}**",
        [
            means("more", column, method)
            for method in (IDA, EMPIRICAL)
            for column in ("balanced %", "accuracy %")
        ],
    ),
]


@pytest.mark.parametrize(("page", "sentence", "values"), SENTENCES)
def test_sentence_has_the_recorded_figures(page, sentence, values):
    pattern = r"(\d+(?:\.\d+)?)".join(map(re.escape, sentence.split("{}")))
    found = re.search(pattern, text_of(page))
    assert found, sentence
    # The sentence shows one digit behind the point, which may be rounded either way.
    assert [float(shown) for shown in found.groups()] == pytest.approx(values, abs=0.0501)


def test_another_order_changes_as_many_labels_as_the_readme_says():
    (stated,) = re.findall(r"\((\d+) of the 450 above if it is reversed\)", text_of("README.md"))
    X, X_test, y, _ = train_test_split(*load_digits(return_X_y=True), random_state=0)
    assert len(X_test) == 450
    tasks = class_incremental_tasks(y, classes_per_task=2)
    predicted = []
    for order in (tasks, tasks[::-1]):
        clf = FFNBClassifier(random_state=0)
        for task in order:
            clf.partial_fit(X[task], y[task])
        predicted.append(clf.predict(X_test))
    # Rounding on other processors may change a label or two.
    assert np.sum(predicted[0] != predicted[1]) == pytest.approx(int(stated), abs=2)


@pytest.mark.parametrize(("n_columns", "n_neurons"), [(720, 500), (1536, 234), (10_000, 36)])
def test_number_of_neurons_by_the_number_of_columns(n_columns, n_neurons):
    assert "500 up to 720 columns, 234 for 1536 columns, 36 for 10,000" in text_of(
        f"{GUIDE}/sizes.rst"
    )
    X = np.random.default_rng(0).normal(size=(6, n_columns))
    clf = IncrementalDiscriminantAnalysis(random_state=0).fit(X, [0, 0, 0, 1, 1, 1])
    assert clf.transform(X[:1]).shape[1] - n_columns == n_neurons


def test_largest_and_smallest_probability():
    text = text_of(f"{GUIDE}/labels.rst")
    assert "at least 1 / (C (N + 2)); after 60 samples of three classes it is at most 0.989" in text
    X, y = load_iris(return_X_y=True)
    clf = IncrementalDiscriminantAnalysis(random_state=0).fit(X[2::5], y[2::5])
    clf = clf.partial_fit(X[3::5], y[3::5])
    assert clf.class_counts_.sum() == 60
    probabilities = clf.predict_proba(np.vstack([X, 50 * X]))
    assert probabilities.min() == pytest.approx(1 / (3 * 62))
    assert probabilities.max() == pytest.approx(0.989, abs=0.0005)


@pytest.mark.parametrize(("label", "score"), [(0, -18), (1, 18)])
def test_scores_while_one_of_two_classes_has_been_seen(label, score):
    assert "18 if it is the second class, else -18" in text_of(f"{GUIDE}/labels.rst")
    X, y = load_iris(return_X_y=True)
    clf = IncrementalDiscriminantAnalysis(random_state=0)
    clf.partial_fit(X[y == label], y[y == label], classes=[0, 1])
    assert clf.decision_function(X) == pytest.approx(np.full(150, score), abs=0.05)
    assert clf.predict_log_proba(X).min() == pytest.approx(np.log(1e-280))
