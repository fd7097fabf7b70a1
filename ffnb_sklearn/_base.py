"""What every class-incremental classifier here shares: labels, transactions, predictions."""

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ._targets import label_positions
from ._validation import check_inputs, check_samples
from .core.device import as_array, as_tensor, resolve_device
from .core.model import Task
from .streams import class_incremental_tasks

__all__ = ["ClassIncrementalClassifier"]

# What is learnt besides the public attributes.
_PRIVATE_STATE = ("_model", "_arrived")


class ClassIncrementalClassifier(ClassifierMixin, BaseEstimator):
    """Base of classifiers that learn classes as they come.

    They keep `_model`, which scores samples by class in the order of arrival, and `_arrived`, the
    labels in that order. The model is replaced, never changed, so a call that fails leaves the
    old one in place. Subclasses say how it takes in a task (`_updated`) and what of it is
    public (`_describe`).
    """

    def _learn(self, X, y, *, classes=None, sample_weight=None, reset, classes_per_task=None):
        """Validate the samples, learn them task by task, and keep the result if all went well."""
        if not reset:
            # scikit-learn checks the parameters of the first call only.
            self._validate_params()
        before = vars(self).copy()
        try:
            if reset:
                self._start()
            X, y, classes, weights = check_samples(
                self, X, y, classes=classes, sample_weight=sample_weight, reset=reset
            )
            tasks = [slice(None)]
            if classes_per_task is not None:
                tasks = class_incremental_tasks(y, classes_per_task=classes_per_task)
            for task in tasks:
                self._learn_task(X[task], y[task], weights[task])
            self._describe()
            if classes is not None and len(classes):
                self.classes_ = np.union1d(self.classes_, classes)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _start(self):
        """Forget everything that was learnt."""
        learnt = [name for name in vars(self) if name.endswith("_") or name in _PRIVATE_STATE]
        for name in learnt:
            delattr(self, name)

    def _learn_task(self, X, y, weights):
        """Learn samples that are valid."""
        device = resolve_device(self.device)
        arrived = getattr(self, "_arrived", None)
        positions, now = label_positions(y, arrived)
        new = now[0 if arrived is None else len(arrived) :]
        task = Task(
            as_tensor(X, device=device, dtype=_tensor_type(X)),
            as_tensor(positions, device=device, dtype=torch.int64),
            as_tensor(weights, device=device),
        )
        model = getattr(self, "_model", None)
        self._model, self._arrived = self._updated(model, task), now
        self.task_classes_ = getattr(self, "task_classes_", []) + ([new] if len(new) else [])
        if self.verbose:
            print(
                f"[{type(self).__name__}] task {len(self.task_classes_)}: {len(X)} samples, "
                f"{len(new)} new classes, {len(now)} known"
            )

    def _updated(self, model, task):
        """The model after a task: of a new one if it is None."""
        raise NotImplementedError

    def _describe(self):
        """Set the public attributes from the model and the labels in order of arrival."""
        declared = getattr(self, "classes_", self._arrived[:0])
        self.classes_ = np.union1d(declared, self._arrived)
        self.n_tasks_ = len(self.task_classes_)
        self.n_parameters_ = self._model.n_weights
        self.loss_curve_ = list(self._model.loss_curve)
        self.n_iter_ = len(self.loss_curve_)

    def __sklearn_is_fitted__(self):
        """Whether anything has been learnt."""
        return hasattr(self, "_model")

    def _scores(self, X):
        """Scores of the known classes, in order of arrival."""
        check_is_fitted(self)
        X = check_inputs(self, X)
        device = resolve_device(self.device)
        return as_array(self._model.scores(as_tensor(X, device=device, dtype=_tensor_type(X))))

    def _columns(self):
        """Column in `classes_` of each known class, in order of arrival."""
        return np.searchsorted(self.classes_, self._arrived)

    def decision_function(self, X):
        """Scores of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples,)
            One column per entry of `classes_`, minus infinity for a class that was declared
            and never seen. For two classes, half the difference of their scores: positive
            values speak for the second.
        """
        scores = self._scores(X)
        full = np.full((len(scores), len(self.classes_)), -np.inf)
        full[:, self._columns()] = scores
        if full.shape[1] == 2:
            return 0.5 * (full[:, 1] - full[:, 0])
        return full

    def predict(self, X):
        """Most likely label of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels that have been seen.
        """
        scores = self._scores(X)
        order = np.argsort(self._arrived)
        return self._arrived[order][scores[:, order].argmax(axis=1)]

    def predict_proba(self, X):
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            One column per entry of `classes_`, zero for a class that was declared and never
            seen. The largest is that of the label which `predict` gives.
        """
        scores = self._scores(X)
        full = np.zeros((len(scores), len(self.classes_)))
        full[:, self._columns()] = self._probabilities(scores)
        return full

    def _probabilities(self, scores):
        """Probabilities of the known classes from their scores: the softmax of these."""
        return softmax(scores, axis=1)


def _tensor_type(X):
    """Type of the samples, which are made float64 some at a time."""
    return torch.float32 if X.dtype == np.float32 else torch.float64
