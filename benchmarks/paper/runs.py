"""Run the rows of a table, and keep the figures of every single run."""

import sys
import time
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, clone

from benchmarks.heads.methods import METHODS, Context
from benchmarks.paper.data_sets import (
    DEEP_P,
    PEER_WIDTH,
    UnavailableError,
    load_splits,
    thin,
)
from ffnb_sklearn import FFNBClassifier, class_incremental_tasks, evaluate_stream
from ffnb_sklearn.baselines import NaiveIncrementalClassifier

# What --quick leaves: rows of a table, epochs, training and test samples of a class.
QUICK_ROWS = 6
QUICK_EPOCHS = 2
QUICK_SAMPLES = 12, 10
QUICK_WIDTH = 256


@dataclass(frozen=True, eq=False)
class Run:
    """One model on one split with one seed.

    Attributes
    ----------
    row, split, seed : str, str, int
        What was run.
    classes : tuple of str
        First and last label of each task.
    matrix : ndarray of shape (n_tasks, n_tasks)
        Accuracy on the classes of task j after task i; nan for a joint model.
    n_test : ndarray of shape (n_tasks,)
        Test samples of each task.
    accuracies : ndarray of shape (n_tasks,)
        Accuracy over all classes seen so far, after each task.
    seconds, epochs, sizes : ndarray of shape (n_tasks,)
        Time and epochs of each task, and the number of parameters after it.
    losses : ndarray of shape (n_tasks, 2)
        Hinge loss after the first and the last epoch of each task; nan where it had none.
    bound, drift : float
        Bound on forgetting in the last task, and the drift that it bounds; nan if not asked for.
    """

    row: str
    split: str
    seed: int
    classes: tuple[str, ...]
    matrix: np.ndarray
    n_test: np.ndarray
    accuracies: np.ndarray
    seconds: np.ndarray
    epochs: np.ndarray
    sizes: np.ndarray
    losses: np.ndarray
    bound: float = np.nan
    drift: float = np.nan

    @property
    def final(self):
        """Accuracy after the last task."""
        return self.accuracies[-1]

    def records(self):
        """One record per task, for a file."""
        for i, accuracy in enumerate(self.accuracies):
            last = i == len(self.accuracies) - 1
            yield {
                "row": self.row,
                "split": self.split,
                "seed": self.seed,
                "task": i + 1,
                "classes": self.classes[i],
                "n_test": int(self.n_test[: i + 1].sum()),
                "accuracy": accuracy,
                "accuracy_of_each_task": " ".join(f"{a:.6f}" for a in self.matrix[i, : i + 1]),
                "seconds": self.seconds[i],
                "epochs": self.epochs[i],
                "parameters": self.sizes[i],
                "first_loss": self.losses[i, 0],
                "last_loss": self.losses[i, 1],
                "bound": self.bound if last else np.nan,
                "drift": self.drift if last else np.nan,
            }


@dataclass(frozen=True)
class Plan:
    """What all rows share; see the command line of `paper.py`."""

    folder: Path
    seeds: tuple[int, ...]
    features: str
    device: str
    max_epochs: int | None = None
    quick: bool = False
    hold_out: bool = False


class Runner:
    """Runs rows, and keeps the runs, since tables share rows.

    Parameters
    ----------
    plan : Plan
        What the rows share.
    """

    def __init__(self, plan):
        self.plan = plan
        self._runs = {}
        self._splits = {}

    def run_table(self, table):
        """Run the rows of a table."""
        runs, missing = {}, {}
        for row in self.rows(table):
            start = time.perf_counter()
            try:
                runs[row.label] = self._run_row(row)
                said = f"{100 * np.mean([run.final for run in runs[row.label]]):.2f} %"
            except UnavailableError as reason:
                runs[row.label], missing[row.label] = [], str(reason)
                said = f"missing: {reason}"
            seconds = time.perf_counter() - start
            print(f"{table.name}, {row.label}: {said}, {seconds:.1f} s", file=sys.stderr)
        return runs, missing

    def rows(self, table):
        """Rows of a table that are run: few, at even distances, where it is to be quick."""
        if not self.plan.quick or len(table.rows) <= QUICK_ROWS:
            return list(table.rows)
        chosen = np.linspace(0, len(table.rows) - 1, QUICK_ROWS).round().astype(int)
        return [table.rows[i] for i in chosen]

    def _run_row(self, row):
        return [
            replace(self._run(row, split, seed), row=row.label)
            for seed in self.plan.seeds[: 1 if row.one_seed else None]
            for split in self._load(row, seed)
        ]

    def _load(self, row, seed):
        """Splits of the row's data set, loaded once."""
        data_set = row.data_set
        key = data_set.name, row.pretrained, seed
        if key not in self._splits:
            splits = load_splits(
                data_set,
                self.plan.folder,
                features=self.plan.features,
                pretraining=row.pretrained,
                seed=seed,
                device=self.plan.device,
                only_printed=self.plan.quick,
                hold_out=self.plan.hold_out,
            )
            if self.plan.quick:
                splits = [thin(split, *QUICK_SAMPLES) for split in splits]
            self._splits[key] = splits
        return self._splits[key]

    def _run(self, row, split, seed):
        """One run, unless another table had it."""
        settings = sorted(row.settings.items())
        key = (row.data_set.title, row.model, *settings, row.pretrained, split.name, seed)
        if key not in self._runs:
            model, joint = build_model(
                row,
                split.X.shape[1],
                seed=seed,
                device=self.plan.device,
                max_epochs=self.plan.max_epochs,
                width=QUICK_WIDTH if self.plan.quick else PEER_WIDTH,
            )
            measure = _fit_jointly if joint else _stream
            self._runs[key] = measure(model, row, split, seed)
        return self._runs[key]


def _stream(model, row, split, seed):
    """Let a model learn task after task."""
    stream = _stream_parameters(row.data_set)
    result = evaluate_stream(Logged(model), split.X, split.y, split.X_test, split.y_test, **stream)
    logged = result.estimator
    run = Run(
        row=row.label,
        split=split.name,
        seed=seed,
        classes=tuple(f"{task[0]}-{task[-1]}" for task in result.task_classes),
        matrix=result.accuracy_matrix,
        n_test=result.n_test_per_task,
        accuracies=result.accuracies,
        seconds=result.fit_seconds,
        epochs=np.array(logged.epochs_),
        sizes=np.array(logged.sizes_),
        losses=np.array(logged.losses_),
    )
    # The paper prints bounds on skeletons alone.
    if row.data_set.name == "cifar" or row.model != "paper" or model.batch_norm:
        return run
    newest = class_incremental_tasks(split.y, **stream)[-1]
    bound = logged.estimator_.forgetting_bound(np.delete(split.X, newest, axis=0))
    return replace(run, bound=bound.bound, drift=bound.drift)


def _fit_jointly(model, row, split, seed):
    """Let a model learn all classes at once: figures of the last task are all there are."""
    start = time.perf_counter()
    model.fit(split.X, split.y)
    seconds = time.perf_counter() - start
    right = model.predict(split.X_test) == split.y_test
    tasks = class_incremental_tasks(split.y_test, **_stream_parameters(row.data_set))
    n_tasks = len(tasks)
    labels = [np.unique(split.y_test[task]) for task in tasks]
    matrix = np.full((n_tasks, n_tasks), np.nan)
    matrix[-1] = [right[task].mean() for task in tasks]
    return Run(
        row=row.label,
        split=split.name,
        seed=seed,
        classes=tuple(f"{task[0]}-{task[-1]}" for task in labels),
        matrix=matrix,
        n_test=np.array([len(task) for task in tasks]),
        accuracies=_only_last(n_tasks, right.mean()),
        seconds=_only_last(n_tasks, seconds),
        epochs=_only_last(n_tasks, getattr(model, "n_iter_", 0)),
        sizes=_only_last(n_tasks, getattr(model, "n_parameters_", np.nan)),
        losses=np.full((n_tasks, 2), np.nan),
    )


def _only_last(n_tasks, value):
    return np.array([np.nan] * (n_tasks - 1) + [value])


def _stream_parameters(data_set):
    return {
        "classes_per_task": data_set.classes_per_task,
        "first_task_classes": data_set.first_task_classes,
    }


class Logged(BaseEstimator):
    """A classifier that notes its size and its epochs after each task.

    Parameters
    ----------
    estimator : classifier with `partial_fit`
        A clone of it learns.

    Attributes
    ----------
    estimator_ : classifier
        The clone.
    sizes_ : list of float
        Number of parameters after each task, nan where the classifier has no such attribute.
    epochs_ : list of int
        Epochs of each task.
    losses_ : list of tuple of float
        Loss after the first and the last epoch of each task, nan where it had none.
    """

    def __init__(self, estimator):
        self.estimator = estimator

    def partial_fit(self, X, y):
        """Learn one more task."""
        if not hasattr(self, "estimator_"):
            self.estimator_, self.sizes_ = clone(self.estimator), []
            self.epochs_, self.losses_ = [], []
        self.estimator_.partial_fit(X, y)
        self.sizes_.append(getattr(self.estimator_, "n_parameters_", float("nan")))
        self.epochs_.append(getattr(self.estimator_, "n_iter_", 0))
        losses = getattr(self.estimator_, "loss_curve_", None) or [float("nan")]
        self.losses_.append((losses[0], losses[-1]))
        return self

    def predict(self, X):
        """Most likely label of each sample."""
        return self.estimator_.predict(X)


def ffnb_parameters(row, n_features, max_epochs=None):
    """Parameters of `FFNBClassifier` in paper mode."""
    parameters = row.settings
    if max_epochs is not None and parameters["max_epochs"]:
        parameters["max_epochs"] = max_epochs
    p = parameters["p"]
    if isinstance(p, Integral):
        if p >= n_features:
            raise UnavailableError(f"p={p} leaves none of {n_features} axes")
        parameters["p"] = (p, *[DEEP_P] * (parameters["n_layers"] - 1))
    return parameters


def build_model(row, n_features, *, seed, device, max_epochs=None, width=PEER_WIDTH):
    """Return the estimator of a row, and whether it learns all classes at once."""
    common = {"random_state": seed, "device": device}
    if row.model in METHODS:
        method = METHODS[row.model]
        return method.build(Context(seed, width, device)), method.joint
    if row.model.startswith("default"):
        return FFNBClassifier(**common), row.model == "default joint"
    parameters = ffnb_parameters(row, n_features, max_epochs)
    if row.model == "paper":
        return FFNBClassifier(**parameters, **common), False
    if row.model == "paper joint":
        return FFNBClassifier(**parameters, **common), True
    if not parameters["max_epochs"]:
        raise UnavailableError("Algorithm 1 has no closed form; --epochs trains it")
    known = NaiveIncrementalClassifier().get_params()
    shared = {name: value for name, value in parameters.items() if name in known}
    return NaiveIncrementalClassifier(**shared, **common), False
