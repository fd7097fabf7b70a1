"""Warning of transformers that learn from the first task of a stream alone."""

import warnings
from itertools import chain

from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler, SkewedChi2Sampler
from sklearn.preprocessing import PolynomialFeatures
from sklearn.random_projection import BaseRandomProjection
from sklearn.utils import get_tags

from ._arrays import level_of_user

__all__ = ["FrozenTransformerWarning", "warn_of_frozen"]

# Transformers whose fit depends on the number of features alone.
_BY_WIDTH = (
    BaseRandomProjection,
    PolynomialCountSketch,
    PolynomialFeatures,
    RBFSampler,
    SkewedChi2Sampler,
)

# Parameters that hold the steps of Pipeline, FeatureUnion and ColumnTransformer.
_PARTS = ("steps", "transformer_list", "transformers")


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
    if isinstance(transformer, (str, FrozenEstimator, type(None))):
        return []
    for name in _PARTS:
        if hasattr(transformer, name):
            parts = (_learners(part[1]) for part in getattr(transformer, name))
            return list(chain.from_iterable(parts))
    if getattr(transformer, "frozen_on_purpose", False) or not get_tags(transformer).requires_fit:
        return []
    # A gamma of "scale" is estimated from the samples.
    by_width = isinstance(transformer, _BY_WIDTH) and getattr(transformer, "gamma", 0) != "scale"
    return [] if by_width else [transformer]
