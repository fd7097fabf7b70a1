"""An estimator that learns a stream part by part, with the time and the size of each part."""

import inspect
import pickle
import time

import numpy as np
from sklearn.base import clone

__all__ = ["StreamLearner", "timed"]


class StreamLearner:
    """A clone of an estimator that declares its classes at the first call if it has to.

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
        self.takes_classes = "classes" in inspect.signature(estimator.partial_fit).parameters

    def learn_first(self, X, y):
        """Learn the first part of the stream; return the seconds that it took."""
        if not self.declare_classes:
            try:
                return timed(self.estimator.partial_fit, X, y)[1]
            except Exception as error:
                if not self.takes_classes or "classes" not in str(error):
                    raise
            self.declare_classes = True
            self.estimator = clone(self.estimator)
        return timed(self.estimator.partial_fit, X, y, classes=self.classes)[1]

    def learn(self, X, y, part):
        """Learn a later part, such as "task 2 of 5"; return the seconds that it took."""
        try:
            return timed(self.estimator.partial_fit, X, y)[1]
        except Exception as error:
            if self.takes_classes and not self.declare_classes:
                error.add_note(
                    f"This was {part}. If the estimator fixes its classes at the first call, pass "
                    f"declare_classes=True to {self.caller}."
                )
            raise

    def pickled_size(self):
        """Return the number of bytes of the pickled estimator, NaN if it cannot be pickled."""
        try:
            return len(pickle.dumps(self.estimator, protocol=pickle.HIGHEST_PROTOCOL))
        except (pickle.PicklingError, AttributeError, TypeError):
            # For example a lambda among the parameters, which should not end a long run.
            return np.nan


def timed(call, *args, **kwargs):
    """Make a call; return its result, and the seconds that it took."""
    start = time.perf_counter()
    result = call(*args, **kwargs)
    return result, time.perf_counter() - start
