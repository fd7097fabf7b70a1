"""Predict, then learn, on streams whose classes drift: `decay` beside river's adaptive forest.

river ships the data or the generators of the streams. Each batch is predicted before it is learned.

    python -m benchmarks.settings.drift --out drift.md drift.csv
    python -m benchmarks.settings.drift --samples 4000 --factors 1 0.8 --seeds 0
"""

import time
from itertools import islice, product
from statistics import mean

import numpy as np

from benchmarks.lib.report import command_line, page, run_and_publish, table
from ffnb_sklearn import IncrementalDiscriminantAnalysis

COLUMNS = ["stream", "classifier", "accuracy %", "predicting and learning, s"]


def moving(n_samples, seed):
    """Classes of Gaussian clusters whose centres move."""
    from river.datasets import synth

    stream = synth.RandomRBFDrift(
        seed,
        seed,
        n_classes=5,
        n_features=10,
        n_centroids=20,
        n_drift_centroids=20,
        change_speed=0.002,
    )
    return _arrays(stream.take(n_samples))


def swapping(n_samples, seed):
    """Digits of a display with noise; four segments change places after each quarter."""
    from river.datasets import synth

    parts = [
        synth.LEDDrift(seed, noise_percentage=0.1, n_drift_features=4 * (quarter % 2))
        for quarter in range(4)
    ]
    taken = (part.take(n_samples // 4) for part in parts)
    return _arrays(one for part in taken for one in part)


def segments(n_samples, seed):
    """Image segments (UCI) in random order; their columns change places in the middle."""
    from river.datasets import ImageSegments

    X, y = _arrays(islice(ImageSegments(), n_samples))
    rng = np.random.default_rng(seed)
    order, columns, half = rng.permutation(len(X)), rng.permutation(X.shape[1]), len(X) // 2
    X, y = X[order], y[order]
    X[half:] = X[half:][:, columns]
    return X, y


STREAMS = {"moving clusters": moving, "LED": swapping, "image segments": segments}


def _arrays(samples):
    """Return the rows and labels of samples of river."""
    rows, labels = zip(*samples, strict=True)
    return np.array([list(row.values()) for row in rows], dtype=float), np.array(labels)


def decayed(factor, X, y, batch, seed):
    """Return the predictions of IDA, whose past weighs a factor less after each batch."""
    clf = IncrementalDiscriminantAnalysis(random_state=seed)
    found = []
    for start in range(0, len(X), batch):
        rows = slice(start, start + batch)
        if start:
            found.append(clf.predict(X[rows]))
            if factor < 1.0:
                clf.decay(factor)
        clf.partial_fit(X[rows], y[rows])
    return np.concatenate(found)


def forest(X, y, batch, seed):
    """Return the predictions of river's adaptive random forest, which learns after each sample."""
    from river.forest import ARFClassifier

    model, found = ARFClassifier(seed=seed), []
    for i, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True)):
        named = dict(enumerate(row))
        if i >= batch:
            found.append(model.predict_one(named))
        model.learn_one(named, label)
    return np.array(found)


def run(options):
    """Run all classifiers on all streams."""
    classifiers = {f"IDA, decay({f:g})" if f < 1 else "IDA": f for f in options.factors}
    records = []
    for (stream, make), seed in product(STREAMS.items(), options.seeds):
        X, y = make(options.samples, seed)
        for name in [*classifiers, "adaptive random forest"]:
            start, more = time.perf_counter(), (X, y, options.batch, seed)
            found = decayed(classifiers[name], *more) if name in classifiers else forest(*more)
            seconds = time.perf_counter() - start
            accuracy = 100.0 * float(np.mean(found == y[options.batch :]))
            records.append({"stream": stream, "classifier": name, "seed": seed})
            records[-1] |= {"accuracy": accuracy, "seconds": seconds}
    return records


def report(records, options, environment):
    """Return the page as Markdown, with means over the seeds."""
    rows = {}
    for one in records:
        figures = one["accuracy"], one["seconds"]
        rows.setdefault((one["stream"], one["classifier"]), []).append(figures)
    means = {
        key: [mean(column) for column in zip(*runs, strict=True)] for key, runs in rows.items()
    }
    notes = [f"{name}: {make.__doc__}" for name, make in STREAMS.items()]
    notes += [
        f"seeds: {', '.join(map(str, options.seeds))}; {options.samples} samples, or all",
        f"each batch of {options.batch} samples is predicted before it is learned; the first batch "
        "is not scored; the forest learns each sample after it has predicted it",
    ]
    cells = [(*key, f"{accuracy:.1f}", f"{s:.3g}") for key, (accuracy, s) in means.items()]
    return page("Streams that drift", environment, notes, table(COLUMNS, cells))


def main(arguments=None):
    """Run the comparison and print its report."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--samples", type=int, default=8000, help="of each generated stream")
    add("--batch", type=int, default=100, help="samples that are learned at once")
    add("--factors", nargs="+", type=float, default=[1.0, 0.9, 0.7, 0.5], help="of decay; 1: none")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    run_and_publish(run, report, parser.parse_args(arguments))


if __name__ == "__main__":
    main()
