"""Curves of the accuracy over all classes learned so far."""

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from ..metrics import _check_fractions
from ..streams import StreamResult, evaluate_stream

# Okabe and Ito's colours, told apart by most colour-blind readers; each with a marker of its own.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_MOST_TICKS = 12


class IncrementalAccuracyDisplay:
    """Accuracy over all classes learned so far, as the classes arrive.

    One curve per estimator. The legend gives both numbers that papers quote: the mean of the curve
    (average incremental accuracy) and its end (the accuracy after the last task).

    It is recommended to use :meth:`from_estimator` or :meth:`from_stream`. A further call with
    ``ax=display.ax_`` adds its curve to the same axes.

    Parameters
    ----------
    n_classes : list of array-like of shape (n_tasks,)
        For each curve, the number of classes learned after each task.

    accuracies : list of array-like of shape (n_tasks,)
        For each curve, the accuracies in [0, 1] after each task.

    names : list of str
        The name of each curve.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The curves.

    ax_ : matplotlib Axes
        Axes with the curves.

    figure_ : matplotlib Figure
        Figure containing the curves.

    See Also
    --------
    AccuracyMatrixDisplay : Which task loses how much.
    evaluate_stream : Measures the accuracies.

    Examples
    --------
    >>> from ffnb_sklearn.displays import IncrementalAccuracyDisplay
    >>> display = IncrementalAccuracyDisplay(
    ...     n_classes=[[2, 4]], accuracies=[[1.0, 0.9]], names=["mine"]
    ... ).plot()
    >>> display.lines_[0].get_label()
    'mine (average 95.0%, last 90.0%)'
    """

    def __init__(self, *, n_classes, accuracies, names):
        self.n_classes = n_classes
        self.accuracies = accuracies
        self.names = names

    def plot(self, *, ax=None, **line_kw):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; curves already there keep their colours. None: a new figure.

        **line_kw : dict
            More arguments of ``matplotlib.pyplot.plot``, for every curve.

        Returns
        -------
        display : IncrementalAccuracyDisplay
            This object, with `ax_`, `figure_` and `lines_` set.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there is no curve, the numbers of curves or of tasks differ, or a value is no
            accuracy in [0, 1].
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        curves = self._check_curves()
        import matplotlib.pyplot as plt
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        line_kw = normalize_kwargs(line_kw, Line2D)
        if ax is None:
            _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")

        self.lines_ = []
        for k, (n_classes, accuracies, name) in enumerate(curves, start=len(_curves(ax))):
            mean, last = 100 * accuracies.mean(), 100 * accuracies[-1]
            style = {
                "color": _COLORS[k % len(_COLORS)],
                "marker": _MARKERS[k % len(_MARKERS)],
                "markersize": 6.5,
                "markeredgecolor": "white",
                "markeredgewidth": 0.7,
                "linewidth": 1.8,
                "clip_on": False,
                "label": f"{name} (average {mean:.1f}%, last {last:.1f}%)",
            }
            self.lines_ += ax.plot(n_classes, accuracies, **{**style, **line_kw})
        self.ax_, self.figure_ = ax, ax.figure
        _decorate(ax)
        return self

    @classmethod
    def from_stream(cls, results, *, name=None, ax=None, **line_kw):
        """Draw the curves of finished runs.

        Parameters
        ----------
        results : StreamResult or dict of str to StreamResult
            One run, or several by name.

        name : str, default=None
            Name of a single run. None: the class of its estimator.

        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.

        **line_kw : dict
            More arguments of ``matplotlib.pyplot.plot``, for every curve.

        Returns
        -------
        display : IncrementalAccuracyDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_stream")
        if isinstance(results, StreamResult):
            results = {name or type(results.estimator).__name__: results}
        display = cls(
            n_classes=[np.cumsum([len(t) for t in r.task_classes]) for r in results.values()],
            accuracies=[r.accuracies for r in results.values()],
            names=list(results),
        )
        return display.plot(ax=ax, **line_kw)

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
        name=None,
        ax=None,
        **line_kw,
    ):
        """Stream the tasks through a clone of the estimator and draw its curve.

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

        declare_classes : bool or "auto", default="auto"
            See :func:`evaluate_stream`.

        name : str, default=None
            Name of the curve. None: the class of the estimator.

        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.

        **line_kw : dict
            More arguments of ``matplotlib.pyplot.plot``.

        Returns
        -------
        display : IncrementalAccuracyDisplay
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
        )
        return cls.from_stream(result, name=name, ax=ax, **line_kw)

    def _check_curves(self):
        """Return the curves as (numbers of classes, accuracies, name)."""
        columns = self.n_classes, self.accuracies, self.names
        if len(set(map(len, columns))) != 1:
            raise ValueError(
                "n_classes, accuracies and names must hold one entry per curve; got "
                f"{len(self.n_classes)}, {len(self.accuracies)} and {len(self.names)}."
            )
        if not len(self.names):
            raise ValueError("names must hold the name of one curve at least; got none.")
        curves = []
        for n_classes, accuracies, name in zip(*columns, strict=True):
            n_classes, accuracies = np.asarray(n_classes), np.asarray(accuracies, dtype=float)
            if n_classes.ndim != 1 or n_classes.shape != accuracies.shape or not n_classes.size:
                raise ValueError(
                    f"curve {name!r} needs one number of classes and one accuracy per task; got "
                    f"shapes {n_classes.shape} and {accuracies.shape}."
                )
            if np.isnan(accuracies).any():
                raise ValueError(
                    f"accuracies must be known after every task; got NaN in curve {name!r}, after "
                    f"task {int(np.flatnonzero(np.isnan(accuracies))[0])}."
                )
            _check_fractions(accuracies, "accuracies")
            curves.append((n_classes, accuracies, name))
        return curves


def _curves(ax):
    """Return the curves of the axes, without the level lines a user may have drawn."""
    return [line for line in ax.get_lines() if line.get_transform() == ax.transData]


def _decorate(ax):
    """Name the axes, in percent, and keep the frame out of the way of the curves."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    lines = _curves(ax)
    steps = np.unique(np.concatenate([line.get_xdata() for line in lines]))
    if len(steps) <= _MOST_TICKS:
        ax.set_xticks(steps)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(nbins=_MOST_TICKS, integer=True))
    lowest = min(np.min(line.get_ydata()) for line in lines)
    bottom = max(0.0, lowest - max(0.08 * (1.0 - lowest), 0.01))
    ax.set_ylim(bottom, 1.0)
    # Without steps of 2.5, a wide axis needs no decimal places.
    ax.yaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=int(bottom > 0.95)))
    ax.set(xlabel="Classes learned", ylabel="Accuracy over all classes learned")
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
