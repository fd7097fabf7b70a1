"""What every class-incremental estimator here shares: learning as a transaction, and predicting."""

import numpy as np
import torch
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ._probabilities import vote_probabilities
from ._targets import label_positions
from ._validation import check_continuation, check_magnitude, check_samples, check_settings
from .core.device import as_array, as_tensor, resolve_device
from .core.learning import learn
from .core.model import Task, empty_model
from .core.view import classifier_columns
from .streams import class_incremental_tasks

__all__ = ["ClassIncrementalClassifier"]

# What is learnt besides the public attributes.
_PRIVATE_STATE = ("_model", "_arrived")


class ClassIncrementalClassifier(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator
):
    """Base of classifiers that keep a `ffnb_sklearn.core.model.Model`.

    Subclasses declare the parameters that `check_settings` reads, and the methods that learn.
    The model is replaced, never changed, so a call that fails leaves the old one in place.
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
                # Nobody asks the classifier between the tasks of one call: one solution will do.
                self._learn_task(X[task], y[task], weights[task], solved=task is tasks[-1])
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

    def _learn_task(self, X, y, weights, *, solved):
        """Learn samples that are valid."""
        device = resolve_device(self.device)
        settings = check_settings(self, X.shape[1])
        model = getattr(self, "_model", None)
        if model is not None:
            check_continuation(model.settings, settings)
        else:
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            model = empty_model(X.shape[1], settings, int(seed))
        arrived = getattr(self, "_arrived", None)
        positions, now = label_positions(y, arrived)
        new = now[0 if arrived is None else len(arrived) :]
        task = Task(
            as_tensor(X, device=device),
            as_tensor(positions, device=device, dtype=torch.int64),
            as_tensor(weights, device=device),
        )
        self._model, self._arrived = learn(model, task, settings, solved=solved), now
        self.task_classes_ = getattr(self, "task_classes_", []) + ([new] if len(new) else [])
        if self.verbose:
            print(
                f"[FFNBClassifier] task {len(self.task_classes_)}: {len(X)} samples, "
                f"{len(new)} new classes, {len(now)} known"
            )

    def _describe(self):
        """Set the public attributes from the model and the labels in order of arrival."""
        declared = getattr(self, "classes_", self._arrived[:0])
        self.classes_ = np.union1d(declared, self._arrived)
        self.n_tasks_ = len(self.task_classes_)
        self.null_space_dims_ = list(self._model.null_space_dims)
        self.n_parameters_ = self._model.features.n_weights + self._model.classifier.n_weights
        self.n_iter_, self.loss_curve_ = 0, []

    def __sklearn_is_fitted__(self):
        """Whether anything has been learnt."""
        return hasattr(self, "_model")

    def _scores(self, X):
        """Scores of the known classes, in order of arrival."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        check_magnitude(X)
        device = resolve_device(self.device)
        return as_array(self._model.scores(as_tensor(X, device=device)))

    def _columns(self):
        """Column in `classes_` of each known class, in order of arrival."""
        return np.searchsorted(self.classes_, self._arrived)

    def decision_function(self, X):
        """Scores of the classes.

        With ``classifier="ovo"`` the score of a class is the sum of its pair outputs, each in
        (-1, 1), so it lies between 1 - C and C - 1 for C classes seen.

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
        pairwise = self._model.settings.classifier == "ovo"
        full = np.zeros((len(scores), len(self.classes_)))
        full[:, self._columns()] = vote_probabilities(scores, pairwise=pairwise)
        return full

    def transform(self, X):
        """The feature map that the classifier sees.

        Columns that exist never change: a new task appends its bands behind them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features_out)
            Inputs where ``skip_connection=True``, shared band, last layer of trained bands.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, order="C", reset=False)
        check_magnitude(X)
        return as_array(self._model.view(as_tensor(X, device=resolve_device(self.device))))

    @property
    def _n_features_out(self):
        """Number of columns of `transform`."""
        return len(classifier_columns(self._model.features, self._model.settings.skip_connection))
