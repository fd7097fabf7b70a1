"""Generated documents in the form of TF-IDF rows, whose words depend on their class."""

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

# Words that a class prefers; they may be frequent or rare ones.
_N_OWN = 300

# Added to the rank of a word in Zipf's law, so that no word is in every document.
_FLAT = 50


class Documents:
    """Classes of documents over a vocabulary with frequencies after Zipf's law.

    Parameters
    ----------
    n_classes, n_words : int
        Number of classes and of words.
    share : float
        Mean share of a document's words that are drawn from the words of its class; the others
        come from the whole vocabulary.
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
