"""Run the rows of a table, and record the figures of every single run."""

import csv
import sys
import time
import warnings
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import isqrt
from numbers import Integral
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone

from benchmarks.lib.published import ABSOLUTE, published_in_absolute_units
from benchmarks.lib.report import read_records
from benchmarks.paper.data_sets import DEEP_P, load_splits, read_skeletons, thin
from benchmarks.paper.end_to_end import build_end_to_end, load_nodes
from benchmarks.paper.softmax import SoftmaxOneVsAll
from benchmarks.paper.tables import CLOSED, IDA, ONE_NEURON
from ffnb_sklearn import (
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    class_incremental_tasks,
    evaluate_stream,
)
from ffnb_sklearn._base.forgetting_bound import descent_bound
from ffnb_sklearn.baselines import NaiveIncrementalClassifier
from ffnb_sklearn.exceptions import EmptyNullSpaceWarning

# What --quick leaves: rows of a table, epochs, training and test samples of a class.
QUICK_ROWS = 6
QUICK_EPOCHS = 2
QUICK_SAMPLES = 12, 10

# The rows of closed forms have the settings of the descent, too, and joint models have p.
IDLE = "These parameters have no effect"

# Rows of these models have no parameters of the published model.
OWN_MODELS = {
    IDA: IncrementalDiscriminantAnalysis(),
    ONE_NEURON: FFNBClassifier(band_size=1),
}

# Figures of a run that are one number each.
NUMBERS = ("bound", "drift", "printed_bound", "seconds")

# A run is told apart by these columns of its record.
KEY = ("stream", "features", "pretraining", "model", "changes", "split", "seed")


class PairsOfInputs(IncrementalDiscriminantAnalysis):
    """The classifier of the paper on the inputs of its network, without any band.

    Parameters
    ----------
    epsilon : float, default=0.01
        Absolute ridge, as in the published model.
    rank, device, random_state
        As in `IncrementalDiscriminantAnalysis`.
    """

    def __init__(self, *, epsilon=0.01, rank=None, device="auto", random_state=None):
        super().__init__(
            shared_band_size=0,
            classifier="ovo",
            shrinkage=0.0,
            epsilon=epsilon,
            rank=rank,
            device=device,
            random_state=random_state,
        )
        self.units = "absolute"


@dataclass(frozen=True, eq=False)
class Run:
    """Figures of one model on one split with one seed.

    `accuracies` are those over all classes so far, after each report (nan for a joint model before
    the last), and `matrix`, of CIFAR-100, those on the classes of each report (columns). `sizes`
    are the numbers of parameters after each task, and `epochs` its number of epochs. `bound` and
    `drift` are those of the last task, and `printed_bound` sums over the steps of its descent.
    `seconds` is the time of the processor. A run that an error ended has no figures; `failure` is
    the class of the error.
    """

    accuracies: np.ndarray
    matrix: np.ndarray
    sizes: np.ndarray
    epochs: np.ndarray
    bound: float = np.nan
    drift: float = np.nan
    printed_bound: float = np.nan
    seconds: float = np.nan
    failure: str = ""

    @property
    def final(self):
        """Accuracy after the last task."""
        return self.accuracies[-1]

    def as_record(self):
        """Return the figures as text."""
        form = {"sizes": ".0f", "epochs": ".0f"}
        form |= dict.fromkeys(NUMBERS, ".6g")
        figures = dict(vars(self))
        failure = figures.pop("failure")
        record = {
            name: " ".join(format(value, form.get(name, ".6f")) for value in np.ravel(values))
            for name, values in figures.items()
        }
        return record | {"failure": failure}

    @classmethod
    def of_record(cls, record):
        """Return the run of a record."""
        names = cls.__dataclass_fields__.keys() - {"failure"}
        figures = {name: np.array(record[name].split(), dtype=float) for name in names}
        n_groups = isqrt(figures["matrix"].size)
        figures["matrix"] = figures["matrix"].reshape(n_groups, n_groups)
        numbers = {name: figures[name].item() for name in NUMBERS}
        return cls(**figures | numbers, failure=record["failure"])


@dataclass(frozen=True)
class Plan:
    """Options that all rows share; see the command line of `paper.py`.

    With `shuffled` the training rows come in another order.
    """

    folder: Path
    seeds: tuple[int, ...]
    cifar: str = "cifar100_b50.npz"
    device: str = "cpu"
    jobs: int = 1
    quick: bool = False
    shuffled: bool = False


class Runner:
    """Runs rows, and writes each run to a file at once; an interrupted command goes on from there.

    Without a file the runs are kept in memory. Tables share runs.
    """

    def __init__(self, plan, path=None):
        self.plan, self._path = plan, path
        records = read_records([path] if path is not None and path.is_file() else [])
        self._runs = {tuple(one[name] for name in KEY): Run.of_record(one) for one in records}

    def run(self, rows):
        """Make the runs of rows that are not there yet."""
        cells = self._cells(rows)
        missing = {key: cell for key, cell in cells.items() if key not in self._runs}
        calls = (delayed(measure)(key, self.plan, *cell) for key, cell in missing.items())
        n_jobs, unordered = self.plan.jobs, "generator_unordered"
        for number, (key, run) in enumerate(Parallel(n_jobs, return_as=unordered)(calls), start=1):
            self._runs[key] = run
            self._write(dict(zip(KEY, key, strict=True)) | run.as_record())
            result = run.failure or f"{run.final:.2%}"
            print(f"{number} / {len(missing)}", *key, result, file=sys.stderr)

    def seconds(self, rows):
        """Return the seconds of all recorded runs of some rows, nan where they are not recorded."""
        recorded = self._cells(rows).keys() & self._runs.keys()
        return np.array([self._runs[key].seconds for key in recorded])

    def _cells(self, rows):
        """Return the row, mode, split and seed of all runs of some rows, by their keys."""
        cells = {}
        for row in rows:
            for mode, split, seed in product(row.modes, self.splits(row), self.plan.seeds):
                key = self.key(row, mode, split, seed)
                cells.setdefault(key, (row, mode, split, seed))
        return cells

    def runs(self, row, mode, splits):
        """Return the completed runs of a row in a mode: of each seed that has all these splits."""
        if mode not in row.modes:
            return []
        return list(self.runs_by_seed(row, mode, splits).values())

    def runs_by_seed(self, row, mode, splits):
        """Return the completed runs of these splits by seed, of each seed that has all of them."""
        by_seed = {}
        for seed in self.plan.seeds:
            runs = self._recorded(row, mode, splits, seed)
            if len(runs) == len(splits) and not any(run.failure for run in runs):
                by_seed[seed] = runs
        return by_seed

    def failures(self, row, mode, splits):
        """Return the class of the error of each seed with a failed run in these splits."""
        if mode not in row.modes:
            return []
        failures = []
        for seed in self.plan.seeds:
            classes = [run.failure for run in self._recorded(row, mode, splits, seed)]
            failures += list(filter(None, classes))[:1]
        return failures

    def _recorded(self, row, mode, splits, seed):
        """Return the recorded runs of a seed, failed ones included."""
        runs = [self._runs.get(self.key(row, mode, split, seed)) for split in splits]
        return [run for run in runs if run is not None]

    def splits(self, row):
        """Names of the splits of a row."""
        if self.plan.quick or row.only_printed or row.data_set.name == "cifar":
            return [row.data_set.split]
        return split_names(self.plan.folder, row.data_set.name)

    def key(self, row, mode, split, seed):
        """Return the values of `KEY` of a run."""
        data_set = row.data_set
        stream = f"{data_set.name}, {data_set.classes_per_task} per task"
        features = Path(features_of(row, self.plan)).stem
        if self.plan.quick:
            features += ", few samples"
        elif data_set.rows_per_class is not None:
            features += f", {data_set.rows_per_class} rows per class"
        # With its options of the bands by name.
        published = published_in_absolute_units(bands__max_epochs=250).get_params()
        given = sorted(parameters_of(row, mode, self.plan.quick).items())
        changes = ", ".join(f"{k}={value!r}" for k, value in given if value != published[k])
        return stream, features, str(row.pretraining), row.model, changes, split, str(seed)

    def _write(self, record):
        """Append a record to the file, if there is one."""
        if self._path is None:
            return
        is_new = not self._path.is_file()
        with open(self._path, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(record))
            if is_new:
                writer.writeheader()
            writer.writerow(record)


def parameters_of(row, mode, quick=False):
    """Return the parameters of a row in a mode; none for `OWN_MODELS`."""
    if row.model.removesuffix(" joint") in OWN_MODELS:
        return {}
    epochs = 0 if mode == CLOSED else row.epochs or row.data_set.epochs
    epochs = min(epochs, QUICK_EPOCHS) if quick else epochs
    return {**ABSOLUTE, **row.data_set.parameters, **row.parameters, "bands__max_epochs": epochs}


def build_model(row, mode, *, seed, device="cpu", quick=False):
    """Return the estimator of a row in a mode."""
    common = {"random_state": seed, "device": device}
    own_model = OWN_MODELS.get(row.model.removesuffix(" joint"))
    if own_model is not None:
        return clone(own_model).set_params(**common)
    parameters = parameters_of(row, mode, quick)
    if parameters.get("band_size") == 0:
        known = PairsOfInputs().get_params()
        given = {name: value for name, value in parameters.items() if name in known}
        return PairsOfInputs(**given, **common)
    model = FFNBClassifier.as_published(**parameters, **common)
    if model.n_layers > 1 and isinstance(model.p, Integral):
        # Layers above the first are too narrow for the printed number.
        model.set_params(p=(model.p, *[DEEP_P] * (model.n_layers - 1)))
    if row.model == "softmax":
        return SoftmaxOneVsAll(model, max_epochs=model.bands.max_epochs)
    if row.model != "algorithm 1":
        return model
    known = NaiveIncrementalClassifier().get_params(deep=False)
    # All printed epochs run.
    given = model.get_params(deep=False) | model.bands.get_params() | {"patience": None}
    return NaiveIncrementalClassifier(**{k: given[k] for k in known if k in given})


def features_of(row, plan):
    """Return the name of the features of a row: a file of CIFAR-100, or a key of `FEATURES`."""
    if row.data_set.name == "cifar":
        return row.data_set.file or plan.cifar
    return row.features


def measure(key, plan, row, mode, name, seed):
    """Return the key and the figures of one run."""
    start = time.process_time()
    run = _run(plan, row, mode, name, seed)
    return key, replace(run, seconds=time.process_time() - start)


def rows_of(plan, row, name, seed):
    """Return the rows of features of a split."""
    features = features_of(row, plan)
    load = load_splits(row.data_set.name, plan.folder, features, row.pretraining, seed, plan.device)
    split = load[name]
    if plan.quick:
        return thin(split, *QUICK_SAMPLES)
    if row.data_set.rows_per_class is not None:
        return thin(split, row.data_set.rows_per_class, None)
    return split


def _run(plan, row, mode, name, seed):
    """Return the figures of one run, without its time."""
    split = rows_of(plan, row, name, seed)
    if row.model.startswith("end-to-end"):
        # The convolution is a part of the model.
        split = load_nodes(row.data_set, plan.folder)[name]
    if plan.shuffled:
        order = np.random.default_rng(seed).permutation(len(split.y))
        split = replace(split, X=split.X[order], y=split.y[order])
    if row.model.startswith("end-to-end"):
        epochs = parameters_of(row, mode, plan.quick)["bands__max_epochs"]
        model = build_end_to_end(row.data_set, plan.folder, seed=seed, max_epochs=epochs)
    else:
        model = build_model(row, mode, seed=seed, device=plan.device, quick=plan.quick)
    learn = _fit_jointly if row.model.endswith("joint") else _stream
    try:
        return learn(model, row, split)
    except ValueError as error:
        # The descent may leave the range of numbers, where nothing protects the past.
        print(f"{row.label}, {mode}, seed {seed}: {error}", file=sys.stderr)
        return _failed(error, row.data_set)


def _failed(error, data_set):
    """Return the run that an error ended."""
    accuracies = np.full(data_set.n_reports, np.nan)
    empty = np.empty(0)
    return Run(accuracies, np.empty((0, 0)), empty, empty, failure=type(error).__name__)


def _stream(model, row, split):
    """Let a model learn task after task."""
    data_set = row.data_set
    options, every = data_set.stream, data_set.tasks_per_report
    with warnings.catch_warnings():
        # Few samples, of --quick, have nothing left beside the axes that are kept.
        warnings.simplefilter("ignore", EmptyNullSpaceWarning)
        warnings.filterwarnings("ignore", IDLE)
        result = evaluate_stream(
            Logged(model), split.X, split.y, split.X_test, split.y_test, **options
        )
    logged = result.estimator
    run = Run(
        accuracies=result.accuracies[every - 1 :: every],
        matrix=result.accuracy_matrix if data_set.name == "cifar" else np.empty((0, 0)),
        sizes=np.array(logged.sizes_),
        epochs=np.array(logged.epochs_),
    )
    # The paper prints bounds on skeletons alone, and no bound holds without bands.
    is_printed = data_set.name != "cifar" and row.model == "paper"
    if not is_printed or isinstance(model, PairsOfInputs) or model.bands.batch_norm:
        return run
    newest = class_incremental_tasks(split.y, **options)[-1]
    X_previous = np.delete(split.X, newest, axis=0)
    bound = logged.estimator_.forgetting_bound(X_previous)
    run = replace(run, bound=bound.bound, drift=bound.drift)
    if not model.bands.max_epochs:
        return run
    X_newest, y_newest = split.X[newest], split.y[newest]
    summed = descent_bound(logged.previous_, X_newest, y_newest, X_previous)
    return replace(run, printed_bound=summed)


def _fit_jointly(model, row, split):
    """Let a model learn all classes at once: figures after the last report are all there are."""
    if isinstance(model, FFNBClassifier):
        model.set_params(classes_per_task=None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", IDLE)
        model.fit(split.X, split.y)
    accuracies = np.full(row.data_set.n_reports, np.nan)
    accuracies[-1] = model.score(split.X_test, split.y_test)
    sizes, epochs = [model.n_parameters_], [epochs_of(model)]
    return Run(accuracies, np.empty((0, 0)), np.array(sizes), np.array(epochs))


def epochs_of(model):
    """Return the number of epochs of the last task; 0 for a model without bands."""
    return getattr(model, "n_iter_", 0)


class Logged(BaseEstimator):
    """A classifier that notes sizes and epochs, and keeps its state before the last task."""

    def __init__(self, estimator):
        self.estimator = estimator

    def partial_fit(self, X, y):
        """Learn one more task."""
        if not hasattr(self, "estimator_"):
            self.estimator_ = clone(self.estimator)
            self.sizes_, self.epochs_ = [], []
        self.previous_ = copy(self.estimator_)
        self.estimator_.partial_fit(X, y)
        self.sizes_.append(self.estimator_.n_parameters_)
        self.epochs_.append(epochs_of(self.estimator_))
        return self

    def predict(self, X):
        """Most likely label of each sample."""
        return self.estimator_.predict(X)


@cache
def split_names(folder, name):
    """Return the names of the splits of a data set."""
    return list(read_skeletons(folder, name)["masks"])
