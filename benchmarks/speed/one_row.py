"""Predict a row, then learn it, and compare with the classifiers of river.

Accuracy, rows per second and size on two sets of images, two generated streams whose classes arrive
one after another, and a stream that drifts. river ships the image segments, the drift and most of
the other classifiers: python -m pip install river

    python -m benchmarks.speed.one_row --threads 1 --out one_row.md one_row.csv
    python -m benchmarks.speed.one_row --settings refresh=.1 refresh=.1,shared_band_size=100
    python -m benchmarks.speed.one_row --streams digits --classifiers IDA "naive Bayes"
"""

import importlib
import sys
import time
import warnings
from functools import partial
from inspect import signature
from itertools import product

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, make_blobs, make_classification
from sklearn.naive_bayes import GaussianNB

from benchmarks.lib.report import command_line, page, read_settings, run_and_publish, table
from ffnb_sklearn import IncrementalDiscriminantAnalysis, evaluate_prequential
from ffnb_sklearn.exceptions import ColumnUnitsWarning

COLUMNS = ["stream", "classifier", "accuracy %", "rows/s", "ms per row", "of it learning %", "MB"]


def river(name):
    """Import a module of river."""
    try:
        return importlib.import_module(f"river.{name}")
    except ImportError as error:
        raise ImportError(
            "this stream or classifier needs river: python -m pip install river; --streams and "
            "--classifiers choose others"
        ) from error


# ---- streams


def digits(n_rows, seed):
    """Digits of 8 x 8 pixels (scikit-learn) in random order: 10 classes, 64 columns."""
    return _shuffled(*load_digits(return_X_y=True), n_rows, seed)


def segments(n_rows, seed):
    """Image segments (UCI, river's copy) in random order: 7 classes, 18 columns."""
    return _shuffled(*_arrays(river("datasets").ImageSegments()), n_rows, seed)


def blobs(n_rows, seed):
    """Gaussian classes that arrive one after another: 20 classes, 20 columns (`make_blobs`)."""
    n_classes = 20
    X, y = make_blobs(
        n_samples=[n_rows] * n_classes, n_features=20, cluster_std=8.0, random_state=seed
    )
    return _arriving(X, y, n_rows, seed)


def clusters(n_rows, seed):
    """Classes of two clusters, arriving: 10 classes, 20 columns (`make_classification`)."""
    n_classes = 10
    X, y = make_classification(
        n_samples=2 * n_rows * n_classes,
        n_features=20,
        n_informative=10,
        n_redundant=5,
        n_classes=n_classes,
        n_clusters_per_class=2,
        class_sep=1.5,
        random_state=seed,
    )
    return _arriving(X, y, n_rows, seed)


def drift(n_rows, seed):
    """Classes of Gaussian clusters whose centres move: 5 classes, 10 columns (river)."""
    stream = river("datasets.synth").RandomRBFDrift(
        seed,
        seed,
        n_classes=5,
        n_features=10,
        n_centroids=20,
        n_drift_centroids=20,
        change_speed=0.01,
    )
    return _arrays(stream.take(n_rows))


STREAMS = {
    "digits": digits,
    "image segments": segments,
    "arriving blobs": blobs,
    "arriving clusters": clusters,
    "drift": drift,
}


def _arrays(samples):
    """Return the rows and labels of samples of river."""
    rows, labels = zip(*samples, strict=True)
    return np.array([list(row.values()) for row in rows], dtype=float), np.array(labels)


def _shuffled(X, y, n_rows, seed):
    """Return some of the rows in random order."""
    order = np.random.default_rng(seed).permutation(len(y))[:n_rows]
    return X[order], y[order]


def _arriving(X, y, n_rows, seed):
    """Return rows of random classes among the classes that have arrived.

    The first class is alone at the start. The last class arrives after four fifths of the stream.
    """
    rng = np.random.default_rng(seed)
    classes = np.unique(y)
    progress = np.arange(n_rows) / n_rows
    n_arrived = 1 + np.minimum(progress / 0.8 * (len(classes) - 1), len(classes) - 1).astype(int)
    y_stream = classes[rng.integers(n_arrived)]
    X_stream = np.empty((n_rows, X.shape[1]))
    for label in classes:
        positions = np.flatnonzero(y_stream == label)
        X_stream[positions] = X[y == label][: len(positions)]
    return X_stream, y_stream


# ---- classifiers


class RiverClassifier(ClassifierMixin, BaseEstimator):
    """A classifier of river, which learns and predicts the rows of an array one by one."""

    def __init__(self, make, seed):
        self.make = make
        self.seed = seed

    def partial_fit(self, X, y):
        """Learn each row."""
        if not hasattr(self, "model_"):
            self.model_ = self.make(self.seed)
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            self.model_.learn_one(dict(enumerate(row)), label)
        return self

    def predict(self, X):
        """Return the prediction of each row."""
        return np.array([self.model_.predict_one(dict(enumerate(row))) for row in X.tolist()])


class Decayed(ClassifierMixin, BaseEstimator):
    """`IncrementalDiscriminantAnalysis` whose past weighs a factor less after a number of rows."""

    def __init__(self, estimator, factor, n_rows):
        self.estimator = estimator
        self.factor = factor
        self.n_rows = n_rows

    def partial_fit(self, X, y):
        """Learn the rows, after `decay` where it is due."""
        if not hasattr(self, "learner_"):
            self.learner_ = clone(self.estimator)
            self.n_learned_ = 0
        elif self.n_learned_ % self.n_rows == 0:
            self.learner_.decay(self.factor)
        self.learner_.partial_fit(X, y)
        self.n_learned_ += len(y)
        return self

    def predict(self, X):
        """Return the prediction of each row."""
        return self.learner_.predict(X)


def river_model(path, seed):
    """Return a classifier of river, behind a scaler if it compares columns of unlike units."""
    module, name = path.split(".")
    make = getattr(river(module), name)
    model = make(seed=seed) if "seed" in signature(make).parameters else make()
    if name in ("KNNClassifier", "SoftmaxRegression"):
        return river("preprocessing").StandardScaler() | model
    return model


RIVER = {
    "river Hoeffding tree": partial(river_model, "tree.HoeffdingTreeClassifier"),
    "river adaptive random forest": partial(river_model, "forest.ARFClassifier"),
    "river KNN": partial(river_model, "neighbors.KNNClassifier"),
    "river GaussianNB": partial(river_model, "naive_bayes.GaussianNB"),
    "river softmax": partial(river_model, "linear_model.SoftmaxRegression"),
}


def wrapped(parameters, classes, seed):
    """Return IDA in the wrapper that makes it a classifier of river."""
    model = IncrementalDiscriminantAnalysis(random_state=seed, **parameters)
    return river("compat").convert_sklearn_to_river(model, classes=classes)


def classifiers(stream, y, seed, options):
    """Return the classifiers of a stream by name."""
    found = {}
    for parameters in options.settings:
        name = ", ".join(["IDA", *(f"{key}={value}" for key, value in parameters.items())])
        ida = IncrementalDiscriminantAnalysis(random_state=seed, **parameters)
        found[name] = ida
        if stream == "drift":
            for factor in options.factors:
                found[f"{name}, decay({factor:g})"] = Decayed(ida, factor, options.decay_every)
        if stream == "image segments":
            make = partial(wrapped, parameters, np.unique(y).tolist())
            found[f"{name}, through river"] = RiverClassifier(make, seed)
    found["scikit-learn GaussianNB"] = GaussianNB()
    for name, make in RIVER.items():
        found[name] = RiverClassifier(make, seed)
    words = options.classifiers
    return {name: model for name, model in found.items() if any(word in name for word in words)}


# ---- the run


def run(options):
    """Run all classifiers on all streams; a seed draws the stream and seeds the classifiers."""
    records = []
    for stream, seed in product(options.streams, options.seeds):
        X, y = STREAMS[stream](options.rows, seed)
        for name, model in classifiers(stream, y, seed, options).items():
            with warnings.catch_warnings():
                # Units of the segments; classes that GaussianNB has declared and not yet learned.
                warnings.simplefilter("ignore", ColumnUnitsWarning)
                warnings.simplefilter("ignore", RuntimeWarning)
                start = time.process_time()
                result = evaluate_prequential(model, X, y)
                seconds = time.process_time() - start
            predicting, learning = result.predict_seconds.sum(), result.fit_seconds[1:].sum()
            records.append(
                {
                    "stream": stream,
                    "classifier": name,
                    "seed": seed,
                    "rows": len(y),
                    "accuracy": 100.0 * result.accuracy,
                    "rows_per_second": len(y) / seconds,
                    "ms": 1e3 * seconds / len(y),
                    "learning": 100.0 * learning / (predicting + learning),
                    "megabytes": result.state_bytes[-1] / 1e6,
                }
            )
            print(f"{stream}, seed {seed}, {name}: {result}", file=sys.stderr, flush=True)
    return records


def report(records, options, environment):
    """Return the page as Markdown: mean accuracies, and medians of the rest, over the seeds."""
    groups = {}
    for record in records:
        groups.setdefault((record["stream"], record["classifier"]), []).append(record)
    cells = []
    for (stream, classifier), runs in groups.items():
        figures = [f"{np.mean([one['accuracy'] for one in runs]):.1f}"]
        for key in ("rows_per_second", "ms", "learning", "megabytes"):
            figures.append(f"{np.median([one[key] for one in runs]):.3g}")
        cells.append([stream, classifier, *figures])
    notes = [f"{name}: {STREAMS[name].__doc__}" for name in options.streams]
    notes += [
        f"seeds: {', '.join(map(str, options.seeds))}, which draw the streams and seed the "
        f"classifiers; at most {options.rows} rows of each stream",
        "each row is predicted before it is learned, alone; a row of a new label counts as wrong; "
        "the first row is not tested",
        "accuracy: mean over the seeds; all else: medians; rows/s: of processor time, which "
        "other processes on the machine hardly change; size: of the pickle after the stream",
        "scikit-learn's GaussianNB takes its smoothing from the variances within the first call, "
        "and a single row has none",
        f"decay: called every {options.decay_every} rows; river's KNN and softmax stand behind its "
        "StandardScaler",
    ]
    if "river" in sys.modules:
        notes.append(f"river {sys.modules['river'].__version__}")
    return page("One row at a time", environment, notes, table(COLUMNS, cells))


def main(arguments=None):
    """Run the comparison and print its report."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--streams", nargs="+", choices=list(STREAMS), default=list(STREAMS))
    add("--classifiers", nargs="+", default=[""], help="words in their names; default: all")
    add(
        "--settings",
        nargs="+",
        type=read_settings,
        default=[{}],
        help="of IDA: refresh=.1,rank=32",
    )
    add("--rows", type=int, default=1000, help="most rows of a stream")
    add("--factors", nargs="+", type=float, default=[0.9, 0.7], help="of decay under drift")
    add("--decay-every", type=int, default=50, help="rows between two decays")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    run_and_publish(run, report, parser.parse_args(arguments))


if __name__ == "__main__":
    main()
