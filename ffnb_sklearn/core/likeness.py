"""Likeness of left-out samples to the classes learned, and a threshold for new samples.

If asked for, a class keeps quantiles of the likeness of its samples, each to a model that has not
learned it. The threshold for a rate of false alarms is a quantile of the values of all classes.
Further samples and classes raise the likeness of samples learned before, so values that were
computed when samples of total weight N were learned have the weight :math:`N^2`
(docs/theory/default.rst, "Samples of no class learned").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .device import Array

# Most quantiles that a class keeps.
_MOST = 100


@dataclass(frozen=True)
class LeftOutLikeness:
    """Likeness of samples of one class, each to a model that has not learned it.

    `values` holds the likenesses in ascending order, or up to 100 quantiles of them;
    `learned_weight` is the total weight N of the samples that the model had learned.
    """

    values: Array = field(default_factory=lambda: np.empty(0))
    learned_weight: float = 0.0

    @classmethod
    def of(cls, values: Array, weights: Array, learned_weight: float) -> "LeftOutLikeness":
        """Keep quantiles of the likeness of weighted samples, both of shape (n,)."""
        if not len(values):
            return cls()
        n_values = min(len(values), _MOST)
        shares = (np.arange(n_values) + 0.5) / n_values
        quantiles = np.quantile(values, shares, method="inverted_cdf", weights=weights)
        return cls(quantiles, learned_weight)

    def scale_weights(self, factor: float) -> "LeftOutLikeness":
        """Multiply the weights of all samples that the model had learned by a factor."""
        return replace(self, learned_weight=factor * self.learned_weight)


def pooled_likeness(parts: Sequence[tuple[LeftOutLikeness, float]]) -> LeftOutLikeness:
    """Pool the left-out likeness of different samples of one class, given with their weights.

    The pooled values keep their weight: their N is the root of the mean of :math:`N^2`.
    """
    values, weights = _weigh(parts)
    total = sum(weight for likeness, weight in parts if len(likeness.values))
    learned_weight = 0.0
    if total > 0.0:
        largest = _largest_learned_weight(parts)
        learned_weight = largest * math.sqrt(weights.sum() / total)
    return LeftOutLikeness.of(values, weights, learned_weight)


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

    The m values of samples of weight w have the weight :math:`(w / m) (N / N_{max})^2` each.
    """
    largest = _largest_learned_weight(parts)
    values = [np.empty(0)]
    weights = [np.empty(0)]
    for likeness, weight in parts:
        n_values = len(likeness.values)
        if n_values:
            share = likeness.learned_weight / largest
            values.append(likeness.values)
            weights.append(np.full(n_values, weight * share**2 / n_values))
    return np.concatenate(values), np.concatenate(weights)


def _largest_learned_weight(parts: Sequence[tuple[LeftOutLikeness, float]]) -> float:
    """Return the largest N of some values, which keeps its squares from overflowing."""
    return max((likeness.learned_weight for likeness, _ in parts), default=0.0)
