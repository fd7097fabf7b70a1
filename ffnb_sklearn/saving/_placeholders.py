"""Placeholders for the estimators of this package inside an estimator that is stored with skops."""

import io
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import BinaryIO, Self

from sklearn.base import BaseEstimator

from ._schema import ESTIMATORS

__all__ = ["PLACEHOLDER", "placeholders_become", "with_placeholders"]

# The name of the type in files. Do not move the class.
PLACEHOLDER = "ffnb_sklearn.saving._placeholders.Placeholder"

_CLASSES: set[type] = set()
for _estimator_class in ESTIMATORS.values():
    if _estimator_class.__module__.startswith("ffnb_sklearn."):
        _CLASSES.add(_estimator_class)

# The estimators that placeholders become while skops reads bytes in this thread.
_estimators: ContextVar[Sequence[BaseEstimator]] = ContextVar("_estimators")


class Placeholder:
    """An estimator by its number. skops stores the constructor, which returns the estimator."""

    number: int

    def __new__(cls, number: int) -> BaseEstimator:
        """Return the estimator that the placeholder becomes."""
        return _estimators.get()[number]

    @classmethod
    def of(cls, number: int) -> Self:
        """Return a placeholder, which no estimator replaces yet."""
        placeholder = super().__new__(cls)
        placeholder.number = number
        return placeholder

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return Placeholder, (self.number,)


@contextmanager
def placeholders_become(estimators: Sequence[BaseEstimator]) -> Iterator[None]:
    """Let the placeholders that skops reads become these estimators, by their numbers."""
    token = _estimators.set(estimators)
    try:
        yield
    finally:
        _estimators.reset(token)


def with_placeholders(estimator: BaseEstimator) -> tuple[BaseEstimator, list[BaseEstimator]]:
    """Return a copy of an estimator with placeholders, and the estimators that they stand for.

    The copy shares the memory of its arrays with the estimator.
    """
    # These bytes never leave the memory of this process. The module pickle replaces objects at any
    # depth, which `deepcopy` does not within masked arrays.
    file = io.BytesIO()
    buffers: list[pickle.PickleBuffer] = []
    pickler = _Pickler(file, buffers)
    pickler.dump(estimator)
    file.seek(0)
    substitute = _Unpickler(file, buffers=buffers).load()
    return substitute, pickler.estimators


class _Pickler(pickle.Pickler):
    """Collects the outermost estimators of this package, and writes their numbers."""

    def __init__(self, file: BinaryIO, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)
        self.estimators: list[BaseEstimator] = []
        self._numbers: dict[int, int] = {}

    def persistent_id(self, value: object) -> int | None:
        """Return the number of an estimator of this package, None for other objects."""
        if type(value) not in _CLASSES:
            return None
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.estimators)
            self.estimators.append(value)
        return self._numbers[id(value)]


class _Unpickler(pickle.Unpickler):
    """Reads numbers of estimators as placeholders."""

    def persistent_load(self, number: int) -> Placeholder:
        """Return the placeholder of a number."""
        return Placeholder.of(number)
