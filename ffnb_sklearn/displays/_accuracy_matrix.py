"""Heat map of the accuracy on every task after every task."""

from itertools import pairwise

import numpy as np
from sklearn.utils._optional_dependencies import check_matplotlib_support

from ..metrics import _check_accuracy_matrix
from ._runs import StreamDisplay, as_runs, check_axes

# Smallest cell that can hold a readable number, in points.
_SMALLEST_CELL = 11.0
# Most tasks with numbers; more numbers would hide the pattern.
_MOST_NUMBERED = 20
_MOST_TICKS = 25


class AccuracyMatrixDisplay(StreamDisplay):
    """Task-by-task accuracies as a heat map.

    Row i shows the accuracy on each task after task i was learned: a column that fades downwards is
    a task that is being forgotten. Colours always span 0 % to 100 %, so that plots of different
    estimators are comparable. Tasks that were not scored stay blank.

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
        self,
        *,
        ax=None,
        include_values="auto",
        values_format=None,
        cmap="YlGnBu",
        colorbar=True,
    ):
        """Draw the heat map.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None creates a new figure that grows with the number of tasks.
        include_values : bool or "auto", default="auto"
            Whether to write the accuracies, in percent, into the cells. "auto" writes them for up
            to 20 tasks, if the cells are large enough to read them.
        values_format : str, default=None
            Format of the percentages, such as ".1f". None uses one decimal place, or no decimals if
            the cells are too narrow.
        cmap : str or matplotlib Colormap, default="YlGnBu"
            Colours from 0 % to 100 %.
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
        TypeError
            If `ax` is not a single Axes.
        ValueError
            If the matrix is not an accuracy matrix, there is not one label per task,
            `include_values` is neither a bool nor "auto", or `values_format` is not a format of
            floats.
        """
        check_matplotlib_support(f"{type(self).__name__}.plot")
        check_axes(ax)
        matrix = _check_accuracy_matrix(self.accuracy_matrix)
        labels = self._check_labels(len(matrix))
        if include_values not in (True, False, "auto"):
            raise ValueError(f"include_values must be a bool or 'auto'; got {include_values!r}.")
        _check_values_format(values_format)
        if ax is None:
            ax = _new_axes(len(matrix), colorbar)

        self.ax_, self.figure_ = ax, ax.figure
        self.im_ = ax.imshow(
            np.ma.masked_invalid(matrix), cmap=cmap, vmin=0.0, vmax=1.0, interpolation="nearest"
        )
        _decorate(ax, labels, named=self.task_labels is not None)
        if colorbar:
            _add_colorbar(self.im_, ax)
        cell = _cell_points(ax, len(matrix))
        if _tilt_wide_labels(ax):
            cell = _cell_points(ax, len(matrix))
        if include_values == "auto":
            include_values = len(matrix) <= _MOST_NUMBERED and cell >= _SMALLEST_CELL
        self.text_ = (
            _write_values(self.im_, matrix, cell, values_format) if include_values else None
        )
        return self

    @classmethod
    def from_stream(cls, result, *, task_labels=None, ax=None, **plot_kw):
        """Draw the heat map of a finished run.

        Parameters
        ----------
        result : StreamResult or list of StreamResult
            Result of :func:`evaluate_stream`. Several runs with the same number of tasks, such as
            runs with different seeds, give the mean of their matrices.
        task_labels : sequence of n_tasks str, default=None
            Names of the tasks on both axes. None uses the labels of the classes if each task has a
            single class that is the same in all runs, else 1 to n_tasks.
        ax : matplotlib Axes, default=None
            Axes to draw on. None creates a new figure.
        **plot_kw : dict
            Additional arguments of :meth:`plot`.

        Returns
        -------
        display : AccuracyMatrixDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If there are no runs, or the runs differ in their number of tasks.
        """
        check_matplotlib_support(f"{cls.__name__}.from_stream")
        runs = as_runs(result, "result")
        sizes = [len(run.accuracy_matrix) for run in runs]
        if len(set(sizes)) != 1:
            raise ValueError(
                f"result must be a run, or runs of the same number of tasks; got {sizes} tasks."
            )
        matrix = np.mean([run.accuracy_matrix for run in runs], axis=0)
        if task_labels is None:
            task_labels = _single_classes(runs)
        return cls(matrix, task_labels=task_labels).plot(ax=ax, **plot_kw)

    def _check_labels(self, n_tasks):
        """Return one label per task."""
        if self.task_labels is None:
            return [str(t) for t in range(1, n_tasks + 1)]
        if len(self.task_labels) != n_tasks:
            raise ValueError(
                f"task_labels must hold one label per task, so {n_tasks}; "
                f"got {len(self.task_labels)}."
            )
        return [str(label) for label in self.task_labels]


def _single_classes(runs):
    """Return the label of each task, or None if the runs differ or a task has several classes."""
    orders = {tuple(tuple(labels.tolist()) for labels in run.task_classes) for run in runs}
    order = orders.pop()
    if orders or any(len(labels) != 1 for labels in order):
        return None
    return [label for (label,) in order]


def _check_values_format(values_format):
    """Raise if percentages, which are floats, do not have this format."""
    try:
        format(100.0, ".1f" if values_format is None else values_format)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "values_format must be a format of floats such as '.1f', or None; got "
            f"{values_format!r}: {error}."
        ) from error


def _new_axes(n_tasks, colorbar):
    """Return the axes of a new figure with cells that can hold a number."""
    import matplotlib.pyplot as plt

    side = float(np.clip(1.2 + 0.45 * n_tasks, 3.6, 10.5))
    width = side + (0.9 if colorbar else 0.0)
    return plt.subplots(figsize=(width, side), layout="compressed")[1]


def _decorate(ax, labels, *, named):
    """Name the axes and tasks, and draw white lines between the cells."""
    n_tasks = len(labels)
    round_ones = np.outer(10 ** np.arange(6), [1, 2, 5]).ravel()
    step = round_ones[np.argmax(n_tasks <= round_ones * _MOST_TICKS)]
    # Numbers have ticks at round numbers; names have ticks from the first task on.
    ticks = np.arange(0 if named else step - 1, n_tasks, step)
    shown = [labels[t] for t in ticks]
    ax.set_xticks(ticks, shown)
    ax.set_yticks(ticks, shown)
    ax.set(xlabel="Accuracy on task", ylabel="After learning task")

    edges = np.arange(n_tasks + 1) - 0.5
    ax.set_xticks(edges, minor=True)
    ax.set_yticks(edges, minor=True)
    ax.grid(which="minor", color="white", linewidth=min(2.0, 24.0 / n_tasks))
    ax.tick_params(which="both", length=0)
    ax.spines[:].set_visible(False)


def _add_colorbar(image, ax):
    """Add a colour bar in percent next to the heat map."""
    from matplotlib.ticker import PercentFormatter

    bar = ax.figure.colorbar(
        image, ax=ax, format=PercentFormatter(xmax=1.0), shrink=0.8, pad=0.03, aspect=25
    )
    bar.set_label("Accuracy")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)


def _cell_points(ax, n_tasks):
    """Return the side of one cell in points, in the current layout of the figure."""
    figure = ax.get_figure(root=True)
    figure.draw_without_rendering()
    box = ax.get_window_extent()
    return min(box.width, box.height) / figure.dpi * 72.0 / n_tasks


def _tilt_wide_labels(ax):
    """Tilt the task names of drawn axes if they overlap, and return whether they do."""
    labels = ax.get_xticklabels()
    boxes = [label.get_window_extent() for label in labels]
    is_wide = any(left.x1 >= right.x0 for left, right in pairwise(boxes))
    if is_wide:
        for label in labels:
            label.set(rotation=45, horizontalalignment="right", rotation_mode="anchor")
    return is_wide


def _write_values(image, matrix, cell, values_format):
    """Write the accuracies into the cells, dark on light cells and light on dark cells."""
    if values_format is None:
        values_format = ".1f" if cell >= 25.0 else ".0f"
    # "100.0" is five characters wide, each about 0.6 of the font size.
    style = {"ha": "center", "va": "center", "fontsize": float(np.clip(0.28 * cell, 4.5, 12.0))}
    texts = np.full(matrix.shape, None, dtype=object)
    for i, j in np.argwhere(~np.isnan(matrix)):
        red, green, blue, _ = image.cmap(image.norm(matrix[i, j]))
        is_dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
        value = format(100.0 * matrix[i, j], values_format)
        color = "white" if is_dark else "0.15"
        texts[i, j] = image.axes.text(j, i, value, color=color, **style)
    return texts
