"""How usual a novelty score is for new samples of each class, from the scores of left-out samples.

docs/user_guide/open_set.rst ("How samples are judged") has the formulas.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

from ..core.likeness import LeftOutLikeness

__all__ = ["ScoreDistributions", "left_out_scores"]

# Least distance of which the logarithm is taken: the rounding of distances near 1.
_ROUNDING = np.finfo(np.float64).eps


def left_out_scores(state):
    """Return the scores of the left-out samples of each entry of `classes`.

    Parameters
    ----------
    state : State
        State of a classifier.

    Returns
    -------
    list of LeftOutLikeness
        Scores with their weights; empty for a class without left-out samples.
    """
    # Classes that only `partial_fit_shards` has seen may be missing at the end of `left_out`.
    stored = dict(zip(state.arrived.tolist(), state.model.left_out, strict=False))
    return [stored.get(label, LeftOutLikeness()) for label in state.classes.tolist()]


@dataclass(frozen=True)
class ScoreDistributions:
    r"""Distributions of the logarithms of the scores of new samples, one for each class.

    A score is minus a relative distance d. Its typicality :math:`x = -\log d` varies by
    :math:`\sigma^2` within a class, and the mean of a class by :math:`\tau^2` around the mean of
    all classes.

    Attributes
    ----------
    samples : list of ndarray
        Ascending typicalities of the left-out samples of each class.
    cumulative_shares : list of ndarray
        Share of these samples, by their importance, up to each of them, after a first 0.
    n_samples : ndarray of shape (n_classes,)
        Number of equally important samples that are worth as much (Kish, 1965).
    means, deviations : ndarray of shape (n_classes,)
        Mean and standard deviation of a new sample, given those of all classes.
    n_degrees : float
        Degrees of freedom of the variance within the classes; 0 if it is unknown.
    """

    samples: list
    cumulative_shares: list
    n_samples: np.ndarray
    means: np.ndarray
    deviations: np.ndarray
    n_degrees: float

    @classmethod
    def from_left_out(cls, likeness):
        """Estimate the distributions from the scores of the left-out samples of each class."""
        n_classes = len(likeness)
        samples = [_typicality(each.values) for each in likeness]
        shares = [_shares(each) for each in likeness]
        cumulative_shares = [np.append(0.0, np.cumsum(each)) for each in shares]
        n_samples = np.array([_effective_number(each) for each in shares])
        n_degrees = float(np.maximum(n_samples - 1.0, 0.0).sum())
        if not n_degrees:
            unknown = np.zeros(n_classes)
            return cls(samples, cumulative_shares, n_samples, unknown, unknown, n_degrees)
        means = np.array([w @ values for w, values in zip(shares, samples, strict=True)])
        variances = []
        for number in np.flatnonzero(n_samples > 1.0):
            squares = (samples[number] - means[number]) ** 2
            bias = 1.0 - 1.0 / n_samples[number]
            variances.append(shares[number] @ squares / bias)
        within = max(np.mean(variances), _ROUNDING)
        has_samples = n_samples > 0
        means = means[has_samples]
        errors = within / n_samples[has_samples]
        between = 0.0
        if len(means) > 1:
            # The means of small samples vary more than the means of the classes.
            between = max(means.var(ddof=1) - errors.mean(), 0.0)
        centre = np.average(means, weights=1.0 / (between + errors))
        # The best linear prediction of the mean of a class, and the variance of its error.
        trust = np.zeros(n_classes)
        trust[has_samples] = between / (between + errors)
        class_means = np.full(n_classes, centre)
        class_means[has_samples] += trust[has_samples] * (means - centre)
        prediction_errors = (1.0 - trust) * between
        deviations = np.sqrt(within + prediction_errors)
        return cls(samples, cumulative_shares, n_samples, class_means, deviations, n_degrees)

    def shares_below(self, scores, prior_weight):
        r"""Return the share of new samples of each class that score at most as high.

        .. math:: F_c(x) = \frac{n_c \hat F_c(x) + a T_\nu((x - m_c) / s_c)}{n_c + a}

        is the mean of Ferguson's posterior (1973): the share among the n_c left-out samples, with a
        prior that weighs as much as a samples, a = `prior_weight`. The prior is the predictive
        distribution of Student's t.

        Parameters
        ----------
        scores : ndarray of shape (n_samples,)
            Scores of samples.
        prior_weight : float
            Weight of the prior.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Shares in [0, 1]; 1 if there is nothing to compare with.
        """
        n_classes = len(self.samples)
        if not self.n_degrees:
            return np.ones((len(scores), n_classes))
        x = _typicality(scores)
        deviations = x[:, None] - self.means
        shares = student_t.cdf(deviations / self.deviations, self.n_degrees)
        for column, values in enumerate(self.samples):
            n_values = self.n_samples[column]
            n_below = np.searchsorted(values, x, side="right")
            shares_below = self.cumulative_shares[column][n_below]
            prior = prior_weight * shares[:, column]
            shares[:, column] = (n_values * shares_below + prior) / (n_values + prior_weight)
        return shares


def _shares(likeness):
    """Return the importance of each left-out sample of a class, as shares of their sum."""
    importances = likeness.importances()
    return importances / importances.sum()


def _effective_number(shares):
    """Return the number of equal samples that are worth as much as samples of some shares."""
    if not len(shares):
        return 0.0
    return 1.0 / np.sum(shares**2)


def _typicality(scores):
    """Return minus the logarithm of the relative distance, of which a score is the negative."""
    return -np.log(np.maximum(-scores, _ROUNDING))
