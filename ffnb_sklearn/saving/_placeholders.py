"""Placeholders for the estimators of this package inside an estimator that is stored with skops."""

import io
import pickle
from contextlib import contextmanager
from contextvars import ContextVar

from ._schema import ESTIMATORS

__all__ = ["PLACEHOLDER", "placeholders_become", "with_placeholders"]

# The name of the type in files. Do not move the class.
PLACEHOLDER = "ffnb_sklearn.saving._placeholders.Placeholder"

_CLASSES = set()
for _estimator_class in ESTIMATORS.values():
    if _estimator_class.__module__.startswith("ffnb_sklearn."):
        _CLASSES.add(_estimator_class)

# The estimators that placeholders become while skops reads bytes in this thread.
_estimators = ContextVar("_estimators")


class Placeholder:
    """An estimator by its number. skops stores the constructor, which returns the estimator."""

    def __new__(cls, number):
        """Return the estimator that the placeholder becomes."""
        return _estimators.get()[number]

    @classmethod
    def of(cls, number):
        """Return a placeholder, which no estimator replaces yet."""
        placeholder = super().__new__(cls)
        placeholder.number = number
        return placeholder

    def __reduce__(self):
        return Placeholder, (self.number,)


@contextmanager
def placeholders_become(estimators):
    """Let the placeholders that skops reads become these estimators, by their numbers."""
    token = _estimators.set(estimators)
    try:
        yield
    finally:
        _estimators.reset(token)


def with_placeholders(estimator):
    """Return a copy of an estimator with placeholders, and the estimators that they stand for.

    The copy shares the memory of its arrays with the estimator.
    """
    # These bytes never leave the memory of this process. The module pickle replaces objects at any
    # depth, which `deepcopy` does not within masked arrays.
    file = io.BytesIO()
    buffers = []
    pickler = _Pickler(file, buffers)
    pickler.dump(estimator)
    file.seek(0)
    substitute = _Unpickler(file, buffers=buffers).load()
    return substitute, pickler.estimators


class _Pickler(pickle.Pickler):
    """Collects the outermost estimators of this package, and writes their numbers."""

    def __init__(self, file, buffers):
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self.estimators = []
        self._numbers = {}

    def persistent_id(self, value):
        """Return the number of an estimator of this package, None for other objects."""
        if type(value) not in _CLASSES:
            return None
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.estimators)
            self.estimators.append(value)
        return self._numbers[id(value)]


class _Unpickler(pickle.Unpickler):
    """Reads numbers of estimators as placeholders."""

    def persistent_load(self, number):
        """Return the placeholder of a number."""
        return Placeholder.of(number)
