"""An estimator that learns a stream in parts, with the time and the size after each part."""

import inspect
import pickle
import time
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d, indexable

from .._inputs.arrays import as_numpy, in_memory
from .._inputs.tasks import labels_of_samples

__all__ = ["StreamClassifier", "StreamLearner", "check_stream", "unknown_label_of"]


class StreamClassifier(Protocol):
    """Methods of an estimator that learns a stream; the names of the arguments are free."""

    def partial_fit(self, X: Any, y: Any, /) -> Any:
        """Learn samples."""

    def predict(self, X: Any, /) -> Any:
        """Return the labels of samples."""


def check_stream(X, y, X_name, y_name):
    """Return samples in a form whose rows can be selected, and their labels as an array."""
    samples = in_memory(X, X_name)
    labels = labels_of_samples(y, y_name)
    samples, labels = indexable(samples, labels)
    return samples, labels


class StreamLearner:
    """A clone of an estimator that declares the classes at the first call if this is necessary.

    Parameters
    ----------
    estimator : classifier with `partial_fit` and `predict`
        It is not changed.
    classes : ndarray
        Every label of the stream.
    declare_classes : bool
        Whether the first call gets them as ``classes=`` in any case.
    caller : str
        Name of the public function, for the note on an error.
    """

    def __init__(self, estimator, classes, declare_classes, caller):
        self.estimator = clone(estimator)
        self.classes = classes
        self.declare_classes = declare_classes
        self.caller = caller
        signature = inspect.signature(estimator.partial_fit)
        # An estimator around another passes further arguments on.
        passes_all = any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
        self.takes_classes = passes_all or "classes" in signature.parameters

    def learn(self, X, y, part, *, is_first):
        """Learn a part of the stream, such as "task 2 of 5"; return the seconds that it took."""
        if is_first:
            return self._learn_first(X, y)
        try:
            _, seconds = _timed(self.estimator.partial_fit, X, y)
        except Exception as error:
            if self.takes_classes and not self.declare_classes:
                error.add_note(
                    f"This was {part}. If the estimator fixes its classes at the first call, pass "
                    f"declare_classes=True to {self.caller}."
                )
            raise
        return seconds

    def _learn_first(self, X, y):
        """Learn the first part; declare the classes if the estimator requires them."""
        if not self.declare_classes:
            try:
                _, seconds = _timed(self.estimator.partial_fit, X, y)
                return seconds
            except Exception as error:
                if not self.takes_classes or "classes" not in str(error):
                    raise
            self.declare_classes = True
            self.estimator = clone(self.estimator)
        _, seconds = _timed(self.estimator.partial_fit, X, y, classes=self.classes)
        return seconds

    def predict(self, X):
        """Return the predicted labels, and the seconds that the prediction took."""
        predictions, seconds = _timed(self.estimator.predict, X)
        return column_or_1d(as_numpy(predictions, "predictions")), seconds

    def pickled_size(self):
        """Return the number of bytes of the pickled estimator, NaN if it cannot be pickled."""
        try:
            pickled = pickle.dumps(self.estimator, protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError):
            # For example a lambda among the parameters, which should not end a long run.
            return np.nan
        return len(pickled)


def unknown_label_of(estimator):
    """Return the label that an estimator, or one within it, predicts for unknown samples.

    None if there is no such label.
    """
    while estimator is not None:
        if hasattr(estimator, "unknown_label_"):
            return estimator.unknown_label_
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        else:
            estimator = getattr(estimator, "estimator_", None)
    return None


def _timed(function, *args, **kwargs):
    """Call a function; return its result, and the seconds that it took."""
    start = time.perf_counter()
    result = function(*args, **kwargs)
    seconds = time.perf_counter() - start
    return result, seconds
