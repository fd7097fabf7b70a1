"""Nearest class mean."""

import numpy as np

from ._base import MomentClassifier

__all__ = ["NearestClassMean"]


class NearestClassMean(MomentClassifier):
    """Classifier by the nearest class mean in Euclidean distance, for streams of new classes.

    The labels are those of scikit-learn's ``NearestCentroid``, and classes may come at any time.
    The order of the samples does not matter.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted.
    class_counts_ : ndarray of shape (n_classes,)
        Number of samples of each class.
    means_ : ndarray of shape (n_classes, n_features)
        Mean of each class.
    n_features_in_ : int
        Number of features seen at the first call.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had string column names.
    n_tasks_, task_classes_ : int, list of ndarray
        Number of tasks with new labels, and these labels.

    See Also
    --------
    StreamingLDA : Takes the covariance of the features into account.

    Notes
    -----
    With C classes and d features, the state has C d numbers. A score takes d products.

    References
    ----------
    .. [1] S.-A. Rebuffi, A. Kolesnikov, G. Sperl, C. H. Lampert. "iCaRL: Incremental Classifier and
       Representation Learning". CVPR 2017. Its classifier, with the means of all samples.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ffnb_sklearn.baselines import NearestClassMean
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = NearestClassMean().partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    >>> print(f"{clf.score(X, y):.3f}")
    0.927
    """

    def _solve(self, model, order):
        """Return weights and offsets: -1/2 |x - mu|^2, without the terms that all classes share.

        With the centre c of the means, the weights are mu - c, and the offsets
        -(mu - c)' (mu + c) / 2. Without the centre, classes far from the origin would lose digits.
        """
        means = model.means[order]
        centre = means.mean(axis=0)
        weights = means - centre
        offsets = -0.5 * np.sum(weights * (means + centre), axis=1)
        return weights, offsets
