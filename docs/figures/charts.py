"""Charts of recorded tables: docs/benchmarks/reading.rst shows them."""

import csv
from collections import defaultdict
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

# Sphinx runs this file in its folder, and does not define __file__.
RESULTS = Path("../../benchmarks/results/heads")
# Key, name in the chart, and whether the method is fitted to all rows at once.
METHODS = [
    ("ffnb", "FFNBClassifier", False),
    ("klda", "KLDA", False),
    ("ranpac", "RanPAC", False),
    ("fecam", "FeCAM", False),
    ("slda", "SLDA", False),
    ("ncm", "nearest mean", False),
    ("svm", "SVM, tuned", True),
    ("forest", "random forest", True),
    ("neighbour", "1-NN", True),
]
TABLES = [("heads.csv", "9 sets of features"), ("public.csv", "17 public tables")]


def read_means(table):
    """Return the mean accuracy, and geometric means of megabytes and seconds, of each method."""
    runs_of_sets = defaultdict(list)
    with (RESULTS / table).open(newline="", encoding="utf-8") as file:
        for run in csv.DictReader(file):
            seconds = float(run["learning_s"]) + float(run["first_s"])
            values = (float(run["balanced"]), float(run["state_mb"]), seconds)
            runs_of_sets[run["method"], run["set"]].append(values)
    means_of_sets = defaultdict(list)
    for (method, _), runs in runs_of_sets.items():
        means_of_sets[method].append(np.mean(runs, axis=0))
    means = {}
    for method, rows in means_of_sets.items():
        accuracies, megabytes, seconds = np.transpose(rows)
        geometric = np.exp(np.mean(np.log([megabytes, seconds]), axis=1))
        means[method] = (accuracies.mean(), *geometric)
    return means


def draw_charts(column, label):
    """Draw the accuracy of each method against a column of the means."""
    size = (3.8 * len(TABLES), 3.6)
    _, panels = plt.subplots(1, len(TABLES), figsize=size, layout="constrained")
    for panel, (table, title) in zip(panels, TABLES, strict=True):
        means = read_means(table)
        for method, name, is_joint in METHODS:
            if method not in means:
                continue
            color = "tab:blue" if method == "ffnb" else "grey" if is_joint else "tab:orange"
            marker = "s" if is_joint else "o"
            accuracy = means[method][0]
            cost = means[method][column]
            panel.plot(cost, accuracy, marker, color=color)
            # The names of the two neighbours on tables stand apart.
            height = -11 if method == "forest" else 4
            panel.annotate(
                name,
                (cost, accuracy),
                (4, height),
                textcoords="offset points",
                fontsize=8,
                color=color,
            )
        panel.set(xscale="log", xlabel=label, title=title)
        panel.margins(x=0.25, y=0.1)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("balanced accuracy, %")


def draw_accuracy_and_memory():
    """Draw the accuracy against the megabytes stored."""
    draw_charts(1, "megabytes stored")


def draw_accuracy_and_seconds():
    """Draw the accuracy against the seconds to learn and to answer first."""
    draw_charts(2, "seconds to learn and to answer first")
