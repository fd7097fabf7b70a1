"""Parts of the paper's tables: sections with our figures beside the printed ones."""

from math import isnan, nan
from pathlib import Path

import numpy as np

from benchmarks.lib.published import ABSOLUTE
from benchmarks.paper.data_sets import BASE_CLASSES, FEATURES, PRETRAINING
from benchmarks.paper.printed import (
    CIFAR_AVERAGES,
    CIFAR_GROUP_AVERAGES,
    CIFAR_GROUPS,
    CIFAR_METHODS,
    SIZES,
)
from benchmarks.paper.tables import CLOSED, TRAINED

MODES = CLOSED, TRAINED


def part(table, rows, runner):
    """Return the part of a page that shows some rows of a table, as lines of Markdown."""
    printed = f", `{table.source}` of the paper" if table.source else ""
    lines = [f"## {table.title}{printed}", ""]
    lines += [f"- {line}" for line in (*_run_lines(rows, runner.plan), *table.notes)]
    dropped = [row.label for row in table.rows if row not in rows]
    lines += [f"- rows left out by --quick: {', '.join(dropped)}"] if dropped else []
    for section in table.sections:
        lines += ["", *SECTIONS[section](table, rows, runner)]
    return [*lines, "", "Rows:", "", *(f"- {_changes(row)}" for row in rows)]


def _run_lines(rows, plan):
    """Yield the lines that describe the runs as a whole."""
    for data_set in {row.data_set.title: row.data_set for row in rows}.values():
        yield f"{data_set.title}: {settings(data_set)}"
    name = rows[0].data_set.name
    features = FEATURES["gcn-narrow"].get(name)
    backbone = (
        f"SkeletonGCN, {_listed(features)}" if features else f"rows of {Path(plan.cifar).name}"
    )
    yield f"features of {data_set.title}: {backbone}"
    if any(row.pretraining.protocol != "none" for row in rows):
        n_base = BASE_CLASSES[name]
        yield f"pretraining: {_listed(PRETRAINING)}; the base classes are the first {n_base}"


def settings(data_set):
    """Describe the model of a data set."""
    parameters = {**ABSOLUTE, **data_set.parameters}
    epochs = f"{data_set.epochs} epochs of Algorithm 2 per task where trained"
    return f"published values, as_published({_listed(parameters)}), {epochs}"


def _changes(row):
    """Return the changes of a row in words."""
    changes = [] if row.model == "paper" else [f"model {row.model!r}"]
    changes += [_listed(row.parameters)] if row.parameters else []
    changes += [] if row.pretraining.protocol == "none" else [str(row.pretraining)]
    changes += [f"{row.epochs} epochs"] if row.epochs else []
    return f"{row.label}: {'; '.join(changes) or 'the settings above'}"


def _listed(parameters):
    # Long estimators break the lines of their names.
    return ", ".join(f"{name}={' '.join(repr(one).split())}" for name, one in parameters.items())


def finals(runner, row, mode, *, folds=False):
    """Final accuracy of each seed in percent: on the printed split, or the mean over the folds."""
    runs = runner.runs(row, mode, _splits(runner, row, folds=folds))
    return [100 * np.mean([run.final for run in runs_of_seed]) for runs_of_seed in runs]


def _splits(runner, row, *, folds):
    """Return the printed split, or all folds."""
    return runner.splits(row) if folds else [row.data_set.split]


def _final_cell(runner, row, mode, *, folds=False):
    """Return the final accuracies of a row and its failed runs as text."""
    values = finals(runner, row, mode, folds=folds)
    failures = runner.failures(row, mode, _splits(runner, row, folds=folds))
    if not failures:
        return spread(values)
    classes = ", ".join(sorted(set(failures)))
    if not values:
        return f"fails: {classes}"
    n_seeds = len(values) + len(failures)
    verb = "fails" if len(failures) == 1 else "fail"
    return f"{spread(values)} ({len(failures)} of {n_seeds} seeds {verb}: {classes})"


def mean_over_seeds(runner, row, mode, name):
    """Mean of some figures of a row on the printed split; None without runs."""
    runs = runner.runs(row, mode, [row.data_set.split])
    return np.mean([getattr(one, name) for (one,) in runs], axis=0) if runs else None


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


def report_names(data_set):
    """Names of reports; a base task of more classes is T0."""
    first = 1 if data_set.first_task_classes is None else 0
    return [f"T{first + i}" for i in range(data_set.n_reports)]


def _finals(table, rows, runner):
    """Final accuracies: the paper's, ours in both modes, the difference."""
    splits = {row.label: runner.splits(row) for row in rows}
    several = any(len(names) > 1 for names in splits.values())
    columns = ["paper", *MODES, f"{TRAINED} - paper", "seeds"]
    columns += [f"mean of the folds, {mode}" for mode in MODES] * several
    lines = _head("Final accuracy", table.rows_are, *columns)
    for row in rows:
        ours = {mode: finals(runner, row, mode) for mode in MODES}
        cells = [_number(row.final), *(_final_cell(runner, row, mode) for mode in MODES)]
        cells.append(_number(np.mean(ours[TRAINED] or nan) - row.final, "+.2f"))
        cells.append(max(map(len, ours.values())))
        if several:
            folds = len(splits[row.label]) > 1
            for mode in MODES:
                cells.append(_final_cell(runner, row, mode, folds=True) if folds else "-")
        lines.append(_line(row.label, *cells))
    return lines


def _tasks(table, rows, runner):
    """Accuracies after each report: closed form / trained (paper's)."""
    data_set = rows[0].data_set
    names = report_names(data_set)
    lines = _head("After each report, closed form / trained (paper)", table.rows_are, *names)
    for row in rows:
        unknown = [nan] * data_set.n_reports
        ours = [mean_over_seeds(runner, row, mode, "accuracies") for mode in MODES]
        ours = [unknown if one is None else 100 * one for one in ours]
        lines.append(_line(row.label, *map(_beside, *ours, row.accuracies or unknown)))
    return lines


def _sizes(table, rows, runner):
    """Network sizes of the row with the common settings, counted as in the paper."""
    usual_rows = [row for row in rows if row.model == "paper" and is_usual(row)]
    sizes = None
    if usual_rows:
        row = usual_rows[0]
        sizes = mean_over_seeds(runner, row, CLOSED, "sizes")
    if sizes is None:
        return ["Network sizes: the row with the common settings is missing."]
    data_set, (weights, width, printed) = row.data_set, SIZES[table.source]
    sizes = sizes[:: data_set.tasks_per_report]
    # The paper prints the size after the first task of each report.
    n_classes = np.arange(data_set.n_reports) * data_set.classes_per_report
    n_classes += data_set.classes_per_task
    ours = printed_size(sizes, n_classes, width * n_classes, weights)
    return [
        *_head(f"Network sizes of {row.label}", "classes", *n_classes),
        _line("paper", *printed),
        _line("ours, counted as in the paper", *(_number(size, ".0f") for size in ours)),
        _line("parameters that are stored", *(_number(size, ".0f") for size in sizes)),
    ]


def printed_size(size, n_classes, width, backbone):
    """Count parameters as the paper does: all ordered pairs, and a class's pair with itself.

    A pair has a hyperplane, an offset and a weight in the aggregated score. The package stores each
    pair once, since both orders have the same hyperplane up to its sign.
    """
    in_pairs = n_classes * (n_classes - 1) // 2 * (width + 1)
    return backbone + size - in_pairs + n_classes**2 * (width + 2)


def is_usual(row):
    """Whether a row has the common settings of its data set."""
    return {**row.data_set.parameters, **row.parameters} == dict(row.data_set.parameters)


def _bounds(table, rows, runner):
    """Bounds on forgetting in the last task, over all steps and of one step, and their shares."""
    columns = ["paper", f"all steps, {TRAINED}"]
    columns += [f"one step, {mode}" for mode in MODES]
    columns += [f"drift, {TRAINED}", "share of the largest, paper", "share, all steps"]
    lines = _head("Bound on forgetting in the last task", table.rows_are, *columns)
    sums = [mean_over_seeds(runner, row, TRAINED, "printed_bound") for row in rows]
    recorded = [bound for bound in sums if bound is not None and not isnan(bound)]
    largest = max(recorded, default=nan)
    largest_printed = max(row.bound for row in rows)
    for row, summed in zip(rows, sums, strict=True):
        figures = [row.bound, summed]
        figures += [mean_over_seeds(runner, row, mode, "bound") for mode in MODES]
        figures += [mean_over_seeds(runner, row, TRAINED, "drift"), row.bound / largest_printed]
        figures += [None if summed is None else summed / largest]
        lines.append(_line(row.label, *map(_magnitude, figures)))
    return [
        *lines,
        "",
        "All steps: the printed sum over the steps of the descent. One step: the bound of the "
        "package, as if the last task were one step from zero. Both are for all training samples "
        "of the previous tasks together, in the units of our features; what the paper sums over "
        "it does not say. Shares can be compared.",
    ]


def _averages(table, rows, runner):
    """Average incremental accuracies: the paper's, ours in both modes."""
    lines = _head("Average incremental accuracy", table.rows_are, "paper", *MODES)
    for row in rows:
        ours = [mean_over_seeds(runner, row, mode, "accuracies") for mode in MODES]
        cells = ("-" if one is None else _number(100 * one.mean()) for one in ours)
        lines.append(_line(row.label, _number(printed_average(row)), *cells))
    return lines


def _matrices(table, rows, runner):
    """Accuracy on each group of classes after each task: closed form / trained (paper's)."""
    return [line for row in rows for line in ["", *_matrix(row, runner)]][1:]


def _matrix(row, runner):
    """One matrix: test classes are rows, tasks are columns."""
    printed, data_set = printed_matrix(row.data_set), row.data_set
    ours = [mean_over_seeds(runner, row, mode, "matrix") for mode in MODES]
    ours = [np.full_like(printed, nan) if one is None else 100 * one for one in ours]
    title = f"Groups of classes, {row.label}, closed form / trained (paper)"
    lines = _head(title, "test classes", *report_names(data_set), "average")
    for j, average in enumerate(CIFAR_GROUP_AVERAGES[_scenario(data_set)]):
        first = data_set.first_task_classes + (j - 1) * data_set.classes_per_task if j else 0
        last = data_set.first_task_classes + j * data_set.classes_per_task - 1
        means = (one[j:, j].mean() for one in ours)
        cells = [""] * j + list(map(_beside, *(one[j:, j] for one in (*ours, printed))))
        lines.append(_line(f"{first}-{last}", *cells, _beside(*means, average)))
    return lines


def _methods(table, rows, runner):
    """Parameters and average incremental accuracies that the paper prints of other methods."""
    scenarios = ("S2", "S5", "S10")
    lines = _head("Printed parameters and average incremental accuracy", "method", *scenarios)
    for method, figures in CIFAR_METHODS.items():
        lines.append(_line(method, *(figures[scenario] for scenario in scenarios)))
    return lines


# Functions of the table, its rows and the runner, by what the tables call them.
SECTIONS = {
    "finals": _finals,
    "tasks": _tasks,
    "sizes": _sizes,
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


def _magnitude(value):
    """A number of any size."""
    return "-" if value is None or isnan(value) else f"{value:.4g}"


def _beside(closed, trained, printed):
    """Our two figures, and the printed one in parentheses where there is one."""
    ours = f"{_number(closed, '.1f')} / {_number(trained, '.1f')}".replace("- / -", "-")
    return ours if isnan(printed) else f"{ours} ({printed:.2f})"


def spread(values):
    """Mean and standard deviation over seeds, of values in percent."""
    if len(values) == 0:
        return "-"
    deviation = f" ± {np.std(values):.2f}" if len(values) > 1 else ""
    return f"{np.mean(values):.2f}{deviation}"


def csv_line(cells):
    """Return the cells as a line of a csv-table."""
    texts = []
    for cell in cells:
        if cell == "-":
            # A single hyphen would start a list.
            texts.append(r"\-")
        elif "," in cell:
            texts.append(f'"{cell}"')
        else:
            texts.append(cell)
    return ", ".join(texts)


def _scenario(data_set):
    """S2, S5 or S10."""
    return f"S{data_set.n_reports - 1}"
