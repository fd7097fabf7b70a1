"""The classifier: scikit-learn's interface to the models of `ffnb_sklearn.core`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, ParamSpec, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions
from torch import nn

from ._base import bound, export, novelty, revision
from ._base.bands import Bands
from ._base.base import ClassIncrementalClassifier
from ._base.learning import learn_task
from ._base.priors import allow_for_unforeseen, class_priors, estimate_shares
from ._base.settings import bands_of, present_state
from ._base.state import learned_attribute
from ._inputs.arrays import as_numpy, in_library_of
from ._inputs.locks import exclusive
from ._inputs.sparse import WideSamples
from .core import prediction
from .core.device import as_array, resolve_device
from .core.features.feature_map import classifier_columns
from .core.heads import HEADS
from .metrics import ForgettingBound

__all__ = ["FFNBClassifier"]

_P = ParamSpec("_P")


def _without_class_weight(constructor: Callable[_P, None]) -> Callable[_P, None]:
    """Make a constructor refuse `class_weight` with an error that names `priors`."""

    @wraps(constructor)
    def checked_constructor(*args: _P.args, **parameters: _P.kwargs) -> None:
        if "class_weight" in parameters:
            raise TypeError(
                f"{type(args[0]).__name__} has no parameter class_weight; use priors. Their "
                'default, "uniform", treats all classes alike, as class_weight="balanced" does.'
            )
        constructor(*args, **parameters)

    return checked_constructor


class FFNBClassifier(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClassIncrementalClassifier,
):
    """Class-incremental classifier made of forgetting-free neural blocks (FFNB).

    Labels that a call of `partial_fit` brings for the first time form a task. The moments of each
    class are stored, and the samples are discarded. The classifier follows from the moments; by
    default it compares the distances of a sample to the Gaussians of the classes. With `band_size`
    above 0, a band of neurons is trained for each task in the null-space of the previous tasks, as
    in the paper. `fit` is joint training.

    The user guide ("All parameters") describes the parameters in four groups. *Features*:
    `shared_band_size`, `skip_connection` and `scale`. *Classifier*: `classifier`, `covariance`,
    `shrinkage`, `epsilon`, `rank` and `priors`. *Trained bands*: `band_size`, `p`, `n_layers` and
    `bands`. *Running*: `classes_per_task`, `novelty`, `refresh`, `chunk_size`, `device`,
    `random_state` and `verbose`.

    Parameters
    ----------
    classes_per_task : int or None, default=None
        Only for `fit`: number of classes per task, in sorted order. None learns all classes as one
        task.
    shared_band_size : int or "auto", default="auto"
        Number of random neurons, which are never trained. "auto" is 500, or 50 beside trained
        bands, or 360,000 divided by the number of inputs if that is less; 0 for sparse samples of
        more than 2000 features.
    band_size : int, default=0
        Trained neurons per new class and layer, as in [1]_. With 0 no neuron is trained: the model
        is a function of the set of samples, so the order of the tasks does not matter, and
        `forget`, `merge` and shards are exact. `p`, `n_layers` and `bands` then have no effect.
    p : int, float or sequence of these, default=0.95
        Principal axes of previous tasks that new neurons may not use [1]_ (Eq. 1): their number, or
        the share of the energy that they hold, in (0, 1). A sequence has one entry per layer.
    n_layers : int, default=1
        Number of layers of trained bands. The classifier uses the last layer.
    bands : Bands or None, default=None
        How bands are fitted and fine-tuned; None is ``Bands()``. Names such as
        ``bands__max_epochs`` set its options in `set_params` and in grids.
    skip_connection : bool, default=True
        Whether the classifier also receives the inputs, or their projection.
    classifier : {"gaussian", "ovo", "ova"}, default="gaussian"
        Regularised Mahalanobis distances to the classes, the aggregated discriminants of all pairs
        of classes as in [1]_, or one ridge regression per class.
    covariance : {"class", "identity"}, default="class"
        Whether each class has its own covariance, or the identity times the mean variance.
    shrinkage : float or "auto", default="auto"
        Share in [0, 1] of the pooled covariance in the covariance of a class: 0 as in [1]_, 1 for
        linear discriminant analysis. "auto" is the intensity of Ledoit and Wolf [2]_ within limits.
    epsilon : float or "auto", default="auto"
        Positive ridge, relative to the mean variance within classes. "auto" follows the shrinkage;
        it is 0.3 with ``classifier="ova"``, and 0.7 with ``shrinkage=0``.
    rank : int, "auto" or None, default="auto"
        Number of principal axes stored for the scatter of each class; None stores the scatter
        exactly. "auto" stores the axes that hold 95 % of the variance, at least 64 and at most 96
        (8 if sparse inputs stay sparse). A class that gets further samples has a quarter more, at
        least 8, which predictions leave out.
    priors : {"uniform", "empirical"} or mapping of label to float, default="uniform"
        Shares of the classes among future samples: equal, proportional to the sample weights
        learned, or weights of every label learned, and of further labels. The weight 0 makes a
        class background: it counts in the covariance, and predictions never return it.
    scale : bool, default=False
        Whether to standardise the columns of X by the first call whose samples differ. The model
        then depends on that call. False leaves the columns as they are, with a
        `ColumnUnitsWarning` if they lie far from zero or have very different units.
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
    n_parameters_ : int
        Number of weights in the bands and in the classifier, or an upper bound.
    null_space_dims_ : list of tuple of int
        For each task with new bands, the number of residual axes in each layer. It exists with a
        positive `band_size`.
    n_iter_, loss_curve_ : int, list of float
        Number of epochs run for the last task, and the loss after each of them.
    shrinkage_, epsilon_ : float
        Shrinkage and relative ridge of the solved classifier. They exist after a prediction.
    offset_, scale_ : ndarray of shape (`n_features_in_`,) or None
        Values subtracted from the columns of X, and divisors of the columns; None without
        ``scale=True``.

    See Also
    --------
    Bands : Options of the bands.
    ContinualPipeline : A pipeline whose last step learns task by task.

    Notes
    -----
    A call that learns is a transaction: if it raises, the estimator predicts as before. The first
    prediction after it solves the classifier, and so takes longer. The user guide describes when
    `set_params` takes effect after learning, how sparse samples are projected, and which data are
    stored: the mean of a class with a single sample *is* that sample.

    References
    ----------
    .. [1] H. Sahbi and H. Zhan. FFNB: Forgetting-Free Neural Blocks for Deep Continual Visual
       Learning. arXiv:2111.11366, 2021.
    .. [2] O. Ledoit and M. Wolf. A well-conditioned estimator for large-dimensional covariance
       matrices. Journal of Multivariate Analysis 88(2), 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ffnb_sklearn import FFNBClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = FFNBClassifier(random_state=0)
    >>> for task in [(0, 1), (2, 3), (4, 5)]:
    ...     now = [label in task for label in y]
    ...     clf = clf.partial_fit(X[now], y[now])
    >>> clf.classes_
    array([0, 1, 2, 3, 4, 5])
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **ClassIncrementalClassifier._parameter_constraints,
        "shared_band_size": [Interval(Integral, 0, None, closed="left"), StrOptions({"auto"})],
        "band_size": [Interval(Integral, 0, None, closed="left")],
        "p": [Real, list, tuple],
        "bands": [Bands, None],
        "skip_connection": ["boolean"],
        "classifier": [StrOptions(set(HEADS))],
        "covariance": [StrOptions({"class", "identity"})],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "epsilon": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "rank": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "priors": [StrOptions({"uniform", "empirical"}), Mapping],
        "scale": ["boolean"],
        "novelty": ["boolean"],
        "refresh": [Interval(Real, 0, None, closed="left")],
        "chunk_size": [Interval(Integral, 1, None, closed="left")],
    }

    @_without_class_weight
    def __init__(
        self,
        *,
        classes_per_task: int | None = None,
        shared_band_size: int | Literal["auto"] = "auto",
        band_size: int = 0,
        p: float | Sequence[float] = 0.95,
        n_layers: int = 1,
        bands: Bands | None = None,
        skip_connection: bool = True,
        classifier: Literal["gaussian", "ovo", "ova"] = "gaussian",
        covariance: Literal["class", "identity"] = "class",
        shrinkage: float | Literal["auto"] = "auto",
        epsilon: float | Literal["auto"] = "auto",
        rank: int | Literal["auto"] | None = "auto",
        priors: Literal["uniform", "empirical"] | Mapping[object, float] = "uniform",
        scale: bool = False,
        novelty: bool = False,
        refresh: float = 0.0,
        chunk_size: int = 4096,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool | int = False,
    ) -> None:
        self.classes_per_task = classes_per_task
        self.shared_band_size = shared_band_size
        self.band_size = band_size
        self.p = p
        self.n_layers = n_layers
        self.bands = bands
        self.skip_connection = skip_connection
        self.classifier = classifier
        self.covariance = covariance
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

    @classmethod
    def as_published(cls, **parameters: object) -> Self:
        """Create an estimator with the model and the algorithm printed in the paper.

        The page "The method of the paper" lists the places where its text is corrected or
        completed.

        Parameters
        ----------
        **parameters
            Parameters that replace these values, such as ``bands__gamma``. The paper sets p to 45
            (SBU) and 75 (FPHA); here it is 0.99.

        Returns
        -------
        FFNBClassifier
            Unfitted estimator.
        """
        bands = Bands(
            gamma=1.0,
            old_statistics="zero",
            units="absolute",
            max_epochs=250,
            learning_rate=0.01,
            left_out=False,
        )
        published = cls(
            shared_band_size=0,
            band_size=3,
            p=0.99,
            bands=bands,
            skip_connection=False,
            classifier="ovo",
            shrinkage=0.0,
            epsilon=0.01,
            rank=None,
            scale=False,
        )
        return published.set_params(**parameters)

    def set_params(self, **params: object) -> Self:
        """Set parameters; names such as ``bands__max_epochs`` set options of `bands`.

        Parameters
        ----------
        **params
            Parameters by name. If `bands` is None, its options replace those of ``Bands()``.

        Returns
        -------
        self : FFNBClassifier
            The estimator.
        """
        bands = params.get("bands", self.bands)
        if bands is None and any(name.startswith("bands__") for name in params):
            params = {**params, "bands": Bands()}
        return super().set_params(**params)

    def _validate_params(self):
        """Raise if a parameter or an option of `bands` is invalid."""
        super()._validate_params()
        bands_of(self)._validate_params()

    def fit(self, X: object, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Discard the fitted state, then learn all classes, `classes_per_task` at a time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; also a tensor of torch on any device.
        y : array-like of shape (n_samples,)
            Labels of the samples: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights; k is equivalent to k repetitions of the sample, except in mini-batches
            and folds. A class whose samples all weigh 0 counts as declared, see `partial_fit`.

        Returns
        -------
        self : FFNBClassifier
            The fitted estimator. It is unchanged if an error is raised.
        """
        self._learn(X, y, sample_weight=sample_weight, reset=True)
        return self

    def partial_fit(
        self,
        X: object,
        y: npt.ArrayLike,
        classes: npt.ArrayLike | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn one more task, and keep all earlier classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of new classes, of known classes, or of both.
        y : array-like of shape (n_samples,)
            Labels of the samples, of the kind seen before: numbers, strings or booleans.
        classes : array-like of shape (n_labels,), default=None
            Labels expected in later calls. They get a column now, and are not predicted before
            they have been seen.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, as in `fit`.

        Returns
        -------
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.
        """
        self._learn(X, y, classes=classes, sample_weight=sample_weight)
        return self

    def transform(self, X: object) -> npt.NDArray[np.float64] | sparse.csr_array:
        """Compute the features that the classifier uses.

        A new task appends columns; old columns change only with ``Bands(batch_norm=True)``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray or sparse array of shape (n_samples, n_features_out)
            Inputs if ``skip_connection=True``, or their projection, then the shared band, then the
            last layer of trained bands. A sparse array if the projection has more than 2000
            columns.
        """
        state = self._present_state()
        samples = self._samples(state, X)
        if isinstance(samples, WideSamples):
            return samples.matrix
        samples = samples.double()
        features = prediction.view(state.model, samples)
        if features is samples:
            # Without neurons the features are the samples, which belong to the caller.
            features = features.clone()
        return in_library_of(X, as_array(features))

    def solve(self) -> Self:
        """Solve the classifier now instead of at the first prediction after learning.

        A service that answers while it learns updates and solves a copy, which then replaces the
        classifier.

        Returns
        -------
        self : FFNBClassifier
            The estimator. The learned state does not change.

        Raises
        ------
        NotPositiveDefiniteError
            If a covariance cannot be factored.
        """
        state = self._present_state()
        prediction.solve_once(state.model, resolve_device(self.device))
        return self

    @exclusive
    def forget(self, classes: npt.ArrayLike) -> Self:
        """Forget classes, as if they had never been seen.

        Forgetting is exact, because each class has moments of its own. Two parameters that are off
        by default leave a trace: trained neurons stay (``band_size`` above 0), and so do `offset_`
        and `scale_` (``scale=True``), with a warning.

        Parameters
        ----------
        classes : label or array-like of labels
            Labels in `classes_`, seen or declared. If all labels seen are forgotten, the estimator
            is unfitted again.

        Returns
        -------
        self : FFNBClassifier
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

        It needs ``rank=None`` and ``band_size=0``, with which the moments of the samples can be
        subtracted exactly. A class of which nothing remains is forgotten. With ``novelty=True``
        the classes of the samples lose their scores for `novelty_threshold`, and are not in it
        before they learn again. With ``scale=True``, `offset_` and `scale_` stay, with a warning.

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
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.

        Raises
        ------
        ValueError
            If moments are not exact, a label was not learned, the samples cannot be subtracted
            from the moments of their class, or they lie so far from its other samples (about 30,000
            standard deviations of a column) that only rounding errors of these would remain. Any
            other samples that were not learned cannot be told from samples that were. Rounding
            errors of earlier calls are no reason: the model stores a bound on them.
        """
        state = self._learned_state()
        self._keep(revision.forget_samples(self, state, X, y, sample_weight))
        return self

    @exclusive
    def decay(self, factor: float, classes: npt.ArrayLike | None = None) -> Self:
        """Let the samples learned so far count less, compared with later samples.

        The weights of the samples are multiplied by a factor. With ``rank=None`` the result equals
        learning them with these weights as `sample_weight`. Trained neurons do not change.

        Parameters
        ----------
        factor : float
            Multiple of the weights, in (0, 1]. A class stops before its weight is below 1e-20.
        classes : label or array-like of labels, default=None
            Labels in `classes_` whose samples count less. None stands for all classes.

        Returns
        -------
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.
        """
        state = self._learned_state()
        self._keep(revision.decay(state, factor, classes))
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
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.

        Raises
        ------
        TypeError
            If `mapping` is not a dictionary.
        ValueError
            If an old label is unknown, a new label is of another kind or belongs to a class that
            stays, classes with trained bands would be joined, or `priors` is a mapping without the
            new labels. `set_params` can add them before.
        """
        state = self._learned_state()
        device = resolve_device(self.device)
        self._keep(revision.rename(state, mapping, self.priors, device))
        return self

    @exclusive
    def merge(self, other: "FFNBClassifier") -> Self:
        """Merge in everything that another estimator has learned from other samples.

        The result is that of one estimator that has seen all samples, up to the truncation by
        `rank` of classes that both have learned. With trained bands (``band_size`` above 0), the
        moments of each estimator's classes in the other's neurons are computed by
        `Bands.old_statistics`.

        Parameters
        ----------
        other : FFNBClassifier
            Estimator fitted on samples that this estimator has not seen, with equal parameters of
            learning, seed, `offset_` and `scale_`. It is not changed.

            Samples that both have learned, for example if one is a copy that has learned more,
            count twice. An error is raised if a class has exactly the same moments in both, even if
            these moments are equal by chance. Other repetitions cannot be detected.

        Returns
        -------
        self : FFNBClassifier
            The estimator. It is unchanged if an error is raised.

        Raises
        ------
        TypeError
            If `other` is not an `FFNBClassifier`.
        ValueError
            If the estimators differ in features, parameters or seed, or a class has the same
            moments in both.
        """
        if not isinstance(other, FFNBClassifier):
            raise TypeError(f"other must be a fitted FFNBClassifier; got {type(other).__name__}.")
        mine = self._learned_state()
        theirs = other._learned_state()
        device = resolve_device(self.device)
        self._keep(revision.check_and_merge(mine, theirs, self.priors, device))
        return self

    def score_samples(self, X: object) -> npt.NDArray[np.float64]:
        """Score how similar samples are to the classes learned; low scores indicate new classes.

        The score is minus the squared Mahalanobis distance to the nearest class, relative to the
        distance from the mean of all classes, and lower if the probabilities name no single class,
        as far as the classes overlap (user guide, "Labels"). It uses the parameters of the last
        call that learned. Samples that were learned have higher scores than new samples, so a
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
        samples = self._samples(state, X)
        likeness = as_array(prediction.likeness(state.model, samples))
        return in_library_of(X, likeness)

    def novelty_threshold(self, rate: float) -> float:
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
        state = self._learned_state()
        return novelty.novelty_threshold(state, self._class_priors(state), rate)

    def estimate_priors(self, X: object) -> dict[Any, float]:
        """Estimate the shares of the classes among unlabelled samples.

        The shares of the largest likelihood are found by expectation-maximisation [1]_, from the
        probabilities for equal priors. ``clf.set_params(priors=clf.estimate_priors(X))`` adapts
        predictions to the samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of the classes learned, drawn as future samples will be.

        Returns
        -------
        dict
            Share of each label learned, sorted by label; they sum to 1. The share of a class with
            the prior 0 is 0; apart from that, the result does not depend on `priors`.

        Warns
        -----
        ConvergenceWarning
            If the shares still change after 10,000 steps.

        References
        ----------
        .. [1] M. Saerens, P. Latinne and C. Decaestecker. Adjusting the outputs of a classifier to
           new a priori probabilities: a simple procedure. Neural Computation 14(1), 2002.
        """
        state = self._present_state()
        is_possible = self._class_priors(state) > 0.0
        weights = is_possible.astype(np.float64)
        equal_priors = dict(zip(state.arrived.tolist(), weights.tolist(), strict=True))
        for_equal_priors = self._clone_in_state(state, priors=equal_priors)
        probabilities = as_numpy(for_equal_priors.predict_proba(X), "probabilities")
        labels = self._possible_labels(state)
        columns = np.searchsorted(state.classes, labels)
        shares = estimate_shares(probabilities[:, columns])
        priors = dict.fromkeys(np.sort(state.arrived).tolist(), 0.0)
        priors.update(zip(labels.tolist(), shares.tolist(), strict=True))
        return priors

    def forgetting_bound(self, X_previous: object) -> ForgettingBound:
        """Bound and measure how far the newest task's bands have moved previous features.

        Proposition 1 bounds the change of a neuron's output, which is constant before its task.

        Parameters
        ----------
        X_previous : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of previous tasks.

        Returns
        -------
        ForgettingBound
            Its attributes `bound` and `drift` are squared Frobenius norms, summed over the samples;
            `layers` has their terms in each layer.

        Raises
        ------
        ValueError
            If fewer than two tasks have added bands, if no task is the newest because estimators
            were merged or classes forgotten since, or with ``Bands(batch_norm=True)``.
        """
        state = self._learned_state()
        samples = self._samples(state, X_previous)
        return bound.forgetting_bound(state, samples.double())

    def to_torch(self, dtype: Literal["float32", "float64"] = "float32") -> nn.Module:
        """Return the solved classifier as a module of torch, to be used without this package.

        It does not change when the estimator does. ``nn.Sequential(network, clf.to_torch())`` maps
        images to scores; `torch.export` and ONNX can store it.

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float32"
            Type of the buffers, and of the samples that the module takes.

        Returns
        -------
        torch.nn.Module
            Maps samples to scores, of shape (n_samples, n_labels), on the CPU at first. Its
            attribute `classes_` holds the labels of the columns: those that were seen and whose
            prior is not 0, sorted. The module `probabilities` in it maps the scores to
            probabilities. With two labels, half the difference of the scores is the value of
            `decision_function`.

        Raises
        ------
        ValueError
            If `dtype` has another value, if the model has numbers beyond the range of `dtype`, or
            if the first samples were sparse and had more than 2000 features, which the classifier
            keeps sparse or projects.
        """
        state = self._present_state()
        head = self._head(state)
        return export.torch_module(state, head, self._class_priors(state), dtype)

    @property
    def null_space_dims_(self) -> list[tuple[int, ...]]:
        """Number of residual axes in each layer, for each task with new bands."""
        model = self._learned_state().model
        if not model.settings.band_size:
            raise AttributeError(
                "null_space_dims_ exists with trained bands alone: set band_size to a positive "
                "number, such as 3."
            )
        return list(model.null_space_dims)

    class_counts_ = learned_attribute(lambda state: state.class_counts)
    offset_ = learned_attribute(lambda state: state.repair and state.repair.offset)
    scale_ = learned_attribute(lambda state: state.repair and state.repair.scale)

    shrinkage_ = property(lambda self: self._solved_choice().shrinkage)
    epsilon_ = property(lambda self: self._solved_choice().epsilon)

    def _solved_choice(self):
        """Return the values with which the last prediction has solved the classifier."""
        self._learned_state()
        # An estimator whose parameters have become invalid can still be displayed.
        with suppress(ValueError):
            solution = self._present_state().model.solution
            if solution is not None:
                return solution.choice
        raise AttributeError("shrinkage_ and epsilon_ exist after a prediction.")

    _learn_task = learn_task

    def _max_epochs(self):
        """Return the largest number of epochs of a task."""
        if self.band_size == 0:
            return 0
        return int(bands_of(self).max_epochs)

    def _present_state(self):
        """Return the learned state with the present parameters of the classifier."""
        return present_state(self, self._learned_state())

    def _possible_labels(self, state):
        """Return the labels that predictions may have, in order of arrival."""
        return state.arrived[self._class_priors(state) > 0.0]

    def _scores(self, state, samples):
        """Return the scores of the possible labels, adjusted for the priors."""
        scores = as_array(prediction.scores(state.model, samples))
        priors = self._class_priors(state)
        if np.ptp(priors) == 0.0:
            return scores
        return self._head(state).apply_priors(scores, priors)

    def _logits(self, state, samples):
        """Return scores of the possible labels whose softmax is the probability of each label."""
        scores = self._scores(state, samples)
        logits = self._head(state).logits(scores)
        return allow_for_unforeseen(logits, state.n_samples)

    def _most_likely(self, state, samples, order):
        """Return the positions of the highest scores, the first in `order` of equal scores."""
        priors = self._class_priors(state)
        if np.ptp(priors) > 0.0:
            return super()._most_likely(state, samples, order)
        positions = prediction.most_likely(state.model, samples, order)
        return positions.cpu().numpy()

    def _head(self, state):
        """Return the solved classifier."""
        device = resolve_device(self.device)
        return prediction.solve_once(state.model, device).classifier

    def _class_priors(self, state):
        """Return the prior probabilities of the classes seen; background classes have 0."""
        return class_priors(self.priors, state.arrived, state.class_weights)

    @property
    def _n_features_out(self):
        """Number of columns that `transform` returns."""
        model = self._learned_state().model
        columns = classifier_columns(model.features, model.settings.skip_connection)
        return len(columns)
