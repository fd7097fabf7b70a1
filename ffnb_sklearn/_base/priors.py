"""Class probabilities from scores, and the adjustment of scores for priors."""

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import TypeAlias

import numpy as np
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning

from .._inputs.labels import Labels, check_labels
from ..core.device import Array
from ..core.messages import level_of_user

__all__ = [
    "LEAST",
    "Priors",
    "allow_for_unforeseen",
    "check_priors",
    "class_priors",
    "estimate_shares",
    "unseen_scores",
]

# Value of the parameter `priors`: "uniform", "empirical", or weights by label.
Priors: TypeAlias = str | Mapping[object, float]

# Least probability, so that logarithms are finite and agree with the probabilities.
LEAST = 1e-280

# Least distance of the score of a class without samples below the other scores of a sample: a
# softmax gives the class less than the rounding of 1.
_UNSEEN_MARGIN = -np.log(np.finfo(np.float64).eps)

# Least positive prior; smaller positive priors are raised to it, so that logarithm and inverse are
# far from overflow.
_LEAST_PRIOR = 1e-200

# Steps of the estimation of shares: it ends when all shares together change by less than this
# tolerance, which took up to 250 steps on digits in two columns.
_TOLERANCE = 1e-6
_MOST_STEPS = 10_000


def allow_for_unforeseen(logits: Array, n_samples: float) -> Array:
    r"""Return logarithms of probabilities that allow for samples unlike all that were learned.

    By Laplace's rule of succession, an event that none of N samples showed has the probability
    :math:`\delta = 1 / (N + 2)`. For such a sample all C classes are equally likely, so the
    probabilities become :math:`(1 - \delta) p_c + \delta / C`, in the same order.
    """
    n_classes = logits.shape[1]
    unforeseen = 1.0 / (n_samples + 2.0)
    log_foreseen = np.log1p(-unforeseen)
    log_probabilities: Array = log_softmax(logits, axis=1)
    log_unforeseen = np.log(unforeseen / n_classes)
    allowing: Array = np.logaddexp(log_foreseen + log_probabilities, log_unforeseen)
    return allowing


def unseen_scores(scores: Array) -> Array:
    """Return the score of classes that have no samples yet, of shape (n_samples, 1).

    It lies below the scores of the classes seen: by their range in the row, by at least 36, and by
    at least a unit in the last place. It is finite and of the scale of the row, because tools of
    scikit-learn sum, scale and compare scores.
    """
    lowest = scores.min(axis=1, keepdims=True)
    highest = scores.max(axis=1, keepdims=True)
    margin = np.maximum(highest - lowest, _UNSEEN_MARGIN)
    next_below = np.nextafter(lowest, -np.inf)
    unseen: Array = np.minimum(lowest - margin, next_below)
    return unseen


def check_priors(priors: object, arrived: Labels) -> None:
    """Raise if priors do not fit the labels learned; a mapping may contain further labels."""
    if isinstance(priors, str) and priors in ("uniform", "empirical"):
        return
    if not isinstance(priors, Mapping):
        raise ValueError(
            "priors must be 'uniform', 'empirical' or a mapping from labels to weights of at least "
            f"0; got {priors!r}."
        )
    labels = check_labels(list(priors), arrived, "priors")
    missing = [label for label in arrived.tolist() if label not in priors]
    if missing:
        raise ValueError(
            "priors must have a weight for every label learned; got weights for "
            f"{labels.tolist()}, and none for {missing}."
        )
    for label, weight in priors.items():
        if not isinstance(weight, Real) or not 0.0 <= float(weight) < np.inf:
            raise ValueError(
                "priors must map each label to a finite weight of at least 0; got "
                f"{weight!r} for label {label!r}."
            )
    if not any(priors.values()):
        raise ValueError(
            "priors must map at least one label to a positive weight; got 0 for all of "
            f"{labels.tolist()}."
        )


def class_priors(priors: Priors, arrived: Labels, class_weights: Array) -> Array:
    """Return the priors of the labels learned, which sum to one; background classes have 0."""
    check_priors(priors, arrived)
    weights = class_weights
    if isinstance(priors, Mapping):
        weights = np.array([float(priors[label]) for label in arrived.tolist()])
    elif priors == "uniform":
        weights = np.ones(len(arrived))
    largest = weights.max()
    if largest == 0.0:
        raise ValueError(
            "predictions need a label with a positive weight in priors; got 0 for all labels "
            f"learned so far, {arrived.tolist()}."
        )
    # Divided twice, because the sum of large weights may overflow.
    relative = weights / largest
    shares = relative / relative.sum()
    return np.where(weights > 0.0, np.maximum(shares, _LEAST_PRIOR), 0.0)


def estimate_shares(probabilities: Array) -> Array:
    r"""Return the shares of the classes among samples, given their probabilities for equal shares.

    The likelihood of the shares is maximised by expectation-maximisation: with the probabilities
    :math:`p_{ic}`, the shares :math:`\pi_c` become the means of the posteriors

    .. math:: q_{ic} = \frac{\pi_c p_{ic}}{\sum_k \pi_k p_{ik}}

    over the samples (M. Saerens, P. Latinne and C. Decaestecker. Adjusting the outputs of a
    classifier to new a priori probabilities: a simple procedure. Neural Computation 14(1), 2002).
    """
    n_classes = probabilities.shape[1]
    shares: Array = np.full(n_classes, 1.0 / n_classes)
    for _ in range(_MOST_STEPS):
        joint = probabilities * shares
        posteriors = joint / joint.sum(axis=1, keepdims=True)
        new_shares = posteriors.mean(axis=0)
        change = np.abs(new_shares - shares).sum()
        # A share of 0 would make the class background.
        shares = np.maximum(new_shares, _LEAST_PRIOR)
        if change < _TOLERANCE:
            return shares
    warnings.warn(
        f"the shares of the classes have not converged after {_MOST_STEPS} steps; the last step "
        f"changed them by {change:.1e}.",
        ConvergenceWarning,
        stacklevel=level_of_user(),
    )
    return shares
