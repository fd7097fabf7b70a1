"""
Recognise languages that arrive one after the other
===================================================

A catalogue contains names of countries and languages, in 24 languages. The languages arrive one
after the other, and the names of earlier languages are deleted. After each arrival the classifiers
are tested on further names in all languages so far, such as "Griechenland" or "Kreikka".

All classifiers get the same sparse rows from a ``HashingVectorizer``, which counts the pieces of
one to three letters. It learns nothing from the names, so a piece has the same column in every
task. The classifiers differ:

- ``IncrementalDiscriminantAnalysis`` accepts the sparse rows;
- ``ComplementNB`` sums counts, and does not forget either;
- ``SGDClassifier`` forgets;
- ``LinearSVC``, fitted again to all names so far, shows the price of deleting the names.

A common step for text, ``TruncatedSVD``, is left out: it would be fitted to the first language
alone (:doc:`/user_guide/pipelines`).

The names come with the package ``babel``: ``pip install babel`` before you run this example. Pass a
file name to save the picture instead of showing it::

    python examples/plot_text.py text.png
"""

import sys
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
from babel import Locale
from scipy.sparse import vstack
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import ComplementNB
from sklearn.svm import LinearSVC

from ffnb_sklearn import (
    IncrementalAccuracyDisplay,
    IncrementalDiscriminantAnalysis,
    evaluate_stream,
)

# %%
# The names
# ---------
# All 24 languages are written in Latin letters. Names that several languages share, such as
# "Angola", are left out. 200 names per language are learned, and 50 are kept for the tests.

LANGUAGES = [
    *("af", "br", "cs", "cy", "da", "de", "en", "es", "et", "fi", "fr", "ga"),
    *("hr", "hu", "is", "it", "lv", "nl", "pl", "pt", "ro", "sq", "sv", "tr"),
]


def names_of(language):
    """Return the names of all countries and languages in a language."""
    locale = Locale.parse(language)
    return {*locale.territories.values(), *locale.languages.values()}


names = {language: names_of(language) for language in LANGUAGES}
uses = Counter(name for known in names.values() for name in known)
random = np.random.default_rng(0)
train, test = [], []
for language, known in names.items():
    own = random.permutation(sorted(name for name in known if uses[name] == 1)).astype(object)
    test += [(name, language) for name in own[:50]]
    train += [(name, language) for name in own[50:250]]
texts, labels = map(np.array, zip(*train, strict=True))
texts_test, labels_test = map(np.array, zip(*test, strict=True))
for language in ("cy", "de", "fi"):
    print(f"{language}: {', '.join(texts[labels == language][:4])}")

# %%
# The classifiers
# ---------------
# ``IncrementalDiscriminantAnalysis`` makes no dense copy of all rows, and its result does not
# depend on the order of the languages. The names are converted to rows once, for all classifiers:
# a pipeline would convert the names of each task to the same rows.


class StoreAll(ClassifierMixin, BaseEstimator):
    """Store all rows, and fit a classifier to them again at each call."""

    def __init__(self, classifier):
        self.classifier = classifier

    def partial_fit(self, X, y):
        """Append the rows of a task, and fit a classifier if there are two classes."""
        known = hasattr(self, "classes_")
        self.rows_ = vstack([self.rows_, X]) if known else X
        self.labels_ = np.concatenate([self.labels_, y]) if known else y
        self.classes_ = np.unique(self.labels_)
        if len(self.classes_) > 1:
            self.fitted_ = clone(self.classifier).fit(self.rows_, self.labels_)
        return self

    def predict(self, X):
        """Return the label of each row."""
        if len(self.classes_) == 1:
            return np.repeat(self.classes_, X.shape[0])
        return self.fitted_.predict(X)


pieces = HashingVectorizer(
    analyzer="char_wb", ngram_range=(1, 3), n_features=2**12, alternate_sign=False
)
X = pieces.transform(texts)
X_test = pieces.transform(texts_test)
classifiers = {
    "IncrementalDiscriminantAnalysis": IncrementalDiscriminantAnalysis(random_state=0),
    "ComplementNB": ComplementNB(alpha=0.1),
    "SGDClassifier": SGDClassifier(loss="log_loss", random_state=0),
    "LinearSVC, stores all": StoreAll(LinearSVC()),
}

# %%
# Accuracy
# --------

results = {
    name: evaluate_stream(classifier, X, labels, X_test, labels_test)
    for name, classifier in classifiers.items()
}
print(f"{'languages':<10}" + "".join(f"  {name}" for name in results))
for n_languages in (2, 6, 12, 18, 24):
    line = f"{n_languages:<10}"
    for name, result in results.items():
        line += f"{100 * result.accuracies[n_languages - 1]:>{len(name) + 2}.1f}"
    print(line)

# %%
# The model that stores all names is a few points ahead: this is the cost of deleting them. Both
# classifiers that store statistics recognise all languages without the names.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, result in results.items():
    IncrementalAccuracyDisplay.from_stream(result, name=name, ax=axes)
axes.set_ylim(0, 1.02)
axes.legend(loc="upper right", bbox_to_anchor=(1, 0.6), fontsize="small", frameon=False)
axes.set_title("Names in 24 languages, one language per task")

if len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=110)
else:
    plt.show()
