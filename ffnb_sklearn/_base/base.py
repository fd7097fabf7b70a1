"""Base class of the class-incremental classifiers: labels, transactions, predictions."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter
from typing import ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags

from .._inputs.arrays import Matrix, UserArray, in_library_of
from .._inputs.labels import Labels, label_positions
from .._inputs.locks import exclusive
from .._inputs.seeds import advance_of
from .._inputs.sparse_samples import Rows, place_samples
from ..core.bands.tuning.descent import EpochObserver
from ..core.device import Array, without_modes
from ..core.model import Samples
from .callbacks import CallbackSupportMixin, ReportedTask, metadata_of, with_callbacks
from .priors import LEAST, unseen_scores
from .state import State
from .validation import check_inputs, check_samples

__all__ = [
    "ClassIncrementalClassifier",
    "ProbabilisticClassifier",
    "first_of_highest",
    "learned_attribute",
]

# Positions of classes or columns.
Positions: TypeAlias = npt.NDArray[np.intp]

# The losses of a task up to each epoch.
Epochs: TypeAlias = Iterator[Sequence[float]]

# Most lines that a verbose estimator prints about the epochs of a task.
_LINES_PER_TASK = 10


def learned_attribute(read: Callable[[State], object]) -> property:
    """Make an attribute that `read` computes from the state of an estimator.

    It raises `NotFittedError`, an `AttributeError`, while there is no state.
    """

    def attribute(estimator: "ClassIncrementalClassifier") -> object:
        state = estimator._learned_state()
        return read(state)

    return property(attribute)


def first_of_highest(scores: Array, order: Positions) -> Positions:
    """Return the column of the highest score of each row, the first in `order` of equal scores."""
    best = scores[:, order].argmax(axis=1)
    columns: Positions = order[best]
    return columns


class ClassIncrementalClassifier(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Base of classifiers that learn classes incrementally.

    The attribute `_state` holds everything that a classifier has learned. It is replaced and never
    changed, and a prediction reads it once. A call that learns replaces it when nothing can fail
    any more, and is `exclusive`. Subclasses define how the model learns a task (`_learn_task`). If
    they divide the samples of `fit` into tasks, or have epochs, they replace `_tasks_of_fit`,
    `_max_epochs` and `_loss_curve`.
    """

    # Values of the parameters that a subclass lacks: it uses no GPU, draws no numbers and prints
    # nothing.
    device: str = "cpu"
    random_state: int | np.random.RandomState | None = 0
    verbose: bool | int = False

    # None before the estimator is fitted.
    _state: State | None = None

    def fit(self, X: object, y: npt.ArrayLike) -> Self:
        """Discard what was learned, then learn all classes of `y` as one task.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels of the samples: numbers, strings or booleans.

        Returns
        -------
        self : object
            The fitted estimator. It is unchanged if an error is raised.
        """
        self._learn(X, y, reset=True)
        return self

    def partial_fit(
        self, X: object, y: npt.ArrayLike, classes: npt.ArrayLike | None = None
    ) -> Self:
        """Learn samples of known classes, of new classes, or of both.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels of the samples: numbers, strings or booleans.
        classes : array-like of shape (n_labels,), default=None
            Labels expected in later calls. They get a column now and are never predicted before
            they have been seen.

        Returns
        -------
        self : object
            The estimator. It is unchanged if an error is raised.
        """
        self._learn(X, y, classes=classes)
        return self

    @exclusive
    def _learn(
        self,
        X: UserArray,
        y: UserArray,
        *,
        classes: UserArray = None,
        sample_weight: UserArray = None,
        reset: bool = False,
    ) -> Self:
        """Learn samples, and store the result."""
        self._validate_params()
        state = None if reset else self._state
        is_first = state is None
        # A callback may fail in this call, so the new state is stored afterwards.
        learned = self._learn_tasks(state, X, y, classes, sample_weight, reset=reset)
        self._keep(learned, is_first=is_first)
        return self

    @with_callbacks
    def _learn_tasks(
        self,
        state: State | None,
        X: UserArray,
        y: UserArray,
        classes: UserArray,
        sample_weight: UserArray,
        *,
        reset: bool,
    ) -> State:
        """Validate the samples, and return the state after they are learned task by task."""
        X, y, classes, weights, state = check_samples(
            self, X, y, classes=classes, sample_weight=sample_weight, state=state
        )
        if classes is not None:
            state = state.declaring(classes)
        method = "partial_fit"
        tasks: Sequence[Rows] = [slice(None)]
        if reset:
            method = "fit"
            tasks = self._tasks_of_fit(y)
        context = self._init_callback_context(method, max_subtasks=len(tasks))
        call = ReportedTask(context, self, X, y, metadata_of(weights, sample_weight))
        for task in tasks:
            X_task = X[task]
            y_task = y[task]
            task_weights = weights[task]
            task_context = context.subcontext("task", max_subtasks=self._max_epochs())
            metadata = metadata_of(task_weights, sample_weight)
            reported_task = ReportedTask(task_context, self, X_task, y_task, metadata)
            state = self._learn_samples(state, X_task, y_task, task_weights, reported_task.epochs)
            if reported_task.end({"_state": state}):
                break
        call.end({"_state": state})
        return state

    def _keep(self, state: State | None, *, is_first: bool = False) -> None:
        """Store the state after a call that learned, and consume the seed of a first task."""
        if not is_first:
            self._state = state
            return
        advance = advance_of(self.random_state)
        self._state = state
        # No other call may follow, because it could fail or be interrupted.
        advance()

    def _learn_samples(
        self, state: State, X: Matrix, y: Labels, weights: Array, observe: EpochObserver
    ) -> State:
        """Return the state after a task with validated samples, and print lines if verbose."""
        start = perf_counter()
        n_known = state.n_arrived
        positions, arrived = label_positions(y, state.arrived)
        n_new = len(arrived) - n_known
        n_task = len(state.task_classes)
        if n_new:
            n_task += 1

        def observe_and_print(epochs: Epochs) -> Epochs:
            return self._print_epochs(observe(epochs), n_task, start)

        with without_modes():
            state = self._learn_task(state, X, positions, arrived, weights, observe_and_print)
        state = state.after_task(state.model, arrived)
        if self.verbose:
            seconds = perf_counter() - start
            epochs = ""
            losses = self._loss_curve(state)
            if losses:
                epochs = f"{len(losses)} epochs, loss {losses[-1]:.3g}, "
            print(
                f"[{type(self).__name__}] task {n_task}: {len(y)} samples, "
                f"{n_new} new classes, {len(arrived)} known, {epochs}"
                f"{seconds:.2f} s"
            )
        return state

    def _print_epochs(self, epochs: Epochs, n_task: int, start: float) -> Epochs:
        """Yield the items of `epochs`; if verbose, print a line for every tenth part of them."""
        max_epochs = self._max_epochs()
        step = math.ceil(max_epochs / _LINES_PER_TASK)
        for number, losses in enumerate(epochs, start=1):
            yield losses
            if self.verbose and number % step == 0:
                seconds = perf_counter() - start
                print(
                    f"[{type(self).__name__}] task {n_task}: epoch {number} of {max_epochs}, "
                    f"loss {losses[-1]:.3g}, {seconds:.2f} s",
                    flush=True,
                )

    def _learn_task(
        self,
        state: State,
        X: Matrix,
        positions: Positions,
        arrived: Labels,
        weights: Array,
        observe: EpochObserver,
    ) -> State:
        """Return the state with the model after a task; start a new model if there is none.

        Samples have a position in `arrived`, which holds the labels seen by the end of the task.
        `observe` wraps the iterator over the epochs: it reports each epoch, and may stop early.
        """
        raise NotImplementedError

    def _tasks_of_fit(self, y: Labels) -> Sequence[Rows]:
        """Return the numbers of the samples of each task of `fit`."""
        return [slice(None)]

    def _needs_dense_inputs(self) -> bool:
        """Return whether wide sparse samples are projected onto dense columns."""
        return True

    def _max_epochs(self) -> int:
        """Return the largest number of epochs of a task."""
        return 0

    def _loss_curve(self, state: State) -> Sequence[float]:
        """Return the loss after each epoch of the last task."""
        return ()

    def _clone_in_state(self, state: State | None, **parameters: object) -> Self:
        """Return a clone with other values of some parameters, and with a state of its own."""
        estimator: Self = clone(self).set_params(**parameters)
        estimator._state = state
        # `clone` keeps the callbacks, which must not report calls that the user has not made.
        estimator.__dict__.pop("_skl_callbacks", None)
        return estimator

    def _learned_state(self) -> State:
        """Return the learned state; callers read it once, because it may be replaced meanwhile."""
        state = self._state
        if state is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with "
                "appropriate arguments before using this estimator."
            )
        return state

    def _present_state(self) -> State:
        """Return the learned state with the present parameters of predictions."""
        return self._with_present_parameters(self._learned_state())

    def _with_present_parameters(self, state: State) -> State:
        """Return a state with the present parameters of predictions; the state if it has none."""
        return state

    def __sklearn_is_fitted__(self) -> bool:
        """Whether anything has been learned."""
        return self._state is not None

    classes_ = learned_attribute(lambda state: state.classes)
    n_features_in_ = learned_attribute(lambda state: state.n_features_in)
    n_tasks_ = learned_attribute(lambda state: len(state.task_classes))
    task_classes_ = learned_attribute(lambda state: list(state.task_classes))

    @property
    def feature_names_in_(self) -> npt.NDArray[np.generic]:
        """Names of the features, if X had string column names."""
        names = self._learned_state().feature_names_in
        if names is None:
            raise AttributeError(f"This {type(self).__name__} has learned features without names.")
        return names

    @feature_names_in_.setter
    def feature_names_in_(self, names: npt.NDArray[np.generic] | None) -> None:
        # Tools that explain predictions pass arrays, and remove the names from a copy by None.
        self._state = replace(self._learned_state(), feature_names_in=names)

    def _samples(self, state: State, X: UserArray, name: str = "X") -> Samples:
        """Validate samples, an argument of some name, and return them as the core takes them."""
        X, _ = check_inputs(self, X, state, name)
        return place_samples(self.device, X, state.projection, state.scaling)

    def _possible_labels(self, state: State) -> Labels:
        """Return the labels that predictions may have, in order of arrival."""
        return state.arrived

    def _scores(self, state: State, samples: Samples) -> Array:
        """Return the scores of the possible labels."""
        raise NotImplementedError

    def _most_likely(self, state: State, samples: Samples, order: Positions) -> Positions:
        """Return the positions of the highest scores, the first in `order` of equal scores."""
        return first_of_highest(self._scores(state, samples), order)

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: sparse samples and arrays of other libraries are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = True
        return tags

    def decision_function(self, X: object) -> npt.NDArray[np.float64]:
        """Return the scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            One column per entry of `classes_`. The score of a class that was declared and never
            seen, or has the prior 0, is finite and lower than all other scores of the sample: by
            their range, and by at least 36. For two classes, half the difference of their scores,
            which is positive if the second class is more likely.
        """
        state = self._present_state()
        samples = self._samples(state, X)
        labels = self._possible_labels(state)
        scores = self._scores(state, samples)
        if len(state.classes) == 2:
            # Differences are exact, so all samples have the same score if one label is possible.
            scores = scores - scores.min(axis=1, keepdims=True)
        scores = state.by_class(scores, labels, unseen_scores(scores))
        if scores.shape[1] == 2:
            scores = 0.5 * (scores[:, 1] - scores[:, 0])
        return in_library_of(X, scores)

    def predict(self, X: object) -> npt.NDArray[np.generic]:
        """Return the most likely label of each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels that have been seen, and whose prior is not 0.
        """
        state = self._present_state()
        samples = self._samples(state, X)
        labels = self._possible_labels(state)
        order = np.argsort(labels)
        positions = self._most_likely(state, samples, order)
        return in_library_of(X, labels[positions])


class ProbabilisticClassifier(ClassIncrementalClassifier):
    """Base of classifiers whose scores are logits, or become logits by `_logits`."""

    # Parameters that all subclasses have.
    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def _logits(self, state: State, samples: Samples) -> Array:
        """Return scores of the possible labels whose softmax is the probability of each label."""
        return self._scores(state, samples)

    def predict_proba(self, X: object) -> npt.NDArray[np.float64]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per entry of `classes_`, zero for a class that was declared and never
            seen, or has the prior 0. The label that `predict` returns has the largest probability.
        """
        state = self._present_state()
        samples = self._samples(state, X)
        logits = self._logits(state, samples)
        labels = self._possible_labels(state)
        return in_library_of(X, self._probabilities(state, logits, labels))

    def _probabilities(self, state: State, logits: Array, labels: Labels) -> Array:
        """Return the probabilities of the entries of `classes_`, given logits of some labels."""
        probabilities = np.maximum(softmax(logits, axis=1), LEAST)
        return state.by_class(probabilities, labels, 0.0)

    def predict_log_proba(self, X: object) -> npt.NDArray[np.float64]:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per entry of `classes_`: -inf for a class with the prior 0; all other values
            are finite, and at least the logarithm of 1e-280, which is the value of a class that was
            declared and never seen.
        """
        state = self._present_state()
        samples = self._samples(state, X)
        labels = self._possible_labels(state)
        # Computed from the scores, because logarithms of tiny probabilities lose digits.
        logarithms = log_softmax(self._logits(state, samples), axis=1)
        lowest = np.log(LEAST)
        logarithms = np.maximum(logarithms, lowest)
        logarithms = state.by_class(logarithms, labels, lowest)
        background = np.setdiff1d(state.arrived, labels)
        logarithms[:, np.isin(state.classes, background)] = -np.inf
        return in_library_of(X, logarithms)
