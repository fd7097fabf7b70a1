"""Likeness of left-out samples to the classes learned, and a threshold for new samples.

If asked for, a class keeps quantiles of the likeness of its samples, each to a model that has not
learned it. The threshold for a rate of false alarms is a quantile of the values of all classes.
Most new classes raise the likeness of samples of old ones, so values that were computed when k
classes were known have the weight :math:`k^2` (docs/theory/default.rst, "Samples of no class
learned").
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .device import Array

# Most quantiles that a class keeps.
_MOST = 100


@dataclass(frozen=True)
class LeftOutLikeness:
    """Likeness of samples of one class, each to a model that has not learned it.

    `values` holds the likenesses in ascending order, or up to 100 quantiles of them; `n_classes` is
    the number of classes that the model had learned.
    """

    values: Array = field(default_factory=lambda: np.empty(0))
    n_classes: int = 0

    @classmethod
    def of(cls, values: Array, weights: Array, n_classes: int) -> "LeftOutLikeness":
        """Keep quantiles of the likeness of weighted samples, both of shape (n,)."""
        if not len(values):
            return cls()
        n_values = min(len(values), _MOST)
        shares = (np.arange(n_values) + 0.5) / n_values
        quantiles = np.quantile(values, shares, method="inverted_cdf", weights=weights)
        return cls(quantiles, n_classes)


def pooled_likeness(parts: Sequence[tuple[LeftOutLikeness, float]]) -> LeftOutLikeness:
    """Pool the left-out likeness of different samples of one class, given with their weights."""
    n_classes = max((likeness.n_classes for likeness, _ in parts), default=0)
    values, weights = _weigh(parts)
    return LeftOutLikeness.of(values, weights, n_classes)


def likeness_threshold(
    classes: Sequence[LeftOutLikeness], priors: Array, rate: float
) -> float | None:
    """Return the likeness that a share `rate` of new samples of the classes falls below.

    `priors` are the shares of the classes among new samples. Classes without values play no part;
    the threshold is None if no class has values.
    """
    values, weights = _weigh(list(zip(classes, priors.tolist(), strict=True)))
    if not len(values):
        return None
    return float(np.quantile(values, rate, method="inverted_cdf", weights=weights))


def _weigh(parts: Sequence[tuple[LeftOutLikeness, float]]) -> tuple[Array, Array]:
    r"""Return the values of samples of given weights, and the weight of each value.

    The m values of samples of weight w, computed when k classes were known, have the weight
    :math:`w k^2 / m` each.
    """
    values = [np.empty(0)]
    weights = [np.empty(0)]
    for likeness, weight in parts:
        n_values = len(likeness.values)
        total = weight * likeness.n_classes**2
        values.append(likeness.values)
        weights.append(np.full(n_values, total / max(n_values, 1)))
    return np.concatenate(values), np.concatenate(weights)
