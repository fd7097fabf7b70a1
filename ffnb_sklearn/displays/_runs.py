"""Prepare finished runs for the displays: a single run, or several runs with different seeds."""

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from ..streams._streams import StreamResult, evaluate_stream

__all__ = ["StreamDisplay", "as_runs", "check_axes", "curve_of", "single_classes"]


class StreamDisplay:
    """Base class of displays that have a method `from_stream`."""

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        X_test,
        y_test,
        *,
        classes_per_task=1,
        first_task_classes=None,
        class_order=None,
        random_state=None,
        declare_classes="auto",
        score_future=False,
        **display_kw,
    ):
        """Stream the tasks through a clone of the estimator and draw the results.

        Parameters
        ----------
        estimator : classifier with `partial_fit` and `predict`
            A clone of it learns the stream.
        X, y : training samples and labels
            See :func:`evaluate_stream`.
        X_test, y_test : test samples and labels
            See :func:`evaluate_stream`.
        classes_per_task, first_task_classes, class_order, random_state : stream parameters
            See :func:`evaluate_stream`.
        declare_classes, score_future : evaluation parameters
            See :func:`evaluate_stream`.
        **display_kw : dict
            Additional arguments of :meth:`from_stream`, such as `ax`.

        Returns
        -------
        display : instance of this class
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        result = evaluate_stream(
            estimator,
            X,
            y,
            X_test,
            y_test,
            classes_per_task=classes_per_task,
            first_task_classes=first_task_classes,
            class_order=class_order,
            random_state=random_state,
            declare_classes=declare_classes,
            score_future=score_future,
        )
        return cls.from_stream(result, **display_kw)


def check_axes(ax):
    """Raise unless axes are a single matplotlib Axes, or None for a new figure."""
    from matplotlib.axes import Axes

    if ax is None or isinstance(ax, Axes):
        return
    several = f" of shape {ax.shape}; pass one of its entries" if hasattr(ax, "shape") else ""
    raise TypeError(
        f"ax must be a matplotlib Axes or None; got an instance of {type(ax).__name__}{several}."
    )


def as_runs(runs, name=None, argument="results"):
    """Return one run, or several runs, as a list that is not empty."""
    runs = list(runs) if np.iterable(runs) and not isinstance(runs, str) else [runs]
    strange = {type(run).__name__ for run in runs if not isinstance(run, StreamResult)}
    if strange:
        raise TypeError(
            f"{argument} must be a StreamResult or a list of these, as evaluate_stream returns "
            f"them; got {', '.join(sorted(strange))}."
        )
    if not runs:
        of_curve = "" if name is None else f" for curve {name!r}"
        raise ValueError(f"{argument} must hold one run at least{of_curve}; got none.")
    return runs


def curve_of(runs, name):
    """Return the numbers of classes, the accuracies and the spread of one run or several runs."""
    runs = as_runs(runs, name)
    sizes = [np.cumsum([len(labels) for labels in run.task_classes]) for run in runs]
    if any(not np.array_equal(one, sizes[0]) for one in sizes):
        raise ValueError(
            f"the runs of curve {name!r} must have as many classes after each task; got "
            f"{[one.tolist() for one in sizes]}."
        )
    accuracies = np.stack([run.accuracies for run in runs])
    return sizes[0], accuracies.mean(axis=0), accuracies.std(axis=0) if len(runs) > 1 else None


def single_classes(runs):
    """Return the label of each task, in order of arrival, or None.

    The result is None unless each task has a single class, and all runs have the same order of
    classes.
    """
    orders = {
        tuple(labels.tolist()[0] for labels in run.task_classes if len(labels) == 1) for run in runs
    }
    n_tasks = {len(run.task_classes) for run in runs}
    if len(orders) != 1 or n_tasks != {len(order) for order in orders}:
        return None
    return list(orders.pop())
