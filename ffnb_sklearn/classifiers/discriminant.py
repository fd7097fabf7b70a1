"""The classifier that is a function of the set of samples."""

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from .._base import revision
from .._inputs.locks import exclusive
from ..core.device import resolve_device
from ..core.learning import learn
from ..core.merge_and_forget import merge_models
from ._base import BaseDiscriminantClassifier, without_class_weight

__all__ = ["IncrementalDiscriminantAnalysis"]


class IncrementalDiscriminantAnalysis(BaseDiscriminantClassifier):
    """Regularised discriminant analysis that learns new classes as they arrive.

    The moments of each class are stored, over the inputs and over random neurons, and the samples
    are discarded. The classifier follows from the moments. It is a function of the set of samples:
    it is the same for any order of the tasks, for any division into calls, shards and models that
    are merged, and after samples or classes are forgotten, up to rounding and to the truncation by
    `rank`.

    Parameters
    ----------
    shared_band_size : int or "auto", default="auto"
        Number of random neurons, which are never trained. "auto" is 500, or 360,000 divided by the
        number of inputs if that is less; 0 for sparse samples of more than 2000 features.
    classifier : {"gaussian", "ovo", "ova"}, default="gaussian"
        Regularised Mahalanobis distances to the classes, the aggregated Fisher discriminants of all
        pairs of classes, or one ridge regression per class.
    shrinkage : float or "auto", default="auto"
        Share in [0, 1] of the pooled covariance in the covariance of a class: 0 for quadratic, 1
        for linear discriminant analysis. "auto" is the intensity of Ledoit and Wolf [1]_ within
        limits. With ``classifier="ova"`` novelty scores alone read another value than 0.
    epsilon : float or "auto", default="auto"
        Positive ridge, relative to the mean variance within classes. "auto" follows the shrinkage;
        it is 0.3 with ``classifier="ova"``, and 0.7 with ``shrinkage=0``.
    rank : int, "auto" or None, default="auto"
        Number of principal axes stored for the scatter of each class; None stores the scatter
        exactly. "auto" is 96, or 8 if sparse inputs stay sparse. A class that gets further samples
        has a quarter more, at least 8, which predictions leave out.
    priors : {"uniform", "empirical"} or mapping of label to float, default="uniform"
        Shares of the classes among future samples: equal, proportional to the sample weights
        learned, or weights of every label learned, and of further labels. The weight 0 makes a
        class background: it counts in the covariance, and predictions never return it.
    scale : bool or "auto", default=False
        Whether to standardise the columns of X by their mean and their deviation within classes.
        "auto" does so if the columns lie far from zero or have unlike units, judged by the first
        samples with ten degrees of freedom within classes; True by the first call whose samples
        differ. The model then depends on that call. False leaves the columns as they are, with a
        `ColumnUnitsWarning` where "auto" would standardise them.
    novelty : bool, default=False
        Whether to prepare `novelty_threshold`; learning and a first prediction then take up to
        twice as long.
    refresh : float, default=0.0
        Growth of the total weight, as a share, after which shrinkage, ridge, temperature and the
        covariance that the classes share are computed again. In between, a prediction after new
        samples solves only their classes. With 0, all classes are solved after each call that
        learns, and the model is a function of the samples alone.
    chunk_size : int, default=4096
        Number of samples whose features are in memory at a time.
    device : str, default="auto"
        Device of the computation: "auto", "cpu", "cuda" or "cuda:<index>", resolved at each call.
    random_state : int, RandomState instance or None, default=None
        Seed of all random numbers. Two models can be merged only if their seeds are equal.
    verbose : bool or int, default=False
        Whether to print a line for every task.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted: the columns of `predict_proba` and
        `decision_function`. Columns move when a new label sorts before earlier labels.
    class_counts_ : ndarray of shape (n_classes,)
        Total weight of the samples of each class in `classes_`: their number without
        `sample_weight`; 0 for a label that was declared and never seen.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        Number of features, and their names, defined only if X had string column names.
    n_tasks_, task_classes_ : int, list of ndarray
        Number of tasks with new labels, and these labels.
    random_state_ : int
        Integer that draws the same random numbers: `random_state`, or one that was drawn at the
        first call if that is None or a generator. Give it to estimators that are to be merged,
        before they learn.
    n_parameters_ : int
        Number of weights of the neurons and of the classifier, or an upper bound.
    shrinkage_, epsilon_ : float
        Shrinkage and relative ridge of the solved classifier. They exist after a prediction.
    offset_, scale_ : ndarray of shape (`n_features_in_`,) or None
        Values subtracted from the columns of X, and divisors of the columns; None if the columns
        are not standardised.

    See Also
    --------
    FFNBClassifier : Trains neurons for each task in the null-space of the previous tasks.
    ContinualPipeline : A pipeline whose last step learns task by task.

    Notes
    -----
    A call that learns is a transaction: if it raises, the estimator predicts as before. The first
    prediction after it solves the classifier, and so takes longer. The user guide describes when
    `set_params` takes effect after learning, how sparse samples are projected, and which data are
    stored: the mean of a class with a single sample *is* that sample.

    References
    ----------
    .. [1] O. Ledoit and M. Wolf. A well-conditioned estimator for large-dimensional covariance
       matrices. Journal of Multivariate Analysis 88(2), 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ffnb_sklearn import IncrementalDiscriminantAnalysis
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = IncrementalDiscriminantAnalysis(random_state=0)
    >>> for task in [(0, 1), (2, 3), (4, 5)]:
    ...     now = [label in task for label in y]
    ...     clf = clf.partial_fit(X[now], y[now])
    >>> clf.classes_
    array([0, 1, 2, 3, 4, 5])
    """

    @without_class_weight
    def __init__(
        self,
        *,
        shared_band_size: int | Literal["auto"] = "auto",
        classifier: Literal["gaussian", "ovo", "ova"] = "gaussian",
        shrinkage: float | Literal["auto"] = "auto",
        epsilon: float | Literal["auto"] = "auto",
        rank: int | Literal["auto"] | None = "auto",
        priors: Literal["uniform", "empirical"] | Mapping[object, float] = "uniform",
        scale: bool | Literal["auto"] = False,
        novelty: bool = False,
        refresh: float = 0.0,
        chunk_size: int = 4096,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.shared_band_size = shared_band_size
        self.classifier = classifier
        self.shrinkage = shrinkage
        self.epsilon = epsilon
        self.rank = rank
        self.priors = priors
        self.scale = scale
        self.novelty = novelty
        self.refresh = refresh
        self.chunk_size = chunk_size
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: object, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Discard the fitted state, then learn all classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; also a tensor of torch on any device.
        y : array-like of shape (n_samples,)
            Labels of the samples: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights; k is equivalent to k repetitions of the sample, except in folds. A class
            whose samples all weigh 0 counts as declared, see `partial_fit`.

        Returns
        -------
        self : IncrementalDiscriminantAnalysis
            The fitted estimator. It is unchanged if an error is raised.
        """
        self._learn(X, y, sample_weight=sample_weight, reset=True)
        return self

    @exclusive
    def forget(self, classes: npt.ArrayLike) -> Self:
        """Forget classes, as if they had never been seen.

        Forgetting is exact, because each class has moments of its own. Two parameters that are off
        by default leave a trace, with a warning: `offset_` and `scale_` stay (`scale`), and so do
        the stored scores of other classes for `novelty_threshold` (``novelty=True``). Scores of a
        call before the forgotten classes were learned have no trace.

        Parameters
        ----------
        classes : label or array-like of labels
            Labels in `classes_`, seen or declared. If all labels seen are forgotten, the estimator
            is unfitted again.

        Returns
        -------
        self : object
            The estimator. It is unchanged if an error is raised.
        """
        state = self._learned_state()
        self._keep(revision.forget(state, classes))
        return self

    @exclusive
    def forget_samples(
        self, X: object, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None
    ) -> Self:
        """Forget samples, as if they had never been learned.

        With ``rank=None`` the moments of the samples are subtracted exactly. Otherwise the weight,
        the mean and the variances of a class are exact, and so is its covariance along the axes
        that it keeps. These were chosen with the samples and keep a trace: whoever has the model
        can often tell which samples it forgot. A class of which nothing remains is forgotten. With
        ``novelty=True`` the classes of the samples lose their scores for `novelty_threshold`, and
        are not in it before they learn again; `offset_` and `scale_` stay, if the columns are
        standardised. Both warn.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples that were learned.
        y : array-like of shape (n_samples,)
            The labels under which they were learned.
        sample_weight : array-like of shape (n_samples,), default=None
            The weights with which they were learned. None stands for 1.

        Returns
        -------
        self : object
            The estimator. It is unchanged if an error is raised.

        Raises
        ------
        ValueError
            If a label was not learned, the samples cannot be subtracted from the moments of their
            class, or they lie so far from its other samples (about 30,000
            standard deviations of a column) that only rounding errors of these would remain. Any
            other samples that were not learned cannot be told from samples that were. Rounding
            errors of earlier calls are no reason: the model stores a bound on them.
        """
        state = self._learned_state()
        self._keep(revision.forget_samples(self, state, X, y, sample_weight))
        return self

    @exclusive
    def rename(self, mapping: Mapping[Any, Any]) -> Self:
        """Rename classes, and join classes whose new labels are equal.

        Classes are joined by their moments: with ``rank=None`` the result equals learning them
        under their new label, and another `rank` adds its usual truncation. With ``novelty=True``
        a joined class keeps the scores of the old classes, which are higher than its own scores.
        So `novelty_threshold` gives more false alarms than its rate until the class learns again.

        Parameters
        ----------
        mapping : dict
            Dictionary from old labels to new labels of the same kind. Labels that are not in it
            stay. A new label must not belong to a class that stays: to join class 1 to class 2,
            pass ``{1: 2, 2: 2}``.

        Returns
        -------
        self : IncrementalDiscriminantAnalysis
            The estimator. It is unchanged if an error is raised.

        Raises
        ------
        TypeError
            If `mapping` is not a dictionary.
        ValueError
            If an old label is unknown, a new label is of another kind or belongs to a class that
            stays, or `priors` is a mapping without the new labels. `set_params` can add them
            before.
        """
        state = self._learned_state()
        device = resolve_device(self.device)
        self._keep(revision.rename(state, mapping, self.priors, device))
        return self

    @exclusive
    def merge(self, other: "IncrementalDiscriminantAnalysis") -> Self:
        """Merge in everything that another estimator has learned from other samples.

        The result is that of one estimator that has seen all samples, up to the truncation by
        `rank` of classes that both have learned.

        Parameters
        ----------
        other : IncrementalDiscriminantAnalysis
            Estimator fitted on samples that this estimator has not seen, with equal parameters of
            learning, seed, `offset_` and `scale_`. It is not changed.

            Samples that both have learned, for example if one is a copy that has learned more,
            count twice. An error is raised if a class has exactly the same moments in both, even if
            these moments are equal by chance. Other repetitions cannot be detected.

        Returns
        -------
        self : IncrementalDiscriminantAnalysis
            The estimator. It is unchanged if an error is raised.

        Raises
        ------
        TypeError
            If `other` is not an
            `IncrementalDiscriminantAnalysis`.
        ValueError
            If the estimators differ in features, parameters or seed, or a class has the same
            moments in both.
        """
        self._keep(self._merged_state(other, IncrementalDiscriminantAnalysis))
        return self

    def _needs_dense_inputs(self):
        """Return whether wide sparse samples are projected onto dense columns, for neurons."""
        return self.shared_band_size not in (0, "auto")

    def _learn_model(self, model, task, settings, observe):
        """Return the model after a task."""
        return learn(model, task, settings)

    def _merge_models(self, first, second, positions, *, device):
        """Return the model of two models."""
        return merge_models(first, second, positions, device=device)
