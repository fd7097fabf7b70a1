"""How usual a novelty score is for new samples of each class, from the scores of left-out samples.

docs/user_guide/open_set.rst ("How unknown samples are recognised") has the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

from ..core.device import Array
from ..core.novelty.likeness import LeftOutLikeness

__all__ = ["ROUNDING", "ScoreDistributions"]

# Least distance of which the logarithm is taken: the rounding of distances near 1.
ROUNDING = np.finfo(np.float64).eps


@dataclass(frozen=True)
class ScoreDistributions:
    r"""Distributions of the logarithms of the scores of new samples, one for each class.

    A score is minus a relative distance d. Its typicality :math:`x = -\log d` varies by
    :math:`\sigma^2` within a class, and the mean of a class by :math:`\tau^2` around the mean of
    all classes.

    Attributes
    ----------
    samples : ndarray of shape (n_left_out,)
        Typicalities of the left-out samples of one class after the other, ascending in each.
    cumulative_shares : ndarray of shape (n_left_out + 1,)
        Sum of the shares of the samples before each, where the shares of a class sum to 1.
    starts : ndarray of shape (n_classes + 1,)
        Number of the first sample of each class, then of all samples.
    n_samples : ndarray of shape (n_classes,)
        Number of equally important samples that are worth as much (Kish, 1965).
    means, deviations : ndarray of shape (n_classes,)
        Mean and standard deviation of a new sample, given those of all classes.
    n_degrees : float
        Degrees of freedom of the variance within the classes; 0 if it is unknown.
    """

    samples: Array
    cumulative_shares: Array
    starts: npt.NDArray[np.intp]
    n_samples: Array
    means: Array
    deviations: Array
    n_degrees: float

    @classmethod
    def from_left_out(cls, likeness: Sequence[LeftOutLikeness]) -> "ScoreDistributions":
        """Estimate the distributions from the scores of the left-out samples of each class."""
        n_classes = len(likeness)
        lengths = [len(each.values) for each in likeness]
        starts = np.append(0, np.cumsum(lengths))
        classes = np.repeat(np.arange(n_classes), lengths)
        pooled = LeftOutLikeness(
            np.concatenate([each.values for each in likeness]),
            np.concatenate([each.weights for each in likeness]),
            np.concatenate([each.learned_weights for each in likeness]),
        )
        samples = _typicality(pooled.values)
        importances = pooled.importances(_largest_by_class(pooled.learned_weights, starts)[classes])

        def sums_by_class(values: Array) -> Array:
            return np.asarray(np.bincount(classes, values, minlength=n_classes), dtype=np.float64)

        shares = importances / sums_by_class(importances)[classes]
        sums_of_squares = sums_by_class(shares**2)
        has_samples = sums_of_squares > 0.0
        # The number of equal samples that are worth as much as samples of these shares.
        n_samples = np.zeros(n_classes)
        n_samples[has_samples] = 1.0 / sums_of_squares[has_samples]
        class_means = np.zeros(n_classes)
        deviations = np.zeros(n_classes)
        n_degrees = float(np.maximum(n_samples - 1.0, 0.0).sum())
        if n_degrees:
            own_means = sums_by_class(shares * samples)
            squares = (samples - own_means[classes]) ** 2
            has_variance = n_samples > 1.0
            biases = 1.0 - 1.0 / n_samples[has_variance]
            variances = sums_by_class(shares * squares)[has_variance] / biases
            within = max(variances.mean(), ROUNDING)
            own_means = own_means[has_samples]
            errors = within / n_samples[has_samples]
            between = 0.0
            if len(own_means) > 1:
                # The means of small samples vary more than the means of the classes.
                between = max(own_means.var(ddof=1) - errors.mean(), 0.0)
            centre = np.average(own_means, weights=1.0 / (between + errors))
            # The best linear prediction of the mean of a class, and the variance of its error.
            trust = np.zeros(n_classes)
            trust[has_samples] = between / (between + errors)
            class_means[:] = centre
            class_means[has_samples] += trust[has_samples] * (own_means - centre)
            prediction_errors = (1.0 - trust) * between
            deviations = np.sqrt(within + prediction_errors)
        return cls(
            samples=samples,
            cumulative_shares=np.append(0.0, np.cumsum(shares)),
            starts=starts,
            n_samples=n_samples,
            means=class_means,
            deviations=deviations,
            n_degrees=n_degrees,
        )

    def shares_below(self, scores: Array, prior_weight: float) -> Array:
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
        n_classes = len(self.n_samples)
        if not self.n_degrees:
            return np.ones((len(scores), n_classes))
        x = _typicality(scores)
        n_below = np.empty((len(x), n_classes), dtype=np.intp)
        for number, (start, stop) in enumerate(pairwise(self.starts.tolist())):
            n_below[:, number] = self.samples[start:stop].searchsorted(x, side="right")
        firsts = self.starts[:-1]
        sums_below = self.cumulative_shares[firsts + n_below]
        own_shares = sums_below - self.cumulative_shares[firsts]
        prior_shares = stdtr(self.n_degrees, (x[:, None] - self.means) / self.deviations)
        sums: Array = self.n_samples * own_shares + prior_weight * prior_shares
        return sums / (self.n_samples + prior_weight)


def _largest_by_class(values: Array, starts: npt.NDArray[np.intp]) -> Array:
    """Return the largest of the values of each class, and 0 of a class without values."""
    largest = np.zeros(len(starts) - 1)
    has_values = starts[:-1] < starts[1:]
    if has_values.any():
        # Classes without values lie between no others, so a sum ends where the next one starts.
        largest[has_values] = np.maximum.reduceat(values, starts[:-1][has_values])
    return largest


def _typicality(scores: Array) -> Array:
    """Return minus the logarithm of the relative distance, of which a score is the negative."""
    return -np.log(np.maximum(-scores, ROUNDING))
