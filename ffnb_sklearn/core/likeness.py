"""Likeness of left-out samples to the classes learned, and a threshold for new samples.

If asked for, a class keeps quantiles of the likeness of its samples, each to a model that has not
learned it. The threshold for a rate of false alarms is a quantile of the values of all classes.
Most new classes raise the likeness of samples of old ones, so values that were computed when k
classes were known have the weight :math:`k^2` (docs/benchmarks/novelty_threshold.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .statistics import Array


@dataclass(frozen=True)
class LeftOutLikeness:
    """Likeness of samples of one class, each to a model that has not learned it.

    `values` holds the likenesses in ascending order, or up to 100 quantiles of them; `n_classes` is
    the number of classes that the model knew.
    """

    values: Array = field(default_factory=lambda: np.empty(0))
    n_classes: int = 0

    @classmethod
    def of(
        cls, values: Array, weights: Array, n_classes: int, most: int = 100
    ) -> "LeftOutLikeness":
        """Keep up to `most` quantiles of the likeness of weighted samples, both of shape (n,)."""
        if not len(values):
            return cls(values, n_classes)
        n_values = min(len(values), most)
        shares = (np.arange(n_values) + 0.5) / n_values
        return cls(np.quantile(values, shares, method="inverted_cdf", weights=weights), n_classes)


def pooled_likeness(parts: Sequence[tuple[LeftOutLikeness, float]]) -> LeftOutLikeness:
    """Pool the left-out likeness of different samples of one class, given with their weights."""
    values = np.concatenate([one.values for one, _ in parts])
    weights = np.concatenate([_weights(*part) for part in parts])
    return LeftOutLikeness.of(values, weights, max(one.n_classes for one, _ in parts))


def likeness_threshold(
    classes: Sequence[LeftOutLikeness], priors: Array, rate: float
) -> float | None:
    """Return the likeness that a share `rate` of new samples of the classes falls below.

    `priors` are the shares of the classes among new samples. Classes without values play no part;
    the threshold is None if no class has values.
    """
    if not any(len(one.values) for one in classes):
        return None
    values = np.concatenate([one.values for one in classes])
    weights = np.concatenate([_weights(*part) for part in zip(classes, priors, strict=True)])
    return float(np.quantile(values, rate, method="inverted_cdf", weights=weights))


def _weights(one: LeftOutLikeness, weight: float) -> Array:
    """Return the weights of the values of samples of a given weight."""
    return np.full(len(one.values), weight * one.n_classes**2 / max(len(one.values), 1))
