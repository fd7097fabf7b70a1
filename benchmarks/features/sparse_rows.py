"""Measure sparse text rows: time, memory and accuracy beside linear classifiers, and dense copies.

Generated documents in the form of TF-IDF rows arrive in tasks of new classes. FFNB is compared with
one epoch of SGDClassifier and with ComplementNB on the same stream, and, on as many documents as
can be held densely, with its own dense fit. Every run is a process of its own; memory is its
largest resident size, with the interpreter, the libraries and the data.

    python -m benchmarks.features.sparse_rows --threads 2 --out sparse.md sparse.csv
    python -m benchmarks.features.sparse_rows --documents 3000 --words 5000 --subset 500
"""

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import ComplementNB
from sklearn.preprocessing import normalize

from benchmarks.lib.clock import apart, peak_bytes, timed
from benchmarks.lib.report import command_line, limited, page, run_and_publish, table
from ffnb_sklearn import FFNBClassifier

# Words that a class prefers; they may be frequent or rare ones.
_N_OWN = 300

# Added to the rank of a word in Zipf's law, so that no word is in every document.
_FLAT = 50


class Documents:
    """Classes of documents over a vocabulary with frequencies after Zipf's law.

    `share` is the mean share of a document's words that are drawn from the words of its class; the
    others come from the whole vocabulary.
    """

    def __init__(self, n_classes, n_words, share):
        random = np.random.default_rng(0)
        self.share, self.n_words = share, n_words
        self._common = _cumulated(n_words, _FLAT)
        self._own = np.array([random.permutation(n_words)[:_N_OWN] for _ in range(n_classes)])
        self._own_frequencies = _cumulated(_N_OWN, 10)
        # Rare words weigh more, by the logarithm of their rank.
        self._weights = np.log1p(np.arange(n_words) + _FLAT) - np.log(_FLAT) + 1.0

    def draw(self, n_documents, n_distinct, random):
        """Return documents of so many distinct words each as CSR rows of norm 1, and labels."""
        y = random.integers(len(self._own), size=n_documents)
        words = np.stack([self._document(label, n_distinct, random) for label in y])
        counts = 1.0 + random.exponential(0.5, size=words.shape)
        values = (counts * self._weights[words]).astype(np.float32)
        ends = np.arange(0, words.size + 1, n_distinct, dtype=np.int32)
        entries = values.ravel(), words.astype(np.int32).ravel(), ends
        return normalize(sparse.csr_array(entries, shape=(n_documents, self.n_words))), y

    def _document(self, label, n_distinct, random):
        """Return distinct words of a document, in ascending order."""
        share = random.beta(10 * self.share, 10 * (1 - self.share))
        found = np.empty(0, dtype=int)
        while len(found) < n_distinct:
            words = np.searchsorted(self._common, random.random(2 * n_distinct))
            own = random.random(len(words)) < share
            ranks = np.searchsorted(self._own_frequencies, random.random(own.sum()))
            words[own] = self._own[label][ranks]
            words, first = np.unique(np.concatenate([found, words]), return_index=True)
            found = words[np.sort(np.argsort(first)[:n_distinct])]
        return found


def _cumulated(n, flat):
    """Return cumulated frequencies of n words after Zipf's law."""
    frequencies = 1.0 / (np.arange(n) + flat)
    return np.cumsum(frequencies / frequencies.sum())[:-1]


def streams(n_classes):
    """Return the methods by name: an estimator, and the function that learns a task."""
    classes = np.arange(n_classes)
    sgd, nb = SGDClassifier(loss="log_loss", random_state=0), ComplementNB()
    found = {
        "SGD, one epoch per task": (sgd, partial(sgd.partial_fit, classes=classes)),
        "ComplementNB": (nb, partial(nb.partial_fit, classes=classes)),
    }
    for name, parameters in FFNB.items():
        model = FFNBClassifier(random_state=0, **parameters)
        found[name] = model, model.partial_fit
    return found


FFNB = {
    "FFNB": {},
    "FFNB, band_size=0": {"band_size": 0},
    "FFNB, no neurons": {"band_size": 0, "shared_band_size": 0},
    "FFNB, band_size=0, rank=4": {"band_size": 0, "rank": 4},
}
STREAMS = [*FFNB, "SGD, one epoch per task", "ComplementNB"]
# On the subset, at once and without neurons: whether rows are dense.
SUBSETS = {"sparse": False, "dense": True}


def read(folder, name):
    """Return documents and labels of a file."""
    return sparse.load_npz(folder / f"{name}.npz"), np.load(folder / f"{name}.npy")


def run_one(folder, options, method):
    """Learn all tasks or the subset, solve the classifier and predict, in this process."""
    with limited(options.threads):
        X, y = read(folder, "train")
        X_test, y_test = read(folder, "test")
        if method in SUBSETS:
            X, y = X[: options.subset], y[: options.subset]
            if SUBSETS[method]:
                X, X_test = X.toarray(), X_test.toarray()
            model = FFNBClassifier(random_state=0, band_size=0, shared_band_size=0, rank=8)
            tasks, learn = [(X, y)], model.fit
        else:
            task_of = y * options.tasks // options.classes
            tasks = [(X[task_of == task], y[task_of == task]) for task in range(options.tasks)]
            model, learn = streams(options.classes)[method]
        learning = sum(timed(learn, *task)[0] for task in tasks)
        # The first prediction solves the classifier.
        learning += timed(model.predict, X[:1])[0]
        seconds, accuracy = timed(model.score, X_test, y_test)
    return {
        "method": method,
        "accuracy": accuracy,
        "learning_s": learning,
        "predicting_s": seconds,
        "peak_mb": peak_bytes() / 1e6,
    }


def records_of(share, options):
    """Return the records of all runs on documents of one share of own words."""
    documents = Documents(options.classes, options.words, share)
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, n in {"train": options.documents, "test": options.test}.items():
            X, y = documents.draw(n, options.distinct, random)
            sparse.save_npz(folder / f"{part}.npz", X, compressed=False)
            np.save(folder / f"{part}.npy", y)
        return [
            {
                "share": share,
                "documents": options.subset if method in SUBSETS else options.documents,
                **apart(run_one, folder, options, method),
            }
            for method in options.methods
        ]


def run(options):
    """Return the records of all shares."""
    return [one for share in options.shares for one in records_of(share, options)]


def report(records, options, environment):
    """Return Markdown text."""
    notes = [
        f"data: {options.documents} generated documents of {options.distinct} distinct words out "
        f"of {options.words}, {options.classes} classes in {options.tasks} tasks; {options.test} "
        "test documents; seeds 0 and 1",
        "FFNB: random_state=0; learning includes the solution of the classifier; sparse, dense: "
        "the subset at once, band_size=0, shared_band_size=0, rank=8",
        f"own words: mean share of a document's words that are drawn from the {_N_OWN} of its "
        "class",
        "MB: largest resident size of the process, with the libraries and the data",
    ]
    columns = ["own words", "documents", "method", "accuracy, %", "learning, s"]
    columns += ["predicting, s", "MB"]
    rows = [
        [
            f"{one['share']:.2f}",
            one["documents"],
            one["method"],
            f"{100 * one['accuracy']:.2f}",
            f"{one['learning_s']:.1f}",
            f"{one['predicting_s']:.1f}",
            f"{one['peak_mb']:.0f}",
        ]
        for one in records
    ]
    return page("Sparse text rows", environment, notes, table(columns, rows))


def main(arguments=None):
    """Draw the documents, run every method in a process of its own, print the report."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--methods", nargs="+", choices=[*STREAMS, *SUBSETS], default=[*STREAMS, *SUBSETS])
    add("--documents", type=int, default=100_000)
    add("--test", type=int, default=5000)
    add("--subset", type=int, default=1000, help="documents of the dense fit")
    add("--words", type=int, default=50_000)
    add("--distinct", type=int, default=100, help="distinct words of a document")
    add("--classes", type=int, default=20)
    add("--tasks", type=int, default=5)
    add("--shares", type=float, nargs="+", default=[0.4, 0.2], help="shares of own words")
    run_and_publish(run, report, parser.parse_args(arguments))


if __name__ == "__main__":
    main()
