"""Base of the displays of finished runs: one run, or several runs with different seeds."""

from inspect import signature

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from ..streams import StreamResult, evaluate_stream

__all__ = ["StreamDisplay", "as_runs", "check_axes"]


class StreamDisplay:
    """Base class of displays that have a method `from_stream`."""

    @classmethod
    def from_estimator(cls, estimator, X, y, X_test, y_test, **options):
        """Stream the tasks through a clone of the estimator and draw the results.

        Parameters
        ----------
        estimator : classifier with `partial_fit` and `predict`
            A clone of it learns the stream.
        X, y : training samples and labels
            See :func:`evaluate_stream`.
        X_test, y_test : test samples and labels
            See :func:`evaluate_stream`.
        **options : dict
            Additional arguments of :func:`evaluate_stream`, such as `classes_per_task`, and of
            :meth:`from_stream`, such as `ax`.

        Returns
        -------
        display : instance of this class
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        stream_kw = {
            k: options.pop(k) for k in signature(evaluate_stream).parameters & options.keys()
        }
        result = evaluate_stream(estimator, X, y, X_test, y_test, **stream_kw)
        return cls.from_stream(result, **options)


def check_axes(ax):
    """Raise unless axes are a single matplotlib Axes, or None for a new figure."""
    from matplotlib.axes import Axes

    if ax is not None and not isinstance(ax, Axes):
        several = f" of shape {ax.shape}; pass one of its entries" if hasattr(ax, "shape") else ""
        raise TypeError(
            f"ax must be a matplotlib Axes or None; got a {type(ax).__name__}{several}."
        )


def as_runs(runs, argument):
    """Return one run, or several runs, as a list that is not empty."""
    runs = list(runs) if np.iterable(runs) and not isinstance(runs, str) else [runs]
    strange = {type(run).__name__ for run in runs if not isinstance(run, StreamResult)}
    if strange:
        raise TypeError(
            f"{argument} must be a StreamResult or a list of these, as evaluate_stream returns "
            f"them; got {', '.join(sorted(strange))}."
        )
    if not runs:
        raise ValueError(f"{argument} must hold one run at least; got none.")
    return runs
