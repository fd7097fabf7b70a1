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

from ..device import Array
from ..linalg import LENGTH_ROUNDING

# Exponent of N. With 2, classes of 50 samples that grow in 30 calls have a tenth of the false
# alarms asked for (docs/user_guide/open_set.rst).
_EXPONENT = 4

# Most values that a class keeps, and most calls whose weight it keeps.
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
    arrivals : ndarray of shape (n_calls,)
        N after each of the latest 100 calls that brought samples of the class, ascending.
    arrived_weights : ndarray of shape (n_calls,)
        Weight of the samples of the class in each of these calls.
    """

    values: Array = field(default_factory=lambda: np.empty(0))
    weights: Array = field(default_factory=lambda: np.empty(0))
    learned_weights: Array = field(default_factory=lambda: np.empty(0))
    arrivals: Array = field(default_factory=lambda: np.empty(0))
    arrived_weights: Array = field(default_factory=lambda: np.empty(0))

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

    def importances(self, largest: float | Array | None = None) -> Array:
        """Return the importance of each value, :math:`w (N / N_{max})^4`.

        `largest` is N_max, of all values or of each; None stands for the largest N of these values.
        """
        if largest is None:
            largest = self.learned_weights.max(initial=0.0)
        shares = self.learned_weights / largest
        powers: Array = shares**_EXPONENT
        return self.weights * powers

    def after_call(self, learned_weight: float, task_weight: float) -> "LeftOutLikeness":
        """Return the likeness of the samples of a single call, with its N and their weight."""
        return replace(
            self, arrivals=np.array([learned_weight]), arrived_weights=np.array([task_weight])
        )

    def without_values(self) -> "LeftOutLikeness":
        """Return what remains when no value is valid any more: the weights of the calls."""
        return LeftOutLikeness(arrivals=self.arrivals, arrived_weights=self.arrived_weights)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of any sample of the class."""
        return not len(self.values) and not len(self.arrivals)


def pooled_likeness(parts: Sequence[LeftOutLikeness]) -> LeftOutLikeness:
    """Pool the left-out likeness of different samples of one class."""
    if not parts:
        return LeftOutLikeness()
    pooled = LeftOutLikeness.of(
        np.concatenate([each.values for each in parts]),
        np.concatenate([each.weights for each in parts]),
        np.concatenate([each.learned_weights for each in parts]),
    )
    arrivals = np.concatenate([each.arrivals for each in parts])
    arrived_weights = np.concatenate([each.arrived_weights for each in parts])
    latest = np.argsort(arrivals, kind="stable")[-_MOST:]
    return replace(pooled, arrivals=arrivals[latest], arrived_weights=arrived_weights[latest])


def change_weights(
    classes: Sequence[LeftOutLikeness], before: Array, after: Array
) -> tuple[LeftOutLikeness, ...]:
    r"""Return left-out likeness as if samples had been learned with other weights.

    `before` and `after` are the total weights of all classes; 0 afterwards stands for a class that
    was never learned. With :math:`S_c` the weight of a class that had been learned when the samples
    of weight N had been learned,

    .. math:: N' = N \frac{\sum_c f_c S_c}{\sum_c S_c} , \qquad
              f_c = \frac{\mathrm{after}_c}{\mathrm{before}_c} .

    Samples whose call is not known count as learned before all others.
    """
    factors = after / before
    learned_early = before.copy()
    for number, each in enumerate(classes):
        learned_early[number] -= each.arrived_weights.sum()
    learned_early[learned_early < LENGTH_ROUNDING * before] = 0.0
    calls = [np.zeros(1)]
    weights_before = [np.array([learned_early.sum()])]
    weights_after = [np.array([np.sum(factors * learned_early)])]
    for each, factor in zip(classes, factors.tolist(), strict=False):
        calls.append(each.arrivals)
        weights_before.append(each.arrived_weights)
        weights_after.append(factor * each.arrived_weights)
    all_calls = np.concatenate(calls)
    order = np.argsort(all_calls, kind="stable")
    sums_before = np.cumsum(np.concatenate(weights_before)[order])
    sums_after = np.cumsum(np.concatenate(weights_after)[order])
    # Without early samples nothing was learned before the first call.
    has_samples = sums_before > 0.0
    ratios = sums_after[has_samples] / sums_before[has_samples]
    # Equal sums of weights may differ by rounding.
    starts = (1.0 - LENGTH_ROUNDING) * all_calls[order][has_samples]

    def changed(learned_weights: Array) -> Array:
        n_calls = np.searchsorted(starts, learned_weights, side="right")
        last_calls = np.maximum(n_calls - 1, 0)
        result: Array = learned_weights * ratios[last_calls]
        return result

    results = []
    for each, factor in zip(classes, factors.tolist(), strict=False):
        results.append(
            replace(
                each,
                weights=factor * each.weights,
                learned_weights=changed(each.learned_weights),
                arrivals=changed(each.arrivals),
                arrived_weights=factor * each.arrived_weights,
            )
        )
    return tuple(results)


def likeness_threshold(
    classes: Sequence[LeftOutLikeness], priors: Array, rate: float
) -> float | None:
    """Return the likeness that a share `rate` of new samples of the classes falls below.

    `priors` are the shares of the classes among new samples. Classes without values are ignored;
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
