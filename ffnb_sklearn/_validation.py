"""Checks of what the classifier is given: samples, parameters, and another classifier."""

from dataclasses import replace
from functools import cache
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight, validate_data

from ._arrays import as_numpy, as_targets, check_rows
from ._sparse import projection_for
from ._state import State
from ._targets import check_labels, unmixed
from .core.model import Settings
from .core.settings import Descent
from .training import BandTraining

__all__ = [
    "check_continuation",
    "check_inputs",
    "check_magnitude",
    "check_mergeable",
    "check_samples",
    "check_settings",
    "check_weights",
    "descent_of",
    "validated",
]

# Neurons of the automatic shared band, whatever the width of the inputs; beside a random projection
# there are none, since as many further columns of it are worth more (docs/benchmarks/sparse.md).
_AUTO_SHARED_BAND_SIZE = 2000

# Rank "auto" of models whose inputs stay sparse: twice the axes take twice the time and gain less
# than a point (docs/benchmarks/sparse.md).
_SPARSE_RANK = 8

# Beyond these weights, ratios of classes overflow or vanish; a sum of weights that differ by more
# than 1e16 has lost the smaller anyway.
_HEAVIEST, _LIGHTEST = 1e20, 1e-20

# Beyond these magnitudes the squares of second moments overflow or vanish.
_LARGEST, _SMALLEST = 1e70, 1e-70


def check_samples(estimator, X, y, *, classes, sample_weight, state):
    """Check the samples of one call.

    Parameters
    ----------
    estimator : FFNBClassifier
        Who is to learn them.
    X, y, classes, sample_weight
        Arguments of `FFNBClassifier.partial_fit`.
    state : State or None
        What is known before; None at the first call.

    Returns
    -------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
        Samples of positive weight, as `check_inputs` leaves them.
    y : ndarray of shape (n_samples,)
        Their labels.
    classes : ndarray of shape (n_labels,) or None
        Declared labels.
    weights : ndarray of shape (n_samples,)
        Their weights.
    state : State
        The state given, or one that knows the inputs alone.
    """
    known = None if state is None else state.classes
    if y is None:
        raise ValueError(
            "requires y to be passed, but the target y is None: the labels of X are needed."
        )
    y = as_targets(unmixed(as_numpy(y, "y"), "y"))
    check_consistent_length(X, y)
    y = check_labels(y, known, "y")
    if classes is not None:
        seen = y if known is None else np.concatenate([known, y])
        classes = check_labels(classes, seen, "classes")
    X, state = check_inputs(estimator, X, state=state, smallest=_SMALLEST)
    weights = check_weights(sample_weight, X)
    used = weights > 0
    if not used.all():
        X, y, weights = X[used], y[used], weights[used]
    return X, y, classes, weights, state


def check_weights(sample_weight, X):
    """Check the weights of samples.

    Parameters
    ----------
    sample_weight : array-like of shape (n_samples,) or None
        Argument of a call that learns.
    X : ndarray of shape (n_samples, n_features)
        Samples.

    Returns
    -------
    ndarray of shape (n_samples,)
        Weights of at least 0, ones for None.

    Raises
    ------
    ValueError
        If a weight is negative or out of range, or if all are 0.
    """
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weights < 0).any():
        raise ValueError(
            f"sample_weight must not be negative; got a smallest weight of {weights.min()}."
        )
    positive = weights[weights > 0]
    if not len(positive):
        raise ValueError("sample_weight must weigh at least one sample; all weights are 0.")
    if positive.max() > _HEAVIEST or positive.min() < _LIGHTEST:
        raise ValueError(
            f"sample_weight must be 0 or between {_LIGHTEST:.0e} and {_HEAVIEST:.0e}: a weight is "
            f"a number of samples; got weights from {positive.min():.3e} to "
            f"{positive.max():.3e}. Divide all of them by one number, in all calls."
        )
    return weights


def check_inputs(estimator, X, *, state, smallest=0.0):
    """Check samples without copying those of float64 or float32, in memory or on disk.

    Parameters
    ----------
    estimator : estimator
        Who is named in messages; its `random_state` gives the seed of a projection.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Samples.
    state : State or None
        Whose features they are to have; None at the first call.
    smallest : float, default=0.0
        As in `check_magnitude`.

    Returns
    -------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
        Samples, C-ordered or in CSR form.
    state : State
        The state given, or one that knows the inputs alone.
    """
    X, state = validated(
        estimator, X, state, accept_sparse="csr", dtype=(np.float64, np.float32), order="C"
    )
    check_magnitude(X, smallest=smallest)
    return X, state


def validated(estimator, X, state, **checks):
    """Call scikit-learn's `validate_data`; return the samples and a state that knows them.

    It records the features of a first call on the estimator that it is given, and compares those
    of later calls with the estimator's. A stand-in takes that part, so that the estimator does
    not change, and a call sees the features of one state alone.
    """
    check_rows(X, estimator)
    X = as_numpy(X, "X")
    stand_in = _stand_in(type(estimator).__name__)()
    if state is not None:
        stand_in.n_features_in_ = state.n_features_in
        stand_in.feature_names_in_ = state.feature_names_in
    X = validate_data(stand_in, X, reset=state is None, **checks)
    if state is None:
        names = getattr(stand_in, "feature_names_in_", None)
        projection = projection_for(X, estimator)
        state = State(stand_in.n_features_in_, names, projection)
    return X, state


@cache
def _stand_in(name):
    """A class of estimators without parameters that messages call by a given name."""
    return type(name, (BaseEstimator,), {})


def check_magnitude(X, *, smallest=0.0):
    """Refuse features whose moments leave the range of floating-point numbers.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n_samples, n_features)
        Samples.
    smallest : float, default=0.0
        Least magnitude that the largest entry may have, unless all are zero.

    Raises
    ------
    ValueError
        If the largest entry is out of range.
    """
    values = X.data if issparse(X) else X
    # The absolute values would be a copy of X.
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > _LARGEST or 0.0 < largest < smallest:
        raise ValueError(
            f"X must have magnitudes between {_SMALLEST:.0e} and {_LARGEST:.0e}, whose "
            f"moments can be computed; its largest is {largest:.3e}. Rescale the features."
        )


def check_settings(estimator, *, projection=None):
    """Turn the parameters of an estimator into settings.

    Parameters
    ----------
    estimator : FFNBClassifier
        Whose parameters have passed their own checks one by one.
    projection : RandomProjection or None, default=None
        Projection of sparse samples.

    Returns
    -------
    Settings
        Parameters in plain types.

    Raises
    ------
    ValueError
        If parameters do not go together.
    """
    p = (
        estimator.p
        if isinstance(estimator.p, (list, tuple))
        else [estimator.p] * estimator.n_layers
    )
    if len(p) != estimator.n_layers:
        raise ValueError(
            f"p must have one entry per layer, n_layers={estimator.n_layers}; got {len(p)} entries."
        )
    for one in p:
        whole = isinstance(one, Integral) and not isinstance(one, (bool, np.bool_))
        share = isinstance(one, Real) and not isinstance(one, Integral)
        if not (whole and one >= 0) and not (share and 0.0 < one < 1.0):
            raise ValueError(
                "p must be an int of at least 0 or a float in (0, 1), or a sequence of "
                f"these; got {one!r}."
            )
    shared = estimator.shared_band_size
    if shared == "auto":
        shared = _AUTO_SHARED_BAND_SIZE if projection is None else 0
    if not (estimator.skip_connection or shared or estimator.band_size):
        raise ValueError(
            "skip_connection=False, shared_band_size=0 and band_size=0 leave the classifier "
            "no features; at least one of them must be on."
        )
    if estimator.units == "absolute" and estimator.epsilon == "auto":
        raise ValueError(
            'epsilon="auto" is a ridge relative to the variance; units="absolute" needs a number.'
        )
    rank = estimator.rank
    if rank == "auto" and projection is not None and projection.keeps_sparse:
        rank = _SPARSE_RANK
    training = BandTraining() if estimator.training is None else estimator.training
    training._validate_params()
    return Settings(
        p=tuple(int(one) if isinstance(one, Integral) else float(one) for one in p),
        band_size=int(estimator.band_size),
        shared_band_size=int(shared),
        skip_connection=bool(estimator.skip_connection),
        activation=estimator.activation,
        init=estimator.init,
        gamma=float(estimator.gamma),
        null_space=bool(estimator.null_space),
        covariance=estimator.covariance,
        shrinkage=None if estimator.shrinkage == "auto" else float(estimator.shrinkage),
        epsilon=None if estimator.epsilon == "auto" else float(estimator.epsilon),
        rank=rank if rank in (None, "auto") else int(rank),
        max_state_mb=None if estimator.max_state_mb is None else float(estimator.max_state_mb),
        classifier=estimator.classifier,
        old_statistics=estimator.old_statistics,
        batch_norm=bool(estimator.batch_norm),
        chunk_size=int(estimator.chunk_size),
        units=estimator.units,
        half_bias=bool(estimator.half_bias),
        left_out=bool(training.left_out),
        descent=replace(
            descent_of(estimator),
            adaptive_rate=bool(training.adaptive_rate),
            patience=None if training.patience is None else int(training.patience),
            n_folds=int(training.n_folds),
            draws=bool(training.draws),
            standard_errors=training.standard_errors,
        ),
    )


def descent_of(estimator):
    """Parameters of the gradient descent of an estimator, in plain types."""
    return Descent(
        max_epochs=int(estimator.max_epochs),
        learning_rate=float(estimator.learning_rate),
        momentum=float(estimator.momentum),
        weight_decay=float(estimator.weight_decay),
        batch_size=int(estimator.batch_size),
    )


def check_continuation(before, now):
    """Refuse parameters that were changed between tasks and that older tasks rest upon.

    Parameters
    ----------
    before, now : Settings
        Settings of the tasks learnt so far, and of the next one.

    Raises
    ------
    ValueError
        If they lead to features of another make.
    """
    makes = {
        "n_layers": (len(before.p), len(now.p)),
        "shared_band_size": (before.shared_band_size, now.shared_band_size),
        "skip_connection": (before.skip_connection, now.skip_connection),
        "band_size=0": (before.band_size == 0, now.band_size == 0),
    }
    for name, (old, new) in makes.items():
        if old != new:
            raise ValueError(
                f"{name} cannot change between tasks: it was {old} when earlier ones were learnt "
                f"and is {new} now. Set it back, or call fit to start anew."
            )


def check_mergeable(mine, theirs):
    """Refuse to merge with the state of an estimator that measures other features."""
    _check_feature_names(mine, theirs)
    check_labels(theirs.arrived, mine.arrived, "other.classes_")
    if mine.projection != theirs.projection:
        raise ValueError(
            "other must project its samples alike: the first samples of both must be sparse, or of "
            "both dense, and both need the same integer random_state; got the projections "
            f"{theirs.projection} and, here, {mine.projection}."
        )
    ours, others = (_named_settings(state.model.settings) for state in (mine, theirs))
    different = [name for name, value in ours.items() if value != others[name]]
    if different:
        raise ValueError(
            "other must have been fitted with the same parameters; it differs in "
            + ", ".join(different)
            + "."
        )
    if mine.model.seed != theirs.model.seed:
        raise ValueError(
            "other must have the same shared band, so both must be fitted with the same "
            "integer random_state; their seeds differ."
        )


def _named_settings(settings):
    """Settings by the names of the parameters, without those that leave the results alone."""
    named = {"n_layers": len(settings.p), **vars(settings), **vars(settings.descent)}
    return {name: value for name, value in named.items() if name not in ("chunk_size", "descent")}


def _check_feature_names(first, second):
    """Refuse two states of other inputs."""
    if first.n_features_in != second.n_features_in:
        raise ValueError(
            f"other must have been fitted on {first.n_features_in} features; "
            f"got {second.n_features_in}."
        )
    if not np.array_equal(first.feature_names_in, second.feature_names_in):
        raise ValueError("other must have been fitted on features of the same names and order.")
