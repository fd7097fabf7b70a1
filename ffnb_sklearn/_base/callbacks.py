"""Callbacks of scikit-learn; before version 1.9, stand-ins that do nothing."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from sklearn.base import BaseEstimator

from .._inputs.arrays import UserArray
from ..core.device import Array

__all__ = [
    "CallbackContext",
    "CallbackSupportMixin",
    "ReportedTask",
    "metadata_of",
    "sub_estimator_task",
    "with_callbacks",
]

_Method = TypeVar("_Method", bound=Callable[..., object])
_Losses = TypeVar("_Losses")

try:
    from sklearn.callback import CallbackContext, CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackContext:  # type: ignore[no-redef]  # a stand-in of the same name
        """Context of a task without callbacks, and of all its subtasks."""

        def subcontext(self, *args: object, **kwargs: object) -> "CallbackContext":
            """Return the context of a subtask."""
            return self

        def call_on_fit_task_begin(self, **kwargs: object) -> None:
            """Do nothing."""

        def call_on_fit_task_end(self, **kwargs: object) -> bool:
            """Return False: no callback ends learning."""
            return False

        def propagate_callback_context(
            self, sub_estimator: BaseEstimator
        ) -> AbstractContextManager[None]:
            """Return a context manager that does nothing."""
            return nullcontext()

    class CallbackSupportMixin:  # type: ignore[no-redef]  # a stand-in of the same name
        """Base of estimators, without `set_callbacks`."""

        def _init_callback_context(self, *args: object, **kwargs: object) -> CallbackContext:
            """Return the context of a call that learns."""
            return CallbackContext()

    def with_callbacks(method: _Method) -> _Method:
        """Return the method."""
        return method


class ReportedTask:
    """A task that an estimator learns, and reports to its callbacks.

    Parameters
    ----------
    context : CallbackContext
        Context of the task. The constructor calls the hooks for the beginning of the task.
    estimator : estimator instance
        Estimator that learns.
    X, y : array-like
        Samples and labels of the task.
    metadata : dict, default=None
        Further data of the task, such as sample weights.
    """

    def __init__(
        self,
        context: CallbackContext,
        estimator: BaseEstimator,
        X: UserArray,
        y: UserArray,
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        self._context = context
        self._arguments = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        context.call_on_fit_task_begin(**self._arguments)

    def end(self, attributes: Mapping[str, object] | None = None) -> bool:
        """Report the end of the task, and return whether a callback ends learning.

        With fitted attributes, callbacks get a fitted estimator.
        """
        is_last: bool = self._context.call_on_fit_task_end(
            **self._arguments, reconstruction_attributes=attributes
        )
        return is_last

    def epochs(self, epochs: Iterable[_Losses]) -> Iterator[_Losses]:
        """Yield the items of `epochs`, each reported as a subtask, until a callback ends them."""
        for losses in epochs:
            epoch = self._context.subcontext("epoch")
            epoch.call_on_fit_task_begin(**self._arguments)
            yield losses
            if epoch.call_on_fit_task_end(**self._arguments):
                return


def metadata_of(weights: Array, sample_weight: UserArray) -> dict[str, Array] | None:
    """Return validated weights as metadata of a task, or None without the user's weights."""
    if sample_weight is None:
        return None
    return {"sample_weight": weights}


@contextmanager
def sub_estimator_task(
    context: CallbackContext,
    task_name: str,
    estimator: BaseEstimator,
    sub_estimator: BaseEstimator,
    X: UserArray,
    y: UserArray,
) -> Iterator[None]:
    """Report the block in which a sub-estimator learns, and pass the callbacks on to it."""
    subcontext = context.subcontext(task_name)
    with subcontext.propagate_callback_context(sub_estimator):
        task = ReportedTask(subcontext, estimator, X, y)
        yield
        task.end()
