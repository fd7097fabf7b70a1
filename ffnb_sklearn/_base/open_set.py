"""How usual a novelty score is for new samples of each class, from the scores of left-out samples.

docs/user_guide/open_set.rst ("How samples are judged") has the formulas.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student_t

__all__ = ["ScoreDistributions", "left_out_scores"]

# Least distance of which the logarithm is taken: the rounding of distances near 1.
_ROUNDING = np.finfo(np.float64).eps


def left_out_scores(state):
    """Return the scores of the left-out samples of each entry of `classes`.

    Parameters
    ----------
    state : State
        State of an `FFNBClassifier`.

    Returns
    -------
    list of ndarray
        Ascending scores, or quantiles of them; empty for a class without left-out samples.
    """
    scores_by_label = {}
    # Classes that only `partial_fit_shards` has seen may be missing at the end of `left_out`.
    for label, likeness in zip(state.arrived.tolist(), state.model.left_out, strict=False):
        scores_by_label[label] = likeness.values
    return [scores_by_label.get(label, np.empty(0)) for label in state.classes.tolist()]


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
    means, deviations : ndarray of shape (n_classes,)
        Mean and standard deviation of a new sample, given those of all classes.
    n_degrees : int
        Degrees of freedom of the variance within the classes; 0 if it is unknown.
    """

    samples: list
    means: np.ndarray
    deviations: np.ndarray
    n_degrees: int

    @classmethod
    def from_left_out(cls, scores):
        """Estimate the distributions from the scores of the left-out samples of each class."""
        samples = [_typicality(values) for values in scores]
        n_samples = np.array([len(values) for values in samples])
        n_degrees = np.maximum(n_samples - 1, 0)
        if not n_degrees.any():
            unknown = np.zeros(len(samples))
            return cls(samples, unknown, unknown, 0)
        variances = [values.var(ddof=1) for values in samples if len(values) > 1]
        within = max(np.mean(variances), _ROUNDING)
        has_samples = n_samples > 0
        means = np.array([values.mean() for values in samples if len(values)])
        errors = within / n_samples[has_samples]
        between = 0.0
        if len(means) > 1:
            # The means of small samples vary more than the means of the classes.
            between = max(means.var(ddof=1) - errors.mean(), 0.0)
        centre = np.average(means, weights=1.0 / (between + errors))
        # The best linear prediction of the mean of a class, and the variance of its error.
        trust = np.zeros(len(samples))
        trust[has_samples] = between / (between + errors)
        class_means = np.full(len(samples), centre)
        class_means[has_samples] += trust[has_samples] * (means - centre)
        prediction_errors = (1.0 - trust) * between
        deviations = np.sqrt(within + prediction_errors)
        return cls(samples, class_means, deviations, int(n_degrees.sum()))

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
            n_values = len(values)
            n_below = np.searchsorted(values, x, side="right")
            prior = prior_weight * shares[:, column]
            shares[:, column] = (n_below + prior) / (n_values + prior_weight)
        return shares


def _typicality(scores):
    """Return minus the logarithm of the relative distance, of which a score is the negative."""
    return -np.log(np.maximum(-scores, _ROUNDING))
