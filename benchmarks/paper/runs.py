"""Run the rows of a table, and keep the figures of every single run."""

import sys
import time
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, clone

from benchmarks.paper.data_sets import DEEP_P, UnavailableError, load_splits, thin
from ffnb_sklearn import Bands, FFNBClassifier, class_incremental_tasks, evaluate_stream
from ffnb_sklearn.baselines import NaiveIncrementalClassifier

# What --quick leaves: rows of a table, epochs, training and test samples of a class.
QUICK_ROWS = 6
QUICK_EPOCHS = 2
QUICK_SAMPLES = 12, 10


@dataclass(frozen=True, eq=False)
class Run:
    """One model on one split with one seed.

    `matrix` has the accuracy on the classes of task j after task i, `accuracies` those over all
    classes so far (nan for tasks of a joint model), and `sizes` the numbers of parameters. `bound`
    and `drift` are those of the last task.
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
    max_epochs: int = 0
    quick: bool = False


class Runner:
    """Runs rows, and keeps the runs, since tables share rows."""

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
    )
    # The paper prints bounds on skeletons alone.
    if row.data_set.name == "cifar" or row.model != "paper" or model.bands.batch_norm:
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
    )


def _only_last(n_tasks, value):
    return np.array([np.nan] * (n_tasks - 1) + [value])


def _stream_parameters(data_set):
    return {
        "classes_per_task": data_set.classes_per_task,
        "first_task_classes": data_set.first_task_classes,
    }


class Logged(BaseEstimator):
    """A classifier that notes its size and its epochs after each task."""

    def __init__(self, estimator):
        self.estimator = estimator

    def partial_fit(self, X, y):
        """Learn one more task."""
        if not hasattr(self, "estimator_"):
            self.estimator_ = clone(self.estimator)
            self.sizes_, self.epochs_ = [], []
        self.estimator_.partial_fit(X, y)
        self.sizes_.append(getattr(self.estimator_, "n_parameters_", float("nan")))
        self.epochs_.append(getattr(self.estimator_, "n_iter_", 0))
        return self

    def predict(self, X):
        """Most likely label of each sample."""
        return self.estimator_.predict(X)


def build_model(row, n_features, *, seed, device, max_epochs=0):
    """Return the estimator of a row, and whether it learns all classes at once.

    Raises `UnavailableError` if p leaves no axis of the inputs, or Algorithm 1 has no epoch.
    """
    common = {"random_state": seed, "device": device}
    if row.model.startswith("default"):
        return FFNBClassifier().set_params(**common), row.model == "default joint"
    model = FFNBClassifier.as_published(**row.data_set.parameters, **common)
    model.set_params(**_as_parameters({"max_epochs": max_epochs, **row.parameters}))
    p = model.p
    if isinstance(p, Integral):
        if p >= n_features:
            raise UnavailableError(f"p={p} leaves none of {n_features} axes")
        # Layers above the first are too narrow for the printed number.
        model.set_params(p=(p, *[DEEP_P] * (model.n_layers - 1)))
    if row.model != "algorithm 1":
        return model, row.model == "paper joint"
    if not model.bands.max_epochs:
        raise UnavailableError("Algorithm 1 has no closed form; --epochs trains it")
    known = NaiveIncrementalClassifier().get_params(deep=False)
    given = model.get_params(deep=False) | model.bands.get_params()
    return NaiveIncrementalClassifier(**{k: given[k] for k in known if k in given}), False


def _as_parameters(settings):
    """Return settings by the names of the paper as parameters of the estimator."""
    options = Bands().get_params()
    return {f"bands__{k}" if k in options else k: value for k, value in settings.items()}
