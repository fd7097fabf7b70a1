"""Callbacks of scikit-learn; before version 1.9, stand-ins that do nothing."""

from contextlib import contextmanager, nullcontext

__all__ = [
    "CallbackSupportMixin",
    "ReportedTask",
    "metadata_of",
    "sub_estimator_task",
    "with_callbacks",
]

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class _NoCallbacks:
        """Context of a task without callbacks, and of all its subtasks."""

        def subcontext(self, *args, **kwargs):
            """Return the context of a subtask."""
            return self

        def call_on_fit_task_begin(self, **kwargs):
            """Do nothing."""

        def call_on_fit_task_end(self, **kwargs):
            """Return False: no callback ends learning."""
            return False

        def propagate_callback_context(self, sub_estimator):
            """Return a context manager that does nothing."""
            return nullcontext()

    class CallbackSupportMixin:
        """Base of estimators, without `set_callbacks`."""

        def _init_callback_context(self, *args, **kwargs):
            """Return the context of a call that learns."""
            return _NoCallbacks()

    def with_callbacks(method):
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

    def __init__(self, context, estimator, X, y, metadata=None):
        self._context = context
        self._arguments = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
        context.call_on_fit_task_begin(**self._arguments)

    def end(self, attributes=None):
        """Report the end of the task, and return whether a callback ends learning.

        With fitted attributes, callbacks get a fitted estimator.
        """
        return self._context.call_on_fit_task_end(
            **self._arguments, reconstruction_attributes=attributes
        )

    def epochs(self, epochs):
        """Yield the items of `epochs`, each reported as a subtask, until a callback ends them."""
        for losses in epochs:
            epoch = self._context.subcontext("epoch")
            epoch.call_on_fit_task_begin(**self._arguments)
            yield losses
            if epoch.call_on_fit_task_end(**self._arguments):
                return


def metadata_of(weights, sample_weight):
    """Return validated weights as metadata of a task, or None without the user's weights."""
    if sample_weight is None:
        return None
    return {"sample_weight": weights}


@contextmanager
def sub_estimator_task(context, task_name, estimator, sub_estimator, X, y):
    """Report the block in which a sub-estimator learns, and pass the callbacks on to it."""
    subcontext = context.subcontext(task_name)
    with subcontext.propagate_callback_context(sub_estimator):
        task = ReportedTask(subcontext, estimator, X, y)
        yield
        task.end()
