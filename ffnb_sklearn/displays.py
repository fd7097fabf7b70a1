"""Plots of class-incremental runs, in the form of scikit-learn's displays."""

from inspect import signature
from numbers import Integral

import numpy as np
from sklearn.utils import check_consistent_length, check_scalar, column_or_1d
from sklearn.utils._optional_dependencies import check_matplotlib_support

from .metrics import _check_accuracy_matrix, _check_fractions
from .streams import evaluate_prequential, evaluate_stream
from .streams._prequential import windowed_means

__all__ = ["AccuracyMatrixDisplay", "IncrementalAccuracyDisplay", "PrequentialAccuracyDisplay"]

# Largest number of tasks with numbers in the cells, of task names on an axis, and of markers on a
# curve.
_MOST_NUMBERED = 20
_MOST_TICKS = 25
_MOST_MARKERS = 25

# Points per inch, and the width of a character of a task name in points.
_POINTS = 72.0
_CHARACTER_WIDTH = 7.0

# Okabe and Ito's colours, which most colour-blind readers can distinguish; markers differ too.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


class _TaskDisplay:
    """Displays of the results of :func:`evaluate_stream`, drawn by the method `from_stream`."""

    @classmethod
    def from_estimator(cls, estimator, X, y, X_test, y_test, **options):
        """Stream the tasks through a clone of the estimator and draw the result.

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
        stream_kw = _pop_arguments(evaluate_stream, options)
        result = evaluate_stream(estimator, X, y, X_test, y_test, **stream_kw)
        return cls.from_stream(result, **options)


class _CurveDisplay:
    """Displays of a curve of accuracies with a name."""

    def _draw_curve(self, ax, positions, accuracies, label, line_kw):
        """Draw the curve on axes, by default in a new figure, and set the attributes."""
        import matplotlib.pyplot as plt

        if ax is None:
            _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
        self.ax_ = ax
        self.figure_ = ax.figure
        self.line_ = _add_line(ax, positions, accuracies, label, line_kw)
        _style_axes(ax)


class AccuracyMatrixDisplay(_TaskDisplay):
    """Task-by-task accuracies as a heat map.

    Row i shows the accuracy on each task after task i was learned. The estimator forgets a task
    whose column fades downwards. Colours span the accuracies that occur. The cells of tasks that
    were not scored stay blank.

    It is recommended to use :meth:`from_estimator` or :meth:`from_stream`.

    Parameters
    ----------
    accuracy_matrix : array-like of shape (n_tasks, n_tasks)
        Accuracies in [0, 1]: entry (i, j) is the accuracy on task j after task i. NaN is allowed
        above the diagonal.
    task_labels : sequence of n_tasks str, default=None
        Names of the tasks on both axes. None uses 1 to n_tasks.

    Attributes
    ----------
    im_ : matplotlib AxesImage
        The heat map; its array holds fractions.
    text_ : ndarray of shape (n_tasks, n_tasks), dtype=matplotlib Text, or None
        The texts in the cells, with None in a blank cell. None if no numbers are shown.
    ax_ : matplotlib Axes
        Axes with the heat map.
    figure_ : matplotlib Figure
        Figure containing the heat map.

    See Also
    --------
    IncrementalAccuracyDisplay : Accuracy over all classes as they arrive.
    evaluate_stream : Measures the matrix.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from ffnb_sklearn.displays import AccuracyMatrixDisplay
    >>> nan = float("nan")
    >>> matrix = [[1.0, nan, nan], [0.8, 0.9, nan], [0.7, 0.6, 0.95]]
    >>> display = AccuracyMatrixDisplay(matrix).plot()
    >>> display.text_[1, 0].get_text()
    '80.0'
    >>> plt.show()
    """

    def __init__(self, accuracy_matrix, *, task_labels=None):
        self.accuracy_matrix = accuracy_matrix
        self.task_labels = task_labels

    def plot(
        self, *, ax=None, include_values=None, values_format=".1f", cmap="YlGnBu", colorbar=True
    ):
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None creates a new figure that grows with the number of tasks.
        include_values : bool, default=None
            Whether to write the accuracies, in percent, into the cells. None writes them for up to
            20 tasks.
        values_format : str, default=".1f"
            Format of the percentages.
        cmap : str or matplotlib Colormap, default="YlGnBu"
            Colours from the lowest to the highest accuracy, or from 0 % to 100 % if all are equal.
        colorbar : bool, default=True
            Whether to add a colour bar.

        Returns
        -------
        display : AccuracyMatrixDisplay
            This object, with `ax_`, `figure_`, `im_` and `text_` set.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the matrix is not an accuracy matrix, or there is not one label per task.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        import matplotlib.pyplot as plt

        matrix = _check_accuracy_matrix(self.accuracy_matrix)
        n_tasks = len(matrix)
        task_labels = _task_labels(self.task_labels, n_tasks)
        if include_values is None:
            include_values = n_tasks <= _MOST_NUMBERED

        if ax is None:
            height = float(np.clip(1.2 + 0.45 * n_tasks, 3.6, 10.5))
            width = height + 0.9
            _, ax = plt.subplots(figsize=(width, height), layout="compressed")
        self.ax_ = ax
        self.figure_ = ax.figure
        masked_matrix = np.ma.masked_invalid(matrix)
        lowest, highest = masked_matrix.min(), masked_matrix.max()
        if lowest == highest:
            lowest, highest = 0.0, 1.0
        self.im_ = ax.imshow(masked_matrix, cmap=cmap, vmin=lowest, vmax=highest)
        if colorbar:
            _add_colorbar(self.im_, ax)
        ax.set(xlabel="Accuracy on task", ylabel="After learning task")

        # The size of a cell is measured before the layout makes room for the labels.
        cell_size = _cell_size(ax, n_tasks)
        _label_tasks(ax, task_labels, cell_size)
        self.text_ = None
        if include_values:
            self.text_ = _write_percentages(self.im_, ax, matrix, values_format, cell_size)
        return self

    @classmethod
    def from_stream(cls, result, *, task_labels=None, ax=None, **plot_kw):
        """Draw the heat map of a finished run.

        Parameters
        ----------
        result : StreamResult
            Result of :func:`evaluate_stream`.
        task_labels : sequence of n_tasks str, default=None
            Names of the tasks on both axes. None uses 1 to n_tasks.
        ax : matplotlib Axes, default=None
            Axes to draw on. None creates a new figure.
        **plot_kw : dict
            Additional arguments of :meth:`plot`.

        Returns
        -------
        display : AccuracyMatrixDisplay
            The display, drawn.
        """
        display = cls(result.accuracy_matrix, task_labels=task_labels)
        return display.plot(ax=ax, **plot_kw)


class IncrementalAccuracyDisplay(_TaskDisplay, _CurveDisplay):
    """Accuracy over all classes learned so far, as the classes arrive.

    The legend gives both numbers that papers quote: the mean of the curve (average incremental
    accuracy) and its end (the accuracy after the last task).

    It is recommended to use :meth:`from_estimator` or :meth:`from_stream`. Another call with
    ``ax=display.ax_`` adds its curve to the same axes.

    Parameters
    ----------
    n_classes : array-like of shape (n_tasks,)
        Number of classes learned after each task.
    accuracies : array-like of shape (n_tasks,)
        Accuracies in [0, 1] after each task.
    name : str, default=None
        Name of the curve.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    ax_ : matplotlib Axes
        Axes with the curve.
    figure_ : matplotlib Figure
        Figure containing the curve.

    See Also
    --------
    AccuracyMatrixDisplay : Accuracy on every task after every task.
    evaluate_stream : Measures the accuracies.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from ffnb_sklearn.displays import IncrementalAccuracyDisplay
    >>> display = IncrementalAccuracyDisplay(
    ...     n_classes=[2, 4, 6], accuracies=[1.0, 0.95, 0.9], name="mine"
    ... ).plot()
    >>> display.line_.get_label()
    'mine (average 95.0%, last 90.0%)'
    >>> plt.show()
    """

    def __init__(self, *, n_classes, accuracies, name=None):
        self.n_classes = n_classes
        self.accuracies = accuracies
        self.name = name

    def plot(self, *, ax=None, name=None, **line_kw):
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; existing curves keep their colours. None creates a new figure.
        name : str, default=None
            Name of the curve. None uses the name of the display.
        **line_kw : dict
            Additional arguments of ``matplotlib.pyplot.plot``.

        Returns
        -------
        display : IncrementalAccuracyDisplay
            This object, with `ax_`, `figure_` and `line_` set.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If there is not one accuracy in [0, 1] per number of classes.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        n_classes = np.asarray(self.n_classes)
        accuracies = np.asarray(self.accuracies, dtype=float)
        if n_classes.ndim != 1 or n_classes.shape != accuracies.shape or not n_classes.size:
            raise ValueError(
                "n_classes and accuracies must hold one number per task; got the shapes "
                f"{n_classes.shape} and {accuracies.shape}."
            )
        _check_fractions(accuracies, "accuracies")
        name = name or self.name or ""
        label = f"{name} (average {accuracies.mean():.1%}, last {accuracies[-1]:.1%})"
        self._draw_curve(ax, n_classes, accuracies, label, line_kw)
        self.ax_.set(xlabel="Classes learned", ylabel="Accuracy over all classes learned")
        return self

    @classmethod
    def from_stream(cls, result, *, ax=None, name=None, **line_kw):
        """Draw the curve of a finished run.

        Parameters
        ----------
        result : StreamResult
            Result of :func:`evaluate_stream`.
        ax : matplotlib Axes, default=None
            Axes to draw on. None creates a new figure.
        name : str, default=None
            Name of the curve. None uses the class name of the estimator.
        **line_kw : dict
            Additional arguments of ``matplotlib.pyplot.plot``.

        Returns
        -------
        display : IncrementalAccuracyDisplay
            The display, drawn.
        """
        display = cls(
            n_classes=result.n_classes,
            accuracies=result.accuracies,
            name=name or type(result.estimator).__name__,
        )
        return display.plot(ax=ax, **line_kw)


class PrequentialAccuracyDisplay(_CurveDisplay):
    """Accuracy over a window of the last samples, each predicted before it was learned.

    The legend gives the accuracy over all tested samples. At the beginning of the curve the window
    holds fewer samples.

    It is recommended to use :meth:`from_estimator`, :meth:`from_stream` or
    :meth:`from_predictions`. Another call with ``ax=display.ax_`` adds its curve to the same axes.

    Parameters
    ----------
    is_correct : array-like of shape (n_tested,), dtype=bool
        Whether each tested sample was predicted correctly, in the order of the stream.
    window : int, default=1000
        Number of samples of the window.
    n_untested : int, default=0
        Number of samples that were learned before the first tested sample.
    name : str, default=None
        Name of the curve.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The curve.
    ax_ : matplotlib Axes
        Axes with the curve.
    figure_ : matplotlib Figure
        Figure containing the curve.

    See Also
    --------
    evaluate_prequential : Measures whether the predictions are correct.
    IncrementalAccuracyDisplay : Accuracy over all classes as they arrive.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from ffnb_sklearn.displays import PrequentialAccuracyDisplay
    >>> display = PrequentialAccuracyDisplay(
    ...     is_correct=[False, True, True, True], window=2, name="mine"
    ... ).plot()
    >>> display.line_.get_ydata().tolist()
    [0.0, 0.5, 1.0, 1.0]
    >>> display.line_.get_label()
    'mine (75.0%)'
    >>> plt.show()
    """

    def __init__(self, *, is_correct, window=1000, n_untested=0, name=None):
        self.is_correct = is_correct
        self.window = window
        self.n_untested = n_untested
        self.name = name

    def plot(self, *, ax=None, name=None, **line_kw):
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; existing curves keep their colours. None creates a new figure.
        name : str, default=None
            Name of the curve. None uses the name of the display.
        **line_kw : dict
            Additional arguments of ``matplotlib.pyplot.plot``.

        Returns
        -------
        display : PrequentialAccuracyDisplay
            This object, with `ax_`, `figure_` and `line_` set.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If `is_correct` does not hold one boolean per tested sample, or `window` is no positive
            number.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        is_correct = np.asarray(self.is_correct)
        if is_correct.ndim != 1 or is_correct.dtype != bool or not is_correct.size:
            raise ValueError(
                "is_correct must hold one boolean per tested sample; got the shape "
                f"{is_correct.shape} and the dtype {is_correct.dtype}."
            )
        check_scalar(self.window, "window", Integral, min_val=1)
        name = name or self.name or ""
        label = f"{name} ({is_correct.mean():.1%})"
        positions = self.n_untested + np.arange(1, len(is_correct) + 1)
        accuracies = windowed_means(is_correct, self.window)
        self._draw_curve(ax, positions, accuracies, label, line_kw)
        self.ax_.set(xlabel="Samples", ylabel=f"Accuracy over the last {self.window} samples")
        return self

    @classmethod
    def from_estimator(cls, estimator, X, y, *, ax=None, name=None, **options):
        """Test and train a clone of the estimator on a stream, and draw the result.

        Parameters
        ----------
        estimator : classifier with `partial_fit` and `predict`
            A clone of it learns the stream.
        X, y : samples and labels in the order of the stream
            See :func:`evaluate_prequential`.
        ax : matplotlib Axes, default=None
            Axes to draw on. None creates a new figure.
        name : str, default=None
            Name of the curve. None uses the class name of the estimator.
        **options : dict
            Additional arguments of :func:`evaluate_prequential`, such as `window`, and of
            ``matplotlib.pyplot.plot``.

        Returns
        -------
        display : PrequentialAccuracyDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        stream_kw = _pop_arguments(evaluate_prequential, options)
        result = evaluate_prequential(estimator, X, y, **stream_kw)
        return cls.from_stream(result, ax=ax, name=name, **options)

    @classmethod
    def from_stream(cls, result, *, ax=None, name=None, **line_kw):
        """Draw the curve of a finished run.

        Parameters
        ----------
        result : PrequentialResult
            Result of :func:`evaluate_prequential`.
        ax : matplotlib Axes, default=None
            Axes to draw on. None creates a new figure.
        name : str, default=None
            Name of the curve. None uses the class name of the estimator.
        **line_kw : dict
            Additional arguments of ``matplotlib.pyplot.plot``.

        Returns
        -------
        display : PrequentialAccuracyDisplay
            The display, drawn.
        """
        display = cls(
            is_correct=result.is_correct,
            window=result.window,
            n_untested=result.batch_size,
            name=name or type(result.estimator).__name__,
        )
        return display.plot(ax=ax, **line_kw)

    @classmethod
    def from_predictions(cls, y_true, y_pred, *, window=1000, ax=None, name=None, **line_kw):
        """Draw the curve of predictions that were made before their samples were learned.

        Parameters
        ----------
        y_true : array-like of shape (n_tested,)
            Labels in the order of the stream.
        y_pred : array-like of shape (n_tested,)
            Predictions of any library.
        window : int, default=1000
            Number of samples of the window.
        ax : matplotlib Axes, default=None
            Axes to draw on. None creates a new figure.
        name : str, default=None
            Name of the curve.
        **line_kw : dict
            Additional arguments of ``matplotlib.pyplot.plot``.

        Returns
        -------
        display : PrequentialAccuracyDisplay
            The display, drawn.
        """
        check_matplotlib_support(f"{cls.__name__}.from_predictions")
        check_consistent_length(y_true, y_pred)
        is_correct = column_or_1d(y_true) == column_or_1d(y_pred)
        display = cls(is_correct=is_correct, window=window, name=name)
        return display.plot(ax=ax, **line_kw)


def _pop_arguments(function, options):
    """Remove the arguments of a function from the options, and return them."""
    arguments = {}
    for name in signature(function).parameters:
        if name in options:
            arguments[name] = options.pop(name)
    return arguments


def _task_labels(task_labels, n_tasks):
    """Return the names of the tasks; raise unless each task has a name."""
    if task_labels is None:
        return range(1, n_tasks + 1)
    if len(task_labels) != n_tasks:
        raise ValueError(
            f"task_labels must hold one label per task, so {n_tasks}; got {len(task_labels)}."
        )
    return task_labels


def _add_colorbar(image, ax):
    """Add a colour bar in percent to a heat map."""
    from matplotlib.ticker import PercentFormatter

    percent = PercentFormatter(xmax=1.0)
    ax.figure.colorbar(image, ax=ax, format=percent, label="Accuracy", shrink=0.8)


def _cell_size(ax, n_tasks):
    """Return the side of a cell of a heat map in points."""
    n_pixels = min(ax.bbox.width, ax.bbox.height)
    n_inches = n_pixels / ax.figure.dpi
    return _POINTS * n_inches / n_tasks


def _label_tasks(ax, task_labels, cell_size):
    """Write the names of at most `_MOST_TICKS` tasks on both axes of a heat map."""
    n_tasks = len(task_labels)
    step = -(-n_tasks // _MOST_TICKS)
    positions = range(0, n_tasks, step)
    labels = [str(label) for label in task_labels[::step]]
    ax.set_yticks(positions, labels)
    ax.set_xticks(positions, labels)
    longest = max(map(len, labels))
    if _CHARACTER_WIDTH * longest > step * cell_size:
        ax.tick_params(axis="x", rotation=90)


def _write_percentages(image, ax, matrix, values_format, cell_size):
    """Write the accuracies into the cells; return the texts, with None in a blank cell."""
    # "100.0" is five characters wide, each about 0.6 of the font size.
    font_size = min(0.25 * cell_size, 12.0)
    light = image.cmap(0.0)
    dark = image.cmap(1.0)
    texts = np.full(matrix.shape, None, dtype=object)
    for row, column in np.argwhere(~np.isnan(matrix)):
        accuracy = matrix[row, column]
        percentage = format(100.0 * accuracy, values_format)
        color = light if image.norm(accuracy) > 0.5 else dark
        texts[row, column] = ax.text(
            column, row, percentage, color=color, fontsize=font_size, ha="center", va="center"
        )
    return texts


def _add_line(ax, positions, accuracies, label, line_kw):
    """Add a curve of accuracies to axes, and return its line."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    n_lines = len(ax.get_lines())
    style = {
        "color": _COLORS[n_lines % len(_COLORS)],
        "marker": _MARKERS[n_lines % len(_MARKERS)],
        "markersize": 6.5,
        "markeredgecolor": "white",
        "markeredgewidth": 0.7,
        "markevery": -(-len(accuracies) // _MOST_MARKERS),
        "linewidth": 1.8,
        "clip_on": False,
        "label": label,
    }
    style |= normalize_kwargs(line_kw, Line2D)
    (line,) = ax.plot(positions, accuracies, **style)
    return line


def _style_axes(ax):
    """Give the axes of curves the scale that all plots share, so that they are comparable."""
    from matplotlib.ticker import MaxNLocator, MultipleLocator, PercentFormatter

    ax.set_ylim(0.0, 1.0)
    ax.margins(x=0.0)
    ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    ax.yaxis.set_major_locator(MultipleLocator(0.2))
    ax.yaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
