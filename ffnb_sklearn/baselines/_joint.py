"""Joint training: the same network, trained on all classes at once; the paper's upper bound."""

from .._block_classifier import BlockClassifier

__all__ = ["JointClassifier"]


class JointClassifier(BlockClassifier):
    """The network of `FFNBClassifier`, learned from all classes at once.

    The paper [1]_ calls it the multi-task upper bound: a single task has every class in it, so that
    bands are trained in the whole ambient space and no class is ever old. The estimator does not
    learn incrementally: it has neither `partial_fit` nor `merge`, `forget` or `forgetting_bound`.
    To train a backbone with it, put a `TorchFeatureExtractor` with ``epochs > 0`` before it in a
    pipeline.

    Parameters and attributes are those of `FFNBClassifier`. A single task has no past, so `p`,
    `null_space`, `old_statistics` and `classes_per_task` have no effect.

    See Also
    --------
    FFNBClassifier : Learns class after class.
    NaiveIncrementalClassifier : The paper's other baseline.

    References
    ----------
    .. [1] H. Sahbi and H. Zhan. FFNB: Forgetting-Free Neural Blocks for Deep Continual Visual
       Learning. arXiv:2111.11366, 2021.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ffnb_sklearn import JointClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> JointClassifier(random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def fit(self, X, y, sample_weight=None):
        """Learn all classes at once.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels of the samples: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples, as in `FFNBClassifier.fit`.

        Returns
        -------
        self : JointClassifier
            The fitted estimator. If an error is raised, the estimator does not change.

        Raises
        ------
        ValueError
            If a parameter, a sample, a label or a weight is invalid.
        ConcurrentLearningError
            If another thread has made the estimator learn meanwhile.
        """
        return self._learn(X, y, sample_weight=sample_weight, reset=True)
