"""Probabilities from the scores of the classes."""

import numpy as np

__all__ = ["LEAST", "SURE", "vote_probabilities"]

# Losses below this many are not told apart, which keeps probabilities off 0 and 1.
SURE = 0.01

# Least probability, so that logarithms are finite and agree with what they are logarithms of.
LEAST = 1e-280


def vote_probabilities(scores, *, pairwise):
    r"""Turn scores into probabilities in the same order.

    A pair output is the posterior of one class minus that of the other, so
    :math:`L_t = (C - 1 - s_t) / 2` is the number of opponents that class t is expected to lose
    to, and :math:`p_t \propto 1 / L_t`. For two classes that is the pair's posterior itself.
    Scores of one-vs-all regression estimate the indicators of the classes; they need only be
    kept from below zero.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, C)
        Scores of all classes.
    pairwise : bool
        Whether they are sums of pair outputs, or values of one-vs-all regression.

    Returns
    -------
    ndarray of shape (n_samples, C)
        Rows sum to one, and their largest entry is that of the largest score.
    """
    if pairwise:
        votes = 1.0 / (0.5 * (scores.shape[1] - 1 - scores) + SURE)
    else:
        votes = scores.clip(min=0.0)
    return np.maximum(votes / votes.sum(axis=1, keepdims=True), LEAST)
