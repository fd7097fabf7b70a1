"""Probabilities from the scores of the classes."""

__all__ = ["vote_probabilities"]

# Losses below this many are not told apart, which keeps probabilities off 0 and 1.
_SURE = 0.01


def vote_probabilities(scores, *, pairwise):
    r"""Turn scores into probabilities in the same order.

    A pair output is the posterior of one class minus that of the other, so
    :math:`L_t = (C - 1 - s_t) / 2` is the number of opponents that class t is expected to lose
    to, and :math:`p_t \propto 1 / L_t`. For two classes that is the pair's posterior itself.
    Scores of one-vs-all regression estimate the indicators of the classes and sum to one; they
    need only be kept from below zero.

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
        votes = 1.0 / (0.5 * (scores.shape[1] - 1 - scores) + _SURE)
    else:
        votes = scores.clip(min=0.0)
    return votes / votes.sum(axis=1, keepdims=True)
