"""Parameters of an estimator as settings of the core, and their agreement with a learned state."""

import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from numbers import Integral, Real
from operator import is_
from typing import get_args

import numpy as np
from sklearn.utils._param_validation import validate_parameter_constraints

from .._inputs.labels import check_labels
from .._inputs.seeds import next_seed
from ..core.messages import level_of_user
from ..core.settings import Descent, Settings
from .bands import Bands

__all__ = [
    "bands_of",
    "check_continuation",
    "check_mergeable",
    "check_seed",
    "check_unchanged",
    "descent_of",
    "present_state",
    "settings_of",
    "warn_of_idle_parameters",
]

# Most neurons of the automatic shared band, and most weights of all of them: wide inputs need
# fewer. With a random projection there are none: as many further columns of it gain more.
_MOST_SHARED = 500
_MOST_SHARED_WEIGHTS = 360_000

# Most neurons of the automatic shared band beside trained bands, which add nothing to many.
_MOST_BESIDE_BANDS = 50

# Rank "auto" of models whose inputs stay sparse: an axis is as wide as the inputs, and takes memory
# and time in proportion.
_SPARSE_RANK = 8

# Parameters of the solved classifier, which predictions read, and such options of the bands. The
# moments do not depend on them.
_OF_SOLUTION = ("classifier", "covariance", "shrinkage", "epsilon", "chunk_size")
_OF_SOLUTION_IN_BANDS = ("units", "half_bias")

# Settings that may differ in a merge; those of the descent are compared one by one.
_IMMATERIAL = {*_OF_SOLUTION, *_OF_SOLUTION_IN_BANDS, "novelty", "refresh", "scale", "descent"}


def bands_of(estimator):
    """Return the options of the bands of an estimator, of which None has the defaults."""
    bands = estimator.bands
    validate_parameter_constraints(
        {"bands": [Bands, None]}, {"bands": bands}, type(estimator).__name__
    )
    return Bands() if bands is None else bands


def settings_of(estimator, n_inputs, projection):
    """Return the settings of a task; `projection` is None unless its samples are projected.

    Raise if valid parameters do not go together.
    """
    if not (estimator.skip_connection or estimator.shared_band_size or estimator.band_size):
        raise ValueError(
            "skip_connection=False, shared_band_size=0 and band_size=0 leave the classifier "
            "no features; at least one of them must be on."
        )
    bands = bands_of(estimator)
    _check_units(estimator, bands)
    values = _plain_values(Settings, vars(estimator) | vars(bands))
    values["p"] = _kept_axes(estimator.p, estimator.n_layers)
    if values["shared_band_size"] == "auto":
        values["shared_band_size"] = _automatic_shared_band_size(estimator, n_inputs, projection)
    if projection is not None and projection.keeps_sparse:
        values["band_size"] = 0
        if values["rank"] == "auto":
            values["rank"] = _SPARSE_RANK
    return Settings(**values, descent=descent_of(bands))


def _automatic_shared_band_size(estimator, n_inputs, projection):
    """Return the number of shared neurons that "auto" stands for."""
    if projection is not None:
        return 0
    most_neurons = _MOST_SHARED
    if estimator.band_size:
        most_neurons = _MOST_BESIDE_BANDS
    return min(most_neurons, _MOST_SHARED_WEIGHTS // n_inputs)


# Defaults of the parameters that only trained bands read.
_IDLE = {"p": 0.95, "n_layers": 1}


def warn_of_idle_parameters(estimator):
    """Warn of parameters of trained bands beside ``band_size=0``, which trains none."""
    if estimator.band_size:
        return
    idle = [name for name, default in _IDLE.items() if getattr(estimator, name) != default]
    default_bands = vars(Bands())
    for name, value in vars(bands_of(estimator)).items():
        if name not in _OF_SOLUTION_IN_BANDS and value != default_bands[name]:
            idle.append(f"bands__{name}")
    if idle:
        warnings.warn(
            "These parameters have no effect with band_size=0, which trains no bands: "
            f"{', '.join(idle)}. Set band_size to a positive number, such as 3.",
            UserWarning,
            stacklevel=level_of_user(),
        )


def present_state(estimator, state):
    """Return a state whose model has the present parameters of the solved classifier.

    It is the model of the state itself if the settings are equal, and a copy with the new settings
    if they differ. While each parameter is the same object as in the last call, the copy is that of
    the last call, which may hold a solved classifier.
    """
    model = state.model
    parameters = _solution_parameters(estimator)
    values = list(parameters.values())
    last_values, changed_model = model.cache.get("parameters", (None, None))
    if last_values is None or not all(map(is_, last_values, values)):
        settings = _solution_settings(estimator, model.settings, parameters)
        # A reference to the model itself would keep it in memory until a garbage collection.
        changed_model = None
        if settings != model.settings:
            changed_model = replace(model, settings=settings, chosen_from=(), earlier=None)
        model.cache["parameters"] = values, changed_model
    if changed_model is None:
        return state
    return replace(state, model=changed_model)


def _solution_parameters(estimator):
    """Return the parameters that belong to the solved classifier alone, by name."""
    bands = bands_of(estimator)
    _check_units(estimator, bands)
    parameters = {}
    for name in _OF_SOLUTION:
        parameters[name] = getattr(estimator, name)
    for name in _OF_SOLUTION_IN_BANDS:
        parameters[name] = getattr(bands, name)
    return parameters


def _check_units(estimator, bands):
    """Raise if an automatic ridge is to have an absolute unit."""
    if bands.units == "absolute" and estimator.epsilon == "auto":
        raise ValueError(
            'epsilon="auto" is a ridge relative to the variance; Bands(units="absolute") needs a '
            "number."
        )


def _solution_settings(estimator, settings, parameters):
    """Return the settings of a model with other parameters of the solved classifier."""
    constraints = estimator._parameter_constraints | Bands._parameter_constraints
    validate_parameter_constraints(constraints, parameters, type(estimator).__name__)
    return replace(settings, **_plain_values(Settings, parameters))


def descent_of(source):
    """Return the parameters of the descent of an estimator or of bands, in plain types.

    Parameters that the estimator lacks have the defaults of `Bands`. Without a parameter `patience`
    all epochs run.
    """
    parameters = {"patience": None} | vars(Bands()) | vars(source)
    return Descent(**_plain_values(Descent, parameters))


def _kept_axes(p, n_layers):
    """Return the parameter `p` as a tuple of one plain number per layer."""
    axes = [p] * n_layers
    if isinstance(p, Sequence):
        axes = list(p)
    if len(axes) != n_layers:
        raise ValueError(
            f"p must have one entry per layer, n_layers={n_layers}; got {len(axes)} entries."
        )
    return tuple(map(_kept_axes_of_layer, axes))


def _kept_axes_of_layer(p):
    """Return a number of axes as an int, and a share of the energy as a float."""
    if isinstance(p, Integral) and p >= 0:
        return int(p)
    if isinstance(p, Real) and 0.0 < p < 1.0:
        return float(p)
    raise ValueError(
        f"p must be an int of at least 0 or a float in (0, 1), or a sequence of these; got {p!r}."
    )


def _plain_values(settings_class, parameters):
    """Return the parameters that are fields of settings, in plain types; "auto" may be None."""
    values = {}
    for field in fields(settings_class):
        if field.name in parameters:
            values[field.name] = _plain_value(parameters[field.name], field.type)
    return values


def _plain_value(value, hint):
    """Convert a valid parameter to the plain Python type of the field; `hint` is its annotation.

    In a field of floats, "auto" becomes None. scikit-learn's constraints also accept NumPy scalars,
    False as the integer 0, and members of enumerations.
    """
    if isinstance(value, np.generic):
        # A boolean of NumPy is no bool.
        value = value.item()
    if value is None:
        return None
    field_types = get_args(hint) or (hint,)
    if float in field_types:
        # A shrinkage or ridge of None is estimated.
        return None if value == "auto" else float(value)
    if isinstance(value, str):
        return str.__str__(value)
    if int in field_types:
        return int(value)
    return value


def check_continuation(before, now):
    """Raise if a parameter that shapes the state is not as in earlier tasks."""
    check_unchanged("n_layers", len(before.p), len(now.p))
    for name in ("shared_band_size", "skip_connection", "scale"):
        check_unchanged(name, getattr(before, name), getattr(now, name))
    if (before.band_size == 0) != (now.band_size == 0):
        check_unchanged("band_size", before.band_size, now.band_size)


def check_unchanged(name, before, now):
    """Raise if a parameter has another value than in earlier tasks."""
    if before != now:
        raise ValueError(
            f"{name} cannot change between tasks: it was {before} in earlier tasks "
            f"and is {now} now. Set it back, or call fit to start over."
        )


def check_seed(seed, random_state):
    """Raise if an integer `random_state` gives another seed than the seed of the model.

    None and generators are read at the first task only, and have no seed to compare.
    """
    if isinstance(random_state, Integral) and next_seed(random_state) != seed:
        raise ValueError(
            f"random_state cannot change between tasks: earlier tasks had another seed than "
            f"random_state={random_state} gives. Set it back, or call fit to start over."
        )


def check_mergeable(mine, theirs):
    """Raise if two states cannot be merged because their features or parameters differ."""
    check_labels(theirs.arrived, mine.arrived, "other.classes_")
    conditions = _merge_conditions(mine)
    other_conditions = _merge_conditions(theirs)
    different = []
    for name, value in conditions.items():
        if not np.array_equal(value, other_conditions[name]):
            different.append(name)
    if not different:
        return
    message = (
        "other must have been fitted on the same features with the same parameters; it differs "
        f"in {', '.join(different)}."
    )
    if "offset_" in different or "scale_" in different:
        message += " Fit both with scale=False."
    if "random_state" in different:
        message += (
            " The random neurons are drawn at the first call: before an estimator learns, give it "
            f"the random_state_ of the estimator that it is to be merged with, "
            f"random_state={mine.random_state}."
        )
    raise ValueError(message)


def _merge_conditions(state):
    """Return by name all values that have to be equal in a merge."""
    model = state.model
    conditions = {
        "n_features_in_": state.n_features_in,
        "feature_names_in_": state.feature_names_in,
        "the projection of sparse samples": state.projection,
        "n_layers": len(model.settings.p),
    }
    settings = vars(model.settings) | vars(model.settings.descent)
    for name, value in settings.items():
        if name not in _IMMATERIAL:
            conditions[_parameter_name(name)] = value
    conditions["random_state"] = model.seed
    conditions["offset_"] = None
    conditions["scale_"] = None
    if state.repair is not None:
        conditions["offset_"] = state.repair.offset
        conditions["scale_"] = state.repair.scale
    return conditions


def _parameter_name(setting):
    """Return the name of a setting as a parameter."""
    return f"bands__{setting}" if setting in Bands._parameter_constraints else setting
