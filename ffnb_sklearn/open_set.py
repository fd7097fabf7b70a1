"""A label for samples of unknown classes, around a classifier that learns class by class."""

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from functools import wraps
from numbers import Real
from typing import Any, ClassVar, Concatenate, Literal, ParamSpec, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    validate_parameter_constraints,
)
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted
from torch import nn

from ._base.callbacks import (
    CallbackSupportMixin,
    ReportedTask,
    sub_estimator_task,
    with_callbacks,
)
from ._base.copies import learn_in_draft
from ._inputs.arrays import as_numpy, in_library_of, in_memory
from ._inputs.labels import check_labels, check_targets, check_unknown_label
from ._inputs.locks import exclusive
from .classifiers import IncrementalDiscriminantAnalysis
from .classifiers._base import BaseDiscriminantClassifier

__all__ = ["OpenSetClassifier"]

_P = ParamSpec("_P")

# Second paragraph of the docstrings of methods that are passed on.
_OF_ESTIMATOR = "This method of `estimator_` is described for `IncrementalDiscriminantAnalysis`."

# Least share of which the logarithm is taken.
_LEAST_SHARE = np.finfo(np.float64).tiny


def _estimator_has(method):
    """Make an `available_if` check whether the wrapped estimator has a method."""

    def check(classifier):
        # The error of the estimator says why it lacks the method.
        getattr(classifier.estimator, method)
        return True

    return check


def _passed_on(
    method: Callable[Concatenate[Any, _P], Any], *, changes: bool = False
) -> Callable[Concatenate[Any, _P], Any]:
    """Make a method that calls the method of the same name of the estimator that learns.

    It has the signature and the documentation of `method`, and exists if the wrapped estimator has
    a method of this name. Where the estimator returns itself, it returns the classifier. It is
    `exclusive` if it `changes` the estimator.
    """
    name = method.__name__

    @wraps(method)
    def call(classifier: Any, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        result = classifier._learned(name)(*args, **kwargs)
        if result is classifier.estimator_:
            return classifier
        return result

    call.__module__ = __name__
    call.__qualname__ = f"OpenSetClassifier.{name}"
    summary, _, description = inspect.cleandoc(method.__doc__ or "").partition("\n")
    call.__doc__ = f"{summary}\n\n{_OF_ESTIMATOR}\n{description}"
    if changes:
        call = exclusive(call)
    passed_on: Callable[Concatenate[Any, _P], Any] = available_if(_estimator_has(name))(call)
    return passed_on


class OpenSetClassifier(CallbackSupportMixin, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Classifier that predicts a label of its own for samples of unknown classes.

    A sample is predicted as unknown if its novelty score is as low as that of few new samples of
    the classes that it may belong to; `rate` is their share. The scores of samples left out of
    learning give the shares, for each class. They follow when classes are learned, learned further
    and forgotten.

    Parameters
    ----------
    estimator : IncrementalDiscriminantAnalysis, FFNBClassifier or pipeline that ends in one
        It is cloned, and never changed. The clone has ``novelty=True``, which `novelty_threshold`
        needs too; learning and a first prediction then take up to twice as long.
    rate : float, default=0.05
        Share, in (0, 1), of new samples of each known class that may be predicted as unknown. It
        may change after learning.
    unknown_label : label, default=None
        Label that unknown samples get: a number, string or boolean as the labels of the classes,
        and none of them. None is -1, or "unknown" if the labels are strings.

    Attributes
    ----------
    estimator_ : estimator instance
        The clone that learns. Its further methods, such as `transform`, can be called on it.
    unknown_label_ : label
        Label that unknown samples get.
    classes_ : ndarray of shape (n_classes,)
        Labels seen or declared, sorted: the columns of `predict_proba`. `unknown_label_` is none of
        them.
    class_counts_ : ndarray of shape (n_classes,)
        Total weight of the samples of each class.
    n_features_in_ : int
        Number of features seen by `estimator_`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of these features, if `estimator_` has them.

    See Also
    --------
    IncrementalDiscriminantAnalysis.score_samples : The score.
    IncrementalDiscriminantAnalysis.novelty_threshold : One threshold for all classes together.
    ffnb_sklearn.metrics.false_alarm_rate : Share of samples of known classes that are rejected.

    Notes
    -----
    Labels of unknown samples are not learned: the class of a sample in y is never `unknown_label`.
    As long as no class has two different samples, nothing is predicted as unknown. Samples of
    background classes, whose prior is 0, are predicted as unknown.

    `predict_proba` has no column for unknown samples, so tools that combine or calibrate
    probabilities, such as `OneVsRestClassifier`, `StackingClassifier` and `CalibratedClassifierCV`,
    predict labels of known classes alone. A `VotingClassifier` needs ``voting="soft"``, because
    hard votes raise an error at the label -1.

    The user guide ("Unknown classes") has the formulas and their sources, and tells how far the
    rate is kept. Samples that are classified wrongly are more often predicted as unknown.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ffnb_sklearn import IncrementalDiscriminantAnalysis, OpenSetClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> train, is_known = [i % 2 == 0 for i in range(len(y))], y < 8
    >>> clf = OpenSetClassifier(IncrementalDiscriminantAnalysis(random_state=0), rate=0.05)
    >>> clf = clf.fit(X[train & is_known], y[train & is_known])
    >>> clf.classes_
    array([0, 1, 2, 3, 4, 5, 6, 7])
    >>> bool((clf.predict(X[~is_known]) == -1).mean() > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        "estimator": [HasMethods(["fit", "predict_proba"])],
        "rate": [Interval(Real, 0, 1, closed="neither")],
        "unknown_label": [Real, str, "boolean", None],
    }

    def __init__(self, estimator: Any, *, rate: float = 0.05, unknown_label: Any = None) -> None:
        self.estimator = estimator
        self.rate = rate
        self.unknown_label = unknown_label

    @exclusive
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit a clone of the estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as the estimator takes them.
        y : array-like of shape (n_samples,)
            Labels of the samples, none of them `unknown_label`.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, which the last step of a pipeline receives.

        Returns
        -------
        self : OpenSetClassifier
            The fitted classifier. It is unchanged if an error is raised.
        """
        self._validate_params()
        self._check_targets(y, None, None)
        # The steps of a pipeline follow indices of sparse samples without a check.
        X = in_memory(X, "X")
        estimator = self._unfitted_clone()
        params = self._route("fit", sample_weight)
        self._learn(estimator, "fit", X, y, params)
        # No call may follow, because it could fail.
        self.estimator_ = estimator
        return self

    @available_if(_estimator_has("partial_fit"))
    @exclusive
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Let the estimator learn one more task; the first call clones it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as the estimator takes them.
        y : array-like of shape (n_samples,)
            Labels of the samples, none of them `unknown_label`.
        classes : array-like of shape (n_labels,), default=None
            Labels expected in later calls, none of them `unknown_label`.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights, which the last step of a pipeline receives.

        Returns
        -------
        self : OpenSetClassifier
            The classifier. It is unchanged if an error is raised.
        """
        self._validate_params()
        known = None
        if self.__sklearn_is_fitted__():
            estimator = self.estimator_
            known = getattr(estimator, "classes_", None)
        else:
            estimator = self._unfitted_clone()
        self._check_targets(y, classes, known)
        X = in_memory(X, "X")
        params = self._route("partial_fit", sample_weight)
        params["classes"] = classes
        learn_in_draft(estimator, lambda draft: self._learn(draft, "partial_fit", X, y, params))
        # No call may follow, because it could fail.
        self.estimator_ = estimator
        return self

    @with_callbacks
    def _learn(self, estimator, method, X, y, params):
        """Let an estimator learn, and report the call to callbacks."""
        context = self._init_callback_context(method, max_subtasks=1)
        call = ReportedTask(context, self, X, y)
        with sub_estimator_task(context, f"{method}-estimator", self, estimator, X, y):
            learn = getattr(estimator, method)
            learn(X, y, **params)
        call.end()

    def _unfitted_clone(self):
        """Return a clone of the estimator that prepares thresholds."""
        path, learner = _path_and_learner(self.estimator)
        if not isinstance(learner, BaseDiscriminantClassifier):
            raise ValueError(
                "estimator must be an IncrementalDiscriminantAnalysis or FFNBClassifier, or a "
                "pipeline that ends in one, because "
                "thresholds need the scores of samples left out of learning; got "
                f"{self.estimator!r}."
            )
        return clone(self.estimator).set_params(**{f"{path}novelty": True})

    def _check_targets(self, y, classes, known):
        """Raise if `unknown_label` is of another kind than the labels, or is one of them."""
        labels = check_targets(y, known, "y")
        self._check_unknown_label(labels, "y")
        if classes is not None:
            self._check_unknown_label(check_labels(classes, labels, "classes"), "classes")

    def _check_unknown_label(self, labels, name):
        """Return `unknown_label` as an array; raise if it does not differ from some labels."""
        unknown = check_unknown_label(self.unknown_label, labels)
        if unknown[0] in labels:
            raise ValueError(
                f"unknown_label must differ from the labels of all classes; got "
                f"{unknown.item()!r}, which is in {name}."
            )
        return unknown

    def _route(self, method, sample_weight):
        """Return the arguments of a method of the estimator that learns."""
        if sample_weight is None:
            return {}
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, method, sample_weight=sample_weight)
            return routed["estimator"][method]
        path, _ = _path_and_learner(self.estimator)
        return {f"{path}sample_weight": sample_weight}

    forget = _passed_on(IncrementalDiscriminantAnalysis.forget, changes=True)
    forget_samples = _passed_on(IncrementalDiscriminantAnalysis.forget_samples, changes=True)
    decay = _passed_on(IncrementalDiscriminantAnalysis.decay, changes=True)
    solve = _passed_on(IncrementalDiscriminantAnalysis.solve)
    estimate_priors = _passed_on(IncrementalDiscriminantAnalysis.estimate_priors)
    sample = _passed_on(IncrementalDiscriminantAnalysis.sample)

    @available_if(_estimator_has("rename"))
    @exclusive
    def rename(self, mapping: Mapping[Any, Any]) -> Self:
        """Rename classes, and join classes whose new labels are equal.

        Parameters
        ----------
        mapping : dict
            New labels by old labels, as the estimator takes them. No new label may be
            `unknown_label`.

        Returns
        -------
        self : OpenSetClassifier
            The classifier. It is unchanged if an error is raised.
        """
        known = self._learned("classes_")
        if isinstance(mapping, Mapping):
            new_labels = check_labels(list(mapping.values()), known, "the labels of mapping")
            self._check_unknown_label(new_labels, "mapping")
        self._learned("rename")(mapping)
        return self

    @available_if(_estimator_has("merge"))
    @exclusive
    def merge(self, other: "OpenSetClassifier") -> Self:
        """Merge in everything that another classifier has learned from other samples.

        Parameters
        ----------
        other : OpenSetClassifier
            Fitted classifier, whose estimator can be merged with that of this one. It is not
            changed.

        Returns
        -------
        self : OpenSetClassifier
            The classifier. It is unchanged if an error is raised.

        Raises
        ------
        TypeError
            If `other` is not an `OpenSetClassifier`.
        ValueError
            If the estimators cannot be merged, or `other` has learned the label for unknown
            samples.
        """
        if not isinstance(other, OpenSetClassifier):
            raise TypeError(
                f"other must be a fitted OpenSetClassifier; got {type(other).__name__}."
            )
        merge = self._learned("merge")
        other_labels = check_labels(other.classes_, self.classes_, "other.classes_")
        self._check_unknown_label(other_labels, "other.classes_")
        merge(other.estimator_)
        return self

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which metadata the estimator receives.

        Returns
        -------
        MetadataRouter
            `fit` and `partial_fit` pass their metadata on to those of the estimator.
        """
        mapping = MethodMapping()
        mapping.add(caller="fit", callee="fit")
        mapping.add(caller="partial_fit", callee="partial_fit")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(estimator=self.estimator, method_mapping=mapping)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each sample, or the label for unknown samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples,)
            `unknown_label` where `score_samples` is below `rate`, else the label that the estimator
            predicts.
        """
        known, labels, shares = self._judge(X)
        unknown = self._check_unknown_label(known, "the classes learned")
        # The type of the result has room for the longer label.
        return in_library_of(X, np.where(shares < self.rate, unknown, labels))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of the classes for samples that belong to one of them.

        `score_samples` tells whether a sample belongs to one of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per entry of `classes_`.
        """
        check_is_fitted(self)
        samples = in_memory(X, "X")
        probabilities = as_numpy(self.estimator_.predict_proba(samples), "probabilities")
        return in_library_of(X, probabilities)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """Return how usual each sample is among new samples of the classes it may belong to.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as the estimator takes them.

        Returns
        -------
        ndarray of shape (n_samples,)
            Estimated share, in [0, 1], of new samples of these classes whose novelty score is not
            higher: a p-value. It is the geometric mean of the shares of the classes, weighted by
            their probabilities, times the probability that the sample is of no background class.
        """
        _, _, shares = self._judge(X)
        return in_library_of(X, shares)

    @available_if(_estimator_has("to_torch"))
    def to_torch(self, dtype: Literal["float32", "float64"] = "float32") -> nn.Module:
        """Return the solved classifier as a module of torch, to be used without this package.

        It does not change when the classifier does. A sample is unknown if its share is below
        `rate`.

        Parameters
        ----------
        dtype : {"float32", "float64"}, default="float32"
            Type of the buffers, and of the samples that the module takes.

        Returns
        -------
        torch.nn.Module
            Maps samples to two tensors: scores, of shape (n_samples, n_labels), and the shares that
            `score_samples` returns for the present `rate`, of shape (n_samples,). Its attributes
            `classes_` and `probabilities` are those of `IncrementalDiscriminantAnalysis.to_torch`.

        Raises
        ------
        ValueError
            If `IncrementalDiscriminantAnalysis.to_torch` would raise, or `rate` is invalid.
        """
        check_is_fitted(self)
        self._check_rate()
        module: nn.Module = self.estimator_._open_set_module(self.rate, dtype)
        return module

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy, for which labels that were not learned count as unknown.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples, as the estimator takes them.
        y : array-like of shape (n_samples,)
            Labels. A sample whose label was not learned is right if `predict` returns
            `unknown_label`.
        sample_weight : array-like of shape (n_samples,), default=None
            Sample weights.

        Returns
        -------
        float
            Share of the samples that are predicted correctly.
        """
        predictions = as_numpy(self.predict(X), "predictions")
        classes = self.classes_
        labels = check_targets(y, classes, "y")
        # If unknown_label is a float, NumPy would round integer labels.
        unknown = check_unknown_label(self.unknown_label, classes)
        expected = np.where(np.isin(labels, classes), labels, unknown)
        return float(accuracy_score(expected, predictions, sample_weight=sample_weight))

    def _judge(self, X):
        """Return the known classes, the most likely of them, and the result of `score_samples`."""
        check_is_fitted(self)
        self._check_rate()
        features = in_memory(X, "X")
        learner = self.estimator_
        while isinstance(learner, Pipeline):
            # Another thread may replace the steps meanwhile: read them once.
            *transformers, (_, learner) = learner.steps
            features = _transformed(transformers, features)
        # A copy keeps its state, even if another thread learns meanwhile.
        learner = copy(learner)
        labels, probabilities, scores, state, priors = learner._judge_samples(features)
        # The prior weighs as much as 1 / rate samples, of which one sample is the share `rate`.
        shares = state.score_distributions.shares_below(scores, 1.0 / self.rate)
        logarithms = np.log(np.maximum(shares, _LEAST_SHARE))
        mean_logarithms = np.sum(probabilities * logarithms, axis=1)
        p_values = np.exp(mean_logarithms)
        is_background = priors == 0.0
        if is_background.any():
            p_values *= _foreground_probabilities(learner, state, is_background, features)
        return state.classes, labels, p_values

    def _check_rate(self):
        """Raise if the rate, which may have changed after learning, is invalid."""
        rate = {"rate": self.rate}
        validate_parameter_constraints(self._parameter_constraints, rate, type(self).__name__)

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels seen or declared, sorted."""
        return self._learned("classes_")

    @property
    def unknown_label_(self) -> Any:
        """Label that unknown samples get."""
        known = self._learned("classes_")
        return self._check_unknown_label(known, "the classes learned").item()

    @property
    def class_counts_(self) -> NDArray[np.float64]:
        """Total weight of the samples of each class of the estimator."""
        return self._learned("class_counts_")

    @property
    def n_features_in_(self) -> int:
        """Number of features seen by the estimator."""
        return self._learned("n_features_in_")

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features seen by the estimator."""
        return self._learned("feature_names_in_")

    @feature_names_in_.setter
    def feature_names_in_(self, names: NDArray[Any] | None) -> None:
        check_is_fitted(self)
        # Copies of this classifier share the estimator.
        estimator = copy(self.estimator_)
        estimator.feature_names_in_ = names
        self.estimator_ = estimator

    def _learned(self, name):
        """Return an attribute of the fitted estimator."""
        check_is_fitted(self)
        return getattr(self.estimator_, name)

    def __sklearn_is_fitted__(self):
        """Whether anything has been learned, and not all of it forgotten."""
        if "estimator_" not in vars(self):
            return False
        return self.estimator_.__sklearn_is_fitted__()

    def __sklearn_tags__(self):
        """Return scikit-learn's tags, with those of the estimator for its input."""
        tags = super().__sklearn_tags__()
        estimator_tags = get_tags(self.estimator)
        tags.input_tags = estimator_tags.input_tags
        tags.array_api_support = estimator_tags.array_api_support
        return tags


def _foreground_probabilities(learner, state, is_background, X):
    """Return the probability, for equal priors, that each sample is not of a background class."""
    for_equal_priors = learner._clone_in_state(state, priors="uniform")
    probabilities = as_numpy(for_equal_priors.predict_proba(X), "probabilities")
    columns = np.searchsorted(state.classes, state.arrived[is_background])
    return 1.0 - probabilities[:, columns].sum(axis=1)


def _path_and_learner(estimator):
    """Return the last step of nested pipelines, and the prefix of its parameters."""
    path = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        path = f"{path}{name}__"
    return path, estimator


def _transformed(steps, X):
    """Apply fitted transformers to samples, one after another."""
    for _, transformer in steps:
        if transformer is not None and transformer != "passthrough":
            X = transformer.transform(X)
    return X
