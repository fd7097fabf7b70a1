"""Warn about transformers that learn from the first task of a stream alone."""

import warnings

from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.random_projection import BaseRandomProjection
from sklearn.utils import get_tags

from ..core.messages import level_of_user

__all__ = ["FrozenTransformerWarning", "warn_of_frozen"]

# Transformers whose fit depends on the number of features alone.
_BY_WIDTH = (BaseRandomProjection, PolynomialFeatures, RBFSampler)


class FrozenTransformerWarning(UserWarning):
    """A transformer learns from the samples of the first task alone, and is then frozen."""


def warn_of_frozen(steps):
    """Warn once about all (name, transformer) steps that are fitted to the first task alone."""
    learners = []
    for name, step in steps:
        for transformer in _elementary_transformers(step):
            if _learns(transformer):
                learners.append(f"{name!r} ({type(transformer).__name__})")
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


def _elementary_transformers(transformer):
    """Yield the elementary transformers in a transformer, which may be nested at any depth."""
    if isinstance(transformer, Pipeline):
        entries = transformer.steps
    elif isinstance(transformer, FeatureUnion):
        entries = transformer.transformer_list
    elif isinstance(transformer, ColumnTransformer):
        entries = [*transformer.transformers, ("remainder", transformer.remainder)]
    else:
        yield transformer
        return
    for entry in entries:
        # An entry of a ColumnTransformer also holds its columns.
        yield from _elementary_transformers(entry[1])


def _learns(transformer):
    """Return whether the fit of an elementary transformer depends on the samples."""
    if not hasattr(transformer, "fit") or isinstance(transformer, FrozenEstimator):
        return False
    if getattr(transformer, "frozen_on_purpose", False):
        return False
    # Classes that are not derived from BaseEstimator may have no tags.
    if isinstance(transformer, BaseEstimator) and not get_tags(transformer).requires_fit:
        return False
    if isinstance(transformer, _BY_WIDTH):
        # A gamma of "scale" is estimated from the samples.
        return getattr(transformer, "gamma", None) == "scale"
    return not _is_declared(transformer)


def _is_declared(transformer):
    """Return whether parameters declare all values that the fit of a transformer would learn."""
    if getattr(transformer, "use_idf", False):
        return False
    for name in ("categories", "vocabulary"):
        value = getattr(transformer, name, None)
        # A text such as "auto" lets the transformer learn the values.
        if value is not None and not isinstance(value, str):
            return True
    return getattr(transformer, "strategy", None) == "constant"
