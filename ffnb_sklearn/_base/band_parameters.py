"""Parameters of trained bands as settings of the core, and warnings of what they cannot do."""

import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Protocol

import numpy as np
from sklearn.utils._param_validation import validate_parameter_constraints

from ..core.bands.band_settings import BandSettings, Descent
from ..core.bands.trained import remove_neurons, trained_of
from ..core.messages import level_of_user
from ..core.model import Model
from .bands import Bands
from .parameters import Conditions, check_unchanged, plain_values
from .state import State

__all__ = [
    "Banded",
    "band_settings_of",
    "bands_of",
    "check_band_continuation",
    "conditions_of_bands",
    "descent_of",
    "warn_of_forgetting",
    "warn_of_idle_parameters",
    "warn_of_merge",
    "warn_of_one_task",
    "warn_without_loss",
]

# Options of the bands that only the descent reads.
_OF_DESCENT = ("learning_rate", "momentum", "weight_decay", "adaptive_rate")

# Options of the bands that only tasks after the first read. In the first task the initial neurons
# "multi" and "mono" are equal.
_OF_LATER_TASKS = ("null_space", "init", "old_statistics")


class Banded(Protocol):
    """A classifier with trained bands: parameters that their settings follow from."""

    bands: Bands | None
    classes_per_task: int | Sequence[int] | None
    n_layers: int
    p: float | Sequence[float]

    def _default_bands(self) -> Bands:
        """Return the options of bands that are not given."""


def bands_of(estimator: Banded) -> Bands:
    """Return the options of the bands of an estimator, of which None has the defaults."""
    bands = estimator.bands
    validate_parameter_constraints(
        {"bands": [Bands, None]}, {"bands": bands}, type(estimator).__name__
    )
    return estimator._default_bands() if bands is None else bands


def band_settings_of(estimator: Banded) -> BandSettings:
    """Return the settings of the bands of a task."""
    bands = bands_of(estimator)
    values = plain_values(BandSettings, vars(estimator) | vars(bands))
    values["p"] = _kept_axes(estimator.p, estimator.n_layers)
    return BandSettings(**values, descent=descent_of(bands))


def descent_of(source: object) -> Descent:
    """Return the parameters of the descent of an estimator or of bands, in plain types.

    Parameters that the estimator lacks have the defaults of `Bands`. Without a parameter `patience`
    all epochs run.
    """
    parameters = {"patience": None} | vars(Bands()) | vars(source)
    return Descent(**plain_values(Descent, parameters))


def _kept_axes(p: float | Sequence[float], n_layers: int) -> tuple[float, ...]:
    """Return the parameter `p` as a tuple of one plain number per layer."""
    axes = list(p) if isinstance(p, Sequence) else [p] * n_layers
    if len(axes) != n_layers:
        raise ValueError(
            f"p must have one entry per layer, n_layers={n_layers}; got {len(axes)} entries."
        )
    return tuple(map(_kept_axes_of_layer, axes))


def _kept_axes_of_layer(p: object) -> float:
    """Return a number of axes as an int, and a share of the energy as a float."""
    if isinstance(p, Integral) and int(p) >= 0:
        return int(p)
    if isinstance(p, Real) and 0.0 < float(p) < 1.0:
        return float(p)
    raise ValueError(
        f"p must be an int of at least 0 or a float in (0, 1), or a sequence of these; got {p!r}."
    )


def check_band_continuation(model: Model, settings: BandSettings) -> None:
    """Raise if a parameter that shapes the trained layers is not as in earlier tasks."""
    if model.trained is not None:
        check_unchanged("n_layers", trained_of(model).n_layers, len(settings.p))


def conditions_of_bands(model: Model) -> Conditions:
    """Return by name the values of bands that have to be equal in a merge."""
    settings = trained_of(model).settings
    conditions: Conditions = {"n_layers": len(settings.p)}
    values = vars(settings) | vars(settings.descent)
    for name, value in values.items():
        # The parameters of the descent are compared one by one.
        if name != "descent":
            is_option = name in Bands._parameter_constraints
            conditions[f"bands__{name}" if is_option else name] = value
    return conditions


def _changed(estimator: Banded, names: Iterable[str]) -> list[str]:
    """Return the names of the parameters, `p` or options of the bands, that are not the default."""
    default = type(estimator)()
    bands = bands_of(estimator)
    default_bands = default._default_bands()
    changed = []
    for name in names:
        if name == "p":
            if estimator.p != default.p:
                changed.append(name)
        elif getattr(bands, name) != getattr(default_bands, name):
            changed.append(f"bands__{name}")
    return changed


def warn_of_one_task(estimator: Banded) -> None:
    """Warn of parameters that only later tasks read, if `fit` learns a single task."""
    names = ["p", *_OF_LATER_TASKS]
    if bands_of(estimator).init == "random":
        names.remove("init")
    idle = _changed(estimator, names)
    if idle:
        _warn(
            f"These parameters have no effect, because fit learns all classes as one task: "
            f"{', '.join(idle)}. Set classes_per_task, such as 1, to learn task by task; got "
            f"classes_per_task={estimator.classes_per_task!r}."
        )


def warn_of_idle_parameters(estimator: Banded) -> None:
    """Warn of options of the bands that other options leave without effect."""
    bands = bands_of(estimator)
    if bands.max_epochs == 0:
        names = list(_OF_DESCENT)
        if not bands.batch_norm:
            names.append("batch_size")
        _warn_of_idle(estimator, names, "bands__max_epochs=0, which skips the descent")
    if not bands.null_space:
        _warn_of_idle(estimator, ("p",), "bands__null_space=False")
    if bands.init == "random":
        _warn_of_idle(estimator, ("gamma", "left_out"), 'bands__init="random"')


def _warn_of_idle(estimator: Banded, names: Iterable[str], reason: str) -> None:
    """Warn if some of the named parameters are not the default, and so do nothing."""
    idle = _changed(estimator, names)
    if idle:
        _warn(f"These parameters have no effect with {reason}: {', '.join(idle)}.")


def warn_without_loss(model: Model) -> None:
    """Warn if the descent of a task had nothing to do."""
    trained = trained_of(model)
    descent = trained.settings.descent
    losses = trained.loss_curve
    if losses and max(losses) == 0.0 and descent.weight_decay == 0.0:
        _warn(
            f"bands__max_epochs={descent.max_epochs} has had no effect in a task: no sample has a "
            "loss, because the closed form of the bands separates all of them."
        )


def warn_of_forgetting(state: State, remaining: State | None) -> None:
    """Warn if trained neurons that remain depend on classes that were forgotten."""
    if remaining is None:
        return
    labels = np.setdiff1d(state.arrived, remaining.arrived)
    numbers = np.flatnonzero(np.isin(state.arrived, labels)).tolist()
    if remove_neurons(trained_of(state.model), numbers).leaves_trace:
        _warn(
            f"Trained neurons keep a trace of the classes {labels.tolist()}: the bands of their "
            "tasks and of later tasks were fitted beside them. Only a new fit removes it. "
            "IncrementalDiscriminantAnalysis forgets exactly."
        )


def warn_of_merge() -> None:
    """Warn that bands of merged models were fitted without the classes of the other model."""
    _warn(
        "Merging is not exact with trained bands: those of each estimator were fitted without the "
        "classes of the other. IncrementalDiscriminantAnalysis merges exactly."
    )


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=level_of_user())
