"""Callbacks of scikit-learn: its own since version 1.9, and stand-ins that do nothing before."""

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
        """A task, and each of its subtasks, without callbacks."""

        def subcontext(self, *args, **kwargs):
            """Return the context of a subtask."""
            return self

        def call_on_fit_task_begin(self, **kwargs):
            """Do nothing."""

        def call_on_fit_task_end(self, **kwargs):
            """Return that learning goes on."""
            return False

        def propagate_callback_context(self, sub_estimator):
            """Return a context in which the sub-estimator has no callbacks either."""
            return nullcontext()

    class CallbackSupportMixin:
        """Base of estimators that would call callbacks."""

        def _init_callback_context(self, *args, **kwargs):
            """Return the context of a call that learns."""
            return _NoCallbacks()

    def with_callbacks(method):
        """Return the method."""
        return method


class ReportedTask:
    """A task of a call that learns, with the hooks of the callbacks of an estimator.

    Parameters
    ----------
    context : CallbackContext
        Context of the task. The hooks of its beginning are called now.
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
        """End the task, with fitted attributes if callbacks may use the estimator.

        Return whether a callback ends learning.
        """
        return self._context.call_on_fit_task_end(
            **self._arguments, reconstruction_attributes=attributes
        )

    def epochs(self, epochs):
        """Yield the epochs of a training as subtasks, until they or a callback end it."""
        for number in epochs:
            epoch = self._context.subcontext("epoch")
            epoch.call_on_fit_task_begin(**self._arguments)
            yield number
            if epoch.call_on_fit_task_end(**self._arguments):
                return


def metadata_of(weights, sample_weight):
    """Return the weights as metadata of a task; None if the user gave no `sample_weight`."""
    if sample_weight is None:
        return None
    return {"sample_weight": weights}


@contextmanager
def sub_estimator_task(context, task_name, estimator, sub_estimator, X, y):
    """Let a sub-estimator learn within a block, as a subtask with the callbacks of an estimator."""
    task = context.subcontext(task_name)
    with task.propagate_callback_context(sub_estimator):
        task.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        yield
        task.call_on_fit_task_end(estimator=estimator, X=X, y=y)
