"""Scores for samples of unknown classes, and their threshold."""

from math import isnan
from numbers import Real

from sklearn.utils.validation import check_scalar

from ..core.device import as_array
from ..core.likeness import likeness_threshold
from ..core.prediction import likeness

__all__ = ["NoveltyMixin"]


class NoveltyMixin:
    """Methods of `FFNBClassifier` that tell samples of unknown classes."""

    def score_samples(self, X):
        """Score how similar samples are to the classes learned; low scores indicate new classes.

        The score is minus the squared Mahalanobis distance to the nearest class, relative to the
        distance from the mean of all classes (user guide, "Labels"), with the parameters of the
        last call that learned. Samples that were learned have higher scores than new samples, so a
        threshold needs samples that were not learned, see `novelty_threshold`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores of at most zero; a higher score means more similar to the samples learned.
        """
        state = self._learned_state()
        return as_array(likeness(state.model, self._samples(state, X)))

    def novelty_threshold(self, rate):
        """Return a threshold of `score_samples` for a rate of false alarms.

        It needs ``novelty=True`` while learning, and is a quantile of the scores of samples that
        were left out then (in closed form), with the shares of the classes given by `priors`.

        Parameters
        ----------
        rate : float
            Share, in (0, 1), of new samples of the classes learned whose score should be below the
            threshold.

        Returns
        -------
        float
            The threshold. It is uncertain for small rates of few samples.

        Raises
        ------
        ValueError
            If the rate is not a number in (0, 1), or no class has scores of left-out samples.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from ffnb_sklearn import FFNBClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = FFNBClassifier(novelty=True, random_state=0).fit(X[:100], y[:100])
        >>> is_new = clf.score_samples(X) < clf.novelty_threshold(0.05)
        >>> bool(is_new[100:].mean() > 0.5), bool(is_new[:100].mean() <= 0.05)
        (True, True)
        """
        check_scalar(rate, "rate", Real, min_val=0.0, max_val=1.0, include_boundaries="neither")
        if isnan(rate):
            raise ValueError("rate must be a number in (0, 1); got nan.")
        state = self._learned_state()
        left_out = state.model.left_out
        threshold = likeness_threshold(left_out, self._class_priors(state)[: len(left_out)], rate)
        if threshold is None:
            raise ValueError(
                "novelty_threshold needs scores of samples left out of learning, and no class has "
                "any: set novelty=True, then learn by fit or partial_fit (partial_fit_shards "
                "leaves no sample out). A class needs at least two samples."
            )
        return threshold
