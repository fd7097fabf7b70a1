"""Random programs of calls, each against one fit with the weights that are in effect at its end.

python -m tests.campaigns.numerics.programs runs many of them.
"""

import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch

from ffnb_sklearn import IncrementalDiscriminantAnalysis, load, save

HEADS = ("gaussian", "ovo", "ova")

# Labels of six classes, by their kind, and the types in which a call may pass them.
_LARGE = 1234567890123456789
LABELS = {
    "small": (np.arange(6) + 3, ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]),
    "negative": (np.arange(6) - 3, ["i1", "i2", "i4", "i8", "f4", "f8", "O"]),
    "above 2**53": (_LARGE + np.arange(6), ["i8", "u8", "O"]),
    "largest": (2**63 - 1 - np.arange(6), ["i8", "u8", "O"]),
    "texts": (np.array(["a", "a\0b", "\0a", "b", "", "a longer name"]), ["U", "O"]),
}

# Weight below which a class does not decay (`IncrementalDiscriminantAnalysis.decay`).
LIGHTEST = 1e-20

# Decimal exponents of weights: one for a program, and a spread within the program.
_LEAST_EXPONENT, _LARGEST_EXPONENT, _SPREAD = -290, 290, 3


def blank(head):
    """Return an estimator with exact moments."""
    return IncrementalDiscriminantAnalysis(
        classifier=head, rank=None, shared_band_size=20, random_state=0
    )


def saved_and_loaded(model):
    """Return the model that a file holds."""
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder, "model.ffnb"))
        return load(Path(folder, "model.ffnb"))


def draw_weights(n_samples, rng):
    """Return weights of any size, some of them zero."""
    exponent = rng.integers(_LEAST_EXPONENT, _LARGEST_EXPONENT + 1)
    weights = 10.0 ** (exponent + rng.uniform(-_SPREAD, _SPREAD, n_samples))
    if rng.random() < 0.5:
        weights = np.full(n_samples, 10.0**exponent)
    return np.where(rng.random(n_samples) < 0.1, 0.0, weights)


class Program:
    """A model, and the weights in effect of all samples, which are zero before they come.

    Parameters
    ----------
    seed : int
        Seed of the samples, of their labels and weights, and of the calls.
    head : str
        Classifier.
    """

    def __init__(self, seed, head):
        self.rng = np.random.default_rng(seed)
        self.head = head
        n_classes, n_columns = self.rng.integers(2, 6), self.rng.integers(2, 8)
        n_samples = self.rng.integers(10, 80)
        self.codes = self.rng.integers(n_classes, size=n_samples)
        centres = 2.0 * self.rng.standard_normal((n_classes, n_columns))
        self.X = centres[self.codes] + self.rng.standard_normal((n_samples, n_columns))
        if seed % 3 == 0:
            # Nanoseconds since 1970 in a column that does not vary.
            self.X = np.column_stack([self.X, np.full(n_samples, 1.7e18)])
        self.labels, self.types = LABELS[list(LABELS)[seed % len(LABELS)]]
        self.weights = draw_weights(n_samples, self.rng)
        self.in_effect = np.zeros(n_samples)
        self.model = blank(head)

    def names(self, codes):
        """Return labels in one of the types that hold them."""
        return self.labels[codes].astype(self.rng.choice(self.types))

    def learn(self, rows):
        """Learn rows, directly or by a merge, with or without labels that are to come."""
        arguments = self.X[rows], self.names(self.codes[rows])
        weights = self.weights[rows]
        if self.in_effect.any() and self.rng.random() < 0.3:
            other = blank(self.head).fit(*arguments, sample_weight=weights)
            self.model.merge(other)
        else:
            is_declared = self.rng.random() < 0.3
            classes = self.names(np.arange(len(self.labels))) if is_declared else None
            self.model.partial_fit(*arguments, classes=classes, sample_weight=weights)
        self.in_effect[rows] = weights

    def decay(self):
        """Decay all classes, unless a class would be too light to decay."""
        factor = self.rng.uniform(0.3, 1.0)
        known = self.in_effect > 0.0
        weights = np.bincount(self.codes[known], weights=self.in_effect[known])
        if factor * weights[weights > 0.0].min() < LIGHTEST:
            return
        self.model.decay(factor)
        self.in_effect *= factor

    def forget(self):
        """Forget a class, unless it is the only one."""
        known = np.unique(self.codes[self.in_effect > 0.0])
        if len(known) > 1:
            gone = self.rng.choice(known)
            self.model.forget(self.names(np.array([gone])))
            self.in_effect[self.codes == gone] = 0.0

    def forget_samples(self):
        """Forget samples that make up at most half the weight of each class.

        A column keeps rounding of 1e-10 of what it had, so that light samples would lose digits
        beside heavy samples that are gone.
        """
        if np.ptp(self.weights[self.weights > 0.0]) > 0.0:
            return
        is_gone = np.zeros(len(self.X), dtype=bool)
        for code in np.unique(self.codes):
            rows = self.rng.permutation(np.flatnonzero(self.codes == code))
            shares = np.cumsum(self.in_effect[rows]) / max(self.in_effect[rows].sum(), 1e-300)
            is_gone[rows[shares <= 0.5]] = True
        is_gone &= self.in_effect > 0.0
        if not is_gone.any():
            return
        self.model.forget_samples(
            self.X[is_gone], self.names(self.codes[is_gone]), sample_weight=self.in_effect[is_gone]
        )
        self.in_effect[is_gone] = 0.0

    def rename(self):
        """Give the classes each other's labels."""
        new_labels = self.rng.permutation(self.labels)
        names = dict(zip(self.labels.tolist(), new_labels.tolist(), strict=True))
        known = self.model.classes_.tolist()
        # A label that no class has had yet is free.
        self.model.rename({label: names[label] for label in known})
        self.labels = new_labels

    def run(self):
        """Call methods in any order until all rows have come."""
        n_samples = len(self.X)
        parts = np.array_split(self.rng.permutation(n_samples), self.rng.integers(1, 6))
        for rows in parts:
            if self.weights[rows].any():
                self.learn(rows)
            if not self.in_effect.any():
                continue
            if self.rng.random() < 0.5:
                self.decay()
            if self.rng.random() < 0.2:
                self.forget()
            if self.rng.random() < 0.3:
                self.forget_samples()
            if self.rng.random() < 0.2:
                self.rename()
            if self.rng.random() < 0.3:
                self.model = saved_and_loaded(self.model)
        return self

    def error(self):
        """Return the largest change of a probability, beside one fit."""
        kept = self.in_effect > 0.0
        weights = self.in_effect[kept]
        labels = self.labels[self.codes[kept]]
        whole = blank(self.head).fit(self.X[kept], labels, sample_weight=weights)
        found, expected = (one.predict_proba(self.X) for one in (self.model, whole))
        # Declared classes have columns of zeros.
        columns = np.searchsorted(self.model.classes_, whole.classes_)
        assert np.array_equal(self.model.classes_[columns], whole.classes_)
        change = np.abs(found[:, columns] - expected).max()
        return float(max(change, np.delete(found, columns, axis=1).max(initial=0.0)))


def program_error(seed, head):
    """Return the largest change of a probability by a random program, against one fit."""
    return Program(seed, head).run().error()


def main(n_programs=600):
    """Print the largest errors, and the programs that are off."""
    torch.set_num_threads(1)
    # Two samples may be far from zero by chance.
    warnings.simplefilter("ignore")
    for head in HEADS:
        errors = np.array([program_error(seed, head) for seed in range(n_programs)])
        off = np.flatnonzero(errors > 1e-8)
        print(
            f"{head:<10}{n_programs} programs: {errors.max():.1e}; above 1e-8: {off.tolist()}",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
