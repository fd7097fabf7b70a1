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
    "bands__units": ["relative", "absolute"],
    "bands__half_bias": [False, True],
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


# Values that no estimator may have together.
ABSOLUTE_AUTO = {"epsilon": "auto", "bands__units": "absolute"}.items()


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
    parameters = {
        "band_size": 0,
        "shared_band_size": 5,
        "random_state": 0,
        "device": "cpu",
        "epsilon": 0.1,
        "classifier": _drawn(rng, "classifier"),
        "covariance": _drawn(rng, "covariance"),
        "skip_connection": _drawn(rng, "skip_connection"),
    }
    has_scaler, has_bands = rng.random(2) < 0.5
    model = IncrementalDiscriminantAnalysis().set_params(
        **{**parameters, "band_size": int(has_bands)}
    )
    if has_scaler:
        model = make_continual_pipeline(StandardScaler(), model)
    model.fit(ROWS, LABELS)
    for name in rng.choice([*VALUES], n_changes):
        model = _saved(model) if rng.random() < 0.1 else model
        _change_one_parameter(model, name, _drawn(rng, name), count)


def _saved(model):
    """Return a model that was saved and loaded."""
    with tempfile.TemporaryDirectory() as folder:
        save(model, Path(folder, "model.ffnb"))
        return load(Path(folder, "model.ffnb"))


def _change_one_parameter(model, name, value, count):
    """Change a parameter; note the change if its result is not that of its rule."""
    last = model[-1] if hasattr(model, "steps") else model
    last.set_params(bands=last.bands or Bands())
    parameters = last.get_params()
    old, before = parameters[name], model.decision_function(NEW)
    if name == "band_size" and last.band_size == 0:
        # Another value is refused, as those of the parameters that shape the state.
        rule = FIXED
    elif {**parameters, name: value}.items() >= ABSOLUTE_AUTO:
        return
    else:
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
    if rule == NEXT_PREDICTION and last.band_size == 0:
        # Parameters of learning are those with which the model has learned.
        defaults, now = FFNBClassifier(bands=Bands()).get_params(), last.get_params()
        learned = {one: defaults[one] for one in RULES}
        present = {one: now[one] for one in RULES if RULES[one] != NEXT_LEARNING}
        fresh = clone(model)
        fresh_last = fresh[-1] if hasattr(fresh, "steps") else fresh
        fresh_last.set_params(**{**learned, **present, "band_size": 0})
        expected = fresh.fit(ROWS, LABELS).decision_function(NEW)
        error = np.abs(after - expected).max() / max(1.0, np.abs(expected).max())
        # Chunks of other sizes round the moments differently.
        if error > 1e-6:
            count.wrong.append(f"{name}={value!r} after {old!r} differs by {error:.1e} from a fit")
