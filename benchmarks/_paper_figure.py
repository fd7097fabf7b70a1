"""Figures of the paper's tables: ours beside the printed figures, one panel per question."""

from functools import partial

import matplotlib
import numpy as np
from _paper_sections import (
    any_printed,
    mean_percent,
    on_printed_split,
    printed_average,
    printed_matrix,
    task_names,
)
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

_PANEL = 5.0, 4.2


def draw(table, runs):
    """Draw a table.

    Parameters
    ----------
    table : Table
        What was made.
    runs : dict of str to list of Run
        By row; rows without runs are left out.

    Returns
    -------
    figure : matplotlib.figure.Figure
        In dot plots, filled dots are ours, with the standard deviation over seeds, and hollow
        ones the paper's. A row has the same colour in all panels.
    """
    rows = [row for row in table.rows if runs.get(row.label)]
    lines = [line for line in (_panels(table, rows), _matrix_panels(table, rows)) if line]
    n_columns = max(map(len, lines), default=1)
    size = _PANEL[0] * n_columns, _PANEL[1] * max(1, len(lines))
    figure = Figure(size, layout="constrained")
    figure.suptitle(table.title)
    axes = figure.subplots(max(1, len(lines)), n_columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for places, panels in zip(axes, lines, strict=False):
        for ax, panel in zip(places, panels, strict=False):
            ax.set_axis_on()
            panel(ax, rows, runs)
    if any_printed(rows):
        figure.legend(handles=_dot_handles(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def _panels(table, rows):
    """Panels of dots and curves: functions of axes, rows and runs."""
    panels = [_DOT_PANELS[section] for section in table.sections if section in _DOT_PANELS]
    if "tasks" in table.sections:
        # One printed curve for all rows goes into the panel of ours.
        several = len({row.accuracies for row in rows if row.accuracies}) > 1
        panels += [_our_curves, _printed_curves] if several else [_all_curves]
    return panels if rows else []


def _matrix_panels(table, rows):
    """One matrix for each row, and the paper's."""
    if "matrices" not in table.sections or not rows:
        return []
    return [*(partial(_our_matrix, row) for row in rows), _printed_matrix]


def _finals(ax, rows, runs):
    """Accuracy after the last task."""
    ours = [[100 * run.final for run in on_printed_split(row, runs)] for row in rows]
    _dots(ax, rows, ours, [row.final for row in rows])
    ax.set(title="After the last task", xlabel="accuracy, %")


def _averages(ax, rows, runs):
    """Average incremental accuracy."""
    ours = [[100 * run.accuracies.mean() for run in on_printed_split(row, runs)] for row in rows]
    _dots(ax, rows, ours, [printed_average(row) for row in rows])
    ax.set(title="Average over the tasks", xlabel="average incremental accuracy, %")


def _bounds(ax, rows, runs):
    """Bound on forgetting, relative to the largest: ours and the paper's differ in their unit."""
    ours = [np.array([run.bound for run in on_printed_split(row, runs)]) for row in rows]
    most, most_printed = max(map(np.mean, ours)), max(row.bound for row in rows)
    _dots(ax, rows, [bounds / most for bounds in ours], [row.bound / most_printed for row in rows])
    ax.set(title="Bound on forgetting", xlabel="share of the largest bound", xscale="log")


_DOT_PANELS = {"finals": _finals, "averages": _averages, "bounds": _bounds}


def _our_curves(ax, rows, runs):
    """Accuracy after each task, ours."""
    curves = [mean_percent([r.accuracies for r in on_printed_split(row, runs)]) for row in rows]
    _curves(ax, rows, curves)
    ax.set_title("After each task, ours")


def _printed_curves(ax, rows, runs):
    """Accuracy after each task, the paper's, with a legend for both panels of curves."""
    _curves(ax, rows, [np.array(row.accuracies) for row in rows])
    ax.set_title("After each task, paper")
    handles = [
        Line2D([], [], marker=".", color=colour, label=row.label)
        for row, colour in zip(rows, _colours(rows), strict=True)
    ]
    ax.legend(handles=handles, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def _all_curves(ax, rows, runs):
    """Accuracy after each task, ours and the one printed curve, if there is one."""
    _our_curves(ax, rows, runs)
    printed = next((row.accuracies for row in rows if row.accuracies), None)
    if printed:
        ax.plot(np.arange(len(printed)), printed, "D--", mfc="white", color="0.3", label="paper")
    ax.set_title("After each task")
    ax.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def _our_matrix(row, ax, rows, runs):
    """Accuracy on groups of classes, ours."""
    _matrix(ax, row, mean_percent([run.matrix for run in on_printed_split(row, runs)]))
    ax.set_title(row.label)


def _printed_matrix(ax, rows, runs):
    """Accuracy on groups of classes, the paper's."""
    _matrix(ax, rows[0], printed_matrix(rows[0].data_set))
    ax.set_title("paper")


def _colours(rows):
    """A colour for each row, in the order of a rainbow."""
    return matplotlib.colormaps["turbo"](np.linspace(0.05, 0.92, len(rows)))


def _dot_handles():
    """Entries of the legend of dot plots."""
    ours = Line2D([], [], marker="o", ls="", color="0.3", label="ours")
    return ours, Line2D([], [], marker="D", ls="", mfc="white", mec="0.3", label="paper")


def _dots(ax, rows, ours, printed):
    """One line per row: our mean and deviation, and the printed figure."""
    heights = np.arange(len(rows))
    for height, colour, values, figure in zip(heights, _colours(rows), ours, printed, strict=True):
        mean, deviation = np.mean(values), np.std(values)
        ax.errorbar(mean, height, xerr=deviation, fmt="o", color=colour, capsize=3, markersize=7)
        ax.plot(figure, height, "D", mfc="white", mec=colour, markersize=7)
    ax.set_yticks(heights, [row.label for row in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.grid(alpha=0.3)


def _curves(ax, rows, curves):
    """One curve per row over the tasks; a dot where only one task has a figure."""
    for row, colour, curve in zip(rows, _colours(rows), curves, strict=True):
        ax.plot(np.arange(len(curve)), curve, ".-", color=colour, label=row.label)
    names = task_names(rows[0].data_set)
    ax.set_xticks(np.arange(len(names)), names)
    ax.set(ylim=(0, 103), ylabel="accuracy, %")
    ax.grid(alpha=0.3)


def _matrix(ax, row, matrix):
    """Accuracies as colours and numbers; test classes are rows, tasks are columns."""
    ax.imshow(matrix.T, vmin=0, vmax=100, cmap="viridis")
    names = task_names(row.data_set)
    ax.set_xticks(np.arange(len(names)), names, fontsize="small")
    ax.set_yticks(np.arange(len(names)), names, fontsize="small")
    ax.set(xlabel="after task", ylabel="test classes of task")
    for (j, i), value in np.ndenumerate(matrix.T):
        if np.isfinite(value):
            colour = "white" if value < 60 else "black"
            ax.text(i, j, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=8)
