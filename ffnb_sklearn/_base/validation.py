"""Validation of samples, labels and weights; scikit-learn does most of it."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    _get_feature_names,
)

from .._inputs.arrays import Matrix, UserArray, as_numpy
from .._inputs.labels import Labels, check_labels, check_targets
from .._inputs.seeds import integer_state
from .._inputs.sparse_samples import projection_for
from ..core.device import Array
from .state import State

if TYPE_CHECKING:
    from .base import ClassIncrementalClassifier

__all__ = ["check_inputs", "check_samples", "largest_magnitude"]

# Form of the samples: float64 and float32 samples, in memory or on disk, are not copied.
_FORM = {"accept_sparse": "csr", "dtype": (np.float64, np.float32), "order": "C"}

# Largest magnitude of X. Beyond it, squares of second moments overflow.
_LARGEST = 1e70


def check_samples(
    estimator: "ClassIncrementalClassifier",
    X: UserArray,
    y: UserArray,
    *,
    classes: UserArray,
    sample_weight: UserArray,
    state: State | None,
) -> tuple[Matrix, Labels, Labels | None, Array, State]:
    """Check the arguments of a call that learns.

    Return the samples of positive weight, their labels, the declared labels or None, the weights,
    and the given state, or a state of the features alone. Labels that only samples of weight 0 have
    are declared: scikit-learn gives them columns.
    """
    known = None
    if state is not None and len(state.classes):
        known = state.classes
    y = check_targets(y, known, "y")
    try:
        check_consistent_length(X, y)
    except ValueError:
        if np.ndim(X) == 1:
            # A sample without its second dimension; the error says how to reshape it.
            check_inputs(estimator, X, state)
        raise
    if classes is not None:
        classes = check_labels(classes, y if known is None else known, "classes")
    X, state = check_inputs(estimator, X, state)
    if sample_weight is None:
        return X, y, classes, np.ones(X.shape[0]), state
    weights = _check_sample_weight(
        as_numpy(sample_weight, "sample_weight"), X, dtype=np.float64, ensure_non_negative=True
    )
    is_used = weights > 0
    if is_used.all():
        return X, y, classes, weights, state
    declared = np.unique(y[~is_used])
    if classes is not None:
        declared = np.union1d(classes, declared)
    return X[is_used], y[is_used], declared, weights[is_used], state


def check_inputs(
    estimator: "ClassIncrementalClassifier",
    X: UserArray,
    state: State | None,
    name: str = "X",
) -> tuple[Matrix, State]:
    """Validate samples; return them, C-ordered or in CSR form, and the state.

    A state of None is replaced by one of the features alone; the estimator does not change. `name`
    is that of the argument.
    """
    X = as_numpy(X, name)
    checks = {"estimator": estimator, "input_name": name, **_FORM}
    try:
        if state is None:
            names = _get_feature_names(X)
            X = check_array(X, **checks)
            random_state = integer_state(estimator.random_state)
            projection = projection_for(
                X, random_state, needs_dense_inputs=estimator._needs_dense_inputs()
            )
            state = State(X.shape[1], names, projection, random_state=random_state)
        else:
            # `validate_data` does the same, but names every argument X.
            _check_feature_names(estimator, X, reset=False)
            X = check_array(X, **checks)
            _check_n_features(estimator, X, reset=False)
    except ValueError as error:
        if "contains NaN" in str(error):
            error.add_note(
                "With this package: make_continual_pipeline(SimpleImputer(), classifier), whose "
                "imputer learns from the first call alone."
            )
        if "could not convert string to float" in str(error):
            error.add_note(
                "Put an encoder before the classifier if X has columns of text, as in "
                "make_continual_pipeline(make_column_transformer((OneHotEncoder("
                'handle_unknown="ignore"), columns), remainder="passthrough"), classifier), or a '
                "vectorizer if X holds texts, such as HashingVectorizer()."
            )
        raise
    values = X
    if issparse(X):
        X = _without_repeated_entries(X)
        values = X.data
    _check_magnitudes(values, name)
    return X, state


def _check_magnitudes(values: npt.NDArray[np.floating], name: str = "X") -> None:
    """Raise if squares of the values of an argument would overflow in second moments."""
    largest = largest_magnitude(values)
    if largest > _LARGEST:
        raise ValueError(
            f"{name} must have magnitudes of at most {_LARGEST:.0e}, whose moments can be "
            f"computed; its largest is {largest:.3e}. Rescale the features."
        )


def largest_magnitude(values: npt.NDArray[np.floating]) -> float:
    """Return the largest absolute value."""
    # Computing absolute values would copy the values.
    highest = float(values.max(initial=0.0))
    lowest = float(values.min(initial=0.0))
    return max(highest, -lowest)


def _without_repeated_entries(X: csr_array) -> csr_array:
    """Return a CSR matrix with at most one entry per place; X itself if it is of this form.

    SciPy adds entries of the same place, and functions that read the entries alone do not.
    """
    if X.has_canonical_format:
        return X
    # X may belong to the caller.
    X = X.copy()
    X.sum_duplicates()
    return X
