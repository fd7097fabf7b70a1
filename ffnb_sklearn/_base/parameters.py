"""Parameters of an estimator as settings of the core, and their agreement with a learned state."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from operator import is_
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, cast, get_args

import numpy as np
import torch
from sklearn.utils._param_validation import validate_parameter_constraints

from .._inputs.labels import check_labels
from .._inputs.seeds import RandomState, next_seed
from .._inputs.sparse_samples import RandomProjection
from ..core.bands.tuning.descent import EpochObserver
from ..core.model import Model, Task
from ..core.settings import Settings
from .priors import Priors
from .state import State

__all__ = [
    "Conditions",
    "Discriminant",
    "check_continuation",
    "check_mergeable",
    "check_seed",
    "check_unchanged",
    "derived_once",
    "plain_values",
    "present_state",
    "settings_of",
]

_T = TypeVar("_T")

# Values that have to be equal in a merge, by name.
Conditions: TypeAlias = dict[str, Any]

# Most neurons of the automatic shared band, and most weights of all of them: wide inputs need
# fewer. With a random projection there are none: as many further columns of it gain more.
_MOST_SHARED = 500
_MOST_SHARED_WEIGHTS = 360_000

# Rank "auto" of models whose inputs stay sparse: an axis is as wide as the inputs, and takes memory
# and time in proportion.
_SPARSE_RANK = 8

# Parameters of the solved classifier, which predictions read. The moments do not depend on them.
_OF_SOLUTION = (
    "classifier",
    "covariance",
    "shrinkage",
    "epsilon",
    "chunk_size",
    "units",
    "half_bias",
)

# Settings that may differ in a merge.
_IMMATERIAL = {*_OF_SOLUTION, "novelty", "refresh", "scale"}


class Constrained(Protocol):
    """An estimator whose parameters have constraints."""

    _parameter_constraints: ClassVar[dict[str, list[object]]]


class Discriminant(Protocol):
    """A classifier that solves a discriminant: parameters and methods that learning reads."""

    _parameter_constraints: ClassVar[dict[str, list[object]]]

    device: str
    epsilon: float | str
    priors: Priors
    random_state: RandomState
    scale: bool | str

    def _learn_model(
        self, model: Model, task: Task, settings: Settings, observe: EpochObserver
    ) -> Model:
        """Return the model after a task; `observe` reports the epochs, and may end them."""

    def _merge_models(
        self, first: Model, second: Model, positions: list[int], *, device: torch.device
    ) -> Model:
        """Return the model of two models, given the numbers in it of the second model's classes."""

    def _merge_conditions(self, model: Model) -> Conditions:
        """Return by name the values of a model, beside its settings, that a merge needs equal."""

    def _warn_of_idle_parameters(self) -> None:
        """Warn of parameters that other parameters leave without effect."""


def settings_of(
    estimator: Discriminant, n_inputs: int, projection: RandomProjection | None
) -> Settings:
    """Return the settings of a task; `projection` is None unless its samples are projected.

    Raise if valid parameters do not go together.
    """
    _check_units(estimator)
    values = plain_values(Settings, vars(estimator))
    if values["shared_band_size"] == "auto":
        values["shared_band_size"] = _automatic_shared_band_size(n_inputs, projection)
    if projection is not None and projection.keeps_sparse and values["rank"] == "auto":
        values["rank"] = _SPARSE_RANK
    return Settings(**values)


def _automatic_shared_band_size(n_inputs: int, projection: RandomProjection | None) -> int:
    """Return the number of shared neurons that "auto" stands for."""
    if projection is not None:
        return 0
    return min(_MOST_SHARED, _MOST_SHARED_WEIGHTS // n_inputs)


def present_state(estimator: Discriminant, state: State) -> State:
    """Return a state whose model has the present parameters of the solved classifier.

    It is the model of the state itself if the settings are equal, and a copy with the new settings
    if they differ. While each parameter is the same object as in the last call, the copy is that of
    the last call, which may hold a solved classifier.
    """
    model: Model = state.model
    parameters = _solution_parameters(estimator)

    def changed_model() -> Model | None:
        settings = replace(model.settings, **plain_values(Settings, parameters))
        if settings == model.settings:
            # A reference to the model itself would keep it in memory until a garbage collection.
            return None
        return replace(model, settings=settings, chosen_from=(), earlier=None)

    changed = derived_once(estimator, parameters, model.cache, changed_model)
    if changed is None:
        return state
    return replace(state, model=changed)


def derived_once(
    estimator: Constrained,
    parameters: Mapping[str, object],
    cache: dict[Any, Any],
    derive: Callable[[], _T],
) -> _T:
    """Return the result of `derive`, which reads some parameters; they are validated first.

    The result stays in the cache of a model while each parameter is the same object.
    """
    values = list(parameters.values())
    last_values, result = cache.get("parameters", (None, None))
    if last_values is None or not all(map(is_, last_values, values)):
        validate_parameter_constraints(
            estimator._parameter_constraints, parameters, type(estimator).__name__
        )
        result = derive()
        cache["parameters"] = values, result
    return cast(_T, result)


def _solution_parameters(estimator: Discriminant) -> dict[str, object]:
    """Return the parameters that belong to the solved classifier alone, by name."""
    _check_units(estimator)
    attributes = vars(estimator)
    return {name: attributes[name] for name in _OF_SOLUTION if name in attributes}


def _check_units(estimator: Discriminant) -> None:
    """Raise if an automatic ridge is to have an absolute unit."""
    units = getattr(estimator, "units", "relative")
    if units == "absolute" and estimator.epsilon == "auto":
        raise ValueError(
            'epsilon="auto" is a ridge relative to the variance; units="absolute" needs a number.'
        )


def plain_values(settings_class: type, parameters: Mapping[str, object]) -> dict[str, Any]:
    """Return the parameters that are fields of settings, in plain types; "auto" may be None."""
    values = {}
    for field in fields(settings_class):
        if field.name in parameters:
            values[field.name] = _plain_value(parameters[field.name], field.type)
    return values


def _plain_value(value: Any, hint: object) -> object:
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


def check_continuation(before: Settings, now: Settings) -> None:
    """Raise if a parameter that shapes the state is not as in earlier tasks."""
    for name in ("shared_band_size", "skip_connection", "scale"):
        check_unchanged(name, getattr(before, name), getattr(now, name))


def check_unchanged(name: str, before: object, now: object) -> None:
    """Raise if a parameter has another value than in earlier tasks."""
    if before != now:
        raise ValueError(
            f"{name} cannot change between tasks: it was {before} in earlier tasks "
            f"and is {now} now. Set it back, or call fit to start over."
        )


def check_seed(seed: int, random_state: RandomState) -> None:
    """Raise if an integer `random_state` gives another seed than the seed of the model.

    None and generators are read at the first task only, and have no seed to compare.
    """
    if isinstance(random_state, int | np.integer) and next_seed(random_state) != seed:
        raise ValueError(
            f"random_state cannot change between tasks: earlier tasks had another seed than "
            f"random_state={random_state} gives. Set it back, or call fit to start over."
        )


def check_mergeable(
    mine: State, theirs: State, conditions_of: Callable[[Model], Conditions]
) -> None:
    """Raise if two states cannot be merged because their features or parameters differ.

    `conditions_of` returns by name all further values of a model that have to be equal.
    """
    check_labels(theirs.arrived, mine.arrived, "other.classes_")
    conditions = _merge_conditions(mine) | conditions_of(mine.model)
    other_conditions = _merge_conditions(theirs) | conditions_of(theirs.model)
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


def _merge_conditions(state: State) -> Conditions:
    """Return by name all values that have to be equal in a merge."""
    model = state.model
    conditions: Conditions = {
        "n_features_in_": state.n_features_in,
        "feature_names_in_": state.feature_names_in,
        "the projection of sparse samples": state.projection,
    }
    for name, value in vars(model.settings).items():
        if name not in _IMMATERIAL:
            conditions[name] = value
    conditions["random_state"] = model.seed
    conditions["offset_"] = None
    conditions["scale_"] = None
    if state.scaling is not None:
        conditions["offset_"] = state.scaling.offset
        conditions["scale_"] = state.scaling.scale
    return conditions
