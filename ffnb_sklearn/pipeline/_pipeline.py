"""A pipeline that learns task by task."""

from copy import copy
from functools import wraps
from typing import ClassVar

from sklearn import get_config
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import Bunch
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._base.copies import learned_in_copies
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


def _inherited(name, call):
    """Make a method of `Pipeline` that calls ``call(pipeline, inherited, *args, **kwargs)``."""
    inherited = getattr(Pipeline, name)

    @available_if(lambda pipeline: hasattr(super(ContinualPipeline, pipeline), name))
    @wraps(inherited)
    def method(self, X, *args, **kwargs):
        return call(self, inherited, in_memory(X, "X"), *args, **kwargs)

    return method


def _of_one_state(pipeline, inherited, *args, **kwargs):
    """Read the steps once, whatever other threads learn."""
    return inherited(copy(pipeline), *args, **kwargs)


@exclusive
def _in_copies(pipeline, inherited, *args, **kwargs):
    """Fit copies of all steps, then replace the steps at once."""

    def fit(draft):
        result = inherited(draft, *args, **kwargs)
        return pipeline if result is draft else result

    pipeline._check()
    # No call may follow the exchange of the steps.
    return learned_in_copies(pipeline, [step for *_, step in pipeline._iter()], fit)


class ContinualPipeline(Pipeline):
    """Pipeline with `partial_fit`: transformers are fitted once, the last step keeps learning.

    The first call of `partial_fit` fits the transformers and starts the last step. Later calls only
    transform X and pass it to `partial_fit` of the last step. Everything else is as in
    :class:`sklearn.pipeline.Pipeline`: `fit` fits every step anew.

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
        name: Pipeline._parameter_constraints[name] for name in ("steps", "memory", "verbose")
    }

    def __init__(self, steps, *, memory=None, verbose=False):
        self.steps = steps
        self.memory = memory
        self.verbose = verbose

    @available_if(_last_step_has("partial_fit"))
    @exclusive
    def partial_fit(self, X, y=None, classes=None, **params):
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
        self._check()
        X = in_memory(X, "X")
        routed = self._route(params)
        is_first = not self.__sklearn_is_fitted__()
        changed = [step for _, _, step in self._iter()] if is_first else [self[-1]]
        if is_first:
            warn_of_frozen(self.steps[:-1])
        last_params = dict(routed[self.steps[-1][0]]["partial_fit"])
        if classes is not None:
            last_params["classes"] = classes

        def learn(draft):
            draft[-1].partial_fit(draft._mapped(X, y, routed, is_first), y, **last_params)

        learned_in_copies(self, changed, learn)
        return self

    def _check(self):
        """Raise unless the parameters and the steps are valid."""
        self._validate_params()
        self._validate_steps()

    def _mapped(self, X, y, routed, is_first):
        """Apply the transformers to X, after fitting them if this is the first task."""
        for _, name, transformer in self._iter(with_final=False):
            params = routed[name]
            if is_first and hasattr(transformer, "fit_transform"):
                X = transformer.fit_transform(X, y, **params["fit_transform"])
                continue
            if is_first:
                transformer.fit(X, y, **params["fit"])
            X = transformer.transform(X, **params["transform"])
        return X

    def _route(self, params):
        """Sort the arguments of `partial_fit` by step and method."""
        if get_config()["enable_metadata_routing"]:
            return process_routing(self, "partial_fit", **params)
        methods = ("fit", "fit_transform", "transform", "partial_fit")
        routed = {name: Bunch(**{m: {} for m in methods}) for name, _ in self.steps}
        for key, value in params.items():
            name, separator, argument = key.partition("__")
            if not separator or name not in routed:
                raise ValueError(
                    f"partial_fit takes arguments of the steps as 'step__name' with a step "
                    f"of {list(routed)}; got {key!r}."
                )
            for method in ("fit", "fit_transform", "partial_fit"):
                routed[name][method][argument] = value
        return routed

    def get_metadata_routing(self):
        """Return which metadata each step receives, also in `partial_fit`.

        Returns
        -------
        MetadataRouter
            As of :class:`sklearn.pipeline.Pipeline`, with `partial_fit`.
        """
        router = super().get_metadata_routing()
        for name, pair in router:
            is_last = name == self.steps[-1][0]
            for callee in ("partial_fit",) if is_last else ("fit", "fit_transform", "transform"):
                pair.mapping.add(caller="partial_fit", callee=callee)
        return router

    def _change_last_step(self, method, *args):
        """Call a method that changes the last step, on a copy of it."""
        check_is_fitted(self)
        learned_in_copies(self, [self[-1]], lambda draft: getattr(draft[-1], method)(*args))
        return self

    @available_if(_last_step_has("forget"))
    @exclusive
    def forget(self, classes):
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

    @available_if(_last_step_has("decay"))
    @exclusive
    def decay(self, factor, classes=None):
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

    @available_if(_last_step_has("merge"))
    @exclusive
    def merge(self, other):
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
        own, others = ([step for *_, step in p._iter(with_final=False)] for p in (self, other))
        if len(own) != len(others) or not all(map(give_same_output, own, others)):
            raise ValueError(
                "other must have the same fitted transformers as this pipeline; they differ in "
                f"number, type, parameters or state: {own} and {others}. Share them, for "
                "example as sklearn.frozen.FrozenEstimator."
            )
        return self._change_last_step("merge", other[-1])


for _name in ("fit", "fit_transform", "fit_predict"):
    setattr(ContinualPipeline, _name, _inherited(_name, _in_copies))
for _name in (
    *("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples"),
    *("score", "transform", "inverse_transform"),
):
    setattr(ContinualPipeline, _name, _inherited(_name, _of_one_state))


def make_continual_pipeline(*steps, memory=None, verbose=False):
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
    return ContinualPipeline(make_pipeline(*steps).steps, memory=memory, verbose=verbose)
