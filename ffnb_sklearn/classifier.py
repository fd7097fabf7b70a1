"""The classifier: scikit-learn's interface to the models of `ffnb_sklearn.core`."""

from collections.abc import Mapping
from dataclasses import replace
from functools import wraps
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import (
    Interval,
    RealNotInt,
    StrOptions,
    validate_parameter_constraints,
)

from ._estimators.bands import Bands
from ._estimators.base import ClassIncrementalClassifier, task_on
from ._estimators.export import TorchHead
from ._estimators.novelty import NoveltyMixin
from ._estimators.parameter_rules import READ_BY_PREDICTIONS
from ._estimators.priors import check_priors, class_priors, with_unforeseen
from ._estimators.revision import RevisionMixin
from ._estimators.state import learned_attribute, present_attribute
from ._estimators.validation import (
    bands_of,
    check_continuation,
    check_seed,
    check_settings,
    settings_of_predictions,
    with_options,
)
from ._inputs.columns import ColumnSpreads
from ._inputs.seeds import next_seed
from ._inputs.sparse import N_COLUMNS, WideSamples
from .core.bound import forgetting_bound
from .core.device import as_array, resolve_device
from .core.features.feature_map import classifier_columns
from .core.learning import learn
from .core.model import empty_model

__all__ = ["FFNBClassifier"]


def _advice(names):
    """Return the advice on parameters that users look for under another name."""
    if "class_weight" in names:
        return (
            'There is no parameter class_weight; use priors. Their default, "uniform", treats all '
            'classes alike, as class_weight="balanced" does, and a mapping sets the shares of the '
            "classes."
        )
    options = [name for name in names if name in Bands._parameter_constraints]
    if options:
        listed = ", ".join(f"{name}=..." for name in options)
        return (
            f"Options of the bands belong to bands: FFNBClassifier(bands=Bands({listed})), or "
            f"set_params(bands__{options[0]}=...)."
        )
    return ""


def _with_advice(constructor):
    """Let the error of a constructor for an unknown parameter say where it is found."""

    @wraps(constructor)
    def advised(self, *args, **parameters):
        try:
            constructor(self, *args, **parameters)
        except TypeError as error:
            raise TypeError(f"{error}. {_advice(parameters)}".removesuffix(". ")) from None

    return advised


class FFNBClassifier(
    RevisionMixin,
    NoveltyMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClassIncrementalClassifier,
):
    """Class-incremental classifier made of forgetting-free neural blocks (FFNB) [1]_.

    Labels that a call of `partial_fit` brings for the first time form a task: a band of neurons is
    trained for them in the null-space of the previous tasks. The moments of each class are stored,
    and the samples are discarded. The classifier follows from the moments at the first prediction;
    by default it compares the distances of a sample to the Gaussians of the classes. `fit` with
    ``classes_per_task=None`` is joint training. The user guide describes the parameters in groups.

    Parameters
    ----------
    classes_per_task : int or None, default=None
        Only for `fit`: number of classes per task, in sorted order. None makes them one task.
    shared_band_size : int or "auto", default="auto"
        Number of random ReLU neurons (with few inputs, up to half are cosines) that are drawn once
        and never trained. "auto" is 500, or 360,000 divided by the number of inputs if that is
        less; 0 for sparse samples of more than 2000 features.
    band_size : int, default=1
        Trained neurons per new class and layer. With 0 the model depends neither on the order of
        the tasks nor on how the classes are divided into tasks. Sparse samples of more than 2000
        features have no trained neurons, see Notes.
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
        Whether each class has its own covariance, or all have the identity times the mean variance,
        without calibrated probabilities. No effect with ``classifier="ova"``.
    shrinkage : float or "auto", default="auto"
        Share in [0, 1] of the pooled covariance in the covariance of a class: 0 as in [1]_, 1 for
        linear discriminant analysis. "auto" is the intensity of Ledoit and Wolf [2]_ within limits.
    epsilon : float or "auto", default="auto"
        Positive ridge, relative to the mean variance within classes. "auto" follows the shrinkage;
        it is 0.3 with ``classifier="ova"``, and 0.7 with ``shrinkage=0``.
    rank : int, "auto" or None, default="auto"
        Number of principal axes stored for the scatter of each class; the rest of the variance is
        stored per feature. None stores the scatter exactly. "auto" stores the axes that hold 95 %
        of the variance, at least 64 and at most 96 (8 if sparse inputs stay sparse).
    priors : {"uniform", "empirical"} or mapping of label to float, default="uniform"
        Shares of the classes among future samples: equal, proportional to the sample weights
        learned, or positive weights of every label learned, and of further labels.
    scale : "auto" or bool, default="auto"
        Repair of the columns of X, decided at the first task. "auto" centres columns that lie more
        than ten spreads from zero, and divides all columns by their spread if at least a tenth of
        them have less than a hundredth of the largest spread. True standardises all columns.
    novelty : bool, default=False
        Whether to prepare `novelty_threshold`: each task is also learned without a part of its
        samples, up to ten times, and quantiles of the scores of these samples are kept.
    chunk_size : int, default=4096
        Number of samples whose features are in memory at a time. With ``band_size=0``, X may be a
        memory map of float64 or float32 numbers that is larger than memory.
    device : str, default="auto"
        Where to compute: "auto", "cpu", "cuda" or "cuda:<index>", resolved at each call. "mps" has
        no float64 arithmetic and is refused.
    random_state : int, RandomState instance or None, default=None
        Seed of all random numbers. Two models can be merged only if their seeds are equal.
    verbose : bool or int, default=False
        Whether to print a line for every task, and with 2 or more also a line for every epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared so far, sorted: the columns of `predict_proba` and
        `decision_function`. Columns move when a new label sorts before known labels.
    n_features_in_ : int
        Number of features seen at the first task.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features. Defined only if X had string column names.
    n_tasks_ : int
        Number of tasks that brought new labels.
    task_classes_ : list of ndarray
        The new labels of each task.
    n_parameters_ : int
        Number of weights in the bands and in the classifier, or an upper bound.
    null_space_dims_ : list of tuple of int
        For each task that brought bands, the number of residual axes in each layer.
    n_iter_ : int
        Number of epochs run for the last task.
    loss_curve_ : list of float
        Loss of the last task after each of these epochs.
    shrinkage_ : float
        Shrinkage with which the classifier is solved. Reading it solves the classifier, as a
        prediction does; displaying the estimator does not.
    epsilon_ : float
        Relative ridge with which the classifier is solved. Reading it solves the classifier too.
    offset_ : ndarray of shape (`n_features_in_`,) or None
        Subtracted from the columns of X; None if no column is centred.
    scale_ : ndarray of shape (`n_features_in_`,) or None
        Divisors of the columns of X, after the subtraction; None if no column is divided.

    See Also
    --------
    Bands : Options of the bands.
    ContinualPipeline : A pipeline whose last step learns task by task.

    Notes
    -----
    Every call that learns is a transaction: if it raises, the estimator predicts as before, and
    other threads predict with the state before or after it. If two threads learn at the same time,
    the call that ends second raises `ConcurrentLearningError` and changes nothing.

    `set_params` may change parameters after learning: those of the classifier take effect at the
    next prediction, those of learning at the next task, and a change of a parameter that shapes the
    state is refused. The user guide lists them.

    The first prediction after a call that learns solves the classifier, and so takes longer. If the
    ridge is too small, it issues an `IllConditionedWarning` or raises a `NotPositiveDefiniteError`.

    X may be sparse in every method. If the first samples are sparse and have more than 2000
    features, the inputs stay sparse, no neuron is drawn or trained, and more than 65536 features
    are projected onto 65536 columns. With a positive `shared_band_size` or without
    `skip_connection`, the features are projected onto 2000 dense columns, with all neurons. All
    other sparse samples give the same results as dense samples.

    The stored data are the weights, means and scatters of the classes, and the weights of the
    bands. The mean of a class with a single sample *is* that sample; see the user guide on privacy.

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
        "p": [
            Interval(Integral, 0, None, closed="left"),
            Interval(RealNotInt, 0, 1, closed="neither"),
            list,
            tuple,
        ],
        "bands": [Bands, None],
        "skip_connection": ["boolean"],
        "classifier": [StrOptions({"gaussian", "ovo", "ova"})],
        "covariance": [StrOptions({"class", "identity"})],
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
        "epsilon": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "rank": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "priors": [StrOptions({"uniform", "empirical"}), Mapping],
        "scale": ["boolean", StrOptions({"auto"})],
        "novelty": ["boolean"],
        "chunk_size": [Interval(Integral, 1, None, closed="left")],
    }

    @_with_advice
    def __init__(
        self,
        *,
        classes_per_task=None,
        shared_band_size="auto",
        band_size=1,
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
        scale="auto",
        novelty=False,
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
        self.chunk_size = chunk_size
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def as_published(cls, **parameters):
        """Create an estimator with the model and the algorithm printed in the paper.

        The estimator has one feature layer of three neurons per class, which matches all printed
        network sizes. The discriminants of pairs use the bands alone, old classes have zeros in new
        neurons, class covariances have no shrinkage, and gamma and epsilon are absolute. Algorithm
        2 runs all its epochs, without left-out samples, copies, draws or veto. The printed text is
        corrected or completed in these places: the bias has the factor 1/2
        (``bands__half_bias=False`` restores the printed bias) and stands inside of tanh, a class
        pools over all other classes, each part of a class has a code of its own, and no axis
        without energy is kept. The page "The method of the paper" has a table of these readings,
        and of the accuracy of the printed letter; the user guide lists all differences from the
        default.

        Parameters
        ----------
        **parameters
            Parameters that replace these values, including the options of `bands` by names such as
            ``bands__n_folds``. The paper sets p to 45 (SBU) and 75 (FPHA) and in general asks for
            most of the variance, here 0.99. It does not print gamma, epsilon and, on skeletons, the
            weight decay and the initial rate; their values here are ours.

        Returns
        -------
        FFNBClassifier
            Unfitted estimator.

        Examples
        --------
        >>> from ffnb_sklearn import FFNBClassifier
        >>> clf = FFNBClassifier.as_published(p=75, bands__max_epochs=0)
        >>> clf.band_size, clf.n_layers, clf.bands.units
        (3, 1, 'absolute')
        """
        bands = Bands(
            gamma=1.0,
            old_statistics="zero",
            units="absolute",
            max_epochs=250,
            learning_rate=0.01,
            left_out=False,
            n_folds=1,
            draws=False,
            patience=None,
            standard_errors=None,
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
        if advice := _advice(params):
            raise ValueError(advice)
        bands = params.get("bands", self.bands)
        if bands is None and any(name.startswith("bands__") for name in params):
            params = {**params, "bands": Bands()}
        return super().set_params(**params)

    def _validate_params(self):
        """Raise if a parameter or an option of `bands` is invalid."""
        super()._validate_params()
        self._check(with_options(self))

    def _check(self, parameters):
        """Raise if one of some parameters is invalid; options of `bands` have its prefix."""
        options = Bands._parameter_constraints.items()
        constraints = {f"bands__{name}": some for name, some in options}
        constraints |= self._parameter_constraints
        validate_parameter_constraints(constraints, parameters, type(self).__name__)

    def fit(self, X, y, sample_weight=None):
        """Discard the fitted state, then learn all classes, `classes_per_task` at a time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples; also a tensor of torch on any device.
        y : array-like of shape (n_samples,)
            Labels of the samples: numbers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, each 0 or between 1e-20 and 1e20. A weight of k is equivalent to k
            repetitions of the sample, except in mini-batches and folds, which count samples. A
            class whose samples all weigh 0 counts as declared, see `partial_fit`.

        Returns
        -------
        self : FFNBClassifier
            The fitted estimator. It is unchanged if an error is raised.
        """
        size = self.classes_per_task
        return self._learn(X, y, sample_weight=sample_weight, reset=True, classes_per_task=size)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn one more task, and keep everything that was learned before.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of new classes, of known classes, or of both.
        y : array-like of shape (n_samples,)
            Labels of the samples, of the kind seen before: numbers, strings or booleans.
        classes : array-like of shape (n_labels,), default=None
            Labels still to come, which get their columns now. Declaring labels is optional, and a
            label that has not been seen is never predicted.
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

        Existing columns never change, except with ``Bands(batch_norm=True)``: a new task appends
        its bands after them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray or sparse array of shape (n_samples, n_features_out)
            Inputs if ``skip_connection=True``, then the shared band, then the last layer of trained
            bands. In a model that projects its samples, the inputs are the columns of the
            projection. The result is a sparse array if the projection has more than 2000 columns.
        """
        state = self._present_state()
        samples = self._samples(state, X)
        if isinstance(samples, WideSamples):
            return samples.matrix
        samples = samples.double()
        features = state.model.view(samples)
        # Without neurons these are the samples themselves, which belong to the caller.
        return as_array(features.clone() if features is samples else features)

    def forgetting_bound(self, X_previous):
        """Bound and measure how far the newest task's bands have moved previous features.

        Before its task the output of a neuron is constant. Proposition 1 bounds the change of its
        output on samples of previous tasks.

        Parameters
        ----------
        X_previous : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples of previous tasks.

        Returns
        -------
        ForgettingBound
            The attributes `bound` and `drift` are squared Frobenius norms summed over the samples,
            and `layers` has their terms in each layer.

        Raises
        ------
        ValueError
            If fewer than two tasks have brought bands, if no task is the newest because estimators
            were merged or classes forgotten since, or with ``Bands(batch_norm=True)``.
        """
        state = self._present_state()
        X, model = self._samples(state, X_previous), state.model
        if any(band.batch_norm is not None for band in model.features.bands):
            raise ValueError(
                "forgetting_bound needs Bands(batch_norm=False): the running statistics move old "
                "neurons, which Proposition 1 does not cover."
            )
        if len(model.null_space_dims) < 2:
            raise ValueError(
                "forgetting_bound needs two tasks that brought trained bands; there are "
                f"{len(model.null_space_dims)}."
            )
        if not model.n_newest:
            raise ValueError(
                "forgetting_bound needs a newest task; after merge and forget there is none. "
                "Learn one more."
            )
        return forgetting_bound(model, X.double())

    def to_torch(self, dtype="float32"):
        """Return the solved classifier as a module of torch, to be used without this package.

        It holds the repair of the columns, the feature map and the head as buffers, and does not
        change when the estimator does. ``nn.Sequential(network, clf.to_torch())`` goes from images
        to scores; `torch.export` and ONNX can store it.

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float32"
            Type of the buffers, and of the samples that the module takes.

        Returns
        -------
        torch.nn.Module
            Maps samples to scores, of shape (n_samples, n_labels), on the CPU at first. Its
            attribute `classes_` holds the labels of the columns: those that were seen, sorted. The
            module `probabilities` in it maps the scores to probabilities. With two labels, half the
            difference of the scores is the value of `decision_function`.

        Raises
        ------
        ValueError
            If `dtype` is another one, or if the classifier has learned sparse samples of more than
            2000 features, which it keeps sparse or projects.
        """
        if dtype not in ("float32", "float64"):
            raise ValueError(f"dtype must be 'float32' or 'float64'; got {dtype!r}.")
        state = self._present_state()
        if state.projection is not None:
            raise ValueError(
                "to_torch needs a classifier that has learned dense samples first, or sparse "
                f"samples of at most {N_COLUMNS} features; got sparse samples of "
                f"{state.n_features_in} features."
            )
        return (
            TorchHead(state, self._head(state), self._class_priors(state))
            .to(getattr(torch, dtype))
            .eval()
        )

    # These depend on the parameters of the solution.
    n_parameters_ = present_attribute(lambda estimator: estimator._present_state().model.n_weights)
    shrinkage_ = present_attribute(lambda estimator: estimator._solved_choice().shrinkage)
    epsilon_ = present_attribute(lambda estimator: estimator._solved_choice().epsilon)
    null_space_dims_ = learned_attribute(lambda state: list(state.model.null_space_dims))

    offset_ = learned_attribute(lambda state: state.repair and state.repair.offset)
    scale_ = learned_attribute(lambda state: state.repair and state.repair.scale)

    def _most_epochs(self):
        """Return the largest number of epochs of a task."""
        return int(bands_of(self).max_epochs) if self.band_size else 0

    def _taught(self, state, X, positions, arrived, weights, watcher):
        """Return the state with the model after a task.

        The samples of a first task also decide the repair of the columns.
        """
        check_priors(self.priors, arrived)
        if state.model is None and self.scale:
            state = self._repaired(state, ColumnSpreads.of(X, weights))
        task = task_on(resolve_device(self.device), state, X, positions, weights)
        model, settings = self._begun(state)
        return replace(state, model=learn(model, task, settings, watcher))

    def _repaired(self, state, spreads):
        """Return a state without a model, with the repair of columns of these spreads."""
        # Centred columns would not be sparse.
        repair = spreads.repair(self.scale, centring=state.projection is None)
        return replace(state, repair=repair)

    def _begun(self, state):
        """Return the model before a task, a new model if there is none, and the task's settings."""
        settings = check_settings(self, n_inputs=state.n_inputs, projection=state.projection)
        if state.model is not None:
            check_continuation(state.model.settings, settings)
            check_seed(state.model.seed, self.random_state)
            return state.model, settings
        return empty_model(state.n_inputs, settings, next_seed(self.random_state)), settings

    def _present_model(self, state):
        """Return the model of a state, solved with the present parameters of the classifier."""
        given = with_options(self)
        parameters = {name: given[name] for name in READ_BY_PREDICTIONS}

        def settings():
            # Parameters that learning alone reads are not checked.
            self._check(parameters)
            return settings_of_predictions(FFNBClassifier().set_params(**parameters), state)

        return state.model.under([*parameters.values()], settings)

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

    def _solved_choice(self):
        """Solve the classifier if necessary, and return the values that it is solved with."""
        return self._present_state().model.solution(resolve_device(self.device)).choice

    def __dir__(self):
        """Return the names of all attributes, except those that require solving the classifier."""
        # scikit-learn evaluates every name in `dir` when a notebook displays the fitted attributes,
        # and also in its own `__dir__`, which would solve the classifier and is bypassed here.
        names = set(super(BaseEstimator, self).__dir__())
        if not self._is_solved():
            names -= {"shrinkage_", "epsilon_"}
        # Like scikit-learn's `__dir__`, leave out methods that are not available.
        return [name for name in names if hasattr(self, name)]

    def _is_solved(self):
        """Return whether the classifier is solved under the present parameters."""
        try:
            return self._present_state().model.solved is not None
        except ValueError:
            return False

    @property
    def _n_features_out(self):
        """Number of columns that `transform` returns."""
        model = self._learned_state().model
        return len(classifier_columns(model.features, model.settings.skip_connection))
