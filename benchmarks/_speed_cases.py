"""The cases of the speed benchmark, the classes they are run on, and how a case is measured."""

import pickle
from dataclasses import dataclass, field

import numpy as np
from _speed_clock import alternate, apart, comparison, peak_of_step, seconds_of
from _speed_floor import (
    NullSpaceFloor,
    PredictionFloor,
    SolutionFloor,
    TaskFloor,
    task_floor_step,
)

from ffnb_sklearn import FFNBClassifier


@dataclass(frozen=True)
class Case:
    """A task of ``n_samples`` rows with ``new`` classes after ``seen`` others.

    Attributes
    ----------
    n_samples : int
        Rows of the task; as many per class as in all tasks before it.
    n_inputs : int
        Width of the inputs.
    seen, new : int
        Known classes and new ones.
    shared : int
        Neurons of the shared band, M.
    settings : tuple of (str, object)
        Further parameters of the classifier; the others have their defaults.
    n_test : int
        Rows of a prediction.
    """

    n_samples: int = 2500
    n_inputs: int = 512
    seen: int = 100
    new: int = 5
    shared: int = 0
    settings: tuple = field(default=(("band_size", 0),))
    n_test: int = 2_000

    @property
    def label(self):
        """The case in a cell of a table."""
        settings = ", ".join(f"{name}={value}" for name, value in self.settings) or "defaults"
        return (
            f"n={self.n_samples} d={self.n_inputs} C={self.seen}+{self.new} M={self.shared}, "
            f"{settings}"
        )


def gaussian_classes(n_classes, n_features, per_class, *, seed=0, first=0, n_axes=16):
    """Return rows of Gaussian classes with axes of their own, and their labels.

    A class is the same whichever classes are drawn with it. It spreads along `n_axes` axes beyond
    its spherical noise. The number of the first class is `first`.
    """
    blocks = []
    for label in range(first, first + n_classes):
        random = np.random.default_rng([seed, label])
        axes = (
            random.standard_normal((n_axes, n_features)) * np.geomspace(1.0, 0.1, n_axes)[:, None]
        )
        rows = random.standard_normal((per_class, n_features))
        rows += random.standard_normal((per_class, n_axes)) @ axes
        blocks.append(rows + 0.3 * random.standard_normal(n_features))
    return np.concatenate(blocks), np.repeat(np.arange(first, first + n_classes), per_class)


def learned(case):
    """The classifier that knows the first classes of a case, as a pickle of it."""
    per_class = case.n_samples // case.new
    X, y = gaussian_classes(case.seen, case.n_inputs, per_class)
    estimator = FFNBClassifier(
        shared_band_size=case.shared,
        classes_per_task=case.new,
        random_state=0,
        device="cpu",
        **dict(case.settings),
    )
    return pickle.dumps(estimator.fit(X, y), protocol=5)


def shapes_of(taught, X):
    """Return what the floors need to know of a classifier: numbers of axes, classes, features."""
    moments = taught._state.model.moments
    return {
        "n_axes": sum(one.rank for one in moments),
        "n_classes": len(moments),
        "n_features": taught.transform(X[:1]).shape[1],
    }


def run_case(case, repeats=5):
    """Measure a task and the predictions after it against their floors.

    Every round starts from the same pickle, so that nothing computed for one round is there for
    the next. Work that `partial_fit` may leave to the first prediction is measured with that.
    Return a record per step: the task, the first prediction after it, later ones, and both; with
    trained bands also what the eigendecomposition of their null-space takes by itself.
    """
    state = learned(case)
    X, y = gaussian_classes(case.new, case.n_inputs, case.n_samples // case.new, first=case.seen)
    X_test = np.random.default_rng(1).standard_normal((case.n_test, case.n_inputs))
    shapes = shapes_of(pickle.loads(state).partial_fit(X, y), X)
    width = shapes["n_features"]

    def method():
        estimator = pickle.loads(state)
        return {
            "partial_fit": seconds_of(estimator.partial_fit, X, y),
            "first prediction": seconds_of(estimator.predict, X_test),
            "later prediction": seconds_of(estimator.predict, X_test),
        }

    candidates = {
        "task floor": TaskFloor(len(X), case.n_inputs, width),
        "solution floor": SolutionFloor(**shapes),
        "method": method,
        "prediction floor": PredictionFloor(case.n_test, **shapes),
    }
    if pickle.loads(state).band_size:
        candidates["an eigendecomposition alone"] = NullSpaceFloor(case.n_inputs)
    seconds = alternate(candidates, repeats)
    of_task, of_prediction = seconds["task floor"], seconds["prediction floor"]
    of_first = seconds["solution floor"] + of_prediction
    both = seconds["partial_fit"] + seconds["first prediction"]
    steps = {
        "partial_fit": (seconds["partial_fit"], of_task),
        "first prediction": (seconds["first prediction"], of_first),
        "later prediction": (seconds["later prediction"], of_prediction),
        "partial_fit + first prediction": (both, of_task + of_first),
    }
    if "an eigendecomposition alone" in seconds:
        steps["an eigendecomposition alone"] = seconds["an eigendecomposition alone"], of_task
    shape = {"width": width, "state_mb": len(state) / 1e6}
    return [
        {"case": case.label, "step": step, **comparison(*pair), **shape}
        for step, pair in steps.items()
    ]


def memory_of_case(case):
    """Return the peak memory of a task, of a prediction, and of the task's floor."""
    state = learned(case)
    X, y = gaussian_classes(case.new, case.n_inputs, case.n_samples // case.new, first=case.seen)
    known = pickle.loads(state)
    taught = pickle.loads(state).partial_fit(X, y)
    X_test = np.random.default_rng(1).standard_normal((case.n_test, case.n_inputs))
    floor = TaskFloor(len(X), case.n_inputs, taught.transform(X[:1]).shape[1])
    steps = {
        "task floor": (task_floor_step, floor),
        "partial_fit": (_fit_step, known, X, y),
        "prediction": (_predict_step, taught, X_test),
    }
    return [
        {"case": case.label, "step": name, **apart(peak_of_step, *step)}
        for name, step in steps.items()
    ]


def _fit_step(estimator, X, y):
    return estimator.partial_fit(X, y)


def _predict_step(estimator, X):
    return estimator.predict(X)
