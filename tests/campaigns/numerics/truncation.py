"""Record what truncation makes of classes that grow call by call, beside one fit.

python -m tests.campaigns.numerics.truncation
"""

from collections import Counter

import numpy as np
import torch
from babel import Locale
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.feature_extraction.text import HashingVectorizer

from ffnb_sklearn import IncrementalDiscriminantAnalysis

LANGUAGES = [
    *("af", "br", "cs", "cy", "da", "de", "en", "es", "et", "fi", "fr", "ga"),
    *("hr", "hu", "is", "it", "lv", "nl", "pl", "pt", "ro", "sq", "sv", "tr"),
]


def names():
    """Return sparse rows of names in 24 languages, as in the example on texts, and the languages.

    There are 200 names per language to learn, and 50 others.
    """
    locales = {language: Locale.parse(language) for language in LANGUAGES}
    known = {
        language: {*locale.territories.values(), *locale.languages.values()}
        for language, locale in locales.items()
    }
    uses = Counter(name for some in known.values() for name in some)
    random = np.random.default_rng(0)
    train, test = [], []
    for language, some in known.items():
        own = random.permutation(sorted(name for name in some if uses[name] == 1)).astype(object)
        test += [(name, language) for name in own[:50]]
        train += [(name, language) for name in own[50:250]]
    vectorizer = HashingVectorizer(analyzer="char_wb", ngram_range=(1, 3), n_features=2**13)
    texts, labels = map(np.array, zip(*train, strict=True))
    new_texts, _ = map(np.array, zip(*test, strict=True))
    return vectorizer.transform(texts), labels, vectorizer.transform(new_texts)


def table(load):
    """Return rows and labels of a table, and the rows again."""
    X, y = load(return_X_y=True)
    return X, y, X


SETS = {
    "names": names,
    "breast cancer": lambda: table(load_breast_cancer),
    "digits": lambda: table(load_digits),
}


def changes(X, y, new, n_calls):
    """Return the share of labels, and the largest probability, that calls change beside one fit."""
    whole = IncrementalDiscriminantAnalysis(random_state=0).fit(X, y)
    calls = IncrementalDiscriminantAnalysis(random_state=0)
    order = np.random.default_rng(1).permutation(len(y))
    for rows in np.array_split(order, n_calls):
        calls.partial_fit(X[rows], y[rows])
    labels = np.mean(calls.predict(new) != whole.predict(new))
    probabilities = np.abs(calls.predict_proba(new) - whole.predict_proba(new)).max()
    return float(labels), float(probabilities)


def main():
    """Print the changes of every set: a few calls, and one row at a time."""
    torch.set_num_threads(1)
    for name, load in SETS.items():
        X, y, new = load()
        for n_calls in (8, len(y)):
            labels, probability = changes(X, y, new, n_calls)
            print(
                f"{name:<14}{n_calls:>5} calls: {labels:.2%} of the labels, probabilities by up "
                f"to {probability:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
