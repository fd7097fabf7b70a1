"""Probabilities from the scores of the classes."""

import numpy as np

__all__ = ["LEAST", "SURE", "vote_probabilities"]

# Losses below this many are not told apart, which keeps probabilities off 0 and 1.
SURE = 0.01

# Least probability, so that logarithms are finite and agree with what they are logarithms of.
LEAST = 1e-280


def vote_probabilities(scores):
    r"""Turn sums of pair outputs into probabilities of the same order and of sum one.

    A pair output is the posterior of one class minus that of the other, so
    :math:`L_t = (C - 1 - s_t) / 2` is the number of opponents that class t is expected to lose
    to, and :math:`p_t \propto 1 / L_t`. For two classes that is the pair's posterior itself.
    """
    votes = 1.0 / (0.5 * (scores.shape[1] - 1 - scores) + SURE)
    return np.maximum(votes / votes.sum(axis=1, keepdims=True), LEAST)
