"""Measure accuracy against megabytes and seconds over the number of shared neurons.

python -m benchmarks.settings.size --out size.md size.csv --plot size.png
python -m benchmarks.settings.size --sets public more --tables FOLDER --sizes 0 200 500 2000
python -m benchmarks.settings.size --from size.csv --plot size.png
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.heads import compare
from benchmarks.lib.report import read_records

SIZES = [0, 50, 100, 200, 500, 1000, 2000, 4000]
PANELS = {"state_mb": "Model (MB)", "learning_s": "Learning (s)", "first_s": "First prediction (s)"}


def method_of(size):
    """Return the name of a size among the methods of `compare`."""
    return f"shared_band_size={size}"


def curves(records):
    """Return the mean accuracy and costs by group and size, over the sets that all sizes have.

    The sizes are in ascending order; costs are geometric means.
    """
    by_set = compare.means(records)
    sizes = sorted({int(method.partition("=")[2]) for _, _, method in by_set})
    groups = dict.fromkeys(group for group, _, _ in by_set)
    return {
        group: {n: compare.group_means(by_set, group, method_of(n)) for n in sizes}
        for group in groups
    }


def plot(found, path):
    """Draw the accuracy against each cost, a curve per group with its sizes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9.0, 3.2), sharey=True, layout="constrained")
    for axes, (cost, title) in zip(panels, PANELS.items(), strict=True):
        for group, by_size in found.items():
            x, y = np.array([[one[cost], one["balanced"]] for one in by_size.values()]).T
            axes.plot(x, y, "o-", ms=4, label=group)
            for size, *place in zip(by_size, x, y, strict=True):
                axes.annotate(size, place, (0, 5), textcoords="offset points", fontsize=7)
        axes.set(xscale="log", xlabel=title)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("Balanced accuracy (%)")
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main(arguments=None):
    """Run `compare` over the sizes, or read its records, and draw them.

    Options that are not listed here are those of `compare`.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--sizes", nargs="+", type=int, default=SIZES, help="numbers of shared neurons")
    add("--from", dest="source", nargs="+", type=Path, help=".csv of an earlier run; runs nothing")
    add("--plot", type=Path, help="a .png of the curves")
    options, others = parser.parse_known_args(arguments)
    if options.source:
        records = [
            one | {name: float(one[name]) for name in compare.FIGURES}
            for one in read_records(options.source)
        ]
    else:
        settings = [method_of(size) for size in options.sizes]
        title = "Accuracy against size"
        records = compare.main(["--methods", "--settings", *settings, "--title", title, *others])
    if options.plot:
        plot(curves(records), options.plot)


if __name__ == "__main__":
    main()
