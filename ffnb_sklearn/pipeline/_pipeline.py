"""A pipeline that learns task by task."""

from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar, Self

from joblib import Memory
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import MetadataRouter, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.callbacks import CallbackSupportMixin, sub_estimator_task, with_callbacks
from .._base.copies import learn_in_copies
from .._inputs.arrays import in_memory
from .._inputs.locks import exclusive
from ._fingerprint import give_same_output
from ._freezing import warn_of_frozen

__all__ = ["ContinualPipeline", "make_continual_pipeline"]


def _last_step_has(method):
    """Make an `available_if` check whose error names the last step if it lacks `method`."""

    def check(pipeline):
        if hasattr(pipeline._final_estimator, method):
            return True
        name, step = pipeline.steps[-1]
        raise AttributeError(
            f"the last step of the pipeline must have the method {method!r}; "
            f"step {name!r} is {step!r} of type {type(step).__name__}, which has none."
        )

    return check


def _pipeline_has(method):
    """Make an `available_if` check whether `Pipeline` offers a method for these steps."""
    return lambda pipeline: hasattr(super(ContinualPipeline, pipeline), method)


class ContinualPipeline(Pipeline, CallbackSupportMixin):
    """Pipeline with `partial_fit`: transformers are fitted once, the last step keeps learning.

    The first call of `partial_fit` fits the transformers and starts the last step. Later calls only
    transform X and pass it to `partial_fit` of the last step. Everything else is as in
    :class:`sklearn.pipeline.Pipeline`: `fit` fits every step again.

    Parameters
    ----------
    steps : list of (str, estimator) tuples
        Names and steps in order. All but the last are transformers, `None` or
        `"passthrough"`. `partial_fit` exists if the last step has it.
    memory : str or object with the joblib.Memory interface, default=None
        Cache of the transformers that `fit` fits.
    verbose : bool, default=False
        Whether `fit` prints the time that each step took.

    Attributes
    ----------
    named_steps : Bunch
        The steps by name.
    classes_ : ndarray of shape (n_classes,)
        The classes of the last step, if it is a classifier.
    class_counts_ : ndarray of shape (n_classes,)
        Total weight of the samples of each class, if the last step has it.
    n_features_in_ : int
        Number of features that the first step has seen.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of these features, if the first step has seen feature names.

    See Also
    --------
    make_continual_pipeline : Construct a pipeline without naming the steps.
    sklearn.frozen.FrozenEstimator : Keeps a transformer that is already fitted.

    Notes
    -----
    *Transformers are frozen after the first task*, because the last step has learned from the
    features that they computed then. Only `fit` refits them, or `partial_fit` after all classes
    have been forgotten. So choose transformers that are stateless, that depend on the number of
    features alone, or that were fitted before and are wrapped in
    :class:`sklearn.frozen.FrozenEstimator`; without it, the first call fits them again.

    *The first call of* `partial_fit` *issues one* `FrozenTransformerWarning` if there are other
    transformers, however deep in other steps. For a transformer of your own, set its tag
    ``requires_fit=False`` if it learns nothing, or a class attribute ``frozen_on_purpose = True``.

    *A call is a transaction.* It changes copies of the steps, which replace the steps all at once
    when nothing can fail any more. After an error each step is as it was before, and another thread
    that predicts meanwhile uses either all old steps or all new steps. Inspect `named_steps`,
    because the instances that were passed are never changed.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.preprocessing import Normalizer
    >>> from ffnb_sklearn.pipeline import ContinualPipeline
    >>> pipe = ContinualPipeline([("unit", Normalizer()), ("clf", GaussianNB())])
    >>> pipe.partial_fit([[1.0, 0.0], [0.9, 0.1]], [0, 0], classes=[0, 1]).classes_
    array([0, 1])
    >>> pipe.partial_fit([[0.0, 1.0], [0.1, 0.9]], [1, 1]).predict([[2.0, 0.1]])
    array([0])
    """

    # `Pipeline.fit` reads this attribute. It is not a parameter, because it would only transform
    # extra arguments of `fit`, such as a validation set, and `partial_fit` takes no such arguments.
    transform_input = None
    _parameter_constraints: ClassVar[dict] = {
        "steps": Pipeline._parameter_constraints["steps"],
        "memory": Pipeline._parameter_constraints["memory"],
        "verbose": Pipeline._parameter_constraints["verbose"],
    }

    def __init__(
        self,
        steps: list[tuple[str, Any]],
        *,
        memory: str | Memory | None = None,
        verbose: bool = False,
    ) -> None:
        self.steps = steps
        self.memory = memory
        self.verbose = verbose

    @available_if(_last_step_has("partial_fit"))
    @exclusive
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Learn one more batch or task.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.
        y : array-like of shape (n_samples,), default=None
            Targets.
        classes : array-like of shape (n_classes,), default=None
            All labels that may occur in any call, passed to the last step if given. Some
            classifiers need them at the first call.
        **params : dict
            Arguments of the steps as `step__name`, such as `clf__sample_weight`; with metadata
            routing, metadata that the steps have requested. Arguments of the `fit` of transformers
            have an effect at the first call only.

        Returns
        -------
        self : ContinualPipeline
            The pipeline, after the task.

        Raises
        ------
        ValueError
            If a name in `params` is not a step, or a step raises for its input.
        ConcurrentLearningError
            If the pipeline is learning in another thread.

        Warns
        -----
        FrozenTransformerWarning
            At the first call, if a transformer learns from the samples of this call alone.
        """
        self._check_steps()
        X = in_memory(X, "X")
        routed = self._route(params)
        last_name, _ = self.steps[-1]
        last_params = dict(routed[last_name]["partial_fit"])
        if classes is not None:
            last_params["classes"] = classes
        is_first = not self.__sklearn_is_fitted__()

        def learn(draft):
            draft._learn(X, y, routed, last_params, is_first=is_first)

        if is_first:
            warn_of_frozen(self.steps[:-1])
            self._change_all_steps(learn)
        else:
            learn_in_copies(self, [self[-1]], learn)
        return self

    @with_callbacks
    def _learn(self, X, y, routed, last_params, *, is_first):
        """Let the steps of a draft learn a task; only the first task fits the transformers."""
        n_fits = 1
        if is_first:
            n_fits += len(self._transformers())
        context = self._init_callback_context("partial_fit", max_subtasks=n_fits)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        if is_first:
            features = self._fit_and_transform(X, y, routed, context)
        else:
            features = self._apply_transformers(X, routed)
        task_name = "partial-fit-final-estimator"
        with sub_estimator_task(context, task_name, self, self[-1], features, y):
            self[-1].partial_fit(features, y, **last_params)
        context.call_on_fit_task_end(estimator=self, X=features, y=y)

    def _check_steps(self):
        """Raise unless the parameters and the steps are valid."""
        self._validate_params()
        self._validate_steps()

    def _transformers(self):
        """Return all steps but the last, without those that pass rows through."""
        return [transformer for _, _, transformer in self._iter(with_final=False)]

    def _fit_and_transform(self, X, y, routed, context):
        """Fit the transformers to the first task, and apply them to it."""
        for _, name, transformer in self._iter(with_final=False):
            params = routed[name]
            if isinstance(transformer, FrozenEstimator):
                # Other pipelines may share it, and it has nothing to report.
                X = transformer.transform(X, **params["transform"])
                continue
            with sub_estimator_task(context, f"fit-transform-{name}", self, transformer, X, y):
                if hasattr(transformer, "fit_transform"):
                    X = transformer.fit_transform(X, y, **params["fit_transform"])
                else:
                    transformer.fit(X, y, **params["fit"])
                    X = transformer.transform(X, **params["transform"])
        return X

    def _apply_transformers(self, X, routed):
        """Apply the transformers to a later task."""
        for _, name, transformer in self._iter(with_final=False):
            X = transformer.transform(X, **routed[name]["transform"])
        return X

    def _transform_rows(self, X):
        """Apply the transformers, without further arguments."""
        for transformer in self._transformers():
            X = transformer.transform(X)
        return X

    def _route(self, params):
        """Sort the arguments of `partial_fit` by step and method."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "partial_fit", **params)
        routed = {}
        for name, _ in self.steps:
            routed[name] = Bunch(fit={}, fit_transform={}, transform={}, partial_fit={})
        for key, value in params.items():
            name, separator, argument = key.partition("__")
            if not separator or name not in routed:
                raise ValueError(
                    "partial_fit takes arguments of the steps as 'step__name' with a step "
                    f"of {list(routed)}; got {key!r}."
                )
            for method in ("fit", "fit_transform", "partial_fit"):
                routed[name][method][argument] = value
        return routed

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which metadata each step receives, also in `partial_fit`.

        Returns
        -------
        MetadataRouter
            The routing of :class:`sklearn.pipeline.Pipeline`, with `partial_fit`.
        """
        router = super().get_metadata_routing()
        last_name, _ = self.steps[-1]
        for name, route in router:
            methods = ["fit", "fit_transform", "transform"]
            if name == last_name:
                methods = ["partial_fit"]
            for method in methods:
                route.mapping.add(caller="partial_fit", callee=method)
        return router

    def _change_last_step(self, method, *args):
        """Call a method that changes the last step, on a copy of it."""

        def change(draft):
            change_step = getattr(draft[-1], method)
            change_step(*args)

        check_is_fitted(self)
        learn_in_copies(self, [self[-1]], change)
        return self

    @exclusive
    def fit(self, X: Any, y: ArrayLike | None = None, **params: Any) -> Self:
        """Fit every step again.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.
        y : array-like of shape (n_samples,), default=None
            Targets.
        **params : dict
            Arguments of the steps, as in :meth:`sklearn.pipeline.Pipeline.fit`.

        Returns
        -------
        self : ContinualPipeline
            The fitted pipeline. It is unchanged if an error is raised.
        """
        self._check_steps()
        X = in_memory(X, "X")

        def learn(draft):
            Pipeline.fit(draft, X, y, **params)
            return self

        return self._change_all_steps(learn)

    @available_if(_pipeline_has("fit_transform"))
    @exclusive
    def fit_transform(self, X: Any, y: ArrayLike | None = None, **params: Any) -> NDArray[Any]:
        """Fit every step again, and transform X with all steps.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.
        y : array-like of shape (n_samples,), default=None
            Targets.
        **params : dict
            Arguments of the steps, as in :meth:`sklearn.pipeline.Pipeline.fit_transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_transformed_features)
            Rows that the last step has transformed.
        """
        self._check_steps()
        X = in_memory(X, "X")

        def learn(draft):
            return Pipeline.fit_transform(draft, X, y, **params)

        return self._change_all_steps(learn)

    @available_if(_pipeline_has("fit_predict"))
    @exclusive
    def fit_predict(self, X: Any, y: ArrayLike | None = None, **params: Any) -> NDArray[Any]:
        """Fit every step again, and predict with the last step.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.
        y : array-like of shape (n_samples,), default=None
            Targets.
        **params : dict
            Arguments of the steps, as in :meth:`sklearn.pipeline.Pipeline.fit_predict`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Result of `fit_predict` of the last step.
        """
        self._check_steps()
        X = in_memory(X, "X")

        def learn(draft):
            return Pipeline.fit_predict(draft, X, y, **params)

        return self._change_all_steps(learn)

    def _change_all_steps(self, learn):
        """Call a function with copies of all steps, then replace all steps at once.

        Return the result of the function.
        """
        steps = [step for _, _, step in self._iter()]
        # No call may follow the exchange of the steps.
        return learn_in_copies(self, steps, learn)

    def _snapshot(self):
        """Return a copy that keeps its steps, even if another thread learns in this pipeline."""
        return copy(self)

    @available_if(_pipeline_has("predict"))
    def predict(self, X: Any, **params: Any) -> NDArray[Any]:
        """Transform X, and predict with the last step.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.
        **params : dict
            Arguments of the steps, as in :meth:`sklearn.pipeline.Pipeline.predict`.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions of the last step.
        """
        X = in_memory(X, "X")
        return Pipeline.predict(self._snapshot(), X, **params)

    @available_if(_pipeline_has("predict_proba"))
    def predict_proba(self, X: Any, **params: Any) -> NDArray[Any]:
        """Transform X, and compute probabilities with the last step.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.
        **params : dict
            Arguments of the steps, as in :meth:`sklearn.pipeline.Pipeline.predict_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities of the classes.
        """
        X = in_memory(X, "X")
        return Pipeline.predict_proba(self._snapshot(), X, **params)

    @available_if(_pipeline_has("predict_log_proba"))
    def predict_log_proba(self, X: Any, **params: Any) -> NDArray[Any]:
        """Transform X, and compute logarithms of probabilities with the last step.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.
        **params : dict
            Arguments of the steps, as in :meth:`sklearn.pipeline.Pipeline.predict_log_proba`.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms of the probabilities of the classes.
        """
        X = in_memory(X, "X")
        return Pipeline.predict_log_proba(self._snapshot(), X, **params)

    @available_if(_pipeline_has("decision_function"))
    def decision_function(self, X: Any, **params: Any) -> NDArray[Any]:
        """Transform X, and compute decision values with the last step.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.
        **params : dict
            Arguments of the steps, as in :meth:`sklearn.pipeline.Pipeline.decision_function`.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
            Decision values of the last step.
        """
        X = in_memory(X, "X")
        return Pipeline.decision_function(self._snapshot(), X, **params)

    @available_if(_pipeline_has("score_samples"))
    def score_samples(self, X: Any) -> NDArray[Any]:
        """Transform X, and score each row with the last step.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.

        Returns
        -------
        ndarray of shape (n_samples,)
            Scores of the last step.
        """
        X = in_memory(X, "X")
        return Pipeline.score_samples(self._snapshot(), X)

    @available_if(_pipeline_has("score"))
    def score(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> float:
        """Transform X, and score the last step on it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.
        y : array-like of shape (n_samples,), default=None
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, passed to `score` of the last step unless they are None.
        **params : dict
            Arguments of the steps, as in :meth:`sklearn.pipeline.Pipeline.score`.

        Returns
        -------
        float
            Score of the last step, such as the accuracy of a classifier.
        """
        X = in_memory(X, "X")
        return Pipeline.score(self._snapshot(), X, y, sample_weight, **params)

    @available_if(_pipeline_has("transform"))
    def transform(self, X: Any, **params: Any) -> NDArray[Any]:
        """Transform X with all steps.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.
        **params : dict
            Arguments of the steps, as in :meth:`sklearn.pipeline.Pipeline.transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_transformed_features)
            Transformed rows.
        """
        X = in_memory(X, "X")
        return Pipeline.transform(self._snapshot(), X, **params)

    @available_if(_pipeline_has("inverse_transform"))
    def inverse_transform(self, X: Any, **params: Any) -> NDArray[Any]:
        """Undo the transformation with all steps, from the last to the first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_transformed_features)
            Rows that the last step has transformed.
        **params : dict
            Arguments of the steps, as in :meth:`sklearn.pipeline.Pipeline.inverse_transform`.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Rows, as the first step takes them.
        """
        X = in_memory(X, "X")
        return Pipeline.inverse_transform(self._snapshot(), X, **params)

    @property
    def class_counts_(self) -> NDArray[Any]:
        """Total weight of the samples of each class in the last step."""
        if not self.steps:
            raise AttributeError("class_counts_ needs a last step; this pipeline has no steps.")
        return self.steps[-1][1].class_counts_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features seen by the first step."""
        return super().feature_names_in_

    @feature_names_in_.setter
    def feature_names_in_(self, names: NDArray[Any] | None) -> None:
        (name, step), *later_steps = self.steps
        # Copies of this pipeline share the step.
        first_step = copy(step)
        first_step.feature_names_in_ = names
        self.steps = [(name, first_step), *later_steps]

    @available_if(_last_step_has("estimate_priors"))
    def estimate_priors(self, X: Any) -> dict[Any, float]:
        """Transform X, and estimate the shares of the classes among its rows with the last step.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as the first step takes them.

        Returns
        -------
        dict
            Share of each label, which the parameter `priors` of the last step takes.
        """
        snapshot = self._snapshot()
        check_is_fitted(snapshot)
        features = snapshot._transform_rows(in_memory(X, "X"))
        return snapshot[-1].estimate_priors(features)

    @available_if(_last_step_has("solve"))
    def solve(self) -> Self:
        """Solve the last step now instead of at the first prediction after learning.

        Returns
        -------
        self : ContinualPipeline
            The pipeline. The learned state does not change.
        """
        snapshot = self._snapshot()
        check_is_fitted(snapshot)
        snapshot[-1].solve()
        return self

    @available_if(_last_step_has("forget"))
    @exclusive
    def forget(self, classes: ArrayLike) -> Self:
        """Forget classes in the last step.

        Parameters
        ----------
        classes : array-like of shape (n_classes,)
            Labels to forget, as the last step takes them.

        Returns
        -------
        self : ContinualPipeline
            The pipeline. It is unchanged if an error is raised.
        """
        return self._change_last_step("forget", classes)

    @available_if(_last_step_has("forget_samples"))
    @exclusive
    def forget_samples(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Transform X, and forget its rows in the last step.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows that were learned, as the first step takes them.
        y : array-like of shape (n_samples,)
            The labels under which they were learned.
        sample_weight : array-like of shape (n_samples,), default=None
            The weights with which they were learned, as the last step takes them.

        Returns
        -------
        self : ContinualPipeline
            The pipeline. It is unchanged if an error is raised.
        """
        check_is_fitted(self)
        features = self._transform_rows(in_memory(X, "X"))
        return self._change_last_step("forget_samples", features, y, sample_weight)

    @available_if(_last_step_has("decay"))
    @exclusive
    def decay(self, factor: float, classes: ArrayLike | None = None) -> Self:
        """Let the samples that the last step has learned so far count less.

        Parameters
        ----------
        factor : float
            Multiple of the weights of the samples, in (0, 1].
        classes : array-like of shape (n_classes,), default=None
            Labels whose samples count less, as the last step takes them. None stands for all.

        Returns
        -------
        self : ContinualPipeline
            The pipeline. It is unchanged if an error is raised.
        """
        return self._change_last_step("decay", factor, classes)

    @available_if(_last_step_has("rename"))
    @exclusive
    def rename(self, mapping: Mapping[Any, Any]) -> Self:
        """Rename classes in the last step, and join classes whose new labels are equal.

        Parameters
        ----------
        mapping : dict
            New labels by old labels, as the last step takes them.

        Returns
        -------
        self : ContinualPipeline
            The pipeline. It is unchanged if an error is raised.
        """
        return self._change_last_step("rename", mapping)

    @available_if(_last_step_has("merge"))
    @exclusive
    def merge(self, other: Self) -> Self:
        """Merge what another pipeline has learned into the last step.

        Parameters
        ----------
        other : ContinualPipeline
            Fitted pipeline with the same fitted transformers. It is not changed.

        Returns
        -------
        self : ContinualPipeline
            The pipeline, with the classes of both. It is unchanged if an error is raised.

        Raises
        ------
        TypeError
            If `other` is not a `ContinualPipeline`.
        ValueError
            If the transformers differ: the last steps have then learned other features.
        """
        check_is_fitted(self)
        if not isinstance(other, ContinualPipeline):
            raise TypeError(
                f"other must be a ContinualPipeline; got an instance of {type(other).__name__}."
            )
        # Another thread may replace its steps meanwhile: read them once.
        other = copy(other)
        check_is_fitted(other)
        transformers = self._transformers()
        other_transformers = other._transformers()
        has_same_length = len(transformers) == len(other_transformers)
        if not has_same_length or not all(map(give_same_output, transformers, other_transformers)):
            raise ValueError(
                "other must have the same fitted transformers as this pipeline; they differ in "
                f"number, type, parameters or state: {transformers} and {other_transformers}. "
                "Share them, for example as sklearn.frozen.FrozenEstimator."
            )
        return self._change_last_step("merge", other[-1])


def make_continual_pipeline(
    *steps: Any, memory: str | Memory | None = None, verbose: bool = False
) -> ContinualPipeline:
    """Construct a `ContinualPipeline` whose steps are named after their types.

    Parameters
    ----------
    *steps : estimators
        Transformers, then the last step.
    memory : str or object with the joblib.Memory interface, default=None
        Cache of the transformers that `fit` fits.
    verbose : bool, default=False
        Whether `fit` prints the time that each step took.

    Returns
    -------
    ContinualPipeline
        Pipeline whose steps are named as by :func:`sklearn.pipeline.make_pipeline`.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.preprocessing import Normalizer
    >>> from ffnb_sklearn.pipeline import make_continual_pipeline
    >>> list(make_continual_pipeline(Normalizer(), GaussianNB()).named_steps)
    ['normalizer', 'gaussiannb']
    """
    named_steps = make_pipeline(*steps).steps
    return ContinualPipeline(named_steps, memory=memory, verbose=verbose)
