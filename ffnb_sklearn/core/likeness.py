"""Likeness of left-out samples to the classes learned, and a threshold for new samples.

If asked for, a class keeps the likeness of its samples, each to a model that has not learned it.
The threshold for a rate of false alarms is a quantile of the values of all classes. Further samples
and classes change the likeness of samples learned before, so values that were computed when samples
of total weight N were learned have the weight :math:`N^4`
(docs/theory/default.rst, "Samples of no class learned").
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .device import Array

# Exponent of N. With 2, classes of 50 samples that grow in 30 calls have a tenth of the false
# alarms asked for (docs/user_guide/open_set.rst).
_EXPONENT = 4

# Most values that a class keeps.
_MOST = 100


@dataclass(frozen=True)
class LeftOutLikeness:
    """Likeness of samples of one class, each to a model that has not learned it.

    Attributes
    ----------
    values : ndarray of shape (n_values,)
        Likenesses in ascending order, or 100 quantiles of more of them.
    weights : ndarray of shape (n_values,)
        Weight of the samples that each value stands for.
    learned_weights : ndarray of shape (n_values,)
        Total weight N of the samples that the model of each value had learned.
    """

    values: Array = field(default_factory=lambda: np.empty(0))
    weights: Array = field(default_factory=lambda: np.empty(0))
    learned_weights: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, values: Array, weights: Array, learned_weights: Array) -> "LeftOutLikeness":
        """Sort values, and keep quantiles of many values, given as the attributes."""
        if len(values) > _MOST:
            return cls._quantiles(values, weights, learned_weights)
        order = np.argsort(values, kind="stable")
        return cls(values[order], weights[order], learned_weights[order])

    @classmethod
    def _quantiles(cls, values: Array, weights: Array, learned_weights: Array) -> "LeftOutLikeness":
        """Return quantiles of values, with their total weight and mean importance."""
        shares = (np.arange(_MOST) + 0.5) / _MOST
        largest = learned_weights.max()
        importances = cls(values, weights, learned_weights).importances()
        quantiles = np.quantile(values, shares, method="inverted_cdf", weights=importances)
        total = weights.sum()
        mean_power = importances.sum() / total
        mean_learned_weight = largest * mean_power ** (1.0 / _EXPONENT)
        return cls(
            values=quantiles,
            weights=np.full(_MOST, total / _MOST),
            learned_weights=np.full(_MOST, mean_learned_weight),
        )

    def importances(self, largest: float | None = None) -> Array:
        """Return the importance of each value, :math:`w (N / N_{max})^4`.

        `largest` is N_max; None stands for the largest N of these values.
        """
        if largest is None:
            largest = self.learned_weights.max(initial=0.0)
        shares = self.learned_weights / largest
        powers: Array = shares**_EXPONENT
        return self.weights * powers

    def scale_weights(self, factor: float) -> "LeftOutLikeness":
        """Multiply the weights of all samples that were learned by a factor."""
        return replace(
            self,
            weights=factor * self.weights,
            learned_weights=factor * self.learned_weights,
        )


def pooled_likeness(parts: Sequence[LeftOutLikeness]) -> LeftOutLikeness:
    """Pool the left-out likeness of different samples of one class."""
    if not parts:
        return LeftOutLikeness()
    return LeftOutLikeness.of(
        np.concatenate([each.values for each in parts]),
        np.concatenate([each.weights for each in parts]),
        np.concatenate([each.learned_weights for each in parts]),
    )


def likeness_threshold(
    classes: Sequence[LeftOutLikeness], priors: Array, rate: float
) -> float | None:
    """Return the likeness that a share `rate` of new samples of the classes falls below.

    `priors` are the shares of the classes among new samples. Classes without values play no part;
    the threshold is None if no class has values.
    """
    learned_weights = [each.learned_weights.max(initial=0.0) for each in classes]
    largest = max(learned_weights, default=0.0)
    values = [np.empty(0)]
    importances = [np.empty(0)]
    for each, prior in zip(classes, priors.tolist(), strict=True):
        if len(each.values):
            shares = each.importances(largest) / each.weights.sum()
            values.append(each.values)
            importances.append(prior * shares)
    pooled = np.concatenate(values)
    if not len(pooled):
        return None
    weights = np.concatenate(importances)
    return float(np.quantile(pooled, rate, method="inverted_cdf", weights=weights))
