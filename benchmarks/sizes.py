"""Sweep the number of samples per class: the default, a grid of fixed values, and other heads.

Four kinds of generated classes are drawn with more and more samples each. The default is compared
with the best fixed pair of shrinkage and ridge, chosen by the test rows, and with the peers' heads.

    python benchmarks/sizes.py --out sizes.md sizes.csv --plot sizes.png
    python benchmarks/sizes.py --quick
"""

import csv
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import heads
import numpy as np
from _report import command_line, page, publish, run_limited, table
from _sets import _GENERATED, generated_splits
from sklearn.base import clone

from ffnb_sklearn import FFNBClassifier

KINDS = ["equal", "unequal", "low-rank", "clusters"]
SIZES = [3, 5, 8, 13, 20, 30, 60, 70, 100, 130, 200, 500, 2000]
SHRINKAGES = [0.1, 0.3, 0.5, 0.8, 1.0]
EPSILONS = [0.01, 0.03, 0.1, 0.3, 0.5, 1.0, 3.0]
PEERS = ["slda", "slda-scaled", "fecam", "ranpac-fixed", "klda"]
WIDTH = 2000


def accuracies(split, grid, peers, seed):
    """Accuracy of the default, of each fixed pair and of each peer, by name, on one split."""
    context = heads.Context(seed, WIDTH, "cpu")
    default = FFNBClassifier(random_state=seed, device="cpu").fit(split.X, split.y)
    found = {"default": default.score(split.X_test, split.y_test)}
    for shrinkage, epsilon in grid:
        pair = with_values(default, shrinkage, epsilon)
        found[f"rho={shrinkage} epsilon={epsilon}"] = pair.score(split.X_test, split.y_test)
    for name in peers:
        peer = heads.METHODS[name].build(context).fit(split.X, split.y)
        found[name] = peer.score(split.X_test, split.y_test)
    return {name: 100.0 * value for name, value in found.items()}


def with_values(clf, shrinkage, epsilon):
    """Return a classifier with other values, on which what it has learned does not depend."""
    state, other = clf._state, clone(clf).set_params(shrinkage=shrinkage, epsilon=epsilon)
    settings = replace(state.model.settings, shrinkage=shrinkage, epsilon=epsilon)
    other._state = replace(state, model=replace(state.model, settings=settings))
    return other


def run(options):
    """Records of all kinds, sizes and draws; with an earlier run, of the default alone."""
    grid = [(rho, epsilon) for rho in options.shrinkages for epsilon in options.epsilons]
    records, peers = read_others(options.given), options.peers
    if options.given:
        grid, peers = [], []
    for kind in options.kinds:
        for n in options.sizes:
            splits = generated_splits(kind, _GENERATED[kind][0], n, n_draws=options.draws)
            for draw, split in enumerate(splits):
                found = accuracies(split, grid, peers, draw)
                records += [
                    {"kind": kind, "n": n, "draw": draw, "method": name, "accuracy": value}
                    for name, value in found.items()
                ]
                print(kind, n, draw, f"{found['default']:.2f}", file=sys.stderr, flush=True)
    return records


def read_others(path):
    """Read the records of an earlier run but for those of the default."""
    if path is None:
        return []
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["method"] != "default"]
    return [{**row, "n": int(row["n"]), "accuracy": float(row["accuracy"])} for row in rows]


def summary(records, peers):
    """Rows of (kind, n, default, its standard error, best pair, its accuracy, best peer, its)."""
    values = defaultdict(list)
    for one in records:
        values[one["kind"], one["n"], one["method"]].append(one["accuracy"])
    rows = []
    for kind, n in dict.fromkeys((one["kind"], one["n"]) for one in records):
        means = {name: np.mean(v) for (k, m, name), v in values.items() if (k, m) == (kind, n)}
        default = values[kind, n, "default"]
        error = np.std(default, ddof=1) / len(default) ** 0.5 if len(default) > 1 else np.nan
        pairs = [name for name in means if name.startswith("rho=")]
        pair, peer = max(pairs, key=means.get), max(peers, key=means.get)
        rows.append((kind, n, means["default"], error, pair, means[pair], peer, means[peer]))
    return rows


def report(rows, options, environment):
    """The sweep as Markdown."""
    notes = [
        f"accuracy in percent after one fit, mean over {options.draws} draws ± its standard "
        "error; the best fixed pair and the best peer are chosen by the test rows",
        f"fixed pairs: shrinkage {options.shrinkages}, epsilon {options.epsilons}",
    ]
    columns = ["kind", "samples a class", "default", "best fixed pair", "its gain", "best peer"]
    cells = [
        [
            kind,
            n,
            f"{default:.2f} ± {error:.2f}",
            f"{pair}: {fixed:.2f}",
            f"{fixed - default:+.2f}",
            f"{heads.METHODS[peer].label}: {other:.2f}",
            f"{other - default:+.2f}",
        ]
        for kind, n, default, error, pair, fixed, peer, other in rows
    ]
    title = "Samples per class: the default beside the best fixed values and other heads"
    return page(title, environment, notes, table([*columns, "its gain"], cells))


def plot(rows, path):
    """Draw accuracy against samples per class, a panel per kind."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    kinds = list(dict.fromkeys(row[0] for row in rows))
    figure, panels = plt.subplots(1, len(kinds), figsize=(3.2 * len(kinds), 3.0), squeeze=False)
    for axes, kind in zip(panels[0], kinds, strict=True):
        mine = [row for row in rows if row[0] == kind]
        n = [row[1] for row in mine]
        axes.plot(n, [row[5] for row in mine], "--", color="0.5", label="best fixed pair")
        axes.plot(n, [row[7] for row in mine], ":", color="tab:orange", label="best peer")
        axes.plot(n, [row[2] for row in mine], "o-", color="tab:blue", label="default", ms=3)
        axes.set(xscale="log", xlabel="samples per class", title=kind)
    panels[0][0].set_ylabel("accuracy (%)")
    panels[0][0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def parse(arguments):
    """Read the command line."""
    parser = command_line(__doc__, quick="one kind, two sizes, two pairs, one peer, one draw")
    add = parser.add_argument
    add("--kinds", nargs="+", choices=KINDS, default=KINDS)
    add("--sizes", nargs="+", type=int, default=SIZES)
    add("--shrinkages", nargs="+", type=float, default=SHRINKAGES)
    add("--epsilons", nargs="+", type=float, default=EPSILONS)
    add("--peers", nargs="+", choices=list(heads.METHODS), default=PEERS)
    add("--draws", type=int, default=5)
    add("--from", dest="given", type=Path, help=".csv of an earlier run; the default runs alone")
    add("--plot", type=Path, help="a .png of the sweep")
    options = parser.parse_args(arguments)
    if options.quick:
        options.kinds, options.sizes, options.draws = ["clusters"], [5, 20], 1
        options.shrinkages, options.epsilons, options.peers = [0.3, 1.0], [0.3], ["slda"]
    return options


def main(arguments=None):
    """Run the sweep, and print its report."""
    options = parse(arguments)
    records, environment = run_limited(run, options)
    rows = summary(records, options.peers)
    publish(report(rows, options, environment), records, options.out)
    if options.plot:
        plot(rows, options.plot)


if __name__ == "__main__":
    main()
