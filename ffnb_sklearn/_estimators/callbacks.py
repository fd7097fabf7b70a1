"""Callbacks of scikit-learn 1.9 and later; tasks and epochs are subtasks of a learning call."""

from contextlib import nullcontext
from time import perf_counter

from ..core.tuning.descent import EpochWatcher

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:
        """Stand-in for older versions of scikit-learn, which have no callbacks."""

    def with_callbacks(method):
        """Return the method unchanged."""
        return method


__all__ = [
    "CALLBACK_ATTRIBUTES",
    "CallbackSupportMixin",
    "Epochs",
    "callback_context",
    "with_callbacks",
]

# Attributes in which scikit-learn stores callbacks; all but the first exist only during a call.
CALLBACK_ATTRIBUTES = {
    "_skl_callbacks",
    "_skl_callbacks_to_teardown",
    "_callback_fit_ctx",
    "_parent_callback_ctx",
}


class _NoCallbacks:
    """Context of estimators without callbacks: its methods have no effect."""

    def subcontext(self, **task):
        """Return the context of a subtask."""
        return self

    def call_on_fit_task_begin(self, **seen):
        """Call no callback."""

    def call_on_fit_task_end(self, **seen):
        """Call no callback; return False, so that the iteration continues."""
        return False

    def propagate_callback_context(self, estimator):
        """Pass no callbacks to a step."""
        return nullcontext()


def callback_context(estimator, task_name, max_subtasks):
    """Begin the bookkeeping of callbacks, which `with_callbacks` or `_fit_context` ends."""
    if not hasattr(estimator, "_skl_callbacks"):
        return _NoCallbacks()
    return estimator._init_callback_context(task_name=task_name, max_subtasks=max_subtasks)


class Epochs(EpochWatcher):
    """Report the epochs of a task to callbacks, and print them if `verbose` is 2 or more."""

    def __init__(self, estimator, context, label):
        self._estimator, self._task = estimator, context
        self._label = label if estimator.verbose >= 2 else None
        self._n_epochs = 0

    def begin(self):
        """Begin the next epoch."""
        self._n_epochs += 1
        self._start = perf_counter()
        self._context = self._task.subcontext(task_name="epoch")
        self._context.call_on_fit_task_begin(estimator=self._estimator)

    def end(self, loss):
        """End the epoch; return whether a callback asks to stop."""
        if self._label is not None:
            seconds = perf_counter() - self._start
            print(
                f"[{type(self._estimator).__name__}] {self._label}, epoch {self._n_epochs}: "
                f"loss {loss:.3g}, {seconds:.2f} s"
            )
        return self._context.call_on_fit_task_end(estimator=self._estimator)
