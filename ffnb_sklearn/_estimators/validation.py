"""Validation of the input of a classifier: samples, parameters, and another classifier."""

from dataclasses import replace
from functools import cache
from numbers import Integral, Real
from typing import get_args, get_type_hints

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, check_consistent_length
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import _check_sample_weight, validate_data

from .._inputs.arrays import as_numpy, check_rows, refuse_masked
from .._inputs.labels import check_labels, check_targets
from .._inputs.seeds import next_seed
from .._inputs.sparse import projection_for
from ..core.model import Settings
from ..core.settings import Descent
from .bands import Bands
from .parameter_rules import NEXT_PREDICTION, RULES
from .state import State

__all__ = [
    "LIGHTEST",
    "bands_of",
    "check_continuation",
    "check_inputs",
    "check_likeness",
    "check_magnitude",
    "check_mergeable",
    "check_number",
    "check_samples",
    "check_seed",
    "check_settings",
    "check_tensor",
    "check_unchanged",
    "check_weights",
    "descent_of",
    "settings_of_predictions",
    "validated",
    "with_options",
]

# Most neurons of the automatic shared band, and most weights of all of them: wide inputs need
# fewer. With a random projection there are none: as many further columns of it gain more.
_MOST_SHARED, _MOST_SHARED_WEIGHTS = 500, 360_000

# Rank "auto" of models whose inputs stay sparse. Twice as many axes take twice the time and gain
# less than a point (docs/benchmarks/sparse.md).
_SPARSE_RANK = 8

# Largest and smallest positive sample weight. Beyond them, ratios of classes overflow or underflow;
# a sum of weights that differ by more than 1e16 loses the smaller weight anyway.
_HEAVIEST, LIGHTEST = 1e20, 1e-20

# Largest and smallest magnitude of X. Beyond them, squares of second moments overflow or underflow.
_LARGEST, _SMALLEST = 1e70, 1e-70

# Types of the settings by name.
_TYPES = {kind: get_type_hints(kind) for kind in (Settings, Descent)}

# Settings of the solved classifier, which predictions take from the parameters of the estimator.
_OF_PREDICTIONS = [
    name.removeprefix("bands__") for name, rule in RULES.items() if rule == NEXT_PREDICTION
]
_OF_PREDICTIONS = [name for name in _OF_PREDICTIONS if name in Settings.__dataclass_fields__]

# Settings that may differ in a merge; those of the descent are compared one by one.
_IMMATERIAL = dict.fromkeys((*_OF_PREDICTIONS, "novelty", "scale", "descent"))


def check_samples(estimator, X, y, *, classes, sample_weight, state):
    """Check the arguments of `FFNBClassifier.partial_fit`.

    Return the samples of positive weight, their labels, the declared labels or None, the weights,
    and the given state, or a state of the features alone. Labels that only samples of weight 0 have
    are declared: scikit-learn gives them columns.
    """
    known = None if state is None else state.classes
    X, y = as_numpy(X, "X"), check_targets(y, known, "y")
    check_consistent_length(X, y)
    if classes is not None:
        seen = y if known is None else np.concatenate([known, y])
        classes = check_labels(classes, seen, "classes")
    X, state = check_inputs(estimator, X, state=state, smallest=_SMALLEST)
    weights = check_weights(sample_weight, X)
    used = weights > 0
    if not used.all():
        unused = np.unique(y[~used])
        classes = unused if classes is None else np.union1d(classes, unused)
        X, y, weights = X[used], y[used], weights[used]
    return X, y, classes, weights, state


def check_weights(sample_weight, X):
    """Return the weights, ones for None; raise if a weight is out of range, or if all are 0."""
    sample_weight = as_numpy(sample_weight, "sample_weight")
    refuse_masked(sample_weight, "sample_weight")
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        raise ValueError(
            f"sample_weight must not be negative; got a smallest weight of {weights.min()}."
        )
    positive = weights[weights > 0]
    if not len(positive):
        raise ValueError(
            "sample_weight must be positive for at least one sample; all weights are 0."
        )
    if positive.max() > _HEAVIEST or positive.min() < LIGHTEST:
        raise ValueError(
            f"sample_weight must be 0 or between {LIGHTEST:.0e} and {_HEAVIEST:.0e}: a weight is "
            f"a number of samples; got weights from {positive.min():.3e} to "
            f"{positive.max():.3e}. Divide all of them by one number, in all calls."
        )
    return weights


def check_inputs(estimator, X, *, state, smallest=0.0):
    """Validate samples; float64 and float32 samples, in memory or on disk, are not copied.

    Return the samples, C-ordered or in CSR form, and the given state, or one of the features alone.
    """
    X, state = validated(
        estimator, X, state, accept_sparse="csr", dtype=(np.float64, np.float32), order="C"
    )
    check_magnitude(X, smallest=smallest)
    return X, state


def check_tensor(estimator, X, state):
    """Validate samples in a tensor without copying them to another device; return them.

    Return None for a tensor that has to be read by NumPy, which also tells what is wrong with it.
    """
    is_plain = X.layout == torch.strided and X.is_floating_point() and X.device.type != "meta"
    if not is_plain or X.ndim != 2 or not X.numel() or state.projection is not None:
        return None
    X = X.detach()
    lowest, highest = torch.aminmax(X)
    # NaN if any entry is.
    if not float(torch.maximum(highest, -lowest)) <= _LARGEST:
        return None
    validated(estimator, X, state, skip_check_array=True)
    return X.contiguous() if X.dtype in (torch.float32, torch.float64) else X.float()


def validated(estimator, X, state, **checks):
    """Call scikit-learn's `validate_data`; return the samples and a state that describes them.

    `validate_data` records the features of a first call on its estimator. Here a stand-in takes its
    place, so that the estimator does not change.
    """
    check_rows(X, estimator)
    if not checks.get("skip_check_array"):
        X = as_numpy(X, "X")
    stand_in = _stand_in(type(estimator).__name__)()
    if state is not None:
        stand_in.n_features_in_ = state.n_features_in
        stand_in.feature_names_in_ = state.feature_names_in
    try:
        X = validate_data(stand_in, X, reset=state is None, ensure_all_finite=False, **checks)
    except ValueError as error:
        if "could not convert string to float" in str(error):
            raise ValueError(_text_refused(X, error, estimator)) from error
        raise
    if not checks.get("skip_check_array"):
        _check_finite(X, estimator)
    if state is None:
        names = getattr(stand_in, "feature_names_in_", None)
        projection = projection_for(X, estimator)
        state = State(stand_in.n_features_in_, names, projection)
    return X, state


def _check_finite(X, estimator):
    """Raise if a sample is not finite; advise an imputer, not another estimator, for NaN."""
    try:
        assert_all_finite(X, input_name="X")
    except ValueError as error:
        if "contains NaN" not in str(error):
            raise
        raise ValueError(
            f"{error} {type(estimator).__name__} accepts no missing values. Put an imputer before "
            "it, as in make_continual_pipeline(SimpleImputer(), classifier), or drop the samples."
        ) from None


def _text_refused(X, error, estimator):
    """Return the message for samples with columns of text."""
    named = ""
    if hasattr(X, "columns"):
        kinds = {name: np.asarray(X[name]).dtype.kind for name in X.columns}
        named = f" in {[name for name, kind in kinds.items() if kind in 'OUST']}"
    steps = (
        "an encoder",
        'make_column_transformer((OneHotEncoder(handle_unknown="ignore"), columns), '
        'remainder="passthrough")',
    )
    if np.ndim(X) == 1:
        steps = "a vectorizer", "HashingVectorizer()"
    return (
        f"X must hold numbers; got text{named}: {error}. Put {steps[0]} before "
        f"{type(estimator).__name__}, as in make_continual_pipeline({steps[1]}, classifier)."
    )


@cache
def _stand_in(name):
    """Return a class of estimators without parameters, whose name appears in messages."""
    return type(name, (BaseEstimator,), {})


def check_magnitude(X, *, smallest=0.0):
    """Raise if the moments of the features leave the range of floating-point numbers.

    `smallest` is the least magnitude that the largest entry may have, unless all entries are zero.
    """
    values = X.data if issparse(X) else X
    # Computing absolute values would copy X.
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > _LARGEST or 0.0 < largest < smallest:
        raise ValueError(
            f"X must have magnitudes between {_SMALLEST:.0e} and {_LARGEST:.0e}, whose "
            f"moments can be computed; its largest is {largest:.3e}. Rescale the features."
        )


def bands_of(estimator):
    """Return the options of the bands of an estimator, of which None has the defaults."""
    bands = estimator.bands
    constraints = {"bands": [Bands, None]}
    validate_parameter_constraints(constraints, {"bands": bands}, type(estimator).__name__)
    return Bands() if bands is None else bands


def with_options(estimator):
    """Return the attributes of an estimator by name, and the options of its bands with a prefix."""
    # `get_params` would inspect the constructor, which takes longer than some predictions.
    options = vars(bands_of(estimator)).items()
    return {**vars(estimator), **{f"bands__{name}": value for name, value in options}}


def _as_written(setting):
    """Return the name of a setting as a parameter."""
    return f"bands__{setting}" if setting in Bands._parameter_constraints else setting


def check_settings(estimator, *, n_inputs, projection=None):
    """Convert the parameters of an estimator to settings; raise if they are incompatible."""
    shared = estimator.shared_band_size
    if shared == "auto":
        fitting = min(_MOST_SHARED, _MOST_SHARED_WEIGHTS // n_inputs)
        shared = fitting if projection is None else 0
    if not (estimator.skip_connection or shared or estimator.band_size):
        raise ValueError(
            "skip_connection=False, shared_band_size=0 and band_size=0 leave the classifier "
            "no features; at least one of them must be on."
        )
    bands = bands_of(estimator)
    if bands.units == "absolute" and estimator.epsilon == "auto":
        raise ValueError(
            'epsilon="auto" is a ridge relative to the variance; Bands(units="absolute") needs a '
            "number."
        )
    values = _plain(Settings, vars(estimator) | vars(bands))
    values |= {"p": _kept_axes(estimator), "shared_band_size": int(shared)}
    if projection is not None and projection.keeps_sparse:
        values["band_size"] = 0
        values["rank"] = _SPARSE_RANK if values["rank"] == "auto" else values["rank"]
    return Settings(**values, descent=descent_of(bands))


def settings_of_predictions(estimator, state):
    """Return the settings of a state, with those of the solution from the parameters.

    Raise if a parameter shapes the state and has changed.
    """
    model, projection = state.model, state.projection
    now = check_settings(estimator, n_inputs=state.n_inputs, projection=projection)
    check_continuation(model.settings, now)
    check_seed(model.seed, estimator.random_state)
    return replace(model.settings, **{name: getattr(now, name) for name in _OF_PREDICTIONS})


def _kept_axes(estimator):
    """Return the parameter `p` as a tuple of one plain number per layer."""
    p, n_layers = estimator.p, estimator.n_layers
    p = p if isinstance(p, (list, tuple)) else [p] * n_layers
    if len(p) != n_layers:
        raise ValueError(
            f"p must have one entry per layer, n_layers={n_layers}; got {len(p)} entries."
        )
    for one in p:
        whole = isinstance(one, Integral) and not isinstance(one, (bool, np.bool_))
        share = isinstance(one, Real) and not isinstance(one, Integral)
        if not (whole and one >= 0) and not (share and 0.0 < one < 1.0):
            raise ValueError(
                "p must be an int of at least 0 or a float in (0, 1), or a sequence of "
                f"these; got {one!r}."
            )
    return tuple(int(one) if isinstance(one, Integral) else float(one) for one in p)


def descent_of(source):
    """Return the parameters of the descent of an estimator or of bands, in plain types."""
    return Descent(**_plain(Descent, vars(source)))


def _plain(kind, parameters):
    """Return the parameters that are fields of settings, in plain types."""
    values = {}
    for name, hint in _TYPES[kind].items():
        if name in parameters:
            value = parameters[name]
            value = value.item() if isinstance(value, np.generic) else value
            if float in (hint, *get_args(hint)) and value is not None:
                # A shrinkage or ridge of None is estimated.
                value = None if value == "auto" else float(value)
            values[name] = value
    return values


def check_continuation(before, now):
    """Raise if a parameter that shapes the state is not as in earlier tasks."""
    makes = {
        "n_layers": (len(before.p), len(now.p)),
        "shared_band_size": (before.shared_band_size, now.shared_band_size),
        "skip_connection": (before.skip_connection, now.skip_connection),
        "scale": (before.scale, now.scale),
        "band_size=0": (before.band_size == 0, now.band_size == 0),
    }
    for name, (old, new) in makes.items():
        check_unchanged(name, old, new)


def check_number(name, value, is_allowed, allowed):
    """Raise if an argument is no number, or not in its allowed range."""
    is_number = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    if not is_number or not is_allowed(value):
        raise ValueError(f"{name} must be a number {allowed}; got {value!r}.")


def check_seed(seed, random_state):
    """Raise if an integer `random_state` gives another seed than the seed of the model.

    None and generators are read at the first task only, and have no seed to compare.
    """
    if isinstance(random_state, Integral) and next_seed(random_state) != seed:
        raise ValueError(
            f"random_state cannot change between tasks: earlier tasks had another seed than "
            f"random_state={random_state} gives. Set it back, or call fit to start over."
        )


def check_likeness(before, now):
    """Raise if left-out scores were computed with other settings than scores are now."""
    for name in ("covariance", "shrinkage", "epsilon", "units"):
        old, new = getattr(before, name), getattr(now, name)
        if old != new:
            raise ValueError(
                f"novelty_threshold needs {_as_written(name)} as in the last call that learned, "
                f"which left samples out: {_shown(old)}; got {_shown(new)}. Set it back, or learn "
                "again."
            )


def _shown(setting):
    """Return the parameter of a setting; settings have None for "auto"."""
    return "'auto'" if setting is None else repr(setting)


def check_unchanged(name, before, now):
    """Raise if a parameter has another value than in earlier tasks."""
    if before != now:
        raise ValueError(
            f"{name} cannot change between tasks: it was {before} in earlier tasks "
            f"and is {now} now. Set it back, or call fit to start over."
        )


def check_mergeable(mine, theirs):
    """Raise if two estimators cannot be merged because their features or parameters differ."""
    _check_feature_names(mine, theirs)
    check_labels(theirs.arrived, mine.arrived, "other.classes_")
    if mine.projection != theirs.projection:
        raise ValueError(
            "other must project its samples alike: the first samples of both must be sparse, or of "
            "both dense, and both need the same integer random_state; got the projections "
            f"{theirs.projection} and, here, {mine.projection}."
        )
    ours, others = (
        {"n_layers": len(one.p), **vars(one), **vars(one.descent), **_IMMATERIAL}
        for one in (mine.model.settings, theirs.model.settings)
    )
    different = [_as_written(name) for name, value in ours.items() if value != others[name]]
    if different:
        raise ValueError(
            "other must have been fitted with the same parameters; it differs in "
            f"{', '.join(different)}."
        )
    if mine.model.seed != theirs.model.seed:
        raise ValueError(
            "other must have the same shared band, so both must be fitted with the same "
            "integer random_state; their seeds differ."
        )
    _check_repair(mine.repair, theirs.repair)


def _check_repair(mine, theirs):
    """Raise if two estimators have not repaired their columns alike; None repairs nothing."""
    given, other = (theirs, mine) if mine is None else (mine, theirs)
    if given is not None and not given.equals(other):
        raise ValueError(
            "other must have the same offset_ and scale_; the first tasks of both have decided on "
            "different repairs of columns. Fit both with scale=False, behind one scaler if the "
            "columns need it: make_continual_pipeline(FrozenEstimator(StandardScaler().fit(X)), "
            "FFNBClassifier(scale=False))."
        )


def _check_feature_names(first, second):
    """Raise if two states have different input features."""
    if first.n_features_in != second.n_features_in:
        raise ValueError(
            f"other must have been fitted on {first.n_features_in} features; "
            f"got {second.n_features_in}."
        )
    if not np.array_equal(first.feature_names_in, second.feature_names_in):
        raise ValueError("other must have been fitted on features of the same names and order.")
