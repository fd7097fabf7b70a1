"""Finished runs as the displays read them: one, or several of different seeds."""

import numpy as np

from ..streams import StreamResult

__all__ = ["as_runs", "curve_of", "single_classes"]


def as_runs(runs, name=None, argument="results"):
    """Return one run, or several, as a list that is not empty."""
    runs = [runs] if isinstance(runs, StreamResult) else list(runs)
    if not runs:
        of_curve = "" if name is None else f" for curve {name!r}"
        raise ValueError(f"{argument} must hold one run at least{of_curve}; got none.")
    return runs


def curve_of(runs, name):
    """Return the numbers of classes, accuracies and spread of one run, or of several."""
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
    """Return the label of each task, if each has a single class and all runs have the same.

    Parameters
    ----------
    runs : list of StreamResult
        Runs of one stream.

    Returns
    -------
    list or None
        The labels, in order of arrival.
    """
    orders = {
        tuple(labels.tolist()[0] for labels in run.task_classes if len(labels) == 1) for run in runs
    }
    n_tasks = {len(run.task_classes) for run in runs}
    if len(orders) != 1 or n_tasks != {len(order) for order in orders}:
        return None
    return list(orders.pop())
