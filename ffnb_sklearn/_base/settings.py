"""Parameters of an estimator as settings of the core, and their agreement with a learned state."""

import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from numbers import Integral, Real
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
    "settings_of",
    "solution_parameters",
    "solved_settings",
    "warn_of_idle_parameters",
]

# Most neurons of the automatic shared band, and most weights of all of them: wide inputs need
# fewer. With a random projection there are none: as many further columns of it gain more.
_MOST_SHARED, _MOST_SHARED_WEIGHTS = 500, 360_000

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
    solution_parameters(estimator)
    values = _plain(Settings, vars(estimator) | vars(bands_of(estimator)))
    values["p"] = _kept_axes(estimator)
    if values["shared_band_size"] == "auto":
        most = _MOST_BESIDE_BANDS if estimator.band_size else _MOST_SHARED
        fitting = min(most, _MOST_SHARED_WEIGHTS // n_inputs)
        values["shared_band_size"] = fitting if projection is None else 0
    if projection is not None and projection.keeps_sparse:
        values["band_size"] = 0
        values["rank"] = _SPARSE_RANK if values["rank"] == "auto" else values["rank"]
    return Settings(**values, descent=descent_of(bands_of(estimator)))


# Defaults of the parameters that only trained bands read.
_IDLE = {"p": 0.95, "n_layers": 1}


def warn_of_idle_parameters(estimator):
    """Warn of parameters of trained bands beside ``band_size=0``, which trains none."""
    if estimator.band_size:
        return
    idle = [name for name, value in _IDLE.items() if getattr(estimator, name) != value]
    bands, default_bands = vars(bands_of(estimator)), vars(Bands())
    for name, value in bands.items():
        if name not in _OF_SOLUTION_IN_BANDS and value != default_bands[name]:
            idle.append(f"bands__{name}")
    if idle:
        warnings.warn(
            "These parameters have no effect with band_size=0, which trains no bands: "
            f"{', '.join(idle)}. Set band_size to a positive number, such as 3.",
            UserWarning,
            stacklevel=level_of_user(),
        )


def solution_parameters(estimator):
    """Return the parameters that belong to the solved classifier alone, by name."""
    bands = bands_of(estimator)
    if bands.units == "absolute" and estimator.epsilon == "auto":
        raise ValueError(
            'epsilon="auto" is a ridge relative to the variance; Bands(units="absolute") needs a '
            "number."
        )
    given = {name: getattr(estimator, name) for name in _OF_SOLUTION}
    return given | {name: getattr(bands, name) for name in _OF_SOLUTION_IN_BANDS}


def solved_settings(estimator, settings, given):
    """Return the settings of a model with given parameters of the solved classifier."""
    constraints = estimator._parameter_constraints | Bands._parameter_constraints
    validate_parameter_constraints(constraints, given, type(estimator).__name__)
    return replace(settings, **_plain(Settings, given))


def descent_of(source):
    """Return the parameters of the descent of an estimator or of bands, in plain types.

    Parameters that the estimator lacks have the defaults of `Bands`, which have no patience.
    """
    parameters = {"patience": None} | vars(Bands()) | vars(source)
    return Descent(**_plain(Descent, parameters))


def _kept_axes(estimator):
    """Return the parameter `p` as a tuple of one plain number per layer."""
    p, n_layers = estimator.p, estimator.n_layers
    axes = list(p) if isinstance(p, Sequence) else [p] * n_layers
    if len(axes) != n_layers:
        raise ValueError(
            f"p must have one entry per layer, n_layers={n_layers}; got {len(axes)} entries."
        )
    for one in axes:
        is_number = isinstance(one, Integral) and one >= 0
        is_share = isinstance(one, Real) and 0.0 < one < 1.0
        if not is_number and not is_share:
            raise ValueError(
                "p must be an int of at least 0 or a float in (0, 1), or a sequence of "
                f"these; got {one!r}."
            )
    return tuple(int(one) if isinstance(one, Integral) else float(one) for one in axes)


def _plain(kind, parameters):
    """Return the parameters that are fields of settings, in plain types; "auto" may be None."""
    return {
        one.name: _plain_value(parameters[one.name], one.type)
        for one in fields(kind)
        if one.name in parameters
    }


def _plain_value(value, hint):
    """Return a value as the type of Python that a field has, for a valid value of any subclass.

    scikit-learn's constraints accept False as the integer 0, and members of enumerations.
    """
    kinds = get_args(hint) or (hint,)
    # A boolean of NumPy is no bool.
    value = value.item() if isinstance(value, np.generic) else value
    if value is None:
        return None
    if float in kinds:
        # A shrinkage or ridge of None is estimated.
        return None if value == "auto" else float(value)
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if int in kinds else value


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
    ours, others = _conditions(mine), _conditions(theirs)
    different = [name for name, value in ours.items() if not np.array_equal(value, others[name])]
    if different:
        is_repaired = not {"offset_", "scale_"}.isdisjoint(different)
        raise ValueError(
            "other must have been fitted on the same features with the same parameters; it differs "
            f"in {', '.join(different)}.{' Fit both with scale=False.' if is_repaired else ''}"
        )


def _conditions(state):
    """Return by name all values that have to be equal in a merge."""
    settings = vars(state.model.settings) | vars(state.model.settings.descent)
    repair = state.repair
    return {
        "n_features_in_": state.n_features_in,
        "feature_names_in_": state.feature_names_in,
        "the projection of sparse samples": state.projection,
        "n_layers": len(state.model.settings.p),
        **{_as_written(name): value for name, value in settings.items() if name not in _IMMATERIAL},
        "random_state": state.model.seed,
        "offset_": None if repair is None else repair.offset,
        "scale_": None if repair is None else repair.scale,
    }


def _as_written(setting):
    """Return the name of a setting as a parameter."""
    return f"bands__{setting}" if setting in Bands._parameter_constraints else setting
