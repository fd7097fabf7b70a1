"""The classifier: scikit-learn's interface to the models of `ffnb_sklearn.core`."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions

from ._base.bands import Bands
from ._base.base import ClassIncrementalClassifier, task_on
from ._base.bound import BoundMixin
from ._base.export import ExportMixin
from ._base.novelty import NoveltyMixin
from ._base.priors import check_priors, class_priors, with_unforeseen
from ._base.revision import RevisionMixin
from ._base.settings import (
    bands_of,
    check_continuation,
    check_seed,
    check_unchanged,
    settings_of,
    solution_parameters,
    solved_settings,
    warn_of_idle_parameters,
)
from ._base.state import learned_attribute
from ._inputs.columns import ColumnSpreads, warn_of_columns
from ._inputs.labels import label_positions
from ._inputs.seeds import next_seed
from ._inputs.sparse import WideSamples
from .core.device import as_array, resolve_device
from .core.features.feature_map import classifier_columns
from .core.heads import HEADS
from .core.learning import learn
from .core.model import empty_model

__all__ = ["FFNBClassifier"]

# Number of samples from which on the spread of a column is known well enough to warn of it.
_ENOUGH_FOR_SPREADS = 10


def _without_class_weight(constructor):
    """Let a constructor tell users of `class_weight` about `priors`."""

    @wraps(constructor)
    def checked(self, **parameters):
        if "class_weight" in parameters:
            raise TypeError(
                f"{type(self).__name__} has no parameter class_weight; use priors. Their default, "
                '"uniform", treats all classes alike, as class_weight="balanced" does.'
            )
        constructor(self, **parameters)

    return checked


class FFNBClassifier(
    RevisionMixin,
    NoveltyMixin,
    BoundMixin,
    ExportMixin,
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

    Parameters
    ----------
    classes_per_task : int or None, default=None
        Only for `fit`: number of classes per task, in sorted order. None makes them one task.
    shared_band_size : int or "auto", default="auto"
        Number of random neurons, which are never trained. "auto" is 500, or 50 beside trained
        bands, or 360,000 divided by the number of inputs if that is less; 0 for sparse samples of
        more than 2000 features.
    band_size : int, default=0
        Trained neurons per new class and layer, as in [1]_. With 0 none is trained: the model is a
        function of the set of samples, so the order of the tasks plays no part, and `forget`,
        `merge` and shards are exact. `p`, `n_layers` and `bands` then have no effect.
    p : int, float or sequence of these, default=0.95
        Principal axes of previous tasks that are closed to new neurons [1]_ (Eq. 1): their number,
        or the share of the energy that they hold, in (0, 1). A sequence has one entry per layer.
    n_layers : int, default=1
        Number of layers of trained bands. The classifier uses the last layer.
    bands : Bands or None, default=None
        How bands are made and fine-tuned; None is ``Bands()``. Names such as ``bands__max_epochs``
        set its options in `set_params` and in grids.
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
        learned, or positive weights of every label learned, and of further labels.
    scale : bool, default=False
        Whether to standardise the columns of X by the first call whose samples differ. The model
        then depends on that call. False leaves the columns as they are, with a
        `ColumnUnitsWarning` if they lie far from zero or have unlike units.
    novelty : bool, default=False
        Whether to prepare `novelty_threshold`; learning and a first prediction then take up to
        twice as long.
    refresh : float, default=0.0
        Growth of the total weight, as a share, after which shrinkage, ridge, temperature and all
        that the classes share are solved again. In between, a prediction after new samples solves
        only their classes. With 0, all is solved after each call that learns, and the model is a
        function of the samples alone.
    chunk_size : int, default=4096
        Number of samples whose features are in memory at a time.
    device : str, default="auto"
        Where to compute: "auto", "cpu", "cuda" or "cuda:<index>", resolved at each call.
    random_state : int, RandomState instance or None, default=None
        Seed of all random numbers. Two models can be merged only if their seeds are equal.
    verbose : bool or int, default=False
        Whether to print a line for every task.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted: the columns of `predict_proba` and
        `decision_function`. Columns move when a new label sorts before known labels.
    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        Number of features, and their names, defined only if X had string column names.
    n_tasks_, task_classes_ : int, list of ndarray
        Number of tasks that brought new labels, and these labels.
    n_parameters_ : int
        Number of weights in the bands and in the classifier, or an upper bound.
    null_space_dims_ : list of tuple of int
        For each task that brought bands, the number of residual axes in each layer. It exists with
        a positive `band_size`.
    n_iter_, loss_curve_ : int, list of float
        Number of epochs run for the last task, and the loss after each of them.
    shrinkage_, epsilon_ : float
        Shrinkage and relative ridge of the solved classifier. They exist after a prediction.
    offset_, scale_ : ndarray of shape (`n_features_in_`,) or None
        Subtracted from the columns of X, and their divisors; None without ``scale=True``.

    See Also
    --------
    Bands : Options of the bands.
    ContinualPipeline : A pipeline whose last step learns task by task.

    Notes
    -----
    A call that learns is a transaction: if it raises, the estimator predicts as before. The first
    prediction after it solves the classifier, and so takes longer. The user guide tells when
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

    _parameter_constraints: ClassVar[dict] = {
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
        classes_per_task=None,
        shared_band_size="auto",
        band_size=0,
        p=0.95,
        n_layers=1,
        bands=None,
        skip_connection=True,
        classifier="gaussian",
        covariance="class",
        shrinkage="auto",
        epsilon="auto",
        rank="auto",
        priors="uniform",
        scale=False,
        novelty=False,
        refresh=0.0,
        chunk_size=4096,
        device="auto",
        random_state=None,
        verbose=False,
    ):
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
    def as_published(cls, **parameters):
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

    def set_params(self, **params):
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

    def fit(self, X, y, sample_weight=None):
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
        return self._learn(X, y, sample_weight=sample_weight, reset=True)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn one more task, and keep everything that was learned before.

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
        return self._learn(X, y, classes=classes, sample_weight=sample_weight)

    def transform(self, X):
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
        features = state.model.view(samples)
        # Without neurons these are the samples themselves, which belong to the caller.
        return as_array(features.clone() if features is samples else features)

    def solve(self):
        """Solve the classifier now, which the first prediction after learning does otherwise.

        A service that answers while it learns lets a copy learn and solve, and then exchanges it.

        Returns
        -------
        self : FFNBClassifier
            The estimator. Nothing that was learned changes.

        Raises
        ------
        NotPositiveDefiniteError
            If a covariance cannot be factored.
        """
        self._present_state().model.solution(resolve_device(self.device))
        return self

    @property
    def null_space_dims_(self):
        """Number of residual axes in each layer, per task that brought bands."""
        model = self._learned_state().model
        if not model.settings.band_size:
            raise AttributeError(
                "null_space_dims_ exists with trained bands alone: set band_size to a positive "
                "number, such as 3."
            )
        return list(model.null_space_dims)

    offset_ = learned_attribute(lambda state: state.repair and state.repair.offset)
    scale_ = learned_attribute(lambda state: state.repair and state.repair.scale)

    shrinkage_ = property(lambda self: self._solved_choice().shrinkage)
    epsilon_ = property(lambda self: self._solved_choice().epsilon)

    def _solved_choice(self):
        """Return the values with which the last prediction has solved the classifier."""
        self._learned_state()
        # An estimator whose parameters have become invalid can still be displayed.
        with suppress(ValueError):
            if solved := self._present_state().model.solved:
                return solved.choice
        raise AttributeError("shrinkage_ and epsilon_ exist after a prediction.")

    def _taught(self, state, X, positions, arrived, weights):
        """Return the state after a task."""
        check_priors(self.priors, arrived)
        if self.scale and state.repair is None:
            labels = arrived[np.unique(positions)]
            state = self._standardised(state, ColumnSpreads.of(X, weights), labels)
        task = task_on(resolve_device(self.device), state, X, positions, weights)
        model, settings = self._begun(state)
        learned = learn(model, task, settings)
        self._warn_of_columns(state, learned)
        return replace(state, model=learned)

    def _standardised(self, state, spreads, labels):
        """Return a state that standardises columns by the spreads of new samples of some labels.

        It is the given state if neither these samples nor earlier samples differ.
        """
        if state.projection is not None:
            # Centred columns would not be sparse.
            return replace(state, repair=spreads.repair(centring=False), repair_labels=labels)
        known = ()
        if state.model is not None:
            check_unchanged("scale", state.model.settings.scale, self.scale)
            known = state.model.moments
            earlier = ColumnSpreads.of_moments(known, len(spreads.mean))
            spreads = ColumnSpreads.merged([earlier, spreads])
            labels = np.union1d(labels, state.arrived)
        if not spreads.varying().any():
            return state
        started = replace(
            state,
            repair=spreads.repair(centring=True),
            repair_labels=labels,
            model=None,
            task_classes=(),
        )
        # The earlier samples are all equal, so the mean of a class stands for each of them.
        for task_labels in state.task_classes:
            positions, arrived = label_positions(task_labels, started.arrived)
            means = np.stack([known[position].mean[: state.n_inputs] for position in positions])
            weights = np.array([known[position].weight for position in positions])
            taught = self._taught(started, means, positions, arrived, weights)
            started = taught.after_task(taught.model, arrived)
        return started

    def _warn_of_columns(self, state, learned):
        """Warn of columns of unlike units once enough samples are known.

        `state` is that before the call, and `learned` the model after it.
        """
        if self.scale or state.projection is not None:
            return
        before = () if state.model is None else state.model.moments
        n_before = sum(each.n_samples for each in before)
        n_after = sum(each.n_samples for each in learned.moments)
        if n_before < _ENOUGH_FOR_SPREADS <= n_after:
            spreads = ColumnSpreads.of_moments(learned.moments, state.n_inputs)
            warn_of_columns(spreads, state.feature_names_in)

    def _begun(self, state):
        """Return the model before a task, a new model if there is none, and the task's settings."""
        settings = settings_of(self, state.n_inputs, state.projection)
        if state.model is not None:
            check_continuation(state.model.settings, settings)
            check_seed(state.model.seed, self.random_state)
            return state.model, settings
        warn_of_idle_parameters(self)
        return empty_model(state.n_inputs, settings, next_seed(self.random_state)), settings

    def _present_state(self):
        """Return the learned state, solved with the present parameters of the classifier."""
        state, given = self._learned_state(), solution_parameters(self)
        model = state.model.under(
            [*given.values()], lambda: solved_settings(self, state.model.settings, given)
        )
        return state if model is state.model else replace(state, model=model)

    def _logits(self, state, X):
        """Return scores of the known classes whose softmax is the probability of each."""
        logits = self._head(state).logits(self._scores(state, X))
        return with_unforeseen(logits, sum(one.n_samples for one in state.model.moments))

    def _scores(self, state, X):
        """Return the scores of the known classes, adjusted for the priors."""
        scores, priors = super()._scores(state, X), self._class_priors(state)
        return scores if np.ptp(priors) == 0.0 else self._head(state).with_priors(scores, priors)

    def _head(self, state):
        """Return the solved classifier."""
        return state.model.solution(resolve_device(self.device)).classifier

    def _most_likely(self, state, X, order):
        """Return the positions of the highest scores, the first in `order` of equal scores."""
        if np.ptp(self._class_priors(state)):
            return super()._most_likely(state, X, order)
        return state.model.most_likely(self._samples(state, X), order).cpu().numpy()

    def _class_priors(self, state):
        """Return the prior probabilities of the known classes."""
        weights = np.array([one.weight for one in state.model.moments])
        return class_priors(self.priors, state.arrived, weights)

    @property
    def _n_features_out(self):
        """Number of columns that `transform` returns."""
        model = self._learned_state().model
        return len(classifier_columns(model.features, model.settings.skip_connection))
