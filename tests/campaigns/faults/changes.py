"""Change random parameters after learning, and compare with a model fitted with these values."""

import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from ffnb_sklearn import (
    Bands,
    FFNBClassifier,
    IncrementalDiscriminantAnalysis,
    load,
    make_continual_pipeline,
    save,
)
from tests.campaigns.faults.machine import LABELS, NEW, ROWS
from tests.parameter_rules import FIXED, NEXT_LEARNING, NEXT_PREDICTION, RULES

# Values that each parameter may take.
VALUES = {
    "p": [0.5, 0.95, 2],
    "band_size": [1, 2],
    "n_layers": [1, 2],
    "shared_band_size": [5, 6],
    "skip_connection": [False, True],
    "scale": [False, True],
    "bands__activation": ["relu", "tanh"],
    "bands__init": ["multi", "mono", "random"],
    "bands__gamma": [0.1, 1.0],
    "bands__null_space": [False, True],
    "covariance": ["class", "identity"],
    "shrinkage": ["auto", 0.0, 0.3, 1.0],
    "epsilon": ["auto", 0.1, 2.0],
    "rank": [None, 2, "auto"],
    "classifier": ["gaussian", "ovo", "ova"],
    "chunk_size": [3, 4096],
    "bands__old_statistics": ["gaussian", "zero"],
    "units": ["relative", "absolute"],
    "half_bias": [False, True],
    "bands__left_out": [False, True],
    "bands__adaptive_rate": [False, True],
    "bands__max_epochs": [0, 1],
    "bands__learning_rate": [0.003, 0.01],
    "bands__momentum": [0.5, 0.9],
    "bands__weight_decay": [0.0, 0.1],
    "bands__batch_size": [10, 50],
    "bands__batch_norm": [False, True],
    "classes_per_task": [None, 2],
    "device": ["auto", "cpu"],
    "random_state": [0, 1],
    "verbose": [0, False],
    # A weight of 0 makes label 0 background.
    "priors": [
        "uniform",
        "empirical",
        {label: label + 1.0 for label in range(6)},
        {label: float(label) for label in range(6)},
    ],
    "novelty": [False, True],
    # A solution that follows differs a little from one solved anew (tests/test_refresh.py).
    "refresh": [0.0, 0],
}

# Classifiers, each with parameters that only classifiers with bands have.
CLASSIFIERS = {
    IncrementalDiscriminantAnalysis: {},
    FFNBClassifier: {"band_size": 1, "classes_per_task": None},
    FFNBClassifier.as_published: {
        "classes_per_task": None,
        "units": "relative",
        # The descent depends on the classifier that is solved.
        "bands__max_epochs": 0,
    },
}

# Values that no estimator may have together.
ABSOLUTE_AUTO = {"epsilon": "auto", "units": "absolute"}.items()

# Parameters of the next prediction that the bands of a task read too.
OF_BANDS_TOO = ("classifier", "units", "half_bias")


@dataclass
class Count:
    """Results of the changes.

    Attributes
    ----------
    n_changes : int
        Changed parameters.
    n_effects : int
        Changes after which predictions differed.
    n_refused : int
        Changes that the next call that learns refused by name.
    wrong : list of str
        Changes whose result is not that of the rule of the parameter.
    """

    n_changes: int = 0
    n_effects: int = 0
    n_refused: int = 0
    wrong: list = field(default_factory=list)


def count_wrong_changes(n_changes, seed=0):
    """Change parameters of models, one after another, until there are enough changes."""
    rng, count = np.random.default_rng(seed), Count()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while count.n_changes < n_changes:
            _change_one_model(rng, count)
    return count


def _drawn(rng, name):
    return VALUES[name][rng.integers(len(VALUES[name]))]


def _change_one_model(rng, count, n_changes=10):
    """Fit a model with random parameters, and change ten of them, one after another."""
    parameters = {"shared_band_size": 5, "random_state": 0, "device": "cpu", "epsilon": 0.1}
    parameters["classifier"] = _drawn(rng, "classifier")
    make = list(CLASSIFIERS)[rng.integers(len(CLASSIFIERS))]
    last = make(**parameters, **CLASSIFIERS[make])
    if hasattr(last, "bands"):
        last.set_params(
            bands=last.bands or Bands(),
            covariance=_drawn(rng, "covariance"),
            skip_connection=_drawn(rng, "skip_connection"),
        )
    has_scaler = rng.random() < 0.5
    model = make_continual_pipeline(StandardScaler(), last) if has_scaler else last
    model.fit(ROWS, LABELS)
    learned = _last(model).get_params()
    names = [name for name in VALUES if name in learned]
    for name in rng.choice(names, n_changes):
        model = _saved(model) if rng.random() < 0.1 else model
        _change_one_parameter(model, learned, name, _drawn(rng, name), count)


def _last(model):
    """Return the classifier of a pipeline, or the classifier itself."""
    return model[-1] if hasattr(model, "steps") else model


def _saved(model):
    """Return a model that was saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder, "model.ffnb"))
        return load(Path(folder, "model.ffnb"))


def _change_one_parameter(model, learned, name, value, count):
    """Change a parameter; note the change if its result is not that of its rule.

    `learned` are the parameters with which the model has learned.
    """
    last = _last(model)
    parameters = last.get_params()
    old, before = parameters[name], model.decision_function(NEW)
    if {**parameters, name: value}.items() >= ABSOLUTE_AUTO:
        return
    rule = RULES[name]
    last.set_params(**{name: value})
    count.n_changes += 1
    after = model.decision_function(NEW)
    has_effect = after.tobytes() != before.tobytes()
    count.n_effects += has_effect
    if rule != NEXT_PREDICTION and has_effect:
        count.wrong.append(f"{name}={value!r} after {old!r} changes predictions before a task")
    if rule == FIXED and value != old:
        try:
            last.partial_fit(ROWS, LABELS)
            count.wrong.append(f"{name}={value!r} after {old!r} is not refused")
        except ValueError as error:
            count.n_refused += 1
            if not str(error).startswith(name):
                count.wrong.append(f"{name}={value!r} after {old!r}: {error}")
        last.set_params(**{name: old})
    present = last.get_params()
    has_old_bands = hasattr(last, "bands") and any(
        present[one] != learned[one] for one in OF_BANDS_TOO if one in learned
    )
    if rule == NEXT_PREDICTION and not has_old_bands:
        # Parameters of learning are those with which the model has learned.
        fresh = clone(model)
        for one in RULES:
            if one in learned:
                values = learned if RULES[one] == NEXT_LEARNING else present
                _last(fresh).set_params(**{one: values[one]})
        expected = fresh.fit(ROWS, LABELS).decision_function(NEW)
        error = np.abs(after - expected).max() / max(1.0, np.abs(expected).max())
        # Chunks of other sizes round the moments differently.
        if error > 1e-6:
            count.wrong.append(f"{name}={value!r} after {old!r} differs by {error:.1e} from a fit")
