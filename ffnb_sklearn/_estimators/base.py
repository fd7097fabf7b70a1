"""Base class of the class-incremental classifiers: labels, transactions, predictions."""

from dataclasses import replace
from numbers import Integral
from time import perf_counter
from typing import ClassVar

import numpy as np
import torch
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval

from .._inputs.labels import label_positions
from .._inputs.sparse import samples_on
from ..core.device import as_array, as_tensor, plain_torch, resolve_device
from ..core.model import Task
from ..streams import class_incremental_tasks
from .callbacks import CallbackSupportMixin, Epochs, callback_context, with_callbacks
from .documentation import DocumentedMixin
from .priors import LEAST, unseen_scores
from .state import exchange, learned_attribute, read_only
from .validation import check_inputs, check_samples, check_tensor

__all__ = ["ClassIncrementalClassifier", "task_on"]


def task_on(device, state, X, positions, weights):
    """Return a task of validated samples on a device; positions are numbers of classes."""
    return Task(
        samples_on(device, X, state),
        as_tensor(positions, device=device, dtype=torch.int64),
        as_tensor(weights, device=device),
    )


class ClassIncrementalClassifier(
    CallbackSupportMixin, DocumentedMixin, ClassifierMixin, BaseEstimator
):
    """Base of classifiers that learn classes incrementally.

    Everything that a classifier has learned is in its attribute `_state`, which is replaced and
    never changed. A prediction reads it once. A call that learns also reads it once, when it
    begins, and `_keep` replaces only that state. Subclasses define how the model learns a task
    (`_taught`), in how many epochs (`_most_epochs`), and how it follows changed parameters
    (`_present_model`).
    """

    # Parameters that all subclasses have.
    _parameter_constraints: ClassVar[dict] = {
        "n_layers": [Interval(Integral, 1, None, closed="left")],
        "classes_per_task": [Interval(Integral, 1, None, closed="left"), None],
        "device": [str],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # None before the estimator is fitted.
    _state = None

    def _learn(self, X, y, *, classes=None, sample_weight=None, reset=False, classes_per_task=None):
        """Validate the samples, learn them task by task, and store the result if nothing failed.

        The public methods are not decorated with scikit-learn's `_fit_context`, which tears down
        the callbacks when the method has ended: a callback that raises then would leave the result
        behind an error. Here only the computation is decorated, and the result is stored after it.
        """
        before = self._state
        self._validate_params()
        after = self._learned_by_task(
            None if reset else before,
            X,
            y,
            classes=classes,
            sample_weight=sample_weight,
            task_name="fit" if reset else "partial-fit",
            classes_per_task=classes_per_task,
        )
        self._keep(before, after, is_first=reset or before is None)
        return self

    @with_callbacks
    def _learned_by_task(self, state, X, y, *, classes, sample_weight, task_name, classes_per_task):
        """Return the state after all tasks of a call; the estimator does not change."""
        X, y, classes, weights, state = check_samples(
            self, X, y, classes=classes, sample_weight=sample_weight, state=state
        )
        tasks = [slice(None)]
        if classes_per_task is not None:
            tasks = class_incremental_tasks(y, classes_per_task=classes_per_task)
        root = callback_context(self, task_name, len(tasks))
        seen = self._seen_by_callbacks(X, y, weights)
        root.call_on_fit_task_begin(**seen)
        for task in tasks:
            state, stops = self._after_subtask(root, state, X[task], y[task], weights[task])
            if stops:
                break
        state = state.declaring(classes)
        root.call_on_fit_task_end(**seen, reconstruction_attributes={"_state": state})
        return state

    def _keep(self, before, after, *, is_first=False):
        """Replace the state that a call began with, and consume the seed of a first task."""
        random_state = self.random_state if is_first else None
        exchange(self, "_state", before, after, random_state=random_state)

    def _after_subtask(self, root, state, X, y, weights):
        """Return the state after a task, and whether a callback asks to stop."""
        context = root.subcontext(task_name="task", max_subtasks=self._most_epochs())
        seen = self._seen_by_callbacks(X, y, weights)
        context.call_on_fit_task_begin(**seen)
        state = self._after_samples(state, X, y, weights, context)
        stops = context.call_on_fit_task_end(**seen, reconstruction_attributes={"_state": state})
        return state, stops

    def _seen_by_callbacks(self, X, y, weights):
        """Return the arguments of callbacks, which include the weights unless all are 1."""
        metadata = None if (weights == 1.0).all() else {"sample_weight": weights}
        return {"estimator": self, "X": X, "y": y, "metadata": metadata}

    @plain_torch
    def _after_samples(self, state, X, y, weights, context):
        """Return the state after a task with validated samples."""
        start = perf_counter()
        positions, arrived = label_positions(y, state.arrived)
        n_tasks = len(state.after_task(state.model, arrived).task_classes)
        watcher = Epochs(self, context, f"task {n_tasks}")
        state = self._taught(state, X, positions, arrived, weights, watcher)
        return self._after_task(state, state.model, arrived, len(y), perf_counter() - start)

    def _after_task(self, state, model, arrived, n_samples, seconds):
        """Return the state after a task, and print a line if verbose."""
        n_known = 0 if state.arrived is None else len(state.arrived)
        state = state.after_task(model, arrived)
        if self.verbose:
            losses = model.loss_curve
            epochs = f"{len(losses)} epochs, loss {losses[-1]:.3g}, " if losses else ""
            print(
                f"[{type(self).__name__}] task {len(state.task_classes)}: {n_samples} samples, "
                f"{len(arrived) - n_known} new classes, {len(arrived)} known, {epochs}"
                f"{seconds:.2f} s"
            )
        return state

    def _most_epochs(self):
        """Return the largest number of epochs of a task."""
        raise NotImplementedError

    def _taught(self, state, X, positions, arrived, weights, watcher):
        """Return the state with the model after a task; start a new model if there is none.

        Samples have a position in `arrived`, which holds the labels seen by the end of the task.
        """
        raise NotImplementedError

    def _learned_state(self):
        """Return the learned state; callers read it once, because it may be replaced meanwhile."""
        state = self._state
        if state is None:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with "
                "appropriate arguments before using this estimator."
            )
        return state

    def _present_state(self):
        """Return the learned state under the present parameters; predictions read it once.

        Raise if a parameter is invalid, or shapes the state and has changed since.
        """
        state = self._learned_state()
        model = self._present_model(state)
        return state if model is state.model else replace(state, model=model)

    def _present_model(self, state):
        """Return the model of a state under the present parameters, see `_parameter_rules`."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self):
        """Whether anything has been learned."""
        return self._state is not None

    classes_ = learned_attribute(lambda state: state.classes)
    n_features_in_ = learned_attribute(lambda state: state.n_features_in)
    n_tasks_ = learned_attribute(lambda state: len(state.task_classes))
    task_classes_ = learned_attribute(lambda state: list(state.task_classes))
    n_parameters_ = learned_attribute(lambda state: state.model.n_weights)
    loss_curve_ = learned_attribute(lambda state: list(state.model.loss_curve))
    n_iter_ = learned_attribute(lambda state: len(state.model.loss_curve))

    @property
    def feature_names_in_(self):
        """Names of the features, if X had string column names."""
        names = self._learned_state().feature_names_in
        if names is None:
            raise AttributeError(f"This {type(self).__name__} has learned features without names.")
        return read_only(names)

    def _scores(self, state, X):
        """Return the scores of the known classes, in order of arrival."""
        return as_array(state.model.scores(self._samples(state, X)))

    def _most_likely(self, state, X, order):
        """Return the positions of the highest scores, the first in `order` of equal scores."""
        return order[self._scores(state, X)[:, order].argmax(axis=1)]

    def _samples(self, state, X):
        """Validate samples and return them in the form that the core takes."""
        checked = check_tensor(self, X, state) if isinstance(X, torch.Tensor) else None
        if checked is None:
            checked, _ = check_inputs(self, X, state=state)
        return samples_on(resolve_device(self.device), checked, state)

    def __sklearn_tags__(self):
        """Return scikit-learn's tags, which declare that sparse samples are accepted."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def decision_function(self, X):
        """Return the scores of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            One column per entry of `classes_`. The score of a class that was declared and never
            seen is finite and lower than all others of the sample: by the range of these, and by at
            least 36. For two classes, half the difference of their scores, which is positive if the
            second class is more likely.
        """
        state = self._present_state()
        scores = self._scores(state, X)
        if len(state.classes) == 2:
            # Differences are exact, so all samples have the same score if one class was seen.
            scores = scores - scores.min(axis=1, keepdims=True)
        scores = state.by_class(scores, unseen_scores(scores))
        if scores.shape[1] == 2:
            return 0.5 * (scores[:, 1] - scores[:, 0])
        return scores

    def predict(self, X):
        """Return the most likely label of each sample.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels that have been seen.
        """
        state = self._present_state()
        return state.arrived[self._most_likely(state, X, np.argsort(state.arrived))]

    def predict_proba(self, X):
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per entry of `classes_`, zero for a class that was declared and never
            seen. The label that `predict` returns has the largest probability.
        """
        state = self._present_state()
        probabilities = np.maximum(softmax(self._logits(state, X), axis=1), LEAST)
        return state.by_class(probabilities, 0.0)

    def predict_log_proba(self, X):
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per entry of `classes_`. All are finite: at least the logarithm of 1e-280,
            which is the value of a class that was declared and never seen.
        """
        state = self._present_state()
        # Computed from the scores, because logarithms of tiny probabilities lose digits.
        logarithms = np.maximum(log_softmax(self._logits(state, X), axis=1), np.log(LEAST))
        return state.by_class(logarithms, np.log(LEAST))

    def _logits(self, state, X):
        """Return scores of the known classes whose softmax is the probability of each."""
        return self._scores(state, X)
