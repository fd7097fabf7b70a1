"""A callback of scikit-learn that records the hooks that estimators call."""

from importlib.util import find_spec

import pytest

needs_callbacks = pytest.mark.skipif(
    find_spec("sklearn.callback") is None, reason="needs scikit-learn 1.9"
)


class PlainRecorder:
    """Callback that records the path of each task, and fails or stops where it is told to.

    Parameters
    ----------
    fails_at : tuple of str, default=()
        Hook and name of the task at which it raises, such as ("end", "epoch").
    stops_at : str, default=""
        Name of the task after which learning ends.
    """

    def __init__(self, fails_at=(), stops_at=""):
        self.fails_at = fails_at
        self.stops_at = stops_at
        self.begun = []
        self.ended = []
        self.open = 0

    def _check(self, hook, name):
        if (hook, name) == self.fails_at:
            raise RuntimeError("told to fail")

    def setup(self, estimator, context):
        self.open += 1
        self._check("setup", context.task_name)

    def teardown(self, estimator, context):
        self.open -= 1
        self._check("teardown", context.task_name)

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        self.begun.append(path(context))
        self._check("begin", context.task_name)

    def on_fit_task_end(
        self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None
    ):
        self.ended.append((path(context), X, y, metadata, fitted_estimator))
        self._check("end", context.task_name)
        return context.task_name == self.stops_at


class Recorder(PlainRecorder):
    """Recorder that meta-estimators pass on at any depth."""

    max_propagation_depth = None


def path(context):
    """Return names and numbers of the tasks from the root to a task, such as "fit 0/task 1"."""
    step = f"{context.task_name} {context.task_id}"
    if context.parent is None:
        return step
    return f"{path(context.parent)}/{step}"
