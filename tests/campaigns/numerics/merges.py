"""Record what a stream of merges makes of a model: python -m tests.campaigns.numerics.merges."""

import platform
import time
import warnings

import numpy as np
import torch

from ffnb_sklearn import FFNBClassifier, IncrementalDiscriminantAnalysis

N_CLASSES, N_FEATURES, N_TEST = 20, 30, 2000
MILESTONES = (1, 3, 10, 40)


def batch(rng, centres, n_samples):
    """Return samples around the centres, and their labels."""
    labels = rng.integers(len(centres), size=n_samples)
    return centres[labels] + rng.standard_normal((n_samples, N_FEATURES)), labels


def seconds(model, X):
    """Return the least processor time of a prediction, once the classifier is solved."""
    times = []
    for _ in range(5):
        start = time.process_time()
        model.predict(X)
        times.append(time.process_time() - start)
    return min(times)


def stream(band_size, rng, centres):
    """Yield the merged model and one that learned every batch, after each merge."""

    def blank():
        parameters = {"shared_band_size": 30, "random_state": 0}
        if band_size == 0:
            return IncrementalDiscriminantAnalysis(**parameters)
        return FFNBClassifier(band_size=band_size, **parameters)

    first = batch(rng, centres, 200)
    merged, single = blank().partial_fit(*first), blank().partial_fit(*first)
    while True:
        X, y = batch(rng, centres, 200)
        merged.merge(blank().partial_fit(X, y))
        yield merged, single.partial_fit(X, y)


def print_row(band_size, n_merges, pair, X, y):
    """Print a merged model beside the one that learned every batch."""
    outputs = [one.predict(X) for one in pair]
    cells = [f"{band_size:<6}{n_merges:>7}{np.sum(outputs[0] != outputs[1]):>8}"]
    for one, output in zip(pair, outputs, strict=True):
        width, accuracy = one.transform(X[:1]).shape[1], np.mean(output == y)
        cells.append(f"{width:>10}{accuracy:>7.3f}{1e3 * seconds(one, X):>7.1f}")
    print("".join(cells), flush=True)


def main():
    """Print what grows."""
    # Merging is not exact with bands.
    warnings.simplefilter("ignore", UserWarning)
    torch.set_num_threads(1)
    print(f"Python {platform.python_version()}, numpy {np.__version__}, torch {torch.__version__}")
    print(f"{N_CLASSES} classes, 200 samples per merge, {N_TEST} predictions; ms of a processor")
    print(f"{'':<21}{'merged':>24}{'one estimator':>24}")
    columns = f"{'features':>10}{'acc.':>7}{'ms':>7}"
    print(f"{'bands':<6}{'merges':>7}{'differ':>8}{columns}{columns}")
    for band_size in (1, 0):
        rng = np.random.default_rng(0)
        centres = 0.7 * rng.standard_normal((N_CLASSES, N_FEATURES))
        X, y = batch(rng, centres, N_TEST)
        pairs = stream(band_size, rng, centres)
        for n_merges, pair in zip(range(1, MILESTONES[-1] + 1), pairs, strict=False):
            if n_merges in MILESTONES:
                print_row(band_size, n_merges, pair, X, y)


if __name__ == "__main__":
    main()
