"""Measure how many axes of a large class are worth keeping: accuracy, seconds and megabytes.

Seven sets of 140 to 2,100 samples a class. The draws and hold-outs are not those that chose the
constants of ``rank="auto"``.

    python benchmarks/ranks.py --threads 1 --out ranks.md ranks.csv
    python benchmarks/ranks.py --quick
"""

import sys
from collections import defaultdict
from functools import partial

import numpy as np
from _data import Split, read_features
from _mixtures import equal_covariances
from _report import command_line, page, publish, run_limited, table
from _sets import _GENERATED, generated_splits
from _speed_clock import seconds_of, state_megabytes
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from ffnb_sklearn import FFNBClassifier

KINDS = ["equal", "unequal", "low-rank", "clusters"]
SETS = [*KINDS, "wide", "mixed", "cifar"]
RANKS = [32, 64, 128, 256, "auto"]
N_ROWS = 1000

# The generated set of many inputs, and its training rows per class.
WIDE, N_WIDE_ROWS = partial(equal_covariances, n_classes=20, d=100, distance=0.45), 140

# Columns of the table by key, and their digits behind the point.
COLUMNS = {
    "axes": ("axes per class", 0),
    "accuracy": ("accuracy %", 2),
    "fit_s": ("learning, s", 2),
    "first_s": ("first prediction, s", 2),
    "state_mb": ("state, MB", 0),
}


def load(name, n_draws, folder, n_rows=N_ROWS):
    """Return the splits of a set."""
    if name in KINDS:
        return generated_splits(f"{name}, large", _GENERATED[name][0], n_rows, n_draws)
    if name == "wide":
        return generated_splits("wide", WIDE, min(n_rows, N_WIDE_ROWS), n_draws)
    return [{"mixed": mixed, "cifar": partial(cifar, folder)}[name](k) for k in range(n_draws)]


def mixed(draw):
    """Seven classes of three clusters each, of 2,143 rows, in 54 partly redundant columns."""
    X, y = make_classification(
        20000,
        54,
        n_informative=20,
        n_redundant=10,
        n_classes=7,
        n_clusters_per_class=3,
        random_state=draw,
    )
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    return Split(f"draw {draw}", X, y, X_test, y_test)


def cifar(folder, draw):
    """Thirty classes of CIFAR-100: 400 training rows of each to learn from, 60 to score."""
    (whole,) = read_features(folder / "cifar100_b50.npz")
    random = np.random.default_rng([2, draw])
    labels = np.arange(50, 80)
    rows = [random.permutation(np.flatnonzero(whole.y == label)) for label in labels]
    learned = np.concatenate([one[:400] for one in rows])
    scored = np.concatenate([one[400:460] for one in rows])
    return Split(
        f"hold-out {draw}", whole.X[learned], whole.y[learned], whole.X[scored], whole.y[scored]
    )


def measure(split, rank, seed):
    """Accuracy and costs of a rank on one split."""
    estimator = FFNBClassifier(rank=rank, band_size=0, random_state=seed, device="cpu")
    fit_s = seconds_of(estimator.partial_fit, split.X, split.y)
    state_mb = state_megabytes(estimator)
    first_s = seconds_of(estimator.predict, split.X_test[:1])
    return {
        "axes": float(np.mean([one.rank for one in estimator._state.model.moments])),
        "accuracy": 100.0 * estimator.score(split.X_test, split.y_test),
        "fit_s": fit_s,
        "first_s": first_s,
        "state_mb": state_mb,
    }


def run(options):
    """Records of all sets, draws and ranks."""
    records = []
    for name in options.sets:
        splits = load(name, options.draws, options.data, options.rows)
        for seed, split in enumerate(splits):
            for rank in options.ranks:
                key = {"set": name, "split": split.name, "rank": rank}
                records.append({**key, **measure(split, rank, seed)})
                print(*key.values(), f"{records[-1]['accuracy']:.2f}", file=sys.stderr, flush=True)
    return records


def table_lines(records):
    """Table with a row per set and rank, and the means over the sets."""
    groups = defaultdict(list)
    for one in records:
        groups[one["set"], one["rank"]].append([one[key] for key in COLUMNS])
    rows = {group: np.mean(values, axis=0) for group, values in groups.items()}
    for rank in dict.fromkeys(rank for _, rank in groups):
        rows["**mean**", rank] = np.mean([rows[one] for one in groups if one[1] == rank], axis=0)
    names, digits = zip(*COLUMNS.values(), strict=True)
    cells = [
        [*group, *(f"{one:.{n}f}" for one, n in zip(row, digits, strict=True))]
        for group, row in rows.items()
    ]
    return table(["set", "rank", *names], cells)


def parse(arguments):
    """Read the command line."""
    quick = "one kind, 100 rows a class, two ranks, one draw"
    parser = command_line(__doc__, quick=quick, data=True)
    add = parser.add_argument
    add("--sets", nargs="+", choices=SETS, default=SETS)
    add("--ranks", nargs="+", type=rank_of, default=RANKS, help='numbers, "auto" or "none"')
    add("--rows", type=int, default=N_ROWS, help="training rows per class of the generated kinds")
    add("--draws", type=int, default=3)
    options = parser.parse_args(arguments)
    if options.quick:
        options.sets, options.rows, options.draws = ["clusters"], 100, 1
        options.ranks = [32, "auto"]
    return options


def rank_of(word):
    """A value of the parameter `rank` from the command line."""
    if word in ("auto", "none"):
        return {"auto": "auto", "none": None}[word]
    return int(word)


def main(arguments=None):
    """Run all ranks, and print their table."""
    options = parse(arguments)
    records, environment = run_limited(run, options)
    notes = [
        f"one fit with band_size=0, other parameters are defaults; means over {options.draws} "
        "draws, whose numbers are random_state; state: the pickled model",
        f"{', '.join(KINDS)}: {options.rows} training rows a class, fresh test rows; wide: classes "
        f"of one covariance, 100 inputs, {N_WIDE_ROWS} rows a class; mixed: seven classes of three "
        "clusters, 54 inputs, about 2100 rows a class; cifar: 30 classes of CIFAR-100, 400 rows "
        "of each, scored on held-out training rows",
    ]
    text = page("Axes kept of large classes", environment, notes, table_lines(records))
    publish(text, records, options.out)


if __name__ == "__main__":
    main()
