"""Leave out cosines of the shared band: all, those of single inputs, or some that replace ReLUs.

The sets are those of `choice_rules.py` with so few inputs that there are cosines, and labels that
are functions of some inputs. Each variant learns them anew.

    python benchmarks/cosines.py --tables public.npz more.npz --out cosines.md cosines.csv
    python benchmarks/cosines.py --quick
"""

import sys
from contextlib import nullcontext
from dataclasses import replace
from unittest import mock

import choice_rules
import numpy as np
from _data import Split
from _report import run_and_publish
from choice_rules import ALL

from ffnb_sklearn.core import model
from ffnb_sklearn.core.features import shared_band

# Most inputs beside which 2000 neurons include cosines.
MOST_INPUTS = 44


def _functions(kind, random, n):
    """Inputs and labels of one kind."""
    X = random.normal(size=(n, 2 if kind == "checkerboard" else 10))
    if kind == "checkerboard":
        X = random.uniform(0.0, 4.0, size=X.shape)
        return X, X.astype(int).sum(axis=1) % 2
    if kind == "sum of single functions":
        values = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 - np.abs(X[:, 2])
    elif kind == "sum of products":
        values = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3]
    else:
        values = np.sin(2.0 * X[:, :3].sum(axis=1))
    return X, np.digitize(values, np.quantile(values, [1 / 3, 2 / 3]))


KINDS = ["checkerboard", "sum of single functions", "sum of products", "function of a sum"]


def _seeing_all(*arguments, **options):
    """Draw a band in which cosines of single inputs see all of them."""
    band = shared_band.draw_shared_band(*arguments, **options)
    rows = band.rows.copy()
    single = rows[len(band) - band.n_cosines :][1::2, :-1]
    single[:] = options["rng"].normal(size=single.shape)
    return replace(band, rows=rows)


# Name of the part that is left out, its place, and its replacement.
VARIANTS = {
    "cosines of single inputs": (model, "draw_shared_band", _seeing_all),
    "two ReLUs per form instead of three": (shared_band, "_NEURONS_PER_FORM", 3),
    "all cosines": (shared_band, "_NEURONS_PER_FORM", np.inf),
}


def all_splits(options):
    """Yield group, name and splits of all sets of few inputs."""
    for group, name, splits in choice_rules.all_splits(options):
        few = [split for split in splits if split.X.shape[1] <= MOST_INPUTS]
        if few:
            yield group, name, few
    for n in options.sizes:
        for kind in KINDS:
            splits = []
            for draw in range(options.draws):
                X, y = _functions(kind, np.random.default_rng(draw), 3 * n + 1000)
                splits.append(Split(f"draw {draw}", X[1000:], y[1000:], X[:1000], y[:1000]))
            yield "functions", f"{kind}, {n}", splits


def measure(split, seed, variant):
    """Learn a split without something, and measure it."""
    patch = mock.patch.object(*VARIANTS[variant]) if variant != ALL else nullcontext()
    with patch:
        return choice_rules.measure(choice_rules.learn(split, seed), split, ALL)


def run(options):
    """Records of all sets, splits and variants."""
    records = []
    for group, name, splits in all_splits(options):
        for seed, split in enumerate(splits):
            for variant in [ALL, *options.rules]:
                key = {"group": group, "set": name, "split": split.name, "rule": variant}
                records.append({**key, **measure(split, seed, variant)})
        print(group, name, file=sys.stderr)
    return records


def report(records, options, environment):
    """The mean changes without each kind as Markdown."""
    return choice_rules.report(records, options, environment, title="Cosines of the shared band")


def main(arguments=None):
    """Run the study and print its table."""
    run_and_publish(run, report, choice_rules.parse(arguments, VARIANTS, quick=["all cosines"]))


if __name__ == "__main__":
    main()
