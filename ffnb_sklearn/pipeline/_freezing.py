"""Warning of transformers that learn from the first task of a stream alone."""

import warnings

from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler, SkewedChi2Sampler
from sklearn.preprocessing import (
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)
from sklearn.random_projection import BaseRandomProjection
from sklearn.utils import get_tags

from ..core.messages import level_of_user

__all__ = ["FrozenTransformerWarning", "warn_of_frozen"]

# Transformers whose fit depends on the number of features alone.
_BY_WIDTH = (
    BaseRandomProjection,
    PolynomialCountSketch,
    PolynomialFeatures,
    RBFSampler,
    SkewedChi2Sampler,
)

# Parameters that hold the parts of Pipeline, FeatureUnion and ColumnTransformer.
_PARTS = ("steps", "transformer_list", "transformers")


def _has_categories(encoder):
    """Return whether the parameters of an encoder fix its categories."""
    is_given = not isinstance(encoder.categories, str)
    return is_given and encoder.min_frequency is None and encoder.max_categories is None


# Transformers with parameters that leave nothing to learn, and the test of these parameters.
# Subclasses may learn more, so they are not included.
_BY_PARAMETERS = {
    CountVectorizer: lambda one: one.vocabulary is not None,
    MissingIndicator: lambda one: one.features == "all",
    OneHotEncoder: _has_categories,
    OrdinalEncoder: _has_categories,
    SimpleImputer: lambda one: one.strategy == "constant" and not one.add_indicator,
    SplineTransformer: lambda one: not isinstance(one.knots, str),
    StandardScaler: lambda one: not one.with_mean and not one.with_std,
    TfidfTransformer: lambda one: not one.use_idf,
    TfidfVectorizer: lambda one: one.vocabulary is not None and not one.use_idf,
}


class FrozenTransformerWarning(UserWarning):
    """A transformer learns from the samples of the first task alone, and is then frozen."""


def warn_of_frozen(steps):
    """Warn once of all (name, transformer) steps that will be fitted to the first task alone."""
    learners = [
        f"{name!r} ({type(one).__name__})" for name, step in steps for one in _learners(step)
    ]
    if not learners:
        return
    warnings.warn(
        "The pipeline fits these steps to the samples of this first call alone and then freezes "
        f"them: {', '.join(learners)}. Their output may not separate the classes of later tasks. "
        "Fit them to samples that represent all tasks and wrap them in "
        "sklearn.frozen.FrozenEstimator, or use transformers that learn nothing from samples, such "
        "as HashingVectorizer, Normalizer or SparseRandomProjection.",
        FrozenTransformerWarning,
        stacklevel=level_of_user(),
    )


def _learners(transformer):
    """Return the parts of a transformer, or itself, whose fit depends on the samples."""
    # A transformer need not be an estimator of scikit-learn, whose tags and parameters exist. If
    # the check fails in any way, the transformer may learn.
    try:
        return list(_learning_parts(transformer))
    except Exception:
        return [transformer]


def _learning_parts(transformer):
    """Yield the parts of a transformer, or itself, whose fit depends on the samples."""
    if isinstance(transformer, (str, FrozenEstimator, type(None))):
        return
    lists = [getattr(transformer, name) for name in _PARTS if hasattr(transformer, name)]
    if len(lists) == 1:
        for part in (*(part[1] for part in lists[0]), getattr(transformer, "remainder", None)):
            yield from _learning_parts(part)
    elif _learns(transformer):
        yield transformer


def _learns(transformer):
    """Return whether the fit of a transformer without parts depends on the samples."""
    if getattr(transformer, "frozen_on_purpose", False) or not get_tags(transformer).requires_fit:
        return False
    if isinstance(transformer, _BY_WIDTH):
        # A gamma of "scale" is estimated from the samples.
        return getattr(transformer, "gamma", 0) == "scale"
    is_fixed = _BY_PARAMETERS.get(type(transformer))
    return is_fixed is None or not is_fixed(transformer)
