"""Measure network sizes and the seconds of an epoch, beside the printed ones.

    python -m benchmarks.paper.times --data FOLDER --threads 1 --out times.md

The model of `benchmarks.paper.paper` learns one class per task. At each report of the paper the
next task is learned twice from the same state, without epochs and with some, and the difference of
the two times is that of the epochs. Run it on a quiet machine.
"""

import argparse
import time
import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np

from benchmarks.lib.data import default_folder
from benchmarks.lib.report import environment_lines, limited, page, table
from benchmarks.paper.data_sets import FPHA_BY_CLASS, SBU, load_splits
from benchmarks.paper.printed import EPOCH_SECONDS, SIZES
from benchmarks.paper.report import printed_size, settings
from benchmarks.paper.runs import IDLE, build_model
from benchmarks.paper.tables import CLOSED, Row
from ffnb_sklearn import class_incremental_tasks

# Epochs that a task is timed with, of which the mean is taken.
EPOCHS = 10
# Printed tables of sizes and times.
SOURCES = {"sbu": "table1", "fpha": "table12"}


def seconds_of(model, epochs, X, y):
    """Return the seconds of one more task with some epochs, and the model after it."""
    model = deepcopy(model).set_params(bands__max_epochs=epochs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", IDLE)
        start = time.perf_counter()
        model.partial_fit(X, y)
        seconds = time.perf_counter() - start
    return seconds, model


def measure(data_set, folder):
    """Return the numbers of classes, parameters and seconds per epoch at each report."""
    split = load_splits(data_set.name, folder)[data_set.split]
    model = build_model(Row("", data_set), CLOSED, seed=0)
    figures = []
    for number, task in enumerate(class_incremental_tasks(split.y, **data_set.stream)):
        X, y = split.X[task], split.y[task]
        closed, after = seconds_of(model, 0, X, y)
        if number % data_set.tasks_per_report == 0:
            trained, _ = seconds_of(model, EPOCHS, X, y)
            seconds = max(trained - closed, 0.0) / EPOCHS
            figures.append((len(after.classes_), after.n_parameters_, seconds))
        model = after
    return np.array(figures).T


def part(data_set, folder):
    """Return the section of a data set as lines of Markdown."""
    source = SOURCES[data_set.name]
    backbone, neurons, sizes = SIZES[source]
    n_classes, stored, seconds = measure(data_set, folder)
    counted = printed_size(stored, n_classes, neurons * n_classes, backbone)
    rows = [
        ["printed parameters", *sizes],
        ["ours, counted as in the paper", *(f"{size:.0f}" for size in counted)],
        ["ours, stored", *(f"{size:.0f}" for size in stored)],
        ["printed seconds per epoch", *EPOCH_SECONDS[source]],
        ["ours, without a backbone", *(f"{value:.4f}" for value in seconds)],
    ]
    columns = ["classes", *(f"{count:.0f}" for count in n_classes)]
    head = [f"## {data_set.title}, `{source}` of the paper", "", f"- {settings(data_set)}", ""]
    return [*head, *table(columns, rows)]


def main(arguments=None):
    """Measure both data sets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=default_folder(), help="data files")
    parser.add_argument("--threads", type=int, help="threads of BLAS and torch; default: theirs")
    parser.add_argument("--out", type=Path, help=".md of both tables")
    options = parser.parse_args(arguments)
    with limited(options.threads):
        parts = [part(data_set, options.data) for data_set in (SBU, FPHA_BY_CLASS)]
        environment = environment_lines()
    lines = [
        f"ours: mean of {EPOCHS} epochs of the task of the last class, on rows of features",
        "printed: on a GeForce GTX 1070; the paper does not say whether the backbone is included",
    ]
    text = page("Sizes and times of the paper's network", environment, lines, *parts)
    print(text, end="")
    if options.out is not None:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
