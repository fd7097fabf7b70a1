"""Parts of the paper's tables: sections with our figures beside the printed ones."""

from math import isnan, nan

import numpy as np

from benchmarks.paper.data_sets import FEATURES, PRETRAINING
from benchmarks.paper.printed import (
    CIFAR_AVERAGES,
    CIFAR_GROUP_AVERAGES,
    CIFAR_GROUPS,
    CIFAR_METHODS,
    COSTS,
)


def part(table, runs, missing, plan, seconds):
    """Return the part of a page that shows a table, as lines of Markdown."""
    rows = [row for row in table.rows if row.label in runs]
    printed = f", `{table.source}` of the paper" if table.source else ""
    lines = [f"## {table.title}{printed}", ""]
    lines += [f"- {line}" for line in _run_lines(rows, plan, seconds)]
    lines += [f"- {note}" for note in table.notes]
    lines += [f"- missing: {label}: {reason}" for label, reason in missing.items()]
    dropped = [row.label for row in table.rows if row.label not in runs]
    lines += [f"- rows left out by --quick: {', '.join(dropped)}"] if dropped else []
    for section in table.sections:
        lines += ["", *SECTIONS[section](table, rows, runs)]
    return [*lines, "", "Rows:", "", *(f"- {_changes(row)}" for row in rows)]


def _run_lines(rows, plan, seconds):
    """Yield the lines that describe the runs as a whole."""
    yield f"{seconds:.0f} s in all"
    for data_set in {row.data_set.title: row.data_set for row in rows}.values():
        yield f"{data_set.title}: as_published({_listed(data_set.parameters)})"
        yield f"features of {data_set.title}: {_features(data_set, plan)}"
    if any(row.pretrained.protocol != "none" for row in rows):
        n_base = rows[0].data_set.base_classes
        yield f"pretraining: {_listed(PRETRAINING)}; the base classes are the first {n_base}"


def _features(data_set, plan):
    """Describe the columns of a sample."""
    if data_set.name == "cifar":
        return "rows of the data file"
    backbone = FEATURES[plan.features][data_set.name]
    return f"SkeletonGCN, {_listed(backbone)}; {data_set.pretraining}"


def _changes(row):
    """Return the changes of a row in words."""
    changes = [] if row.model == "paper" else [f"model {row.model!r}"]
    changes += [_listed(row.parameters)] if row.parameters else []
    changes += [] if row.pretraining is None else [str(row.pretraining)]
    return f"{row.label}: {'; '.join(changes) or 'the settings above'}"


def _listed(parameters):
    # Long estimators break the lines of their names.
    return ", ".join(f"{name}={' '.join(repr(one).split())}" for name, one in parameters.items())


def on_printed_split(row, runs):
    """Runs of a row on the split that has printed figures."""
    return [run for run in runs[row.label] if run.split == row.data_set.split]


def mean_percent(values):
    """Mean over runs, in percent."""
    return 100 * np.mean(values, axis=0)


def printed_matrix(data_set):
    """Printed accuracies of the groups of classes, laid out as those of `Run.matrix`."""
    groups = CIFAR_GROUPS[_scenario(data_set)]
    matrix = np.full((len(groups), len(groups)), nan)
    for j, cells in enumerate(groups):
        matrix[j:, j] = cells
    return matrix


def printed_average(row):
    """Printed average incremental accuracy of a row; nan where there is none."""
    return CIFAR_AVERAGES[_scenario(row.data_set)] if row.accuracies else nan


def any_printed(rows):
    """Whether the paper has figures for any of the rows."""
    return any(row.accuracies for row in rows)


def task_names(data_set):
    """Names of tasks; a base task of more classes is T0."""
    first = 1 if data_set.first_task_classes is None else 0
    return [f"T{first + i}" for i in range(data_set.n_tasks)]


def _finals(table, rows, runs):
    """Final accuracies: ours, the paper's, the difference."""
    several = any(len({run.split for run in runs[row.label]}) > 1 for row in rows)
    printed = any_printed(rows)
    columns = [
        "ours",
        *["paper", "difference"] * printed,
        "right",
        *["mean of the folds"] * several,
    ]
    lines = _head("Final accuracy", table.rows_are, *columns)
    for row in rows:
        chosen = on_printed_split(row, runs)
        finals = [run.final for run in chosen]
        cells = [_spread(finals)]
        cells += [_number(row.final), _difference(finals, row.final)] * printed
        cells += [_right(chosen), *[_spread(_means_over_folds(runs[row.label]))] * several]
        lines.append(_line(row.label, *cells))
    return lines


def _tasks(table, rows, runs):
    """Accuracies after each task: ours (paper's)."""
    data_set = rows[0].data_set
    title = "After each task, ours" + " (paper)" * any_printed(rows)
    lines = _head(title, table.rows_are, *task_names(data_set))
    for row in rows:
        chosen = on_printed_split(row, runs)
        unknown = [nan] * data_set.n_tasks
        ours = mean_percent([run.accuracies for run in chosen]) if chosen else unknown
        lines.append(_line(row.label, *map(_beside, ours, row.accuracies or unknown)))
    return lines


def _costs(table, rows, runs):
    """Network size and seconds per epoch of the row with the common settings."""
    usual = [row for row in rows if _is_usual(row) and runs[row.label]]
    if not usual:
        return ["Costs: the row with the common settings is missing."]
    chosen = on_printed_split(usual[0], runs)
    sizes = np.mean([run.sizes for run in chosen], axis=0)
    rates = seconds_per_epoch(chosen)
    printed = COSTS[table.source]
    return [
        *_head(f"Costs of {usual[0].label}", "", *task_names(usual[0].data_set)),
        _line("parameters, ours", *(_number(size, ".0f") for size in sizes)),
        _line("parameters, paper", *printed["parameters"]),
        _line("seconds per epoch, ours", *(_number(rate, ".4f") for rate in rates)),
        _line("seconds per epoch, paper", *printed["seconds"]),
        "",
        "Ours counts the bands and the classifier; the printed sizes of T1 are those of a network "
        "with its backbone.",
    ]


def seconds_per_epoch(runs):
    """Seconds of each task by its epochs, over the runs that had any; nan where none had."""
    epochs = np.array([run.epochs for run in runs])
    seconds = np.array([run.seconds for run in runs]) * (epochs > 0)
    total = epochs.sum(axis=0)
    return seconds.sum(axis=0) / np.where(total > 0, total, np.nan)


def _bounds(table, rows, runs):
    """Bound on forgetting in the last task, and what share of the largest bound it is."""
    columns = ["bound", "drift", "paper's bound", "share of the largest bound", "paper's share"]
    lines = _head("Bound on forgetting in the last task", table.rows_are, *columns)
    chosen = {row.label: on_printed_split(row, runs) for row in rows}
    bounds = {label: [run.bound for run in one] for label, one in chosen.items()}
    most = max((np.mean(values) for values in bounds.values() if values), default=nan)
    most_printed = max(row.bound for row in rows)
    for row in rows:
        drifts = [run.drift for run in chosen[row.label]]
        share = np.mean(bounds[row.label]) / most if drifts else nan
        cells = [_magnitude(bounds[row.label]), _magnitude(drifts), f"{row.bound:.6g}"]
        cells += [_number(share, ".4g"), f"{row.bound / most_printed:.4g}"]
        lines.append(_line(row.label, *cells))
    return [
        *lines,
        "",
        "Ours is for all training samples of the previous tasks together, in the units of our "
        "features; what the paper sums over it does not say. The shares can be compared.",
    ]


def _averages(table, rows, runs):
    """Average incremental accuracies: ours, the paper's, the difference."""
    lines = _head("Average incremental accuracy", table.rows_are, "ours", "paper", "difference")
    for row in rows:
        averages = [run.accuracies.mean() for run in on_printed_split(row, runs)]
        printed = printed_average(row)
        cells = [_spread(averages), _number(printed), _difference(averages, printed)]
        lines.append(_line(row.label, *cells))
    return lines


def _matrices(table, rows, runs):
    """Accuracy on each group of classes after each task: ours (paper's)."""
    lines = []
    for row in rows:
        chosen = on_printed_split(row, runs)
        lines += ["", *_matrix(row, chosen)] if chosen else []
    return lines[1:]


def _matrix(row, chosen):
    """One matrix: test classes are rows, tasks are columns."""
    ours = mean_percent([run.matrix for run in chosen])
    printed = printed_matrix(row.data_set)
    title = f"Groups of classes, {row.label}, ours (paper)"
    lines = _head(title, "test classes", *task_names(row.data_set), "average")
    for j, classes in enumerate(chosen[0].classes):
        cells = [""] * j + list(map(_beside, ours[j:, j], printed[j:, j]))
        average = _beside(ours[j:, j].mean(), CIFAR_GROUP_AVERAGES[_scenario(row.data_set)][j])
        lines.append(_line(classes, *cells, average))
    after = mean_percent([run.accuracies for run in chosen])
    cells = map(_beside, after, row.accuracies)
    return [*lines, _line("all so far", *cells, _beside(after.mean(), printed_average(row)))]


def _methods(table, rows, runs):
    """Parameters and average incremental accuracies that the paper prints of other methods."""
    scenarios = ("S2", "S5", "S10")
    lines = _head("Printed parameters and average incremental accuracy", "method", *scenarios)
    for method, figures in CIFAR_METHODS.items():
        lines.append(_line(method, *(figures[scenario] for scenario in scenarios)))
    return lines


# Functions of the table, its rows and their runs, by what the tables call them.
SECTIONS = {
    "finals": _finals,
    "tasks": _tasks,
    "costs": _costs,
    "bounds": _bounds,
    "averages": _averages,
    "matrices": _matrices,
    "methods": _methods,
}


def _head(title, *columns):
    """Heading of a section and of its table."""
    return [f"### {title}", "", _line(*columns), "|---" * len(columns) + "|"]


def _line(*cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def _number(value, form=".2f"):
    return "-" if isnan(value) else format(value, form)


def _beside(ours, printed):
    """Our figure, and the printed one in parentheses where there is one."""
    return _number(ours) if isnan(printed) else f"{_number(ours)} ({printed:.2f})"


def _spread(values):
    """Mean and standard deviation over seeds, in percent."""
    if len(values) == 0 or np.isnan(values).any():
        return "-"
    spread = f" ± {100 * np.std(values):.2f}" if len(values) > 1 else ""
    return f"{100 * np.mean(values):.2f}{spread}"


def _difference(values, printed):
    """Ours minus the paper's, in points."""
    return _number(100 * np.mean(values) - printed if len(values) else nan, "+.2f")


def _right(chosen):
    """Mean number of right answers after the last task, and of all."""
    if not chosen:
        return "-"
    sizes = [run.n_test.sum() for run in chosen]
    right = np.mean([size * run.final for size, run in zip(sizes, chosen, strict=True)])
    return f"{right:.1f} / {np.mean(sizes):g}"


def _means_over_folds(runs):
    """Final accuracy of each seed, the mean over its folds."""
    seeds = dict.fromkeys(run.seed for run in runs)
    return [np.mean([run.final for run in runs if run.seed == seed]) for seed in seeds]


def _magnitude(values):
    """Mean and standard deviation over seeds of numbers of any size."""
    if not values:
        return "-"
    spread = f" ± {np.std(values):.2g}" if len(values) > 1 else ""
    return f"{np.mean(values):.4g}{spread}"


def _scenario(data_set):
    """S2, S5 or S10."""
    return f"S{data_set.n_tasks - 1}"


def _is_usual(row):
    """Whether a row has the common settings of its data set."""
    return row.model == "paper" and row.settings == row.data_set.parameters
