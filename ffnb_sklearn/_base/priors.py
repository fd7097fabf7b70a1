"""Class probabilities from scores, and the adjustment of scores for priors."""

from collections.abc import Mapping
from numbers import Real

import numpy as np
from scipy.special import log_softmax

from .._inputs.labels import check_labels

__all__ = [
    "LEAST",
    "check_priors",
    "class_priors",
    "unseen_scores",
    "with_unforeseen",
]

# Least probability, so that logarithms are finite and agree with the probabilities.
LEAST = 1e-280

# Least distance of the score of a class without samples from the scores of its row: a softmax gives
# the class less than the rounding of 1.
_UNSEEN_MARGIN = -np.log(np.finfo(np.float64).eps)

# Least prior; smaller priors are raised to it, so that logarithm and inverse are far from overflow.
_LEAST_PRIOR = 1e-200


def with_unforeseen(logits, n_samples):
    r"""Return logarithms of probabilities that allow for samples unlike all that were learned.

    By Laplace's rule of succession, an event that none of N samples showed has the probability
    :math:`\delta = 1 / (N + 2)`. For such a sample all C classes are equally likely, so the
    probabilities become :math:`(1 - \delta) p_c + \delta / C`, in the same order.
    """
    share = 1.0 / (n_samples + 2.0)
    return np.logaddexp(
        log_softmax(logits, axis=1) + np.log1p(-share), np.log(share / logits.shape[1])
    )


def unseen_scores(scores):
    """Return the score of classes that have no samples yet, of shape (n_samples, 1).

    It lies below the scores of the classes seen: by their range in the row, by at least 36, and by
    at least a unit in the last place. It is finite and of the scale of the row, because tools of
    scikit-learn sum, scale and compare scores.
    """
    least = scores.min(axis=1, keepdims=True)
    margin = np.maximum(scores.max(axis=1, keepdims=True) - least, _UNSEEN_MARGIN)
    return np.minimum(least - margin, np.nextafter(least, -np.inf))


def check_priors(priors, arrived):
    """Raise if priors do not fit the labels learned; a mapping may contain further labels."""
    if isinstance(priors, str) and priors in ("uniform", "empirical"):
        return
    if not isinstance(priors, Mapping):
        raise ValueError(
            "priors must be 'uniform', 'empirical' or a mapping from labels to positive weights; "
            f"got {priors!r}."
        )
    labels = check_labels(list(priors), arrived, "priors")
    missing = [label for label in arrived.tolist() if label not in priors]
    if missing:
        raise ValueError(
            "priors must have a weight for every label learned; got weights for "
            f"{labels.tolist()}, and none for {missing}."
        )
    for label, weight in priors.items():
        if not isinstance(weight, Real) or not 0.0 < weight < np.inf:
            raise ValueError(
                "priors must map each label to a positive finite weight; got "
                f"{weight!r} for label {label!r}."
            )


def class_priors(priors, arrived, weights):
    """Return the priors of the labels learned, which are positive and sum to one."""
    check_priors(priors, arrived)
    if isinstance(priors, Mapping):
        weights = np.array([float(priors[label]) for label in arrived.tolist()])
    elif priors == "uniform":
        weights = np.ones(len(arrived))
    # Divided twice, because the sum of large weights may overflow.
    relative = weights / weights.max()
    return np.maximum(relative / relative.sum(), _LEAST_PRIOR)
