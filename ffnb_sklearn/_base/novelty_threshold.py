"""Thresholds for the scores of samples of unknown classes."""

from math import isnan
from numbers import Real

import numpy as np
from sklearn.utils.validation import check_scalar

from ..core.device import Array
from ..core.novelty.likeness import likeness_threshold
from .state import State

__all__ = ["novelty_threshold"]


def novelty_threshold(state: State, priors: Array, rate: float) -> float:
    """Return a threshold of the novelty score for a rate of false alarms.

    `priors` has the share of each class seen. The threshold is the quantile of the scores of
    left-out samples that the rate names. Background classes, of prior 0, are ignored.
    """
    check_scalar(rate, "rate", Real, min_val=0.0, max_val=1.0, include_boundaries="neither")
    if isnan(rate):
        raise ValueError("rate must be a number in (0, 1); got nan.")
    stored = state.model.left_out
    numbers = np.flatnonzero(priors[: len(stored)])
    left_out = [stored[number] for number in numbers]
    threshold = likeness_threshold(left_out, priors[numbers], rate)
    if threshold is None:
        raise ValueError(
            "novelty_threshold needs scores of samples left out of learning, and no class has "
            "any: set novelty=True, then learn by fit or partial_fit (partial_fit_shards "
            "leaves no sample out, and forget_samples discards the scores of its classes). A class "
            "needs at least two samples."
        )
    return threshold
