"""Curves of the accuracy over all classes learned so far."""

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from ..metrics import _check_fractions
from ._runs import StreamDisplay, as_runs, check_axes

# Okabe and Ito's colours, which most colour-blind readers can distinguish; markers differ too.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_MOST_TICKS = 12
# Most markers per curve; more markers would hide its band and the curves below it.
_MOST_MARKERS = 25
# Opacity of the band of one standard deviation around a mean curve.
_BAND_ALPHA = 0.18


class IncrementalAccuracyDisplay(StreamDisplay):
    """Accuracy over all classes learned so far, as the classes arrive.

    There is one curve per estimator. The legend gives both numbers that papers quote: the mean of
    the curve (average incremental accuracy) and its end (the accuracy after the last task).

    It is recommended to use :meth:`from_estimator` or :meth:`from_stream`. Another call with
    ``ax=display.ax_`` adds its curve to the same axes.

    Parameters
    ----------
    n_classes : list of array-like of shape (n_tasks,)
        For each curve, the number of classes learned after each task.
    accuracies : list of array-like of shape (n_tasks,)
        For each curve, the accuracies in [0, 1] after each task.
    names : list of str
        The name of each curve.
    spreads : list of array-like of shape (n_tasks,) or None, default=None
        For each curve, the standard deviations of its accuracies over several runs, which are drawn
        as a band; None for a curve without a band, or for all curves.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The curves.
    bands_ : list of matplotlib PolyCollection
        The bands of the curves that have a spread.
    ax_ : matplotlib Axes
        Axes with the curves.
    figure_ : matplotlib Figure
        Figure containing the curves.

    See Also
    --------
    AccuracyMatrixDisplay : Accuracy on every task after every task.
    evaluate_stream : Measures the accuracies.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from ffnb_sklearn.displays import IncrementalAccuracyDisplay
    >>> display = IncrementalAccuracyDisplay(
    ...     n_classes=[[2, 4, 6], [2, 4, 6]],
    ...     accuracies=[[1.0, 0.95, 0.9], [1.0, 0.5, 0.33]],
    ...     names=["mine", "another"],
    ... ).plot()
    >>> display.lines_[0].get_label()
    'mine (average 95.0%, last 90.0%)'
    >>> plt.show()
    """

    def __init__(self, *, n_classes, accuracies, names, spreads=None):
        self.n_classes = n_classes
        self.accuracies = accuracies
        self.names = names
        self.spreads = spreads

    def plot(self, *, ax=None, **line_kw):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; existing curves keep their colours. None creates a new figure.
        **line_kw : dict
            Additional arguments of ``matplotlib.pyplot.plot``, for every curve.

        Returns
        -------
        display : IncrementalAccuracyDisplay
            This object, with `ax_`, `figure_` and `lines_` set.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError
            If `ax` is not a single Axes.
        ValueError
            If there is no curve, the numbers of curves or of tasks differ, a value is not an
            accuracy in [0, 1], or a spread is negative.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        check_axes(ax)
        curves = self._check_curves()
        import matplotlib.pyplot as plt
        from matplotlib.cbook import normalize_kwargs
        from matplotlib.lines import Line2D

        line_kw = normalize_kwargs(line_kw, Line2D)
        if ax is None:
            _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")

        self.lines_, self.bands_ = [], []
        first = len(_curves(ax))
        for k, (n_classes, accuracies, name, spread) in enumerate(curves, start=first):
            style = {
                "color": _COLORS[k % len(_COLORS)],
                "marker": _MARKERS[k % len(_MARKERS)],
                "markersize": 6.5,
                "markeredgecolor": "white",
                "markeredgewidth": 0.7,
                "linewidth": 1.8,
                "clip_on": False,
                "markevery": -(-len(accuracies) // _MOST_MARKERS),
                "label": _label(name, accuracies, spread),
            }
            self.lines_ += ax.plot(n_classes, accuracies, **{**style, **line_kw})
            if spread is not None:
                edges = np.clip([accuracies - spread, accuracies + spread], 0.0, 1.0)
                color = self.lines_[-1].get_color()
                self.bands_.append(
                    ax.fill_between(n_classes, *edges, color=color, alpha=_BAND_ALPHA, linewidth=0)
                )
        self.ax_, self.figure_ = ax, ax.figure
        _decorate(ax)
        return self

    @classmethod
    def from_stream(cls, results, *, name=None, ax=None, **line_kw):
        """Draw the curves of finished runs.

        Parameters
        ----------
        results : StreamResult, list of StreamResult, or dict of str to either
            One curve, or several curves by name. A list of runs, such as runs with different seeds,
            gives one curve: their mean, with a band of one standard deviation.
        name : str, default=None
            Name of a single curve. None uses the class name of its estimator.
        ax : matplotlib Axes, default=None
            Axes to draw on. None creates a new figure.
        **line_kw : dict
            Additional arguments of ``matplotlib.pyplot.plot``, for every curve.

        Returns
        -------
        display : IncrementalAccuracyDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_stream")
        if not isinstance(results, dict):
            runs = as_runs(results, "results")
            results = {name or type(runs[0].estimator).__name__: runs}
        curves = [_mean_curve(runs, name) for name, runs in results.items()]
        n_classes, accuracies, spreads = zip(*curves, strict=True) if curves else ((), (), ())
        display = cls(
            n_classes=n_classes, accuracies=accuracies, names=list(results), spreads=spreads
        )
        return display.plot(ax=ax, **line_kw)

    def _check_curves(self):
        """Return the curves as (numbers of classes, accuracies, name, spread or None)."""
        spreads = [None] * len(self.names) if self.spreads is None else self.spreads
        columns = self.n_classes, self.accuracies, self.names, spreads
        if len(set(map(len, columns))) != 1:
            raise ValueError(
                "n_classes, accuracies, names and spreads must hold one entry per curve; got "
                f"{', '.join(str(len(column)) for column in columns)}."
            )
        if not len(self.names):
            raise ValueError("names must hold the name of one curve at least; got none.")
        curves = []
        for n_classes, accuracies, name, spread in zip(*columns, strict=True):
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
            curves.append((n_classes, accuracies, name, _check_spread(spread, accuracies, name)))
        return curves


def _mean_curve(runs, name):
    """Return the numbers of classes, the accuracies and the spread of one run or several runs."""
    runs = as_runs(runs, f"curve {name!r}")
    sizes = [np.cumsum([len(labels) for labels in run.task_classes]) for run in runs]
    if any(not np.array_equal(one, sizes[0]) for one in sizes):
        raise ValueError(
            f"the runs of curve {name!r} must have as many classes after each task; got "
            f"{[one.tolist() for one in sizes]}."
        )
    accuracies = np.stack([run.accuracies for run in runs])
    return sizes[0], accuracies.mean(axis=0), accuracies.std(axis=0) if len(runs) > 1 else None


def _label(name, accuracies, spread):
    """Return the legend entry of a curve: its mean, and its last accuracy with the spread."""
    end = "" if spread is None else f" ± {100 * spread[-1]:.1f}"
    return f"{name} (average {100 * accuracies.mean():.1f}%, last {100 * accuracies[-1]:.1f}{end}%)"


def _check_spread(spread, accuracies, name):
    """Return standard deviations, one per task, or None."""
    if spread is None:
        return None
    spread = np.asarray(spread, dtype=float)
    if spread.shape != accuracies.shape or not (spread >= 0.0).all():
        raise ValueError(
            f"spreads must hold a standard deviation per task, {len(accuracies)} for curve "
            f"{name!r}; got {spread.tolist()}."
        )
    return spread


def _curves(ax):
    """Return the curves of the axes, without level lines that a user may have drawn."""
    return [line for line in ax.get_lines() if line.get_transform() == ax.transData]


def _ticks(steps):
    """Return few numbers of classes for ticks: all steps, or the first and round numbers."""
    from matplotlib.ticker import MaxNLocator

    if len(steps) <= _MOST_TICKS:
        return steps
    first, last = steps[0], steps[-1]
    round_ones = MaxNLocator(nbins=_MOST_TICKS, integer=True).tick_values(first, last)
    # A round number that is close to the first task would overlap its label.
    nearest = first + np.diff(round_ones)[0] / 2
    return [first, *(one for one in round_ones if nearest < one <= last)]


def _decorate(ax):
    """Label the axes, in percent, and remove parts of the frame that would cross the curves."""
    from matplotlib.ticker import MultipleLocator, PercentFormatter

    steps = np.unique(np.concatenate([line.get_xdata() for line in _curves(ax)]))
    ax.set_xticks(_ticks(steps))
    ax.set(xlabel="Classes learned", ylabel="Accuracy over all classes learned")
    # Use one scale for all plots, so that they are comparable.
    ax.set_ylim(0.0, 1.0)
    if len(steps) > 1:
        ax.set_xlim(steps[0], steps[-1])
    ax.yaxis.set_major_locator(MultipleLocator(0.2))
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
