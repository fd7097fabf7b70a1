"""Curves of the accuracy over all classes learned so far."""

from numbers import Real

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from ..metrics import _check_fractions
from ._runs import StreamDisplay, as_runs, check_axes, curve_of, single_classes

# Okabe and Ito's colours, which most colour-blind readers can distinguish; markers differ too.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_MOST_TICKS = 12
# Most markers per curve; more markers would hide its band and the curves below it.
_MOST_MARKERS = 25
# Most letters of class names that fit side by side, if each name is as long as the longest.
_MOST_LETTERS = 60
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
    joint_accuracy : float, default=None
        Accuracy in [0, 1] of a model trained on all classes at once, drawn as a dashed line.
    class_names : sequence of str, default=None
        Names of the classes in order of arrival, if each task has a single class. Up to 12 names
        replace the numbers of classes below the axis.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The curves.
    bands_ : list of matplotlib PolyCollection
        The bands of the curves that have a spread.
    joint_line_ : matplotlib Line2D or None
        The line of joint training.
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

    def __init__(
        self,
        *,
        n_classes,
        accuracies,
        names,
        spreads=None,
        joint_accuracy=None,
        class_names=None,
    ):
        self.n_classes = n_classes
        self.accuracies = accuracies
        self.names = names
        self.spreads = spreads
        self.joint_accuracy = joint_accuracy
        self.class_names = class_names

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
            accuracy in [0, 1], a spread is negative, or there is not one class name per task.
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

        class_names = self._names_on(ax)
        self.lines_, self.bands_ = [], []
        for k, curve in enumerate(curves, start=len(_curves(ax))):
            n_classes, accuracies, name, spread = curve
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
        self.joint_line_ = self._plot_joint(ax)
        self.ax_, self.figure_ = ax, ax.figure
        _decorate(ax, class_names)
        return self

    def _names_on(self, ax):
        """Return the names of the classes, or None if existing curves show other classes."""
        if self.class_names is None:
            return None
        names = [str(name) for name in self.class_names]
        shown = [label.get_text() for label in ax.get_xticklabels()]
        return names if not _curves(ax) or shown == names else None

    def _plot_joint(self, ax):
        """Draw the line of joint training, if its accuracy is known."""
        if self.joint_accuracy is None:
            return None
        label = f"joint training ({100 * self.joint_accuracy:.1f}%)"
        return ax.axhline(self.joint_accuracy, color="0.35", linestyle="--", label=label)

    @classmethod
    def from_stream(cls, results, *, name=None, joint_accuracy=None, ax=None, **line_kw):
        """Draw the curves of finished runs.

        Parameters
        ----------
        results : StreamResult, list of StreamResult, or dict of str to either
            One curve, or several curves by name. A list of runs, such as runs with different seeds,
            gives one curve: their mean, with a band of one standard deviation.
        name : str, default=None
            Name of a single curve. None uses the class name of its estimator.
        joint_accuracy : float, default=None
            Accuracy in [0, 1] of a model trained on all classes at once, drawn as a dashed line.
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
            first = as_runs(results, name)[0]
            results = {name or type(first.estimator).__name__: results}
        curves = [curve_of(runs, name) for name, runs in results.items()]
        display = cls(
            n_classes=[one[0] for one in curves],
            accuracies=[one[1] for one in curves],
            names=list(results),
            spreads=[one[2] for one in curves],
            joint_accuracy=joint_accuracy,
            class_names=_names_of_classes(results.values()),
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
        _check_joint(self.joint_accuracy)
        if self.class_names is not None:
            for n_classes, _, name, _ in curves:
                _check_names(self.class_names, n_classes, name)
        return curves


def _label(name, accuracies, spread):
    """Return the legend entry of a curve: its mean, and its last accuracy with the spread."""
    end = "" if spread is None else f" ± {100 * spread[-1]:.1f}"
    return f"{name} (average {100 * accuracies.mean():.1f}%, last {100 * accuracies[-1]:.1f}{end}%)"


def _names_of_classes(curves):
    """Return the names of the classes if all runs have the same class in each task; else None."""
    labels = single_classes([run for runs in curves for run in as_runs(runs)])
    # Numeric labels would look like numbers of classes.
    return labels if labels and all(isinstance(label, str) for label in labels) else None


def _check_names(class_names, n_classes, name):
    """Raise unless there is one name per task of a curve, and each task has a single class."""
    if not np.array_equal(n_classes, np.arange(len(class_names)) + 1):
        raise ValueError(
            "class_names must name the single class of each task; got "
            f"{len(class_names)} names for curve {name!r}, which has {n_classes.tolist()} classes."
        )


def _check_joint(accuracy):
    """Raise if the accuracy of joint training is not a number in [0, 1]."""
    if accuracy is None:
        return
    if not isinstance(accuracy, Real) or not 0.0 <= accuracy <= 1.0:
        raise ValueError(f"joint_accuracy must be a fraction in [0, 1] or None; got {accuracy!r}.")


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


def _mark_classes(ax, steps, class_names):
    """Set ticks at numbers of classes, from the first task on, or at the names of the classes."""
    from matplotlib.ticker import MaxNLocator

    if len(steps) > _MOST_TICKS:
        first, last = steps[0], steps[-1]
        round_ones = MaxNLocator(nbins=_MOST_TICKS, integer=True).tick_values(first, last)
        # A round number that is close to the first task would overlap its label.
        nearest = first + np.diff(round_ones)[0] / 2
        steps = [first, *(one for one in round_ones if nearest < one <= last)]
    elif class_names is not None and np.array_equal(steps, np.arange(len(class_names)) + 1):
        ax.set_xticks(steps, class_names)
        if max(map(len, class_names)) * len(class_names) > _MOST_LETTERS:
            tilted = {"rotation": 45, "horizontalalignment": "right", "rotation_mode": "anchor"}
            ax.set_xticks(steps, class_names, **tilted)
        ax.set_xlabel("Class learned last")
        return
    ax.set_xticks(
        steps, [f"{step:.0f}" for step in steps], rotation=0, horizontalalignment="center"
    )
    ax.set_xlabel("Classes learned")


def _decorate(ax, class_names):
    """Label the axes, in percent, and remove parts of the frame that would cross the curves."""
    from matplotlib.ticker import MultipleLocator, PercentFormatter

    lines = _curves(ax)
    steps = np.unique(np.concatenate([line.get_xdata() for line in lines]))
    _mark_classes(ax, steps, class_names)
    # Use one scale for all plots, so that they are comparable.
    ax.set_ylim(0.0, 1.0)
    if len(steps) > 1:
        ax.set_xlim(steps[0], steps[-1])
    ax.yaxis.set_major_locator(MultipleLocator(0.2))
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    ax.set_ylabel("Accuracy over all classes learned")
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
