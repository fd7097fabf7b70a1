"""Compare classifiers on many data sets: accuracy, log-loss, state, and seconds.

Tasks of new classes are streamed through `IncrementalDiscriminantAnalysis` (IDA), `FFNBClassifier`
(FFNB) and the heads of other papers; joint methods see all rows at once and store what they need of
them. The first method is the reference of the others.

    python -m benchmarks.heads.compare --sets study public more --tables FOLDER
    python -m benchmarks.heads.compare --sets features --methods ida ffnb slda fecam ranpac klda svm
    python -m benchmarks.heads.compare --sets wine --settings "rank=16" "band_size=1, p=0.9"
    python -m benchmarks.heads.compare --sets study --against old.csv --out new.csv
    python -m benchmarks.heads.compare --features mine.npz --classes-per-task 10
    python -m benchmarks.heads.compare --features X.npy y.npy --method "mymodule:MyClassifier(C=2)"
    python -m benchmarks.heads.compare --sets digits --class-order random --seeds 0 1 2 --average
    python -m benchmarks.heads.compare --sets digits --seeds 0 --plots FOLDER --out page.md

A name of --sets is a group (study, features, generated, classification, surrounding, unequal-sizes,
or a file of --tables, such as public and more, which `collect_tables` writes) or a set, in the
first group that has it. A seed draws the split, unless the set has a fixed one, and the random
features. Classes arrive in sorted order, in a random order that each seed draws (--class-order
random), or in the order of a seed for all runs (--class-order 1993 is that of most papers).
"""

import os
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import balanced_accuracy_score
from sklearn.utils.class_weight import compute_sample_weight

from benchmarks.heads.charts import CHARTS, describe_chart, draw_chart, points_of
from benchmarks.heads.methods import METHODS, Context, own_method, setting
from benchmarks.lib.clock import state_megabytes, timed
from benchmarks.lib.report import (
    command_line,
    environment_lines,
    limited,
    page,
    publish,
    read_records,
    table,
    write,
)
from benchmarks.lib.sets import GROUPS, Problem, hold_out, load_group, own_rows
from ffnb_sklearn import class_incremental_tasks

DEFAULT_METHODS = ["ida", "ffnb", "ida-2000", "slda", "fecam", "ranpac-fixed", "klda", "lda", "svm"]

# Figures of a run: percent, percent, nats, share, percent, megabytes, and seconds.
KEYS = ("group", "set", "split", "seed", "class_order", "method")
FIGURES = ("balanced", "accuracy", "log_loss", "calibration", "average", "state_mb")
FIGURES += ("learning_s", "first_s", "predict_s")
HEADINGS = ["balanced %", "accuracy %", "log-loss", "ECE", "average %", "state MB"]
HEADINGS += ["learning s", "first prediction s", "prediction s"]

# Accuracies after each task in percent, as text, in the last column of a .csv file.
CURVE = "after_tasks"

# Means of these are geometric: their orders of magnitude differ.
COSTS = FIGURES[5:]

N_BINS = 10


def calibration_error(probabilities, columns):
    """Return the expected calibration error over ten bins of equal width.

    `probabilities` have the shape (n_samples, C), and `columns` are those of the true classes.
    """
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == columns
    bins = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    gaps = [abs(np.sum(confidence[bins == b] - right[bins == b])) for b in range(N_BINS)]
    return float(np.sum(gaps) / len(columns))


def tasks_of(problem, y, context):
    """Return the positions of the rows of each task."""
    return class_incremental_tasks(
        y,
        classes_per_task=problem.classes_per_task,
        first_task_classes=problem.first_task_classes,
        class_order=problem.class_order(y, context.class_order, context.seed),
    )


def learn_task(estimator, X, y, labels):
    """Learn a task; declare all labels to an estimator that asks for ``classes=``."""
    try:
        estimator.partial_fit(X, y)
    except (TypeError, ValueError) as error:
        if "classes" not in str(error):
            raise
        estimator.partial_fit(X, y, classes=labels)


def measure(method, problem, split, context, *, average=False):
    """Learn one split, predict, and return the figures of `FIGURES`, and the curve.

    `average` scores the classes learned so far after each task as well. Joint methods are then
    refitted on all rows so far, once there are two classes; else they are fitted once.
    """
    estimator = method.build(context)
    labels = np.unique(split.y)
    learn = estimator.fit if method.joint else partial(learn_task, estimator, labels=labels)
    tasks = tasks_of(problem, split.y, context)
    so_far = [np.concatenate(tasks[: k + 1]) for k in range(len(tasks))]
    if method.joint:
        tasks = so_far if average else so_far[-1:]
    seconds, scores = 0.0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for task, rows in zip(tasks, so_far[-len(tasks) :], strict=True):
            learned = np.unique(split.y[rows])
            if method.joint and len(learned) == 1 < len(labels):
                continue
            seconds += timed(learn, split.X[task], split.y[task])[0]
            if average and len(learned) < len(labels):
                seen = np.isin(split.y_test, learned)
                scores.append(estimator.score(split.X_test[seen], split.y_test[seen]))
    found = {"state_mb": state_megabytes(estimator), "learning_s": seconds}
    if method.joint and not method.keeps_rows:
        found["state_mb"] += (split.X.nbytes + split.y.nbytes) / 1e6
    found["first_s"], _ = timed(estimator.predict, split.X_test[:1])
    found["predict_s"], predicted = timed(estimator.predict, split.X_test)
    right = float(np.mean(predicted == split.y_test))
    found |= {
        "accuracy": 100.0 * right,
        "balanced": 100.0 * balanced_accuracy_score(split.y_test, predicted),
        "average": 100.0 * np.mean([*scores, right]) if average else np.nan,
        **probability_figures(estimator, split),
    }
    curve = [f"{100.0 * score:.2f}" for score in [*scores, right]] if average else []
    return {name: float(found[name]) for name in FIGURES} | {CURVE: " ".join(curve)}


def probability_figures(estimator, split):
    """Return log-loss with equal weights of the classes and calibration error, nan for none."""
    if not hasattr(estimator, "predict_proba"):
        return {"log_loss": np.nan, "calibration": np.nan}
    # Probabilities of exactly zero are given the benefit of the doubt: ours are never zero.
    probabilities = np.maximum(estimator.predict_proba(split.X_test), 1e-280)
    weights = compute_sample_weight("balanced", split.y_test)
    columns = np.searchsorted(estimator.classes_, split.y_test)
    loss = -np.log(probabilities[np.arange(len(columns)), columns])
    return {
        "log_loss": np.average(loss, weights=weights),
        "calibration": calibration_error(probabilities, columns),
    }


def run(options):
    """Run all methods on all sets; return the records, those of --resume among them."""
    known = {tuple(one[key] for key in KEYS): one for one in options.resume}
    records = [one | {"method": one["method"] + " before"} for one in options.against]
    for group, problem in options.problems:
        for seed in options.seeds:
            width = options.width or problem.width
            context = Context(seed, width, options.device, options.class_order)
            for split in problem.splits(seed):
                rows = hold_out(split, seed) if options.hold_out else split
                for name, method in options.methods.items():
                    order = str(options.class_order)
                    key = (group, problem.name, rows.name, str(seed), order, name)
                    if key not in known:
                        figures = measure(method, problem, rows, context, average=options.average)
                        known[key] = dict(zip(KEYS, key, strict=True)) | figures
                        print(*key, f"{figures['balanced']:.2f}", sep=", ", file=sys.stderr)
                    records.append(known[key])
        # An interrupted run goes on with --resume.
        for path in options.out:
            if path.suffix == ".csv":
                write(path, "", records)
    return records


def given(paths):
    """Return the records of earlier runs.

    Raises
    ------
    ValueError
        If a file is no .csv, or has other columns.
    """
    is_csv = all(path.suffix == ".csv" for path in paths)
    records = read_records(paths) if is_csv else []
    if not is_csv or any(one.keys() != {*KEYS, *FIGURES, CURVE} for one in records):
        raise ValueError(f"--resume and --against take .csv files of this script; got {paths}")
    return [one | {key: float(one[key]) for key in FIGURES} for one in records]


def means(records):
    """Return the mean figures by group, set and method, over splits and seeds."""
    found = {}
    for one in records:
        key = one["group"], one["set"], one["method"]
        found.setdefault(key, []).append([one[name] for name in FIGURES])
    return {
        key: dict(zip(FIGURES, np.mean(rows, axis=0), strict=True)) for key, rows in found.items()
    }


def group_means(by_set, group, method):
    """Return the means over the sets of a group, geometric ones of the costs."""
    rows = [one for (g, _, m), one in by_set.items() if (g, m) == (group, method)]
    return {
        name: np.exp(np.mean([np.log(max(one[name], 1e-9)) for one in rows]))
        if name in COSTS
        else np.mean([one[name] for one in rows])
        for name in FIGURES
    }


def deviations(records):
    """Return the deviations of the figures over the seeds by group, set and method.

    The splits of a seed are averaged first. An entry of a set that is None is for all sets of the
    group: the deviation of the mean over the sets. There is none for a single seed.
    """
    by_seed = {}
    for one in records:
        for name in (one["set"], None):
            seeds = by_seed.setdefault((one["group"], name, one["method"]), {})
            sets = seeds.setdefault(one["seed"], {})
            sets.setdefault(one["set"], []).append([one[figure] for figure in FIGURES])
    found = {}
    for key, seeds in by_seed.items():
        if len(seeds) > 1:
            means_of_seeds = [
                np.mean([np.mean(rows, axis=0) for rows in sets.values()], axis=0)
                for sets in seeds.values()
            ]
            found[key] = dict(zip(FIGURES, np.std(means_of_seeds, axis=0, ddof=1), strict=True))
    return found


def mean_curves(records):
    """Return the mean accuracies after each task, and their deviations, by group, set and method.

    Only runs with as many tasks as the first are averaged, and only runs with a curve.
    """
    curves = {}
    for one in records:
        curve = [float(text) for text in one[CURVE].split()]
        rows = curves.setdefault((one["group"], one["set"], one["method"]), [])
        if curve and len(curve) == len(rows[0] if rows else curve):
            rows.append(curve)
    return {
        key: (np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) if len(rows) > 1 else None)
        for key, rows in curves.items()
        if rows
    }


def mean_ranks(by_set, group, methods):
    """Return the mean rank of each method over the sets of a group that all methods were run on."""
    rows = []
    for name in dict.fromkeys(s for g, s, _ in by_set if g == group):
        if all((group, name, method) in by_set for method in methods):
            # Accuracies that differ by rounding are ties.
            rows.append([-round(by_set[group, name, m]["balanced"], 6) for m in methods])
    ranks = np.mean([rankdata(row) for row in rows], axis=0) if rows else [np.nan] * len(methods)
    return dict(zip(methods, ranks, strict=True))


def difference_row(by_set, method, reference, groups):
    """Return the changes of a method against the reference, a cell per group."""
    cells = []
    for group in groups:
        pairs = {
            name: (one, by_set[group, name, reference])
            for (g, name, m), one in by_set.items()
            if (g, m) == (group, method) and (group, name, reference) in by_set
        }
        if not pairs:
            cells.append("-")
            continue
        gaps = {name: a["balanced"] - b["balanced"] for name, (a, b) in pairs.items()}
        loss = np.mean([a["log_loss"] - b["log_loss"] for a, b in pairs.values()])
        ratios = [
            np.exp(np.mean([np.log(max(a[c], 1e-9) / max(b[c], 1e-9)) for a, b in pairs.values()]))
            for c in COSTS[:3]
        ]
        worst = min(gaps, key=gaps.get)
        text = f"{np.mean(list(gaps.values())):+.2f} ({worst} {gaps[worst]:+.2f})"
        text += "" if np.isnan(loss) else f", log-loss {loss:+.3f}"
        cells.append(text + ", x{:.2f} / {:.2f} / {:.2f}".format(*ratios))
    return cells


def report(records, options, environment):
    """Return the report as Markdown: means by group, differences, and every set."""
    by_set, spread = means(records), deviations(records)
    groups = list(dict.fromkeys(group for group, _, _ in by_set))
    methods = list(dict.fromkeys(method for _, _, method in by_set))
    labels = {name: options.methods[name].label for name in options.methods}
    labels |= {name: name for name in methods if name not in labels}
    reference = next(iter(options.methods))
    parts = []
    for group in groups:
        here = [m for m in methods if any((g, k) == (group, m) for g, _, k in by_set)]
        ranks = mean_ranks(by_set, group, here)
        rows = [
            [
                labels[m],
                *cells(group_means(by_set, group, m), spread.get((group, None, m))),
                f"{ranks[m]:.2f}",
            ]
            for m in here
        ]
        n_sets = len({name for g, name, _ in by_set if g == group})
        title = f"{group}: means over {n_sets} sets"
        parts += [[f"## {title}"]]
        if options.plots:
            group_figures = {m: group_means(by_set, group, m) for m in here}
            parts += [chart_lines(group, group_figures, title, labels, options)]
        parts += [table(["method", *HEADINGS, "mean rank"], rows)]
    rows = [
        [labels[m], *difference_row(by_set, m, reference, groups)]
        for m in methods
        if m != reference
    ]
    if rows:
        parts += [[f"## Against {labels[reference]}"], table(["method", *groups], rows)]
    rows = [[key[1], labels[key[2]], *cells(one, spread.get(key))] for key, one in by_set.items()]
    parts += [["## Every set"], table(["set", "method", *HEADINGS], rows)]
    parts += curve_parts(mean_curves(records), labels)
    sources = {
        one.name: f"- {one.name}: {one.source}; {one.protocol}" for _, one in options.problems
    }
    parts += [["Sets:", "", *sources.values()]]
    parts += [["Methods:", "", *(f"- {one.label}: {one.note}" for one in options.methods.values())]]
    return page(options.title, environment, notes(options), *parts)


def chart_lines(group, group_figures, title, labels, options):
    """Save the charts of a group, and return the lines that show them on the page."""
    folder = options.plots
    for path in options.out:
        if path.suffix == ".md":
            folder = Path(os.path.relpath(options.plots, path.parent))
    joint = {name for name, method in options.methods.items() if method.joint}
    lines = ["Blue: the first method; grey squares: methods that are fitted to all rows at once."]
    for cost in CHARTS:
        points = points_of(group_figures, cost)
        name = f"{group}_{cost}.png"
        picture = draw_chart(points, cost, labels, joint, title)
        picture.savefig(options.plots / name, dpi=110)
        text = describe_chart(points, cost, labels)
        lines += ["", f"![{text}]({(folder / name).as_posix()})"]
    return lines


def curve_parts(curves, labels):
    """Return a table of the accuracies after each task for each set that has any."""
    parts = []
    for name in dict.fromkeys((group, name) for group, name, _ in curves):
        here = {key[2]: curve for key, curve in curves.items() if key[:2] == name}
        n_tasks = max(len(curve) for curve, _ in here.values())
        rows = []
        for method, (curve, spread) in here.items():
            texts = [f"{value:.2f}" for value in curve]
            if spread is not None:
                texts = [f"{text} ± {value:.2f}" for text, value in zip(texts, spread, strict=True)]
            # A joint method begins with two classes.
            rows.append([labels[method], *["-"] * (n_tasks - len(texts)), *texts])
        headings = ["method", *(f"task {number}" for number in range(1, n_tasks + 1))]
        parts += [[f"## {name[1]}: accuracy % after each task"], table(headings, rows)]
    return parts


def cells(figures, spread=None):
    """Return the figures of a row as text, accuracies with their deviations over the seeds."""
    forms = ["{:.2f}", "{:.2f}", "{:.3f}", "{:.3f}", "{:.2f}", *["{:.3g}"] * 4]
    texts = []
    for name, form in zip(FIGURES, forms, strict=True):
        text = "-" if np.isnan(figures[name]) else form.format(figures[name])
        if spread is not None and form == "{:.2f}" and text != "-":
            text += f" ± {spread[name]:.2f}"
        texts.append(text)
    return texts


def order_note(class_order):
    """Return what a report says of the order of the classes."""
    if class_order == "sorted":
        return "class order: sorted"
    drawn = "each seed draws it"
    if class_order != "random":
        drawn = f"the seed {class_order} draws it for all runs"
    return f"class order: random, {drawn}; classes of a pretrained network come first"


def notes(options):
    """Return the lines below the environment."""
    return [
        f"seeds: {', '.join(map(str, options.seeds))}"
        + ("; a quarter of the training rows is held out and scored" if options.hold_out else "")
        + ("; ± is the standard deviation over seeds" if len(options.seeds) > 1 else ""),
        order_note(options.class_order),
        "balanced %: mean over the classes of the share of their test rows that are right, after "
        "the last task; log-loss: with equal weights of the classes; ECE: expected calibration "
        "error; average %: mean accuracy over the tasks (--average)",
        "state: the pickled estimator before its first prediction, and the rows that a joint "
        "method needs to be fitted again; learning: all tasks, of joint methods one fit, or a fit "
        "per task with --average; first prediction: of one row, and the solution that it needs; "
        "prediction: all test rows",
        "means over the sets: geometric for state and seconds; against the reference: mean "
        "difference of balanced accuracy (worst set), of log-loss, and ratios of state, learning "
        "and first prediction",
    ]


def parse(arguments):
    """Read the command line, and find the sets and methods that it names."""
    parser = command_line(__doc__, quick="wine and iris, one seed, three methods", data=True)
    add = parser.add_argument
    add("--sets", nargs="+", help="groups and sets; default: study")
    add("--tables", type=Path, help="folder of GROUP.npz files; default: that of --data")
    add("--methods", nargs="*", choices=list(METHODS), default=DEFAULT_METHODS)
    add("--settings", nargs="+", default=[], help='IDA or FFNB with other values: "rank=16"')
    add("--method", nargs="+", default=[], help='own estimators: "module:Class(name=value)"')
    add("--seeds", nargs="+", type=int, default=[0, 1, 2])
    add("--class-order", type=class_order, default="sorted", help="sorted, random, or a seed")
    add("--hold-out", action="store_true", help="score a quarter of the training rows, no test row")
    add("--average", action="store_true", help="also score after each task")
    add("--resume", nargs="+", type=Path, default=[], help=".csv of runs that are not made again")
    add("--again", nargs="+", default=[], help="methods whose runs of --resume are made again")
    add("--against", nargs="+", type=Path, default=[], help=".csv of another version's runs")
    add("--features", nargs="+", type=Path, help="own rows: a .npz, or two .npy of X and y")
    add("--classes-per-task", type=int, default=1, help="only for --features")
    add("--first-task-classes", type=int, help="only for --features")
    add("--width", type=int, help="random neurons of RanPAC, KLDA, AnaCP, instead of the set's")
    add("--device", default="cpu", help="device for IDA and FFNB")
    add("--plots", type=Path, help="folder of the charts of accuracy against megabytes and seconds")
    add("--title", default="Beside other classifiers", help="of the page")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sets, options.seeds = options.sets or ["wine", "iris"], [0]
        options.methods = options.methods[:3]
    options.methods = {name: METHODS[name] for name in options.methods}
    try:
        options.methods |= {text: setting(text) for text in options.settings}
        options.methods |= {text: own_method(text) for text in options.method}
        options.problems = find_problems(options)
        options.resume, options.against = given(options.resume), given(options.against)
        options.resume = [one for one in options.resume if one["method"] not in options.again]
    except (ValueError, FileNotFoundError) as error:
        parser.error(str(error))
    if not options.methods:
        parser.error("--methods, --settings or --method must name a method")
    return options


def class_order(text):
    """Read the order of the classes on the command line."""
    return text if text in ("sorted", "random") else int(text)


def find_problems(options):
    """Return pairs of a group and a problem."""
    if options.features is not None:
        own = Problem(
            options.features[0].stem,
            f"rows of {', '.join(path.name for path in options.features)}",
            # A wrong file is refused before any run.
            own_rows(options.features),
            options.classes_per_task,
            options.first_task_classes,
        )
        return [("own", own)]
    load = partial(load_group, folder=options.data, tables=options.tables or options.data)
    names, found = options.sets or ["study"], []
    single = {}
    if any(name not in GROUPS for name in names):
        single = {n: (g, one) for g in reversed(GROUPS) for n, one in load(g).items()}
    for name in names:
        if name in single:
            found.append(single[name])
        else:
            found += [(name, one) for one in load(name).values()]
    return found


def main(arguments=None):
    """Run the comparison, print its report, and return the records."""
    options = parse(arguments)
    with limited(options.threads):
        records = run(options)
        text = report(records, options, environment_lines(device=options.device))
    publish(text, records, options.out)
    return records


if __name__ == "__main__":
    main()
