"""Draw accuracy, time and state of FFNB beside the other heads, from the recorded test rows.

python benchmarks/overview.py docs/benchmarks/defaults_test.csv docs/benchmarks/overview.png
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import heads
import numpy as np

LABELS = {"default": "FFNB, default"}
COLUMNS = ["Accuracy (%)", "Learn and predict (s)", "State (MB)"]


def means(records):
    """Accuracy, seconds and megabytes of each method over the sets, the most accurate first.

    Runs are averaged within a set first. The accuracy is the mean over sets in percent; time and
    state, whose orders of magnitude differ, are geometric means.
    """
    runs = defaultdict(list)
    for one in records:
        seconds = float(one["fit_s"]) + float(one["predict_s"])
        values = 100.0 * float(one["final"]), seconds, float(one["state_mb"])
        runs[one["method"], one["set"]].append(values)
    sets = defaultdict(list)
    for (method, _), values in runs.items():
        sets[method].append(np.mean(values, axis=0))
    found = {}
    for method, values in sets.items():
        accuracy, seconds, state = np.transpose(values)
        costs = [float(np.exp(np.log(one).mean())) for one in (seconds, state)]
        found[method] = (float(accuracy.mean()), *costs)
    return dict(sorted(found.items(), key=lambda item: -item[1][0]))


def label(method):
    """Name of a method for people."""
    return LABELS.get(method) or heads.METHODS[method].label


def plot(found, path):
    """Draw a row of points per method, and a column per quantity."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(6.8, 3.6), sharey=True, layout="constrained")
    rows = np.arange(len(found))
    colors = ["#D55E00" if method == "default" else "#0072B2" for method in found]
    formats = ["{:.1f}", "{:.2g}", "{:.2g}"]
    for axes, name, text, values in zip(
        panels, COLUMNS, formats, np.transpose(list(found.values())), strict=True
    ):
        axes.scatter(values, rows, c=colors, zorder=3)
        for row, value in enumerate(values):
            axes.annotate(
                text.format(value), (value, row), (6, 0), textcoords="offset points", va="center"
            )
        axes.set_xlabel(name)
        axes.margins(x=0.4)
        axes.grid(axis="both", alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[1:]:
        axes.set_xscale("log")
    panels[0].set_yticks(rows, [label(method) for method in found])
    panels[0].invert_yaxis()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(arguments=None):
    """Read the recorded runs, print the means, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="a .csv of benchmarks/defaults.py")
    parser.add_argument("target", type=Path, help="a .png")
    options = parser.parse_args(arguments)
    with open(options.source, encoding="utf-8", newline="") as file:
        found = means(csv.DictReader(file))
    for method, (accuracy, seconds, state) in found.items():
        print(f"{label(method):<20} {accuracy:.1f} % {seconds:.3g} s {state:.3g} MB")
    plot(found, options.target)


if __name__ == "__main__":
    main()
